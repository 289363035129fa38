"""The page in a real browser, before a real service: what a person does, and what they see."""

import csv
import io
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image, ImageDraw

from tests.browser import needs_browser
from tests.serve.visits import DESK, PHONE, Visit, running
from vitreous.powder.example import example

pytestmark = needs_browser
LOOKS = [(DESK, "light"), (DESK, "dark"), (PHONE, "light"), (PHONE, "dark")]
THREE = ((0.3, 0.25), (0.5, 0.2), (0.65, 0.32), (0.45, 0.48), (0.66, 0.65), (0.5, 0.82), (0.3, 0.75))
TOKEN = "correct-horse"


@pytest.fixture(scope="module")
def address(regression: Path, pictures: Path) -> Iterator[str]:
    with running([str(pictures / "vit"), str(regression / "run"), "--powder"]) as found:
        yield found


@pytest.fixture(scope="module")
def guarded() -> Iterator[str]:
    with running(["--powder"], VITREOUS_TOKEN=TOKEN) as found:
        yield found


@pytest.fixture(scope="module")
def spectra(regression: Path) -> bytes:
    """Three spectra without what is to be predicted."""
    header, *rows = (regression / "spectra.csv").read_text().splitlines()
    return "\n".join(line.rpartition(",")[0] for line in (header, *rows[:3])).encode()


@pytest.fixture(scope="module")
def found(browser: Any, address: str) -> tuple[Visit, str]:
    """A visit at the end of which the cell of a dropped pattern is there; and what the service had answered."""
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


def shown(browser: Any, address: str, answer: str, **look: Any) -> Visit:
    """The same result in another window."""
    visit = Visit(browser, address, "powder", **look)
    visit.answer_with("v1/index", answer)
    visit.panel.get_by_role("button", name="thiosulfate").click()
    visit.panel.locator(".verdict").wait_for()
    return visit


def test_a_dropped_pattern_gives_its_cell_with_errors_and_units(found: tuple[Visit, str]) -> None:
    verdict = found[0].panel.locator(".verdict").inner_text()
    assert re.search(r"monoclinic P\s+a = 5\.95\d+\(\d+\) Å\s+b = 21\.60\d*\(\d+\) Å\s+c = 7\.53\d+\(\d+\) Å", verdict)
    assert re.search(r"β = 103\.7\d+\(\d+\)°", verdict)
    assert re.search(r"probability (> )?\d+\.\d %", verdict)
    assert "Likely cell: monoclinic P" in found[0].panel.get_by_role("status").inner_text()


def test_a_chosen_candidate_shows_its_own_reflections(browser: Any, address: str, found: tuple[Visit, str]) -> None:
    visit, told = shown(browser, address, found[1]), json.loads(found[1])
    panel = visit.panel
    assert panel.get_by_role("radio").count() == len(told["cells"])
    assert "calculated" in panel.locator(".legend").inner_text()
    before = panel.locator(".plot").screenshot()
    panel.get_by_role("radio", name="Cell 2").check()
    assert "reflections of cell 2" in panel.locator(".legend").inner_text()
    assert "calculated" not in panel.locator(".legend").inner_text()
    assert panel.get_by_text("no fit and no standard errors").is_visible()
    assert panel.locator(".plot").screenshot() != before
    row = panel.get_by_role("row", name="Cell 2").inner_text()
    assert f"{told['cells'][1]['indexed']} of {told['cells'][1]['lines']}" in row
    assert visit.saved("CIF of cell 2") == told["cells"][1]["cif"]


def test_cells_can_be_taken_along(found: tuple[Visit, str]) -> None:
    visit, told = found[0], json.loads(found[1])
    assert visit.saved("CIF of cell 1") == told["cif"]
    assert visit.saved("All cells as CSV") == told["csv"]


def test_the_cursor_tells_reflection_and_place_with_units(browser: Any, address: str, found: tuple[Visit, str]) -> None:
    visit, told = shown(browser, address, found[1]), json.loads(found[1])
    tick = told["fit"]["ticks"][3]
    over = visit.panel.locator(".u-over").bounding_box()
    low, high = told["fit"]["two_theta"][0], told["fit"]["two_theta"][-1]
    x = over["x"] + over["width"] * (tick["two_theta"] - low) / (high - low)
    visit.page.mouse.move(x, over["y"] + 40)
    text = visit.panel.locator(".readout").inner_text()
    assert re.search(r"2θ \d+\.\d{3}°.*q \d\.\d{4} Å⁻¹.*d \d+\.\d{4} Å.*intensity", text)
    near = [each for each in told["fit"]["ticks"] if abs(each["two_theta"] - tick["two_theta"]) < 0.05]
    hkl = re.search(r"reflection \((.*?)\)", text)
    assert hkl is not None
    assert [int(index) for index in hkl[1].replace("−", "-").split()] in [each["hkl"] for each in near]


def _numbers(text: str) -> list[float]:
    return [float(number) for number in re.findall(r"2θ (\d+\.\d+)°", text)]


def test_a_plot_can_be_looked_into_and_seen_whole_again(browser: Any, address: str, found: tuple[Visit, str]) -> None:
    visit = shown(browser, address, found[1])
    over, readout = visit.panel.locator(".u-over").bounding_box(), visit.panel.locator(".readout")

    def ends() -> list[float]:
        places = []
        for share in (0.02, 0.98):
            visit.page.mouse.move(over["x"] + share * over["width"], over["y"] + 50)
            places += _numbers(readout.inner_text())
        return places

    whole = ends()
    visit.page.mouse.move(over["x"] + 0.4 * over["width"], over["y"] + 60)
    visit.page.mouse.down()
    visit.page.mouse.move(over["x"] + 0.6 * over["width"], over["y"] + 60, steps=4)
    visit.page.mouse.up()
    part = ends()
    assert part[1] - part[0] == pytest.approx(0.2 * (whole[1] - whole[0]), rel=0.05)
    visit.panel.get_by_role("button", name="Zoom out").click()
    assert ends()[1] - ends()[0] > 1.3 * (part[1] - part[0])
    visit.panel.get_by_role("button", name="Show all").click()
    assert ends() == pytest.approx(whole, abs=0.02)


def test_the_axis_is_angle_or_q(browser: Any, address: str, found: tuple[Visit, str]) -> None:
    visit = shown(browser, address, found[1])
    over = visit.panel.locator(".u-over").bounding_box()

    def read(pattern: str) -> list[float]:
        places = []
        for share in (0.1, 0.5, 0.9):
            visit.page.mouse.move(over["x"] + share * over["width"], over["y"] + 50)
            places += [float(number) for number in re.findall(pattern, visit.panel.locator(".readout").inner_text())]
        return places

    low, middle, high = read(r"2θ (\d+\.\d+)°")
    assert middle == pytest.approx((low + high) / 2, abs=0.02)
    visit.panel.get_by_label("Axis").select_option("q (Å⁻¹)")
    low, middle, high = read(r"q (\d+\.\d+) Å⁻¹")
    assert middle == pytest.approx((low + high) / 2, abs=0.002)
    assert read(r"2θ (\d+\.\d+)°")[1] != pytest.approx(sum(read(r"2θ (\d+\.\d+)°")[::2]) / 2, abs=0.03)


@pytest.mark.parametrize(
    ("verdict", "words"), [("unsure", "Unsure: do not rely on this cell"), ("none", "No cell found")]
)
def test_an_unsure_answer_is_told_as_such(
    browser: Any, address: str, found: tuple[Visit, str], verdict: str, words: str, tmp_path: Path
) -> None:
    told = json.loads(found[1]) | {"verdict": verdict, "fit": None, "hints": ["Few lines: measure to higher angles."]}
    if verdict == "none":
        told |= {"cells": [], "cif": "", "csv": ""}
    visit = shown(browser, address, json.dumps(told))
    card = visit.panel.locator(".verdict")
    assert words in card.inner_text()
    assert "Few lines: measure to higher angles." in card.inner_text()
    assert "Likely" not in visit.panel.inner_text()
    assert visit.panel.get_by_role("button", name="CIF of cell").count() == (verdict == "unsure")
    visit.check(tmp_path / "page.png")


def test_a_file_without_wavelength_leads_to_where_it_is_given(browser: Any, address: str) -> None:
    visit = Visit(browser, address, "powder")
    rows = "".join(f"{5 + 0.02 * i:.2f} {10 + 90 * (i % 50 == 7)}\n" for i in range(2000))
    visit.drop("unknown.xy", rows.encode())
    fault = visit.panel.get_by_role("alert")
    fault.get_by_text("wavelength").wait_for()
    assert "\n" not in fault.inner_text()
    assert "Traceback" not in fault.inner_text()
    assert visit.page.evaluate("document.activeElement.labels[0].textContent") == "Radiation"


def test_an_example_is_searched_with_its_own_radiation(browser: Any, address: str) -> None:
    visit = Visit(browser, address, "powder")
    visit.answer_with("v1/index", '{"error": "not now"}')
    visit.panel.get_by_text("Radiation and search").click()
    visit.panel.get_by_label("Radiation").select_option("Mo Kα")
    with visit.page.expect_request("**/v1/index") as waiting:
        visit.panel.get_by_role("button", name="thiosulfate").click()
    assert set(waiting.value.post_data_json) == {"example", "system"}


def test_a_search_of_no_crystal_system_is_not_begun(browser: Any, address: str, found: tuple[Visit, str]) -> None:
    visit = shown(browser, address, found[1])
    asked = len(visit.asked)
    visit.panel.get_by_text("Radiation and search").click()
    for box in visit.panel.locator("fieldset input").all():
        box.uncheck()
    visit.panel.get_by_role("button", name="Search again").click()
    assert visit.panel.get_by_role("alert").inner_text() == "Tick a crystal system to search."
    assert visit.panel.locator(".results").is_hidden()
    assert len(visit.asked) == asked
    visit.panel.get_by_label("cubic").check()
    visit.panel.get_by_role("button", name="Search again").click()
    visit.panel.locator(".verdict").wait_for()
    assert visit.panel.get_by_role("alert").count() == 0


def test_waiting_is_read_out_once(browser: Any, address: str) -> None:
    visit = Visit(browser, address, "powder")
    visit.page.route("**/v1/index", lambda route: None)
    visit.panel.get_by_role("status").evaluate(
        "e => { window.said = 0; new MutationObserver(() => said++).observe(e, {childList: true, subtree: true}); }"
    )
    visit.panel.get_by_role("button", name="thiosulfate").click()
    visit.page.wait_for_function("() => parseFloat(document.querySelector('#powder .clock').textContent) > 0.6")
    assert visit.page.evaluate("said") == 1
    assert visit.panel.get_by_role("status").inner_text() == "Searching for the cell of thiosulfate"


def test_the_difference_has_a_zero_line(browser: Any, address: str, found: tuple[Visit, str]) -> None:
    told = json.loads(found[1])
    told["fit"]["calculated"] = [10 * max(told["fit"]["observed"])] * len(told["fit"]["observed"])
    visit = shown(browser, address, json.dumps(told))
    pixels = "c.getContext('2d').getImageData(0, 0, c.width, c.height).data"
    code = f"c => [c.width, ...{pixels}.filter((_, i) => i % 4 == 3)]"
    width, *alpha = visit.panel.locator(".plot canvas").evaluate(code)
    canvas, over = (visit.panel.locator(each).bounding_box() for each in (".plot canvas", ".u-over"))
    left, zero = over["x"] - canvas["x"], over["y"] - canvas["y"] + over["height"] * (1 - 0.17 / 2)
    inked = np.reshape(alpha, (-1, width))[:, int(left) : int(left + over["width"])] > 0
    rows = np.flatnonzero(inked.mean(1) > 0.98)
    assert np.abs(rows + 0.5 - zero).min() <= 1


def test_radiations_are_those_the_service_tells(browser: Any, address: str) -> None:
    visit = Visit(browser, address, "powder")
    told = visit.page.request.get(f"{address}/v1/models").json()
    visit.answer_with("v1/models", json.dumps(told | {"anodes": ["Rh"]}))
    visit.page.reload()
    visit.panel.wait_for()
    for flow in ("#powder", "#spectra"):
        offered = visit.page.locator(f"{flow} select option", has_text="Kα").all_text_contents()
        assert offered == ["Rh Kα"]


def test_a_search_can_be_cancelled_and_another_begun(browser: Any, address: str) -> None:
    visit = Visit(browser, address, "powder")
    visit.panel.get_by_role("button", name="triclinic", exact=False).first.click()
    visit.panel.get_by_text("Searching for the cell of triclinic").first.wait_for()
    visit.panel.get_by_role("button", name="Cancel").click()
    assert visit.panel.locator(".busy").is_hidden()
    assert visit.panel.get_by_role("status").inner_text() == "Cancelled."
    visit.drop("nothing.xy", b"hardly a pattern")
    visit.panel.get_by_role("alert").get_by_text("file 0").wait_for()
    assert visit.panel.locator(".results").is_hidden()


@pytest.mark.parametrize(("width", "scheme"), LOOKS)
def test_powder_looks_right(
    browser: Any, address: str, found: tuple[Visit, str], width: int, scheme: str, tmp_path: Path
) -> None:
    shown(browser, address, found[1], width=width, scheme=scheme).check(tmp_path / "powder.png")


@pytest.mark.parametrize(("width", "scheme"), LOOKS)
def test_a_drawn_digit_has_bars_and_a_map(browser: Any, address: str, width: int, scheme: str, tmp_path: Path) -> None:
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


def test_the_map_lies_over_what_was_drawn(browser: Any, address: str) -> None:
    visit = Visit(browser, address, "image")
    visit.draw((0.5, 0.15), (0.5, 0.85))
    visit.panel.locator(".bars li").first.wait_for()

    def pixels() -> Any:
        code = "c => [...c.getContext('2d').getImageData(0, 0, c.width, c.height).data]"
        return np.array(visit.panel.locator(".picture").evaluate(code)).reshape(8, 8, 4)[..., :3].astype(float)

    coloured = pixels()
    with visit.page.expect_response("**/v1/explain"):
        visit.panel.get_by_label("Show").select_option("the picture alone")
    visit.page.wait_for_function("() => document.querySelector('.heat-scale').hidden")
    grey = pixels()
    assert np.ptp(grey, axis=-1).max() == 0
    assert np.ptp(coloured, axis=-1).max() > 20
    ink = grey.mean(-1).sum(0)
    assert ink[3:5].sum() > 0.9 * ink.sum()


def test_requests_follow_each_other_while_a_hand_draws(browser: Any, address: str) -> None:
    visit = Visit(browser, address, "image")
    under_way, most = 0, 0

    def begun(request: Any) -> None:
        nonlocal under_way, most
        if "explain" in request.url:
            under_way += 1
            most = max(most, under_way)

    def ended(request: Any) -> None:
        nonlocal under_way
        under_way -= "explain" in request.url

    visit.page.on("request", begun)
    for event in ("requestfinished", "requestfailed"):
        visit.page.on(event, ended)
    for _ in range(3):
        visit.draw(*THREE)
    visit.panel.locator(".bars li").first.wait_for()
    assert most == 1
    assert len([url for url in visit.asked if "explain" in url]) < 3 * 5 * len(THREE)


def test_an_answer_to_what_was_wiped_out_is_dropped(browser: Any, address: str) -> None:
    visit, held = Visit(browser, address, "image"), list[Any]()
    visit.page.route("**/v1/explain", lambda route: held.append(route))
    visit.draw((0.5, 0.2), (0.5, 0.8))
    visit.page.wait_for_timeout(100)
    visit.panel.get_by_role("button", name="Clear").click()
    for route in held:
        route.continue_()
    visit.page.wait_for_timeout(300)
    assert held
    assert visit.panel.locator(".bars li").count() == 0
    assert visit.panel.get_by_text("The answer appears here.").is_visible()


def test_a_dropped_image_and_an_example_are_answered_as_well(browser: Any, address: str, tmp_path: Path) -> None:
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


@pytest.mark.parametrize(("width", "scheme"), LOOKS)
def test_spectra_have_predictions_with_intervals_and_units(
    browser: Any, address: str, spectra: bytes, width: int, scheme: str, tmp_path: Path
) -> None:
    visit = Visit(browser, address, "spectra", width, scheme)
    visit.drop("new.csv", spectra)
    table = visit.panel.get_by_role("table")
    table.wait_for()
    headings = table.get_by_role("columnheader").all_inner_texts()
    assert headings == ["spectrum", "height (mm)", "80 % interval (mm)"]
    assert visit.panel.get_by_role("radio").count() == 3
    row = table.locator("tbody tr").nth(1).inner_text().replace("−", "-")
    value, lower, upper = map(float, re.findall(r"-?\d+\.?\d*", row)[1:4])
    assert lower < value < upper
    visit.panel.locator(".plot canvas").wait_for()
    visit.check(tmp_path / "spectra.png")


def test_a_chosen_spectrum_is_drawn_with_attention_along_its_axis(browser: Any, address: str, spectra: bytes) -> None:
    visit = Visit(browser, address, "spectra")
    visit.drop("new.csv", spectra)
    visit.panel.locator(".plot canvas").wait_for()
    with visit.page.expect_response("**/v1/explain") as waiting:
        visit.panel.get_by_role("radio", name="3", exact=True).check()
    told = waiting.value.json()
    assert visit.panel.get_by_role("heading", name="Spectrum 3").is_visible()
    visit.panel.locator(".plot").focus()
    visit.page.keyboard.press("ArrowRight")
    visit.page.keyboard.press("ArrowRight")
    axis, text = told["axes"][0], visit.panel.locator(".readout").inner_text()
    place, height = (float(number.replace("−", "-")) for number in re.findall(r"[−\d.]+", text)[:2])
    assert place == axis["origin"] + axis["spacing"]
    assert height == pytest.approx(told["sample"][0][1], abs=1e-3)
    assert "attention" in text
    assert axis["unit"] in text


def test_predictions_can_be_taken_along_and_intervals_chosen(browser: Any, address: str, spectra: bytes) -> None:
    visit = Visit(browser, address, "spectra")
    visit.drop("new.csv", spectra)
    visit.panel.get_by_role("table").wait_for()

    def width() -> float:
        row = next(csv.DictReader(io.StringIO(visit.saved("Predictions as CSV"))))
        return float(row["height upper (mm)"]) - float(row["height lower (mm)"])

    wide = width()
    visit.panel.get_by_label("Intervals").select_option("50 %")
    visit.panel.get_by_text("50 % interval (mm)").wait_for()
    assert 0 < width() < wide


def test_known_samples_stand_beside_their_predictions(browser: Any, address: str) -> None:
    visit = Visit(browser, address, "spectra")
    visit.panel.get_by_role("button", name="samples of the run's own test part").click()
    visit.panel.get_by_role("columnheader", name="known").wait_for()
    assert re.search(r"height = -?\d", visit.panel.locator("tbody tr").first.inner_text())


def test_a_fault_of_a_file_is_told_in_one_line(browser: Any, address: str) -> None:
    visit = Visit(browser, address, "spectra")
    visit.drop("short.csv", b"500,502\n1,2\n")
    fault = visit.panel.get_by_role("alert")
    fault.get_by_text("expected").wait_for()
    assert "\n" not in fault.inner_text()
    visit.drop("talk.pdf", b"%PDF")
    assert "talk.pdf: expected a file of one of these kinds: .csv .npy .npz" in fault.inner_text()


def test_a_row_is_looked_into_in_the_file_its_table_is_of(browser: Any, address: str, spectra: bytes) -> None:
    visit, held = Visit(browser, address, "spectra"), list[Any]()
    visit.drop("first.csv", spectra)
    visit.panel.locator(".plot canvas").wait_for()
    visit.page.route("**/v1/predict", lambda route: held.append(route))
    visit.drop("second.csv", b"500,502\n1,2\n")
    with visit.page.expect_request("**/v1/explain") as waiting:
        visit.panel.get_by_role("radio", name="3", exact=True).check()
    assert b'filename="first.csv"' in waiting.value.post_data_buffer
    for route in held:
        route.continue_()
    visit.panel.get_by_role("alert").get_by_text("expected").wait_for()
    assert visit.panel.locator(".results").is_hidden()


def test_all_can_be_done_with_the_keyboard_alone(browser: Any, address: str, found: tuple[Visit, str]) -> None:
    visit = Visit(browser, address)
    visit.flow = "powder"
    visit.answer_with("v1/index", found[1])
    visit.panel.wait_for()
    press, seen = visit.page.keyboard.press, list[str]()

    def go(selector: str) -> None:
        """By the tabulator key; wherever it stops on the way, that is to be seen."""
        for _ in range(40):
            press("Tab")
            focus = "(e => e.matches('.drop input') ? e.parentElement : e)(document.activeElement)"
            outline = f"getComputedStyle({focus}).outlineStyle"
            seen.append(visit.page.evaluate(outline))
            if visit.page.evaluate(f"document.activeElement.matches({selector!r})"):
                return
        raise AssertionError(f"{selector} is out of reach")

    go("#tab-powder")
    go("#powder .example")
    press("Enter")
    visit.panel.locator(".verdict").wait_for()
    go("#powder .plot")
    press("ArrowRight")
    first = visit.panel.locator(".readout").inner_text()
    press("ArrowRight")
    assert "reflection (" in first != visit.panel.locator(".readout").inner_text()
    press("+")
    press("0")
    go("#powder input[type=radio]")
    press("ArrowDown")
    assert "reflections of cell 2" in visit.panel.locator(".legend").inner_text()
    visit.page.locator("#tab-powder").focus()
    press("ArrowRight")
    visit.flow = "image"
    assert visit.panel.is_visible()
    go("#image .slate")
    for key in (" ", *["ArrowDown"] * 12, " ", *["ArrowRight"] * 3):
        press(key)
    visit.panel.locator(".bars li").first.wait_for()
    go("#image .draw button")
    press("Enter")
    visit.panel.get_by_text("The answer appears here.").wait_for()
    go("#image .thumb")
    press("Enter")
    visit.panel.locator(".bars li").first.wait_for()
    visit.page.locator("#tab-image").focus()
    press("End")
    visit.flow = "spectra"
    go("#spectra .example")
    press("Enter")
    visit.panel.locator(".plot canvas").wait_for()
    assert set(seen) == {"solid"}
    assert visit.faults == []


def test_the_theme_follows_the_system_until_it_is_chosen(browser: Any, address: str) -> None:
    def paper(visit: Visit) -> int:
        return sum(
            map(int, re.findall(r"\d+", visit.page.evaluate("getComputedStyle(document.body).backgroundColor"))[:3])
        )

    dark, light = (Visit(browser, address, "powder", scheme=scheme) for scheme in ("dark", "light"))
    assert paper(dark) < 150 < 600 < paper(light)
    light.page.get_by_role("button", name="Change between dark and light").click()
    assert paper(light) < 150
    light.page.reload()
    assert paper(light) < 150


def test_a_token_is_asked_for_and_what_is_not_served_is_told(browser: Any, guarded: str, tmp_path: Path) -> None:
    visit = Visit(browser, guarded, "powder")
    field = visit.page.get_by_label("Token", exact=True)
    field.fill("wrong-token")
    visit.page.get_by_role("button", name="Continue").click()
    visit.page.get_by_text("That token is wrong.").wait_for()
    field.fill(TOKEN)
    field.press("Enter")
    visit.panel.get_by_role("heading", name="Unit cell from a powder pattern").wait_for()
    assert visit.page.get_by_role("tab").count() == 0
    more = visit.page.locator("footer").inner_text()
    assert "vitreous serve runs/digits" in more
    assert "vitreous serve --powder" not in more
    visit.page.reload()
    visit.panel.get_by_role("heading", name="Unit cell from a powder pattern").wait_for()
    visit.faults = [fault for fault in visit.faults if "401" not in fault]
    visit.check(tmp_path / "page.png")


def test_a_token_that_cannot_be_sent_is_refused_where_it_is_typed(browser: Any, guarded: str) -> None:
    visit = Visit(browser, guarded, "powder")
    field = visit.page.get_by_label("Token", exact=True)
    field.fill(TOKEN.replace("-", "–"))
    field.press("Enter")
    visit.page.get_by_role("dialog").get_by_text("of ASCII").wait_for()
    field.fill("wrong-token")
    field.press("Enter")
    visit.page.get_by_text("That token is wrong.").wait_for()
    assert visit.page.evaluate("sessionStorage.length") == 0
    visit.page.reload()
    field.fill(TOKEN)
    field.press("Enter")
    visit.panel.wait_for()
    assert visit.page.evaluate("Object.values(sessionStorage)") == [TOKEN]


def test_a_browser_that_stores_nothing_is_served(browser: Any, guarded: str) -> None:
    visit = Visit(browser, guarded, "powder")
    refuse = "{ get() { throw new DOMException('', 'SecurityError'); } }"
    for storage in ("sessionStorage", "localStorage"):
        visit.context.add_init_script(f"Object.defineProperty(window, '{storage}', {refuse})")
    visit.page.reload()
    visit.page.get_by_label("Token", exact=True).fill(TOKEN)
    visit.page.get_by_role("button", name="Continue").click()
    visit.panel.wait_for()


def test_a_service_that_has_gone_is_told(browser: Any, address: str) -> None:
    visit = Visit(browser, address, "powder")
    visit.panel.wait_for()
    visit.page.route("**/v1/index", lambda route: route.abort())
    visit.panel.get_by_role("button", name="thiosulfate").click()
    visit.panel.get_by_role("alert").get_by_text("The service does not answer. Is it still running?").wait_for()
