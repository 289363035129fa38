"""The report in a real browser: Debian's Chromium, driven by Playwright."""

import base64
import io
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image, ImageFilter

from tests.browser import needs_browser
from tests.recipes import SUPERVISED, choices, narrow, two_steps
from vitreous.insight.report import read_run, write_report
from vitreous.train import train

PHONE, DESK = 400, 1200

pytestmark = needs_browser


def on_paper(content: bytes) -> Image.Image:
    """A picture file in colour, on white paper."""
    with Image.open(io.BytesIO(content)) as picture:
        paper = Image.new("RGBA", picture.size, "white")
        return Image.alpha_composite(paper, picture.convert("RGBA")).convert("RGB")


def likeness(drawn: Image.Image, shown: Image.Image) -> float:
    """Correlation of a file with its picture on the screen, from -1 to 1; 0 if either is blank.

    Both are blurred by two pixels, which leaves marks at their places but no trace of scaling and antialiasing. The
    browser may paint a picture up to one pixel beside its box.
    """
    expected, screen = (
        np.asarray(picture.filter(ImageFilter.GaussianBlur(2)), dtype=np.float64)
        for picture in (drawn.resize(shown.size, Image.Resampling.BOX), shown)
    )
    height, width, _ = screen.shape
    inner = expected[1:-1, 1:-1]
    shifted = [screen[y : height - 2 + y, x : width - 2 + x] for y in range(3) for x in range(3)]
    if min(np.ptp(picture) for picture in (inner, *shifted)) < 20:
        return 0.0
    return max(float(np.corrcoef(inner.ravel(), picture.ravel())[0, 1]) for picture in shifted)


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
        """Every figure that fits the window is inside it, undistorted, with the marks of its file at their places."""
        window = self.page.viewport_size["width"]
        for image in self.page.locator("img").all():
            box = image.bounding_box()
            if box["width"] > window:
                continue
            drawn = on_paper(base64.b64decode(image.get_attribute("src").partition(",")[2]))
            assert image.evaluate("i => i.decode().then(() => [i.naturalWidth, i.naturalHeight])") == list(drawn.size)
            assert box["x"] >= 0
            assert box["x"] + box["width"] <= window
            assert box["width"] / box["height"] == pytest.approx(drawn.width / drawn.height, rel=0.02)
            assert likeness(drawn, on_paper(image.screenshot())) > 0.9, image.get_attribute("alt")


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
        assert np.ptp(np.asarray(on_paper(heading.screenshot()))) > 100


@pytest.mark.parametrize("width", [PHONE, DESK])
def test_every_figure_is_seen_as_it_was_drawn(browser: Any, digits_report: Path, width: int) -> None:
    Visit(browser, digits_report, width).check_painted()


def test_a_blank_or_another_figure_is_noticed(browser: Any, spectra_report: Path) -> None:
    visit = Visit(browser, spectra_report, PHONE)
    sources = visit.measure("[...document.images].map(i => i.src)")
    first, other = (on_paper(base64.b64decode(source.partition(",")[2])) for source in (sources[1], sources[2]))
    shown = on_paper(visit.page.locator("img").nth(1).screenshot())
    assert likeness(first, shown) > 0.9
    assert likeness(other, shown) < 0.6
    assert likeness(first, Image.new("RGB", shown.size, "white")) == 0
    visit.measure("document.images[1].style.opacity = 0")
    with pytest.raises(AssertionError):
        visit.check_painted()


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
