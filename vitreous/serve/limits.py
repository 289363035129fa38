"""`Limits`: how much of everything the service takes."""

from dataclasses import dataclass

from vitreous.settings import Settings


@dataclass(frozen=True)
class Limits(Settings):
    """Bounds of the service; what is beyond them is refused.

    Attributes:
        body: bytes of a request.
        points: of a powder pattern or a spectrum.
        pixels: of an image, by its header.
        rows: samples of a request.
        batch: samples that a model computes together.
        wait: milliseconds that a sample waits for others.
        queue: samples that may wait for a model.
        requests: requests that are worked on at a time.
        seconds: that an answer may take.
        searches: processes that search for cells.
        search_queue: searches that may wait for one.
        search_seconds: that a search may take.
        memory: megabytes of address space of a process that searches or reads files.
    """

    body: int = 8_000_000
    points: int = 100_000
    pixels: int = 4_000_000
    rows: int = 1024
    batch: int = 64
    wait: float = 2.0
    queue: int = 1024
    requests: int = 256
    seconds: float = 30.0
    searches: int = 1
    search_queue: int = 8
    search_seconds: float = 120.0
    memory: int = 4000

    def __post_init__(self) -> None:
        super().__post_init__()
        self._at_least(1, "body", "points", "pixels", "rows", "batch", "queue", "requests", "searches", "memory")
        self._at_least(0, "wait", "search_queue")
        self._at_least(0.1, "seconds", "search_seconds")

    @property
    def unpacked(self) -> int:
        """Bytes that a packed file may hold."""
        return 8 * self.body

    @property
    def held(self) -> int:
        """Bytes of all requests together, of those in JSON what they may become."""
        return 64 * self.body
