"""The powder panel of the page."""

import json
import re
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.browser import needs_browser
from tests.serve.visitor import LOOKS, Visit

pytestmark = needs_browser


def show_result(browser: Any, address: str, answer: str, **look: Any) -> Visit:
    """Show a stored response in a new window."""
    visit = Visit(browser, address, "powder", **look)
    visit.answer_with("v1/index", answer)
    visit.panel.get_by_role("button", name="thiosulfate").click()
    visit.panel.locator(".verdict").wait_for()
    visit.panel.locator(".plot").scroll_into_view_if_needed()
    return visit


def test_a_dropped_pattern_gives_its_cell_with_errors_and_units(indexed: tuple[Visit, str]) -> None:
    verdict = indexed[0].panel.locator(".verdict").inner_text()
    assert re.search(
        r"monoclinic P\s+a = 5\.9[45]\d+\(\d+\) Å\s+b = 21\.(59|60)\d*\(\d+\) Å\s+c = 7\.53\d+\(\d+\) Å", verdict
    )
    assert re.search(r"β = 103\.7\d+\(\d+\)°", verdict)
    assert re.search(r"probability (> )?\d+\.\d %", verdict)
    assert "Likely cell: monoclinic P" in indexed[0].panel.get_by_role("status").inner_text()


def test_a_chosen_candidate_shows_its_own_reflections(browser: Any, address: str, indexed: tuple[Visit, str]) -> None:
    visit, answer = show_result(browser, address, indexed[1]), json.loads(indexed[1])
    panel = visit.panel
    assert panel.get_by_role("radio").count() == len(answer["cells"])
    assert "calculated" in panel.locator(".legend").inner_text()
    before = panel.locator(".plot").screenshot()
    panel.get_by_role("radio", name="Cell 2").check()
    assert "reflections of cell 2" in panel.locator(".legend").inner_text()
    assert "calculated" not in panel.locator(".legend").inner_text()
    assert panel.get_by_text("no fit and no standard errors").is_visible()
    assert panel.locator(".plot").screenshot() != before
    row = panel.get_by_role("row", name="Cell 2").inner_text()
    assert f"{answer['cells'][1]['indexed']} of {answer['cells'][1]['lines']}" in row
    assert visit.download("CIF of cell 2") == answer["cells"][1]["cif"]


def test_cells_can_be_downloaded(indexed: tuple[Visit, str]) -> None:
    visit, answer = indexed[0], json.loads(indexed[1])
    assert visit.download("CIF of cell 1") == answer["cif"]
    assert visit.download("All cells as CSV") == answer["csv"]
    assert visit.download("Lines with indices as CSV") == answer["lines_csv"]
    assert answer["lines_csv"].splitlines()[0].startswith("h,k,l,")


def test_a_project_is_chosen_in_a_menu_and_downloaded_with_the_keyboard(indexed: tuple[Visit, str]) -> None:
    visit, projects = indexed[0], json.loads(indexed[1])["projects"]
    menu = visit.panel.get_by_label("Program")
    assert menu.locator("option").all_inner_texts() == [project["program"] for project in projects]
    assert {"GSAS-II", "FullProf", "TOPAS", "Jana"} == {project["program"] for project in projects}
    for project in projects:
        menu.focus()
        visit.page.keyboard.type(project["program"])
        visit.page.keyboard.press("Tab")
        with visit.page.expect_download() as waiting:
            visit.page.keyboard.press("Enter")
        assert waiting.value.suggested_filename == f"measured-{project['program'].lower()}.zip"
        with zipfile.ZipFile(waiting.value.path()) as archive:
            assert archive.namelist() == project["files"]
            assert archive.testzip() is None
        text = visit.panel.locator("section", has=visit.page.get_by_label("Program")).inner_text()
        assert all(name in text for name in project["files"])
        assert project["advice"] in text
        menu.evaluate("menu => menu.blur()")


def test_no_project_is_offered_without_a_refined_cell(browser: Any, address: str, indexed: tuple[Visit, str]) -> None:
    visit = show_result(browser, address, json.dumps(json.loads(indexed[1]) | {"projects": [], "fit": None}))
    assert visit.panel.get_by_label("Program").count() == 0
    assert visit.panel.get_by_role("button", name="CIF of cell 1").is_visible()


def test_the_verdict_names_the_likeliest_space_groups(indexed: tuple[Visit, str]) -> None:
    symbol = json.loads(indexed[1])["symbols"][0]
    text = indexed[0].panel.locator(".verdict").inner_text()
    assert "Space group P 1 21/c 1 (No. 14)" in text
    assert f"extinction symbol {symbol['symbol']}" in text


def test_the_space_groups_of_the_first_cell_are_listed_likeliest_first(indexed: tuple[Visit, str]) -> None:
    table = indexed[0].panel.get_by_role("region", name="Space groups")
    symbols = json.loads(indexed[1])["symbols"]
    rows = table.locator("tbody tr").all_inner_texts()
    assert [row.split("\t")[0] for row in rows] == [symbol["symbol"] for symbol in symbols]
    assert "P 1 21/c 1 (No. 14" in rows[0]


def _with_second_phase(answer: str) -> str:
    """The response with the second cell as a second phase, and two unexplained lines."""
    record = json.loads(answer)
    cell = record["cells"][1]
    parameters = {name: cell[name] for name in ("a", "b", "c", "alpha", "beta", "gamma")}
    text = "a = 5.4311(2) Å"
    record["second"] = cell | {
        "refined": parameters,
        "errors": dict.fromkeys(parameters, 1e-4),
        "text": text,
        "share": 0.21,
        "first_share": 0.79,
    }
    for project in record["projects"]:
        project["phases"] = 2 if project["program"] == "GSAS-II" else 1
    record["unexplained"] = [
        {"two_theta": 12.25, "intensity": 0.02, "share": 0.01},
        {"two_theta": 14.5, "intensity": 0.08, "share": 0.04},
    ]
    return json.dumps(record)


@pytest.mark.parametrize("width", [1280, 390])
def test_a_second_phase_and_unexplained_lines_are_shown_with_shares(
    browser: Any, address: str, indexed: tuple[Visit, str], width: int
) -> None:
    answer = _with_second_phase(indexed[1])
    visit = show_result(browser, address, answer, width=width)
    phase = visit.panel.locator("section", has=visit.page.get_by_role("heading", name="Second phase"))
    assert "a = 5.4311(2) Å" in phase.inner_text()
    assert "21.0 % of the intensity, cell 1 has 79.0 %" in phase.inner_text()
    assert "reflections of the second phase" in visit.panel.locator(".legend").inner_text()
    about = {"GSAS-II": "fit of both phases", "TOPAS": "fit of cell 1, with the data. Add the second phase"}
    for program, words in about.items():
        visit.panel.get_by_label("Program").select_option(program)
        assert words in visit.panel.get_by_text("The start of a Pawley").inner_text()
    assert visit.download("CIF of the second phase") == json.loads(answer)["second"]["cif"]
    left = visit.panel.locator("section", has_text="Unexplained lines").last.inner_text()
    assert "2 lines are at no reflection, with 5.0 % of the intensity: 14.500° (4.0 %), 12.250° (1.0 %)" in left
    assert visit.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    symbols = visit.panel.get_by_role("region", name="Space groups")
    assert symbols.evaluate("region => region.scrollWidth <= region.clientWidth")
    visit.panel.get_by_role("radio", name="Cell 2").check()
    assert "second phase" not in visit.panel.locator(".legend").inner_text()


def test_the_name_of_the_file_heads_the_answer(indexed: tuple[Visit, str]) -> None:
    assert indexed[0].panel.locator(".file-name").inner_text() == "measured.xy"


def test_the_cursor_shows_reflection_and_position_with_units(
    browser: Any, address: str, indexed: tuple[Visit, str]
) -> None:
    visit, answer = show_result(browser, address, indexed[1]), json.loads(indexed[1])
    tick = answer["fit"]["ticks"][3]
    over = visit.panel.locator(".u-over").bounding_box()
    low, high = answer["fit"]["two_theta"][0], answer["fit"]["two_theta"][-1]
    x = over["x"] + over["width"] * (tick["two_theta"] - low) / (high - low)
    visit.page.mouse.move(x, over["y"] + 40)
    text = visit.panel.locator(".readout").inner_text()
    assert re.search(r"2θ \d+\.\d{3}°.*q \d\.\d{4} Å⁻¹.*d \d+\.\d{4} Å.*intensity", text)
    near = [each for each in answer["fit"]["ticks"] if abs(each["two_theta"] - tick["two_theta"]) < 0.05]
    hkl = re.search(r"reflection \((.*?)\)", text)
    assert hkl is not None
    assert [int(index) for index in hkl[1].replace("−", "-").split()] in [each["hkl"] for each in near]


def _numbers(text: str) -> list[float]:
    return [float(number) for number in re.findall(r"2θ (\d+\.\d+)°", text)]


def test_a_plot_can_be_zoomed_and_reset(browser: Any, address: str, indexed: tuple[Visit, str]) -> None:
    visit = show_result(browser, address, indexed[1])
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


def test_the_axis_can_be_angle_or_q(browser: Any, address: str, indexed: tuple[Visit, str]) -> None:
    visit = show_result(browser, address, indexed[1])
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
    wavelength = json.loads(indexed[1])["pattern"]["wavelength"]
    sines = wavelength * np.array([low, middle, high]) / (4 * np.pi)
    assert read(r"2θ (\d+\.\d+)°") == pytest.approx(np.degrees(2 * np.arcsin(sines)), abs=0.01)


@pytest.mark.parametrize(
    ("verdict", "words"), [("unsure", "Unsure: do not rely on this cell"), ("none", "No cell found")]
)
def test_an_unsure_answer_is_shown_as_unsure(
    browser: Any, address: str, indexed: tuple[Visit, str], verdict: str, words: str, tmp_path: Path
) -> None:
    answer = json.loads(indexed[1]) | {
        "verdict": verdict,
        "fit": None,
        "hints": ["Few lines: measure to higher angles."],
    }
    if verdict == "none":
        answer |= {"cells": [], "cif": "", "csv": ""}
    visit = show_result(browser, address, json.dumps(answer))
    card = visit.panel.locator(".verdict")
    assert words in card.inner_text()
    assert "Few lines: measure to higher angles." in card.inner_text()
    assert "Likely" not in visit.panel.inner_text()
    assert visit.panel.get_by_role("button", name="CIF of cell").count() == (verdict == "unsure")
    visit.check(tmp_path / "page.png")


def test_a_file_without_wavelength_focuses_the_radiation_field(browser: Any, address: str) -> None:
    visit = Visit(browser, address, "powder")
    rows = "".join(f"{5 + 0.02 * i:.2f} {10 + 90 * (i % 50 == 7)}\n" for i in range(2000))
    visit.drop("unknown.xy", rows.encode())
    error = visit.panel.get_by_role("alert")
    error.get_by_text("wavelength").wait_for()
    assert "\n" not in error.inner_text()
    assert "Traceback" not in error.inner_text()
    assert visit.page.evaluate("document.activeElement.labels[0].textContent") == "Radiation"


def test_an_example_is_searched_with_its_own_radiation(browser: Any, address: str) -> None:
    visit = Visit(browser, address, "powder")
    visit.answer_with("v1/index", '{"error": "not now"}')
    visit.panel.get_by_text("Radiation and search").click()
    visit.panel.get_by_label("Radiation").select_option("Mo Kα")
    with visit.page.expect_request("**/v1/index") as waiting:
        visit.panel.get_by_role("button", name="thiosulfate").click()
    assert set(waiting.value.post_data_json) == {"example", "system", "projects"}


def test_a_search_needs_a_crystal_system(browser: Any, address: str, indexed: tuple[Visit, str]) -> None:
    visit = show_result(browser, address, indexed[1])
    asked = len(visit.requests)
    visit.panel.get_by_text("Radiation and search").click()
    for box in visit.panel.locator("fieldset input").all():
        box.uncheck()
    visit.panel.get_by_role("button", name="Search again").click()
    assert visit.panel.get_by_role("alert").inner_text() == "Select at least one crystal system."
    assert visit.panel.locator(".results").is_hidden()
    assert len(visit.requests) == asked
    visit.panel.get_by_label("cubic").check()
    visit.panel.get_by_role("button", name="Search again").click()
    visit.panel.locator(".verdict").wait_for()
    assert visit.panel.get_by_role("alert").count() == 0


def test_progress_is_announced_once(browser: Any, address: str) -> None:
    visit = Visit(browser, address, "powder")
    visit.page.route("**/v1/index", lambda route: None)
    visit.panel.get_by_role("status").evaluate(
        "e => { window.said = 0; new MutationObserver(() => said++).observe(e, {childList: true, subtree: true}); }"
    )
    visit.panel.get_by_role("button", name="thiosulfate").click()
    visit.page.wait_for_function("() => parseFloat(document.querySelector('#powder .clock').textContent) > 0.6")
    assert visit.page.evaluate("said") == 1
    assert visit.panel.get_by_role("status").inner_text() == "Searching for the cell of thiosulfate"


def test_the_difference_has_a_zero_line(browser: Any, address: str, indexed: tuple[Visit, str]) -> None:
    answer = json.loads(indexed[1])
    answer["fit"]["calculated"] = [10 * max(answer["fit"]["observed"])] * len(answer["fit"]["observed"])
    visit = show_result(browser, address, json.dumps(answer))
    pixels = "c.getContext('2d').getImageData(0, 0, c.width, c.height).data"
    code = f"c => [c.width, ...{pixels}.filter((_, i) => i % 4 == 3)]"
    width, *alpha = visit.panel.locator(".plot canvas").evaluate(code)
    canvas, over = (visit.panel.locator(each).bounding_box() for each in (".plot canvas", ".u-over"))
    left, zero = over["x"] - canvas["x"], over["y"] - canvas["y"] + over["height"] * (1 - 0.17 / 2)
    inked = np.reshape(alpha, (-1, width))[:, int(left) : int(left + over["width"])] > 0
    rows = np.flatnonzero(inked.mean(1) > 0.98)
    assert np.abs(rows + 0.5 - zero).min() <= 1


def test_anodes_come_from_the_service(browser: Any, address: str) -> None:
    visit = Visit(browser, address, "powder")
    answer = visit.page.request.get(f"{address}/v1/models").json()
    visit.answer_with("v1/models", json.dumps(answer | {"anodes": ["Rh"]}))
    visit.page.reload()
    visit.panel.wait_for()
    for flow in ("#powder", "#spectra"):
        offered = visit.page.locator(f"{flow} select option", has_text="Kα").all_text_contents()
        assert offered == ["Rh Kα"]


def test_a_search_can_be_cancelled_and_another_started(browser: Any, address: str) -> None:
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
def test_the_powder_panel_is_accessible(
    browser: Any, address: str, indexed: tuple[Visit, str], width: int, scheme: str, tmp_path: Path
) -> None:
    show_result(browser, address, indexed[1], width=width, scheme=scheme).check(tmp_path / "powder.png")
