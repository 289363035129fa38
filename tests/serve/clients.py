"""Clients of services in this process: of a model that adds numbers, or of other models."""

import threading
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from starlette.testclient import TestClient

from vitreous.data import Axis, Target
from vitreous.run.prediction import AnyPredictor, Prediction
from vitreous.serve.app import create_app
from vitreous.serve.identifying import Identifier
from vitreous.serve.indexing import Indexer
from vitreous.serve.limits import Limits
from vitreous.serve.metrics import Metrics
from vitreous.serve.models import ServedModel

HOME = "http://127.0.0.1"


class SumPredictor(AnyPredictor):
    """Predicts the sum of five numbers once its gate is open, and records the sizes of its batches."""

    classes, targets, scores = (), (Target("sum", "mm"),), ()
    explains, precision = False, "float32"

    def __init__(self) -> None:
        super().__init__((1, 5), (Axis("place", "nm"),), ("height",), "numbers")
        self.gate, self.entered, self.sizes = threading.Event(), threading.Event(), list[int]()
        self.gate.set()

    def predict(self, x: ArrayLike, coverage: float | None = None) -> Prediction:
        samples = self.check(x)
        self.sizes.append(len(samples))
        self.entered.set()
        assert self.gate.wait(20)
        with np.errstate(over="ignore"):
            return Prediction(targets=self.targets, values=np.asarray(samples, np.float64).sum((1, 2))[:, None])


def make_client(
    models: Mapping[str, ServedModel],
    limits: Limits,
    metrics: Metrics,
    powder: bool = False,
    database: Path | None = None,
    **options: Any,
) -> TestClient:
    """Return a client of a service of models, to be used in a `with` statement."""
    indexer = Indexer(limits, metrics) if powder else None
    identifier = None if database is None else Identifier(database, limits, metrics)
    app = create_app(models, indexer, limits, metrics, identifier=identifier, **options)
    return TestClient(app, base_url=HOME, raise_server_exceptions=True)


def make_sum_client(
    limits: Limits | None = None, token: str = "", hosts: Collection[str] = ()
) -> tuple[TestClient, SumPredictor]:
    """Return a client of a service of one `SumPredictor`, and the predictor."""
    predictor, metrics, limits = SumPredictor(), Metrics(), limits or Limits()
    model = ServedModel("sums", predictor, limits, metrics, Path("sums"))
    return make_client({"sums": model}, limits, metrics, token=token, hosts=hosts), predictor


def post(client: TestClient, path: str, **request: Any) -> dict[str, Any]:
    """Return the content of a successful response."""
    response = client.post(path, **request)
    assert response.status_code == 200, response.text
    content: dict[str, Any] = response.json()
    return content


def post_error(client: TestClient, path: str, status: int = 422, **request: Any) -> str:
    """Return the message of an error response, which has one line."""
    response = client.post(path, **request)
    assert response.status_code == status, response.text
    if status in (429, 503):
        assert response.headers["retry-after"] == "1"
    (message,) = response.json().values()
    assert "\n" not in message
    return str(message)
