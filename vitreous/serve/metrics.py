"""Prometheus metrics: requests, response times, batch sizes and queue lengths."""

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

_SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256)
_SECONDS = (0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 120)


class Metrics:
    """Metrics of one service. Labels are paths and models of the service, never text of a client."""

    def __init__(self) -> None:
        registry = self._registry = CollectorRegistry()
        self._requests = Counter("vitreous_requests", "Requests answered", ("path", "status"), registry=registry)
        self._seconds = Histogram("vitreous_seconds", "Response time", ("path",), buckets=_SECONDS, registry=registry)
        self._batches = Histogram(
            "vitreous_batch_size", "Samples in a batch", ("model",), buckets=_SIZES, registry=registry
        )
        self._waiting = Gauge("vitreous_waiting", "Samples or searches in a queue", ("what",), registry=registry)
        self.active = Gauge("vitreous_requests_active", "Requests in progress", registry=registry)

    def count_request(self, path: str, status: int, seconds: float) -> None:
        """Count a response."""
        self._requests.labels(path, str(status)).inc()
        self._seconds.labels(path).observe(seconds)

    def batch_observer(self, model: str) -> Callable[[int], None]:
        """Return a function that records the size of a batch of a model."""
        return self._batches.labels(model).observe

    def watch_queue(self, name: str, count: Callable[[], float]) -> None:
        """Register a function that returns the current length of a queue."""
        self._waiting.labels(name).set_function(count)

    def text(self) -> bytes:
        """Return all metrics in the Prometheus text format."""
        return generate_latest(self._registry)
