"""What Prometheus is told: requests, their time, batches, and what waits."""

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

_SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256)
_SECONDS = (0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 120)


class Metrics:
    """The service's own numbers; labels are paths and models that it knows, never a client's words."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        kept = self._registry
        self._requests = Counter("vitreous_requests", "Requests answered", ("path", "status"), registry=kept)
        self._seconds = Histogram("vitreous_seconds", "Time to an answer", ("path",), buckets=_SECONDS, registry=kept)
        self._batches = Histogram(
            "vitreous_batch_size", "Samples of a batch", ("model",), buckets=_SIZES, registry=kept
        )
        self._waiting = Gauge("vitreous_waiting", "Samples, or searches, that wait", ("what",), registry=kept)
        self.active = Gauge("vitreous_requests_active", "Requests that are worked on", registry=kept)

    def request(self, path: str, status: int, seconds: float) -> None:
        """An answer was sent."""
        self._requests.labels(path, str(status)).inc()
        self._seconds.labels(path).observe(seconds)

    def batches(self, model: str) -> Callable[[int], None]:
        """To be told the size of each batch of a model."""
        return self._batches.labels(model).observe

    def waiting(self, what: str, count: Callable[[], float]) -> None:
        """To be asked how much waits."""
        self._waiting.labels(what).set_function(count)

    def text(self) -> bytes:
        """In Prometheus' own format."""
        return generate_latest(self._registry)
