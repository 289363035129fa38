"""Services for the page tests, and one search that several of them show."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

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
