"""The spectra panel of the page."""

import csv
import io
import re
from pathlib import Path
from typing import Any

import pytest

from tests.browser import needs_browser
from tests.serve.visitor import LOOKS, Visit

pytestmark = needs_browser


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
    answer = waiting.value.json()
    assert visit.panel.get_by_role("heading", name="Spectrum 3").is_visible()
    visit.panel.locator(".plot").focus()
    visit.page.keyboard.press("ArrowRight")
    visit.page.keyboard.press("ArrowRight")
    axis, text = answer["axes"][0], visit.panel.locator(".readout").inner_text()
    place, height = (float(number.replace("−", "-")) for number in re.findall(r"[−\d.]+", text)[:2])
    assert place == axis["origin"] + axis["spacing"]
    assert height == pytest.approx(answer["sample"][0][1], abs=1e-3)
    assert "attention" in text
    assert axis["unit"] in text


def test_predictions_can_be_downloaded_with_chosen_intervals(browser: Any, address: str, spectra: bytes) -> None:
    visit = Visit(browser, address, "spectra")
    visit.drop("new.csv", spectra)
    visit.panel.get_by_role("table").wait_for()

    def width() -> float:
        row = next(csv.DictReader(io.StringIO(visit.download("Predictions as CSV"))))
        return float(row["height upper (mm)"]) - float(row["height lower (mm)"])

    wide = width()
    visit.panel.get_by_label("Intervals").select_option("50 %")
    visit.panel.get_by_text("50 % interval (mm)").wait_for()
    assert 0 < width() < wide


def test_true_values_stand_beside_predictions(browser: Any, address: str) -> None:
    visit = Visit(browser, address, "spectra")
    visit.panel.get_by_role("button", name="samples of the run's test part").click()
    visit.panel.get_by_role("columnheader", name="true value").wait_for()
    assert re.search(r"height = -?\d", visit.panel.locator("tbody tr").first.inner_text())


def test_an_error_of_a_file_has_one_line(browser: Any, address: str) -> None:
    visit = Visit(browser, address, "spectra")
    visit.drop("short.csv", b"500,502\n1,2\n")
    error = visit.panel.get_by_role("alert")
    error.get_by_text("expected").wait_for()
    assert "\n" not in error.inner_text()
    visit.drop("talk.pdf", b"%PDF")
    assert "talk.pdf: expected one of these file types: .csv .npy .npz" in error.inner_text()


def test_a_row_is_explained_in_the_file_of_its_table(browser: Any, address: str, spectra: bytes) -> None:
    visit, routes = Visit(browser, address, "spectra"), list[Any]()
    visit.drop("first.csv", spectra)
    visit.panel.locator(".plot canvas").wait_for()
    visit.page.route("**/v1/predict", lambda route: routes.append(route))
    visit.drop("second.csv", b"500,502\n1,2\n")
    with visit.page.expect_request("**/v1/explain") as waiting:
        visit.panel.get_by_role("radio", name="3", exact=True).check()
    assert b'filename="first.csv"' in waiting.value.post_data_buffer
    for route in routes:
        route.continue_()
    visit.panel.get_by_role("alert").get_by_text("expected").wait_for()
    assert visit.panel.locator(".results").is_hidden()


def test_a_spectrum_unlike_the_training_data_is_marked(browser: Any, address: str, spectra: bytes) -> None:
    visit = Visit(browser, address, "spectra")
    header, first, *others = spectra.decode().splitlines()
    scaled = ",".join(str(1e6 * float(value)) for value in first.split(","))
    visit.drop("new.csv", "\n".join([header, scaled, *others]).encode())
    visit.panel.get_by_role("table").wait_for()
    rows = visit.panel.locator("tbody tr").all_inner_texts()
    assert ["unlike the training data" in row for row in rows] == [True, False, False]
    assert "familiarity" in visit.download("Predictions as CSV").splitlines()[0]
