"""`Limits`: bounds on the size, number and time of requests."""

from dataclasses import dataclass

from vitreous.core.errors import InputError
from vitreous.core.settings import Settings


@dataclass(frozen=True)
class Limits(Settings):
    """Limits of the service; requests beyond them are refused. The command line shows these lines as its help.

    Args:
        batch: samples that a model computes together.
        wait: milliseconds that a sample waits for others.
        queue: samples that may wait for a model.
        requests: requests that are worked on at a time.
        connections: open connections.
        client_share: part of requests, connections and memory that one client may use of what others leave.
        wrong_tokens: wrong tokens of a client until each further one costs it a second.
        body: bytes of a request.
        body_rate: bytes a second at which a body must arrive after its first seconds.
        points: of a pattern or a spectrum.
        pixels: of an image.
        rows: samples of a request.
        seconds: that an answer may take.
        read_seconds: that reading the files of a request may take.
        searches: processes that search for cells, and as many that identify phases.
        search_queue: searches that may wait.
        search_seconds: that a search may take.
        memory: megabytes of a process that searches or reads files.
    """

    batch: int = 64
    wait: float = 2.0
    queue: int = 1024
    requests: int = 256
    connections: int = 2048
    client_share: float = 0.5
    wrong_tokens: int = 10
    body: int = 8_000_000
    body_rate: int = 1000
    points: int = 100_000
    pixels: int = 4_000_000
    rows: int = 1024
    seconds: float = 30.0
    read_seconds: float = 10.0
    searches: int = 1
    search_queue: int = 8
    search_seconds: float = 120.0
    memory: int = 4000

    def __post_init__(self) -> None:
        super().__post_init__()
        self._at_least(1, "body", "points", "pixels", "rows", "batch", "queue", "requests", "searches", "memory")
        self._at_least(1, "connections", "wrong_tokens", "body_rate")
        self._at_least(0, "wait", "search_queue")
        self._at_least(0.1, "seconds", "search_seconds", "read_seconds")
        if not 0 < self.client_share <= 1:
            raise InputError(f"client_share: found {self.client_share}, expected a number above 0 and at most 1")

    @property
    def unpacked(self) -> int:
        """Bytes of a compressed file after unpacking."""
        return 8 * self.body

    @property
    def total_bytes(self) -> int:
        """Bytes of all request bodies in memory; large JSON bodies count with their parsed size."""
        return 64 * self.body
