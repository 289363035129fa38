"""The report in a real browser: Debian's Chromium, driven by Playwright."""

import base64
import io
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from tests.browser import needs_browser
from tests.recipes import SUPERVISED, choices, narrow, two_steps
from vitreous.insight.report import read_run, write_report
from vitreous.train import train

PHONE, DESK = 400, 1200

pytestmark = needs_browser


def _grey(content: bytes) -> Image.Image:
    with Image.open(io.BytesIO(content)) as picture:
        paper = Image.new("RGBA", picture.size, "white")
        return Image.alpha_composite(paper, picture.convert("RGBA")).convert("L")


class Visit:
    """A page as a visitor has it, and everything that went wrong on the way."""

    def __init__(self, browser: Any, path: Path, width: int, scheme: str = "light") -> None:
        context = browser.new_context(
            viewport={"width": width, "height": 800}, color_scheme=scheme, reduced_motion="reduce"
        )
        self.faults: list[str] = []
        self.asked: list[str] = []
        self.page = context.new_page()
        self.page.on("console", lambda message: self.faults.append(message.text))
        self.page.on("pageerror", lambda fault: self.faults.append(str(fault)))
        self.page.on("requestfailed", lambda request: self.faults.append(request.url[:80]))
        self.page.on("request", lambda request: self.asked.append(request.url[:80]))
        self.page.goto(path.as_uri())

    def measure(self, code: str) -> Any:
        return self.page.evaluate(code)

    def check_legible(self) -> None:
        """Nothing is wider than the window, no text too small, and no figure but the wide ones too narrow."""
        width = self.page.viewport_size["width"]
        assert self.measure("document.documentElement.scrollWidth") <= width
        text = "[...document.querySelectorAll('p, li, td, th, dt, code, figcaption, caption')]"
        sizes = self.measure(f"{text}.map(e => parseFloat(getComputedStyle(e).fontSize))")
        assert min(sizes) >= 13.5
        shown = self.measure("[...document.querySelectorAll('figure:not(.wide) img')].map(i => i.clientWidth)")
        assert min(shown) > 0.85 * min(width, PHONE)

    def check_painted(self) -> None:
        """Every figure that fits the window looks as the file that it was drawn to."""
        for image in self.page.locator("img").all():
            if image.bounding_box()["width"] > self.page.viewport_size["width"]:
                continue
            drawn = base64.b64decode(image.get_attribute("src").partition(",")[2])
            ours, theirs = (
                _grey(content).resize((32, 32), Image.Resampling.BOX) for content in (drawn, image.screenshot())
            )
            assert np.corrcoef(np.ravel(ours), np.ravel(theirs))[0, 1] > 0.95


@pytest.mark.parametrize("width", [PHONE, DESK])
def test_it_loads_without_a_fault_or_a_request(browser: Any, digits_report: Path, width: int) -> None:
    visit = Visit(browser, digits_report, width)
    visit.measure("window.scrollTo(0, document.body.scrollHeight)")
    assert visit.faults == []
    assert [url for url in visit.asked if not url.startswith(("file:", "data:"))] == []


@pytest.mark.parametrize("width", [PHONE, DESK])
def test_every_image_is_there(browser: Any, digits_report: Path, width: int) -> None:
    visit = Visit(browser, digits_report, width)
    sizes = visit.measure("Promise.all([...document.images].map(i => i.decode().then(() => i.naturalWidth)))")
    assert len(sizes) >= 11
    assert min(sizes) > 300


@pytest.mark.parametrize("width", [320, PHONE, 768, DESK])
def test_it_can_be_read_at_any_width(browser: Any, digits_report: Path, width: int) -> None:
    Visit(browser, digits_report, width).check_legible()


@pytest.mark.parametrize("width", [PHONE, DESK])
def test_every_section_can_be_seen_and_reached_from_the_contents(browser: Any, digits_report: Path, width: int) -> None:
    page = Visit(browser, digits_report, width).page
    titles = re.findall(r"<h2>(.*?)</h2>", digits_report.read_text())
    assert len(titles) >= 10
    for title in titles:
        page.get_by_role("navigation").get_by_role("link", name=title, exact=True).click()
        heading = page.get_by_role("heading", name=title, exact=True)
        heading.scroll_into_view_if_needed()
        box = heading.bounding_box()
        assert heading.is_visible()
        assert box is not None
        assert box["width"] > 100
        ink = np.asarray(_grey(heading.screenshot()))
        assert np.ptp(ink) > 100


@pytest.mark.parametrize("width", [PHONE, DESK])
def test_every_figure_is_seen_as_it_was_drawn(browser: Any, digits_report: Path, width: int) -> None:
    Visit(browser, digits_report, width).check_painted()


def test_it_is_dark_where_the_reader_wants_it_dark(browser: Any, digits_report: Path) -> None:
    def shades(scheme: str) -> tuple[int, int]:
        visit = Visit(browser, digits_report, DESK, scheme)
        colours = visit.measure("(s => [s.backgroundColor, s.color])(getComputedStyle(document.body))")
        paper, ink = (sum(map(int, re.findall(r"\d+", colour)[:3])) for colour in colours)
        return paper, ink

    paper, ink = shades("light")
    assert paper - ink > 400
    paper, ink = shades("dark")
    assert ink - paper > 400


@pytest.mark.parametrize("name", SUPERVISED)
def test_the_report_of_every_recipe_is_whole(browser: Any, name: str, tmp_path: Path) -> None:
    train(narrow(two_steps(name, choices(name)[0])), tmp_path / "run", bar=False)
    path = tmp_path / "report.html"
    write_report(read_run(tmp_path / "run"), path)
    visit = Visit(browser, path, PHONE)
    sizes = visit.measure("Promise.all([...document.images].map(i => i.decode().then(() => i.naturalWidth)))")
    assert min(sizes) > 300
    titles = re.findall(r"<h2>(.*?)</h2>", path.read_text())
    assert {"Explanations of single predictions", "Faithfulness of the maps", "Training curves"} <= set(titles)
    for title in titles:
        assert visit.page.get_by_role("heading", name=title, exact=True).is_visible()
    assert visit.faults == []
    visit.check_legible()
    assert path.stat().st_size < 5e6


def test_spectra_are_shown_as_well(browser: Any, spectra_report: Path) -> None:
    visit = Visit(browser, spectra_report, PHONE)
    assert visit.faults == []
    visit.check_legible()
    visit.check_painted()
