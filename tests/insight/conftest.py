"""Two tiny runs and their reports, made once: images of classes, and spectra with two quantities."""

from pathlib import Path

import numpy as np
import pytest

from vitreous.cli import main


def report_of(run: Path, name: str) -> Path:
    """A run's report, written beside it."""
    path = run.parent / name
    main(["report", str(run), "--out", str(path)])
    return path


@pytest.fixture(scope="session")
def digits_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = tmp_path_factory.mktemp("runs") / "digits"
    main(["train", "digits", "--out", str(run), "--steps", "40", "--device", "cpu"])
    return run


@pytest.fixture(scope="session")
def digits_report(digits_run: Path) -> Path:
    return report_of(digits_run, "digits.html")


@pytest.fixture(scope="session")
def spectra(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """160 spectra on 1100 to 1158 nm, two targets, and what else is known of them: a number and a word."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(160, 30)).cumsum(1)
    names = [*(str(1100 + 2 * i) for i in range(30)), "assay", "water", "temperature", "operator"]
    rows = [
        [*map(str, row), str(row[4]), str(row[9]), str(20 + i % 10), "Ada" if i % 3 else "Bob"]
        for i, row in enumerate(x)
    ]
    path = tmp_path_factory.mktemp("data") / "spectra.csv"
    path.write_text("\n".join(",".join(row) for row in [names, *rows]) + "\n")
    return path


@pytest.fixture(scope="session")
def spectra_run(spectra: Path) -> Path:
    run = spectra.parent / "run"
    targets = ["--target", "assay:mg", "water"]
    main(["train", str(spectra), "--out", str(run), *targets, "--steps", "40", "--seed", "3", "--device", "cpu"])
    return run


@pytest.fixture(scope="session")
def spectra_report(spectra_run: Path) -> Path:
    return report_of(spectra_run, "spectra.html")
