"""Prometheus metrics: requests, response times, batch sizes and queue lengths."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

_SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256)
_SECONDS = (0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 120)


class Metrics:
    """Metrics of one service. Labels are paths and models of the service, never text of a client."""

    def __init__(self) -> None:
        registry = self._registry = CollectorRegistry()
        self._requests = Counter("vitreous_requests", "Requests answered", ("path", "status"), registry=registry)
        self._seconds = Histogram("vitreous_seconds", "Response time", ("path",), buckets=_SECONDS, registry=registry)
        self.batches = Histogram(
            "vitreous_batch_size", "Samples in a batch", ("model",), buckets=_SIZES, registry=registry
        )
        self.waiting = Gauge("vitreous_waiting", "Samples or searches in a queue", ("what",), registry=registry)
        self.active = Gauge("vitreous_requests_active", "Requests in progress", registry=registry)

    def count_request(self, path: str, status: int, seconds: float) -> None:
        """Count a response."""
        self._requests.labels(path, str(status)).inc()
        self._seconds.labels(path).observe(seconds)

    def text(self) -> bytes:
        """Return all metrics in the Prometheus text format."""
        return generate_latest(self._registry)
