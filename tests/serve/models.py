"""Services to try: of models that answer when they are told to, or of others."""

import threading
from collections.abc import Collection, Mapping
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike
from starlette.testclient import TestClient

from vitreous.data import Axis, Target
from vitreous.prediction import AnyPredictor, Prediction
from vitreous.serve.app import create_app
from vitreous.serve.limits import Limits
from vitreous.serve.metrics import Metrics
from vitreous.serve.powder import Powder
from vitreous.serve.served import Served

HOME = "http://127.0.0.1"


class Sums(AnyPredictor):
    """The sum of five numbers, once the gate is open; it keeps the sizes of its batches."""

    classes, targets, scores = (), (Target("sum", "mm"),), ()

    def __init__(self) -> None:
        super().__init__((1, 5), (Axis("place", "nm"),), ("height",), "numbers")
        self.gate, self.entered, self.sizes = threading.Event(), threading.Event(), list[int]()
        self.gate.set()

    def __call__(self, x: ArrayLike, coverage: float | None = None) -> Prediction:
        samples = self.check(x)
        self.sizes.append(len(samples))
        self.entered.set()
        assert self.gate.wait(20)
        with np.errstate(over="ignore"):
            return Prediction(targets=self.targets, values=np.asarray(samples, np.float64).sum((1, 2))[:, None])


def client_of(
    models: Mapping[str, Served], limits: Limits, metrics: Metrics, powder: bool = False, token: str = "",
    hosts: Collection[str] = (),
) -> TestClient:  # fmt: skip
    """A client of a service in this process; to be entered."""
    searches = Powder(limits, metrics) if powder else None
    app = create_app(models, searches, limits, metrics, token, hosts)
    return TestClient(app, base_url=HOME, raise_server_exceptions=True)


def sums_client(limits: Limits | None = None, token: str = "", hosts: Collection[str] = ()) -> tuple[TestClient, Sums]:
    """A client of a service of sums."""
    predictor, metrics, limits = Sums(), Metrics(), limits or Limits()
    served = Served("sums", predictor, limits, metrics, Path("sums"))
    return client_of({"sums": served}, limits, metrics, token=token, hosts=hosts), predictor
