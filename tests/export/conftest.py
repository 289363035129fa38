"""Shared by the tests of exports: small runs, trained for a few steps."""

from dataclasses import replace
from pathlib import Path

import pytest

from tests.recipes import narrow
from tests.spectra import spectra_file
from vitreous.cli import main
from vitreous.recipes import load_recipe
from vitreous.train import train


@pytest.fixture(scope="session")
def regression(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with `spectra.csv` and the `run` that was trained on it."""
    folder = tmp_path_factory.mktemp("regression")
    data = spectra_file(folder / "spectra.csv", rows=80, points=24)
    words = ["--target", "height:mm", "--steps", "20", "--batch", "16", "--device", "cpu"]
    main(["train", str(data), "--out", str(folder / "run"), *words])
    return folder


@pytest.fixture(scope="session")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with runs `vit` and `cnn` of the recipe digits."""
    folder = tmp_path_factory.mktemp("pictures")
    for model in ("vit", "cnn"):
        job = load_recipe("digits").create(model)
        settings = replace(job.settings, steps=60, evaluate_every=30)
        train(replace(narrow(job), settings=settings), folder / model, bar=False)
    return folder


@pytest.fixture(scope="session")
def digits_onnx(pictures: Path) -> Path:
    """The run `vit` as ONNX."""
    main(["export", str(pictures / "vit"), "--out", str(pictures / "vit.onnx")])
    return pictures / "vit.onnx"
