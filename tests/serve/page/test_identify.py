"""The question of the powder panel what is in a sample."""

import csv
import io
import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.browser import needs_browser
from tests.serve.visitor import LOOKS, Visit

pytestmark = needs_browser
QUESTION = "What is it?"
COUNT_PIXELS = """(canvas, colour) => {
  const pixels = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
  return canvas.width * canvas.height - pixels.filter((_, i) => i % 4 === 0).filter((_, i) =>
    colour.some((value, k) => pixels[4 * i + k] !== value) || pixels[4 * i + 3] !== 255).length;
}"""


def show_answer(browser: Any, address: str, answer: str, **look: Any) -> Visit:
    """Show a stored response in a new window."""
    visit = Visit(browser, address, "powder", **look)
    visit.answer_with("v1/identify", answer)
    visit.panel.get_by_role("button", name=QUESTION).click()
    visit.panel.get_by_role("button", name="triclinic").click()
    visit.panel.locator(".verdict").wait_for()
    return visit


def changed(answer: str, **fields: Any) -> str:
    """The response with other fields of its first phase."""
    record = json.loads(answer)
    record["phases"][0] |= fields
    return json.dumps(record)


def test_a_dropped_pattern_gives_its_phases_with_amounts_and_cells(identified: tuple[Visit, str]) -> None:
    panel, phases = identified[0].panel, json.loads(identified[1])["phases"]
    cards = panel.locator(".phases > li")
    assert [phase["name"] for phase in phases] == ["quartz", "halite"]
    for card, phase in zip(cards.all(), phases, strict=True):
        text = card.inner_text()
        assert card.get_by_role("heading").inner_text().replace("\n", "").startswith(phase["name"])
        assert phase["mass_text"] in text
        assert re.search(r"a = \d\.\d+\(\d+\) Å", text)
        assert re.search(r"probability\s+(> )?\d+\.\d %", text)
        assert phase["source"] in text
    assert cards.first.locator("sub").inner_text() == "2"  # of SiO2
    status = panel.get_by_role("status").inner_text()
    assert re.match(r"Unsure: quartz \d+\.\d %, halite \d+\.\d %\.", status)


def test_lines_of_no_phase_are_listed(identified: tuple[Visit, str]) -> None:
    visit, record = identified[0], json.loads(identified[1])
    left = visit.panel.locator("section", has=visit.page.get_by_role("heading", name="Unexplained lines")).last
    assert f"{len(record['unexplained_lines'])} lines belong to no phase" in left.inner_text()
    assert "27.4" in left.inner_text()  # (1 1 0) of rutile
    assert "Unsure" in visit.panel.locator(".verdict h2").inner_text()
    shown = visit.panel.locator(".verdict li").all_inner_texts()
    assert [text.lower() for text in shown] == [hint.lower() for hint in record["hints"]]


def test_the_figure_has_a_curve_and_reflections_for_each_phase(
    browser: Any, address_with_database: str, identified: tuple[Visit, str]
) -> None:
    visit, record = show_answer(browser, address_with_database, identified[1]), json.loads(identified[1])
    legend = visit.panel.locator(".legend").inner_text()
    for word in ("measured", "calculated", "background", "difference", "quartz", "halite", "lines of no phase"):
        assert word in legend
    colours = visit.panel.locator(".legend .phase").evaluate_all("all => all.map(e => getComputedStyle(e).borderColor)")
    assert len(set(colours)) == 2
    for colour in colours:
        wanted = [int(number) for number in re.findall(r"\d+", colour)[:3]]
        assert visit.panel.locator(".plot canvas").evaluate(COUNT_PIXELS, wanted) > 200
    visit.panel.locator(".plot").scroll_into_view_if_needed()
    tick = record["phases"][1]["ticks"][1]
    over = visit.panel.locator(".u-over").bounding_box()
    low, high = record["curves"]["two_theta"][0], record["curves"]["two_theta"][-1]
    visit.page.mouse.move(over["x"] + over["width"] * (tick["two_theta"] - low) / (high - low), over["y"] + 40)
    text = visit.panel.locator(".readout").inner_text()
    assert re.search(r"2θ \d+\.\d{3}°.*q \d\.\d{4} Å⁻¹.*d \d+\.\d{4} Å.*intensity.*calculated.*halite \(", text)


def test_phases_can_be_downloaded(identified: tuple[Visit, str]) -> None:
    visit, record = identified[0], json.loads(identified[1])
    text = visit.download("Phases as CSV")
    assert text == record["csv"]
    rows = list(csv.DictReader(io.StringIO(text)))
    assert [row["phase"] for row in rows] == ["quartz", "halite"]


def test_rivals_are_behind_a_disclosure(
    browser: Any, address_with_database: str, identified: tuple[Visit, str]
) -> None:
    rival = {"name": "berlinite", "formula": "AlPO4", "source": "b.cif", "probability": 0.6}
    answer = changed(identified[1], rivals=[rival], probability=0.4)
    visit = show_answer(browser, address_with_database, answer)
    card = visit.panel.locator(".phases > li").first
    assert "Unsure: something else may be there instead" in card.inner_text()
    assert "berlinite" not in card.inner_text()
    card.locator("summary").focus()
    visit.page.keyboard.press("Enter")
    assert "berlinite AlPO4 · 60.0 % · b.cif" in " ".join(card.inner_text().split())
    assert visit.panel.locator(".phases > li").nth(1).locator("summary").count() == 0


def test_a_phase_without_atoms_has_no_amount(
    browser: Any, address_with_database: str, identified: tuple[Visit, str]
) -> None:
    answer = changed(identified[1], mass_fraction=None, mass_fraction_error=None, mass_text="—")
    visit = show_answer(browser, address_with_database, answer)
    assert "unknown: the entry has no atoms" in visit.panel.locator(".phases > li").first.inner_text()
    assert "NaN" not in visit.panel.inner_text()


def test_an_answer_without_phases_says_so(
    browser: Any, address_with_database: str, identified: tuple[Visit, str], tmp_path: Path
) -> None:
    record = json.loads(identified[1]) | {
        "verdict": "none",
        "phases": [],
        "hints": ["no phase of the database fits"],
        "csv": "",
    }
    record["curves"]["parts"] = []
    visit = show_answer(browser, address_with_database, json.dumps(record))
    assert "No phase of the database explains the pattern" in visit.panel.locator(".verdict").inner_text()
    assert "No phase of the database fits" in visit.panel.locator(".verdict li").inner_text()
    assert visit.panel.get_by_role("button", name="Phases as CSV").count() == 0
    visit.check(tmp_path / "page.png")


def test_elements_are_sent_as_symbols(browser: Any, address_with_database: str, mixture: bytes) -> None:
    visit = Visit(browser, address_with_database, "powder")
    visit.answer_with("v1/identify", '{"error": "not now"}')
    visit.panel.get_by_role("button", name=QUESTION).click()
    visit.panel.get_by_text("Radiation and search").click()
    visit.panel.get_by_label("Elements").fill("si, NA cl;")
    visit.panel.get_by_label("Without").fill("Pb")
    visit.panel.get_by_label("Most phases").fill("2")
    with visit.page.expect_request("**/v1/identify") as waiting:
        visit.panel.get_by_role("button", name="triclinic").click()
    wanted = {"example": "triclinic", "elements": ["Si", "Na", "Cl"], "exclude_elements": ["Pb"], "max_phases": 2}
    assert waiting.value.post_data_json == wanted


def test_errors_are_shown_beside_their_field(browser: Any, address_with_database: str, mixture: bytes) -> None:
    visit = Visit(browser, address_with_database, "powder")
    visit.panel.get_by_role("button", name=QUESTION).click()
    alert = visit.panel.get_by_role("alert")
    focused = "document.activeElement.labels[0].textContent"
    visit.drop("measured.xy", mixture)
    alert.get_by_text("wavelength").wait_for()
    assert visit.page.evaluate(focused) == "Radiation"
    visit.panel.get_by_label("Radiation").select_option("Cu Kα")
    visit.panel.get_by_label("Elements").fill("Xx")
    visit.panel.get_by_role("button", name="Search again").click()
    alert.get_by_text("elements: found 'Xx', expected symbols of elements, such as Fe").wait_for()
    assert visit.page.evaluate(focused) == "Elements"
    visit.panel.get_by_label("Most phases").fill("99")
    visit.panel.get_by_role("button", name="Search again").click()
    alert.get_by_text("Most phases: expected a number from 1 to 12.").wait_for()
    assert visit.page.evaluate(focused) == "Most phases"


def test_both_questions_can_be_asked_of_one_pattern(
    browser: Any, address_with_database: str, identified: tuple[Visit, str]
) -> None:
    visit = Visit(browser, address_with_database, "powder")
    visit.answer_with("v1/identify", identified[1])
    visit.answer_with("v1/index", '{"error": "not now"}')
    question, cell = (visit.panel.get_by_role("button", name=name) for name in (QUESTION, "Unit cell"))
    assert cell.get_attribute("aria-pressed") == "true"
    question.focus()
    visit.page.keyboard.press("Enter")
    assert question.get_attribute("aria-pressed") == "true"
    assert visit.panel.get_by_role("heading", name="What is in the sample?").is_visible()
    assert not any("v1/identify" in url for url in visit.requests)  # there is no pattern yet
    visit.panel.get_by_role("button", name="triclinic").click()
    visit.panel.locator(".phases").wait_for()
    with visit.page.expect_request("**/v1/index"):
        cell.click()
    question.click()
    assert visit.panel.locator(".phases").is_visible()
    assert sum("v1/identify" in url for url in visit.requests) == 1  # its answer is still there


def test_without_a_database_only_the_cell_is_asked_for(browser: Any, address: str) -> None:
    visit = Visit(browser, address, "powder")
    visit.panel.wait_for()
    assert visit.panel.get_by_role("button", name=QUESTION).count() == 0
    assert "vitreous serve --database" in visit.page.locator("footer").inner_text()


def test_the_cards_are_reached_with_the_keyboard(
    browser: Any, address_with_database: str, identified: tuple[Visit, str]
) -> None:
    rival = {"name": "berlinite", "formula": "AlPO4", "source": "b.cif", "probability": 0.2}
    visit = show_answer(browser, address_with_database, changed(identified[1], rivals=[rival]))
    visit.panel.locator(".plot").focus()
    visit.page.keyboard.press("ArrowRight")
    first = visit.panel.locator(".readout").inner_text()
    visit.page.keyboard.press("ArrowRight")
    assert re.search(r"(quartz|halite) \(", first)
    assert first != visit.panel.locator(".readout").inner_text()
    for selector in ("#powder .phases summary", "#powder .results > .row button"):
        visit.page.keyboard.press("Tab")
        assert visit.page.evaluate(f"document.activeElement.matches({selector!r})")


@pytest.mark.parametrize(("width", "scheme"), LOOKS)
def test_the_phases_are_accessible_and_fit_the_window(
    browser: Any, address_with_database: str, identified: tuple[Visit, str], width: int, scheme: str, tmp_path: Path
) -> None:
    rival = {"name": "berlinite", "formula": "AlPO4", "source": "b.cif", "probability": 0.2}
    visit = show_answer(
        browser, address_with_database, changed(identified[1], rivals=[rival]), width=width, scheme=scheme
    )
    visit.panel.get_by_text("Radiation and search").click()
    visit.panel.locator(".phases summary").click()
    visit.check(tmp_path / "phases.png")
