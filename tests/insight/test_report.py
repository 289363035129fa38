"""The report: one valid file that needs nothing else, says all it knows, and says what it does not know."""

import json
import re
import shutil
from collections.abc import Sequence
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

import vitreous as vt
from vitreous.cli import main
from vitreous.data import Axis, Source
from vitreous.errors import InputError
from vitreous.insight.report import SECTIONS, read_run, write_report
from vitreous.insight.report import answers as answer_sections
from vitreous.insight.report.page import Section, Table, page
from vitreous.nn import CNNConfig
from vitreous.train import Experiment, TrainConfig, train

ALWAYS = ["The data", "How the training went", "The worst mistakes", "What an answer rests on",
          "Which map tells the truth?", "The test samples as the model sees them", "All scores", "Configuration",
          "Make it again"]  # fmt: skip
_VOID = ("meta", "link", "img", "br")


class Page(HTMLParser):
    """Tags that do not close, everything that a page refers to, and its headings."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.wrong: list[str] = []
        self.references: list[str] = []
        self.ids: list[str] = []
        self.images: list[dict[str, str | None]] = []
        self.headings: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        self.open += [tag] if tag not in _VOID else []
        self.references += [value or "" for name, value in attrs if name in ("src", "href", "srcset", "action", "data")]
        self.ids += [found["id"] or ""] if "id" in found else []
        self.images += [found] if tag == "img" else []
        self.wrong += [tag] if tag in ("script", "iframe", "object", "form") else []

    def handle_endtag(self, tag: str) -> None:
        if not self.open or self.open.pop() != tag:
            self.wrong.append(f"/{tag}")

    def handle_data(self, data: str) -> None:
        if self.open[-1:] == ["h2"]:
            self.headings.append(data)


def report(run: Path, out: Path, *options: str) -> tuple[Page, str]:
    main(["report", str(run), "--out", str(out), *options])
    text = out.read_text()
    return Page(text), text


def check(found: Page, text: str) -> None:
    """Valid, self-contained and small."""
    assert found.open == []
    assert found.wrong == []
    assert len(found.ids) == len(set(found.ids))
    for reference in found.references:
        assert reference.startswith("data:") or reference.removeprefix("#") in found.ids
    assert not re.search(r"https?://|@import|url\(", text)
    assert all((image["src"] or "").startswith("data:image/webp;base64,") and image["alt"] for image in found.images)
    assert len(text) < 5e6


def test_a_report_of_classes_is_whole_and_needs_nothing_else(digits_report: Path) -> None:
    text = digits_report.read_text()
    found = Page(text)
    check(found, text)
    assert set(found.headings) >= {*ALWAYS, "Right and wrong", "Does it know when it is right?"}
    assert set(found.headings) >= {"How far the heads look", "What it knows of places"}
    assert len(found.images) >= 11
    assert "What is missing" not in found.headings


def test_a_report_says_how_to_make_the_run_again(digits_report: Path, digits_run: Path) -> None:
    text = digits_report.read_text()
    assert "vitreous train digits --steps 40 --out digits\n" in text
    assert "<td>1,293</td>" in text  # samples to train on
    accuracy = json.loads((digits_run / "result.json").read_text())["test"]["accuracy"]
    assert f"<dd>{100 * accuracy:.2f} %</dd>" in text


def test_a_report_of_quantities_has_a_parity_plot_each_and_coverage(spectra_report: Path) -> None:
    text = spectra_report.read_text()
    found = Page(text)
    check(found, text)
    assert set(found.headings) >= {*ALWAYS, "Predicted against true", "Do the intervals hold?"}
    told = [image["alt"] or "" for image in found.images]
    assert sum("predicted against true" in words for words in told) == 2
    assert any(words.startswith("assay (mg)") for words in told)
    assert "wavelength" not in text  # the file does not say what its axis is
    assert "from 1100 to 1158" in text


def test_errors_against_any_column_of_the_data(
    spectra_run: Path, spectra: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("vitreous.insight.report.SECTIONS", [answer_sections.against])
    options = ["--data", str(spectra), "--target", "assay:mg", "water", "--against", "temperature", "operator"]
    found, text = report(spectra_run, tmp_path / "report.html", *options)
    check(found, text)
    assert sum(" against " in (image["alt"] or "") and "error" in (image["alt"] or "") for image in found.images) == 4
    assert "on the test part of spectra.csv" in text


def test_named_data_give_the_answers_that_the_run_keeps(
    spectra_run: Path, spectra_report: Path, spectra: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("vitreous.insight.report.SECTIONS", [answer_sections.parity])
    bare = tmp_path / "bare"
    shutil.copytree(spectra_run, bare)
    (bare / "test.npz").unlink()
    kept = spectra_report.read_text()
    named = report(bare, tmp_path / "named.html", "--data", str(spectra), "--target", "assay", "water")[1]
    tables = [re.findall(r"<caption>16 test samples</caption>.*?</table>", text) for text in (kept, named)]
    assert len(tables[0]) == 1
    assert tables[0] == tables[1]


def test_eval_splits_the_data_as_the_run_did(
    spectra_run: Path, spectra: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    main(["eval", str(spectra_run), str(spectra), "--target", "assay", "water"])
    said = dict(line.split() for line in capsys.readouterr().out.splitlines())
    result = json.loads((spectra_run / "result.json").read_text())["test"]
    assert float(said["rmse"]) == pytest.approx(result["rmse"], rel=1e-4)


def test_a_bare_run_gets_a_report_that_says_what_is_missing(digits_run: Path, tmp_path: Path) -> None:
    bare = tmp_path / "bare"
    bare.mkdir()
    for name in ("config.json", "model.safetensors", "task.json"):
        shutil.copy(digits_run / name, bare)
    (bare / "result.json").write_text("{}")
    found, text = report(bare, tmp_path / "report.html")
    check(found, text)
    assert found.headings == [
        "The data", "What it knows of places", "Configuration", "What is missing", "Make it again",
    ]  # fmt: skip
    for word in ("experiment.json", "metrics.jsonl", "--data"):
        assert word in text


def test_a_section_that_cannot_be_made_does_not_cost_the_report(
    digits_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(run: object) -> Section:
        raise InputError("this needs captum, which is not installed")

    monkeypatch.setattr("vitreous.insight.report.SECTIONS", [SECTIONS[0], fails])
    found, text = report(digits_run, tmp_path / "report.html")
    assert found.headings == ["The data", "What is missing", "Make it again"]
    assert "this needs captum, which is not installed." in text


def test_a_cnn_is_explained_without_attention(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(90, 3, 8, 8)).astype(np.float32), np.arange(90) % 2
    source = Source("<b>noise</b>", x, y, (Axis("y"), Axis("x")), ("r", "g", "b"), ("<script>alert(1)</script>", "b&w"))
    train(Experiment(source, CNNConfig((3, 8, 8), widths=(4,)), TrainConfig(steps=2)), tmp_path / "run", bar=False)
    found, text = report(tmp_path / "run", tmp_path / "report.html")
    check(found, text)  # whatever the classes are called
    assert "it has no attention" in text
    assert "How far the heads look" not in found.headings
    assert "&lt;b&gt;noise&lt;/b&gt;" in text
    assert "put together in Python" in text


def test_too_few_samples_for_intervals_or_a_map_leave_those_out(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(30, 1, 12)).astype(np.float32)
    source = Source("few", x, x[:, 0, :1], (Axis(),), ("i",), (), (vt.data.Target("a"),))
    model = vt.ViTConfig(input=(1, 12), patch=(4,), dim=8, depth=1, heads=1, bias="relative")
    train(Experiment(source, model, TrainConfig(steps=2, batch=8)), tmp_path / "run", bar=False)
    found, text = report(tmp_path / "run", tmp_path / "report.html")
    check(found, text)
    assert "The test samples as the model sees them" not in found.headings
    assert "Predicted against true" in found.headings
    assert any("Relative bias" in (image["alt"] or "") for image in found.images)


def test_mistakes_are_counted_and_named(digits_run: Path) -> None:
    run = read_run(digits_run)
    assert run.answers is not None
    section = answer_sections.confusion(run)
    assert section is not None
    predicted = run.answers.out.argmax(1)
    wrong = int((predicted != run.answers.y).sum())
    assert section.text == f"{wrong} of 360 test samples are wrong."
    (table,) = section.tables
    true, said, times = table.rows[0]
    assert int(times) == ((run.answers.y == int(true)) & (predicted == int(said))).sum()


def test_a_page_escapes_what_it_is_given() -> None:
    table = Table(("<h>",), [("<c>",)], "<t>")
    text = page("<1>", "`a<b`", [("<n>", "<v>")], [Section("<s>", "x < `y`\n\nz", (), [table], "<pre>")])
    found = Page(text)
    check(found, text)
    assert "<code>a&lt;b</code>" in text
    assert "<p>x &lt; <code>y</code></p><p>z</p>" in text


def fails(capsys: pytest.CaptureFixture[str], *args: str) -> str:
    capsys.readouterr()
    with pytest.raises(SystemExit) as end:
        main(args)
    assert end.value.code == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    return err


def test_mistakes_are_one_line(
    capsys: pytest.CaptureFixture[str], digits_run: Path, spectra_run: Path, spectra: Path, tmp_path: Path
) -> None:
    def says(*args: str, run: Path = spectra_run) -> str:
        return fails(capsys, "report", str(run), "--out", str(tmp_path / "report.html"), *args)

    assert "is no run folder" in says(run=tmp_path)
    assert "against: is a column of data" in says("--against", "temperature")
    assert "target: is a column of data" in says("--target", "assay")
    named: Sequence[str] = ("--data", str(spectra), "--target", "assay", "water")
    assert "no target 'pressure'" in says(*named, "--against", "pressure")
    assert "found labels" in says("--data", "digits")
    assert "no such file" in says("--data", "nowhere.csv", run=digits_run)
    assert "cannot be written" in fails(capsys, "report", str(digits_run), "--out", str(tmp_path / "no" / "r.html"))
    damaged = tmp_path / "damaged"
    shutil.copytree(digits_run, damaged)
    (damaged / "experiment.json").write_text("{")
    assert "experiment.json: is damaged" in says(run=damaged)
    assert not (tmp_path / "report.html").exists()


def test_the_report_lies_in_the_run_if_no_place_is_named(
    digits_run: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("vitreous.insight.report.SECTIONS", [])
    main(["report", str(digits_run)])
    assert str(digits_run / "report.html") in capsys.readouterr().out
    (digits_run / "report.html").unlink()


def test_a_report_of_other_data_is_about_them(
    digits_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("vitreous.insight.report.SECTIONS", [])
    run = read_run(digits_run)
    write_report(replace(run, about="other digits"), tmp_path / "report.html")
    assert "looked at on other digits." in (tmp_path / "report.html").read_text()
