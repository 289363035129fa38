"""`Limits`: bounds on the size, number and time of requests."""

from dataclasses import dataclass

from vitreous.core.settings import Settings


@dataclass(frozen=True)
class Limits(Settings):
    """Limits of the service; requests beyond them are refused.

    Attributes:
        body: bytes of a request body.
        points: points of a powder pattern or spectrum.
        pixels: pixels of an image, according to its header.
        rows: samples of a request.
        batch: samples that a model computes together.
        wait: milliseconds that a sample waits for others to join its batch.
        queue: samples that may wait for a model.
        requests: requests processed at the same time.
        seconds: time limit of a prediction or explanation, in seconds.
        searches: number of processes that search for unit cells.
        search_queue: searches that may wait for a process.
        search_seconds: time limit of a search, in seconds.
        memory: address space of a worker process, in megabytes.
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
        """Bytes of a compressed file after unpacking."""
        return 8 * self.body

    @property
    def total_bytes(self) -> int:
        """Bytes of all request bodies in memory; large JSON bodies count with their parsed size."""
        return 64 * self.body
