"""The image panel of the page."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image, ImageDraw

from tests.browser import needs_browser
from tests.serve.visitor import LOOKS, Visit

pytestmark = needs_browser
THREE = ((0.3, 0.25), (0.5, 0.2), (0.65, 0.32), (0.45, 0.48), (0.66, 0.65), (0.5, 0.82), (0.3, 0.75))


@pytest.mark.parametrize(("width", "scheme"), LOOKS)
def test_a_drawn_digit_gives_probabilities_and_a_map(
    browser: Any, address: str, width: int, scheme: str, tmp_path: Path
) -> None:
    visit = Visit(browser, address, "image", width, scheme)
    visit.draw(*THREE)
    visit.panel.locator(".bars li").first.wait_for()
    shares = [float(text.strip(" <>%")) for text in visit.panel.locator(".bars .number").all_inner_texts()]
    assert len(shares) == 10
    assert sum(shares) == pytest.approx(100, abs=1)
    best = visit.panel.locator(".answer b").inner_text()
    assert visit.panel.locator(".bars .best .name").inner_text() == best == str(int(np.argmax(shares)))
    assert visit.panel.locator(".heat-scale").is_visible()
    visit.check(tmp_path / "image.png")


def test_the_map_lies_over_the_drawing(browser: Any, address: str) -> None:
    visit = Visit(browser, address, "image")
    visit.draw((0.5, 0.15), (0.5, 0.85))
    visit.panel.locator(".bars li").first.wait_for()

    def pixels() -> Any:
        code = "c => [...c.getContext('2d').getImageData(0, 0, c.width, c.height).data]"
        return np.array(visit.panel.locator(".picture").evaluate(code)).reshape(8, 8, 4)[..., :3].astype(float)

    coloured = pixels()
    with visit.page.expect_response("**/v1/explain"):
        visit.panel.get_by_label("Show").select_option("image only")
    visit.page.wait_for_function("() => document.querySelector('.heat-scale').hidden")
    grey = pixels()
    assert np.ptp(grey, axis=-1).max() == 0
    assert np.ptp(coloured, axis=-1).max() > 20
    ink = grey.mean(-1).sum(0)
    assert ink[3:5].sum() > 0.9 * ink.sum()


def test_one_request_at_a_time_while_drawing(browser: Any, address: str) -> None:
    visit = Visit(browser, address, "image")
    active, most = 0, 0

    def start(request: Any) -> None:
        nonlocal active, most
        if "explain" in request.url:
            active += 1
            most = max(most, active)

    def end(request: Any) -> None:
        nonlocal active
        active -= "explain" in request.url

    visit.page.on("request", start)
    for event in ("requestfinished", "requestfailed"):
        visit.page.on(event, end)
    for _ in range(3):
        visit.draw(*THREE)
    visit.panel.locator(".bars li").first.wait_for()
    assert most == 1
    assert len([url for url in visit.requests if "explain" in url]) < 3 * 5 * len(THREE)


def test_an_answer_to_a_cleared_drawing_is_ignored(browser: Any, address: str) -> None:
    visit, routes = Visit(browser, address, "image"), list[Any]()
    visit.page.route("**/v1/explain", lambda route: routes.append(route))
    visit.draw((0.5, 0.2), (0.5, 0.8))
    visit.page.wait_for_timeout(100)
    visit.panel.get_by_role("button", name="Clear").click()
    for route in routes:
        route.continue_()
    visit.page.wait_for_timeout(300)
    assert routes
    assert visit.panel.locator(".bars li").count() == 0
    assert visit.panel.get_by_text("The prediction appears here.").is_visible()


def test_a_dropped_image_and_an_example_are_predicted(browser: Any, address: str, tmp_path: Path) -> None:
    visit = Visit(browser, address, "image")
    picture = Image.new("L", (64, 64))
    ImageDraw.Draw(picture).line([(32, 4), (32, 60)], 255, 9)
    picture.save(tmp_path / "one.png")
    visit.panel.locator("input[type=file]").set_input_files(tmp_path / "one.png")
    visit.panel.locator(".bars li").first.wait_for()
    visit.panel.get_by_role("button", name="Clear").click()
    visit.panel.get_by_role("button", name="Example: test sample").first.press("Enter")
    visit.panel.locator(".bars li").first.wait_for()
    visit.panel.locator("input[type=file]").set_input_files({"name": "x.png", "mimeType": "", "buffer": b"no image"})
    visit.panel.get_by_role("alert").get_by_text("file 0").wait_for()
