"""Services for the page tests, and one search that several of them show."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.powder.identify.samples import sample
from tests.serve.visitor import TOKEN, Visit, run_service
from vitreous.powder.example import example


@pytest.fixture(scope="session")
def address(regression: Path, pictures: Path) -> Iterator[str]:
    with run_service(str(pictures / "vit"), str(regression / "run"), "--powder") as (address, _):
        yield address


@pytest.fixture(scope="session")
def address_with_token() -> Iterator[str]:
    with run_service("--powder", VITREOUS_TOKEN=TOKEN) as (address, _):
        yield address


@pytest.fixture(scope="session")
def address_with_database(database: Path) -> Iterator[str]:
    with run_service("--database", str(database)) as (address, _):
        yield address


@pytest.fixture(scope="session")
def mixture(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A file with the pattern of two phases of the database and of rutile, which it lacks."""
    folder = tmp_path_factory.mktemp("mixture")
    pattern = sample(folder, {"quartz": 0.5, "halite": 0.4, "rutile": 0.1})
    return "".join(f"{x:.3f} {y:.1f}\n" for x, y in zip(pattern.two_theta, pattern.intensity, strict=True)).encode()


@pytest.fixture(scope="module")
def identified(browser: Any, address_with_database: str, mixture: bytes) -> tuple[Visit, str]:
    """A visit after the identification of a dropped pattern, and the response of the service."""
    visit = Visit(browser, address_with_database, "powder")
    visit.panel.get_by_role("button", name="What is it?").click()
    visit.panel.get_by_text("Radiation and search").click()
    visit.panel.get_by_label("Radiation").select_option("Cu Kα")
    with visit.page.expect_response("**/v1/identify", timeout=60_000) as waiting:
        visit.drop("measured.xy", mixture)
    text = waiting.value.text()
    visit.panel.locator(".phases").wait_for()
    visit.panel.get_by_text("Radiation and search").click()
    return visit, text


@pytest.fixture(scope="session")
def spectra(regression: Path) -> bytes:
    """Three spectra without their target."""
    header, *rows = (regression / "spectra.csv").read_text().splitlines()
    return "\n".join(line.rpartition(",")[0] for line in (header, *rows[:3])).encode()


@pytest.fixture(scope="module")
def indexed(browser: Any, address: str) -> tuple[Visit, str]:
    """A visit after the search of a dropped pattern, and the response of the service."""
    visit, pattern = Visit(browser, address, "powder"), example("thiosulfate")
    rows = zip(pattern.two_theta, pattern.intensity, strict=True)
    content = "".join(f"{x:.5f} {y:.3f}\n" for x, y in rows).encode()
    visit.panel.get_by_text("Radiation and search").click()
    for system in ("triclinic", "orthorhombic", "tetragonal"):
        visit.panel.get_by_label(system).uncheck()
    visit.panel.get_by_label("Radiation").select_option("other")
    visit.panel.get_by_label("Wavelength (Å)").fill(str(pattern.wavelength))
    with visit.page.expect_response("**/v1/index", timeout=60_000) as waiting:
        visit.drop("measured.xy", content)
    text = waiting.value.text()
    visit.panel.get_by_role("heading", name="Likely cell").wait_for()
    visit.panel.get_by_text("Radiation and search").click()
    return visit, text
