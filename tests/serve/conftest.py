"""Shared by the tests of the service: small runs, served in this process."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from tests.export.conftest import digits_onnx, pictures, regression  # noqa: F401
from tests.powder.identify.samples import small_database
from tests.serve.clients import make_client
from vitreous.serve.limits import Limits
from vitreous.serve.metrics import Metrics
from vitreous.serve.models import load_models


@pytest.fixture(scope="session")
def paths(regression: Path, pictures: Path, digits_onnx: Path) -> dict[str, Path]:  # noqa: F811
    """Runs and exported files by the names under which they are served."""
    return {"run": regression / "run", "vit": pictures / "vit", "cnn": pictures / "cnn", "vit.onnx": digits_onnx}


@pytest.fixture(scope="session")
def database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small database of phases."""
    return small_database(tmp_path_factory.mktemp("phases"))


@pytest.fixture(scope="session")
def client(paths: dict[str, Path], database: Path) -> Iterator[TestClient]:
    """A client of a service of all these models, of searches for unit cells, and of a small database of phases."""
    limits, metrics = Limits(), Metrics()
    models = load_models(list(paths.values()), "cpu", limits, metrics)
    with make_client(models, limits, metrics, powder=True, database=database) as client:
        yield client
