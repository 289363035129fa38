"""Shared by the tests of the service: small runs, served in this process."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from tests.export.conftest import digits_onnx, pictures, regression  # noqa: F401
from tests.serve.models import client_of
from vitreous.serve.limits import Limits
from vitreous.serve.metrics import Metrics
from vitreous.serve.served import serve_models


@pytest.fixture(scope="session")
def paths(regression: Path, pictures: Path, digits_onnx: Path) -> dict[str, Path]:  # noqa: F811
    """Runs and files by the names under which they are served."""
    return {
        "run": regression / "run", "vit": pictures / "vit", "cnn": pictures / "cnn", "vit.onnx": digits_onnx
    }  # fmt: skip


@pytest.fixture(scope="session")
def client(paths: dict[str, Path]) -> Iterator[TestClient]:
    """A service of all of them, and of cells."""
    limits, metrics = Limits(), Metrics()
    models = serve_models(list(paths.values()), "cpu", limits, metrics)
    with client_of(models, limits, metrics, powder=True) as found:
        yield found
