"""The report: one valid file that needs nothing else, says all it knows, and says what it does not know."""

import json
import re
import shlex
import shutil
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
import torch

import vitreous as vt
from tests.users import fails
from vitreous.cli import main
from vitreous.core.errors import InputError
from vitreous.data import Axis, Source
from vitreous.data.tables import read_csv
from vitreous.insight.evaluation import error_figure
from vitreous.insight.explanation import deletion_test
from vitreous.insight.html_page import Section, Table, render_page
from vitreous.insight.report import SECTIONS, Run, explanations, predictions, read_run, write_report
from vitreous.nn import CNNConfig
from vitreous.powder import recipes as powder
from vitreous.powder.sim.source import powder_source
from vitreous.recipes.jobs import create_job
from vitreous.train import SupervisedJob, TrainConfig, train

ALWAYS = ["The data", "Training curves", "Worst predictions", "Explanations of single predictions",
          "Faithfulness of the maps", "Familiarity of the test samples", "Features of the test samples", "All scores",
          "Configuration", "How to reproduce it"]  # fmt: skip
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
    assert set(found.headings) >= {*ALWAYS, "Confusion matrix", "Calibration of probabilities"}
    assert set(found.headings) >= {"Attention distance and entropy", "Position embeddings and biases"}
    assert len(found.images) >= 11
    assert "Missing information" not in found.headings


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
    assert set(found.headings) >= {*ALWAYS, "Predicted against true", "Coverage of intervals"}
    told = [image["alt"] or "" for image in found.images]
    assert sum("predicted against true" in words for words in told) == 2
    assert any(words.startswith("assay (mg)") for words in told)
    assert "wavelength" not in text  # the file does not say what its axis is
    assert "from 1100 to 1158" in text


def test_errors_against_any_column_of_the_data(
    spectra_run: Path, spectra: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("vitreous.insight.report.SECTIONS", [predictions.errors_by_column])
    options = ["--data", str(spectra), "--target", "assay:mg", "water", "--against", "temperature", "operator"]
    found, text = report(spectra_run, tmp_path / "report.html", *options)
    check(found, text)
    assert sum(" against " in (image["alt"] or "") and "error" in (image["alt"] or "") for image in found.images) == 4
    assert "on the test part of spectra.csv" in text


def test_named_data_give_the_answers_that_the_run_keeps(
    spectra_run: Path, spectra_report: Path, spectra: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("vitreous.insight.report.SECTIONS", [predictions.parity])
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
    assert said.keys() == result.keys()
    assert {name: float(value) for name, value in said.items()} == pytest.approx(result, rel=1e-4)


def test_a_bare_run_gets_a_report_that_says_what_is_missing(digits_run: Path, tmp_path: Path) -> None:
    bare = tmp_path / "bare"
    bare.mkdir()
    for name in ("config.json", "model.safetensors", "task.json"):
        shutil.copy(digits_run / name, bare)
    (bare / "result.json").write_text("{}")
    found, text = report(bare, tmp_path / "report.html")
    check(found, text)
    assert found.headings == [
        "The data", "Position embeddings and biases", "Configuration", "Missing information", "How to reproduce it",
    ]  # fmt: skip
    for word in ("experiment.json", "metrics.jsonl", "--data"):
        assert word in text


def needs_captum(run: object) -> Section:
    raise InputError("this needs captum, which is not installed")


def test_a_section_that_cannot_be_made_does_not_cost_the_report(digits_run: Path, tmp_path: Path) -> None:
    text = write_report(digits_run, tmp_path / "report.html", sections=[SECTIONS[0], needs_captum]).read_text()
    found = Page(text)
    assert found.headings == ["The data", "Missing information", "How to reproduce it"]
    assert "this needs captum, which is not installed." in text


def test_a_cnn_is_explained_without_attention(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(90, 3, 8, 8)).astype(np.float32), np.arange(90) % 2
    source = Source("<b>noise</b>", x, y, (Axis("y"), Axis("x")), ("r", "g", "b"), ("<script>alert(1)</script>", "b&w"))
    train(SupervisedJob(source, CNNConfig((3, 8, 8), widths=(4,)), TrainConfig(steps=2)), tmp_path / "run", bar=False)
    found, text = report(tmp_path / "run", tmp_path / "report.html")
    check(found, text)  # whatever the classes are called
    assert "it has no attention" in text
    assert "Attention distance and entropy" not in found.headings
    assert "&lt;b&gt;noise&lt;/b&gt;" in text
    assert "started from Python" in text


def test_too_few_samples_for_intervals_or_a_map_leave_those_out(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(30, 1, 12)).astype(np.float32)
    source = Source("few", x, x[:, 0, :1], (Axis(),), ("i",), (), (vt.data.Target("a"),))
    model = vt.ViTConfig(input=(1, 12), patch=(4,), dim=8, depth=1, heads=1, bias="relative")
    train(SupervisedJob(source, model, TrainConfig(steps=2, batch=8)), tmp_path / "run", bar=False)
    found, text = report(tmp_path / "run", tmp_path / "report.html")
    check(found, text)
    assert "Features of the test samples" not in found.headings
    assert "Predicted against true" in found.headings
    assert any("Relative bias" in (image["alt"] or "") for image in found.images)


def test_mistakes_are_counted_and_named(digits_run: Path) -> None:
    run = read_run(digits_run)
    assert run.answers is not None
    section = predictions.confusion(run)
    assert section is not None
    predicted = run.answers.out.argmax(1)
    wrong = int((predicted != run.answers.y).sum())
    assert section.text == f"{wrong} of 360 test samples are wrong."
    (table,) = section.tables
    true, said, times = table.rows[0]
    assert int(times) == ((run.answers.y == int(true)) & (predicted == int(said))).sum()


def test_a_page_escapes_what_it_is_given() -> None:
    table = Table(("<h>",), [("<c>",)], "<t>")
    text = render_page("<1>", "`a<b`", [("<n>", "<v>")], [Section("<s>", "x < `y`\n\nz", (), [table], "<pre>")])
    found = Page(text)
    check(found, text)
    assert "<code>a&lt;b</code>" in text
    assert "<p>x &lt; <code>y</code></p><p>z</p>" in text


def test_mistakes_are_one_line(
    capsys: pytest.CaptureFixture[str], digits_run: Path, spectra_run: Path, spectra: Path, tmp_path: Path
) -> None:
    def says(*args: str, run: Path = spectra_run) -> str:
        return fails(capsys, "report", str(run), "--out", str(tmp_path / "report.html"), *args)

    assert "is no run folder" in says(run=tmp_path)
    assert "against: needs data" in says("--against", "temperature")
    assert "target: needs data, named with --data" in says("--target", "assay")
    assert "part: needs data, named with --data" in says("--part", "validation")
    assert "has its own" in says("--data", "digits", "--target", "foo", run=digits_run)
    assert "against: is a column of a file of spectra" in says("--data", "digits", "--against", "a", run=digits_run)
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


def test_the_report_lies_in_the_run_if_no_place_is_named(digits_run: Path) -> None:
    assert write_report(digits_run, sections=[]) == digits_run / "report.html"
    (digits_run / "report.html").unlink()


def test_a_report_of_other_data_is_about_them(digits_run: Path, tmp_path: Path) -> None:
    run = read_run(digits_run)
    write_report(replace(run, data="other digits", part="all"), tmp_path / "report.html", sections=[])
    assert "evaluates it on other digits." in (tmp_path / "report.html").read_text()


@pytest.mark.parametrize(
    ("part", "noun", "about"),
    [("all", "160 samples", "spectra.csv"), ("train", "128 training samples", "the training part of spectra.csv")],
)
def test_named_data_are_called_what_they_are(
    spectra_run: Path, spectra: Path, tmp_path: Path, part: str, noun: str, about: str,
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    told = [section for section in SECTIONS if section.__module__ != explanations.__name__]
    monkeypatch.setattr("vitreous.insight.report.SECTIONS", told)
    named = [str(spectra), "--target", "assay:mg", "water", "--part", part]
    text = report(spectra_run, tmp_path / "report.html", "--data", *named)[1]
    assert "test sample" not in text
    assert f"<caption>{noun}</caption>" in text
    assert f"Measured coverage on {about} against nominal" in text
    capsys.readouterr()
    main(["eval", str(spectra_run), *named])
    scores = dict(line.split() for line in capsys.readouterr().out.splitlines())
    assert f"<dt>R², {about}</dt><dd>{float(scores['r2']):.4g}</dd>" in text
    assert f'<th scope="col">{about}</th>' in text


def test_a_report_says_how_to_make_itself_again(
    spectra_run: Path, spectra: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("vitreous.insight.report.SECTIONS", [])
    options = ["--data", str(spectra), "--target", "assay:mg", "water", "--part", "all", "--against", "temperature"]
    text = report(spectra_run, tmp_path / "report.html", *options)[1]
    assert f"vitreous report {spectra_run.name} {shlex.join(options)} --out report.html" in text


def test_a_column_with_gaps_is_drawn_for_the_samples_that_have_it(
    spectra_run: Path, spectra: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("vitreous.insight.report.SECTIONS", [predictions.errors_by_column])
    drawn = dict[str, np.ndarray]()
    monkeypatch.setattr(
        "vitreous.insight.evaluation.error_figure",
        lambda error, column, label, ylabel: (
            drawn.update({label: column}) or error_figure(error, column, label, ylabel)
        ),
    )
    head, *lines = spectra.read_text().splitlines()
    rows = [line.split(",") for line in lines]
    for i in range(0, 160, 32):
        rows[i][-2], rows[i + 1][-1] = "", ""
    gaps = tmp_path / "gaps.csv"
    gaps.write_text("\n".join([f"{head},nothing", *(",".join([*row, ""]) for row in rows)]) + "\n")
    options = ["--data", str(gaps), "--target", "assay:mg", "water", "--part", "all", "--against"]
    found, text = report(spectra_run, tmp_path / "r.html", *options, "temperature:K", "operator", "nothing")
    check(found, text)
    assert {label: len(column) for label, column in drawn.items()} == {"temperature (K)": 155, "operator": 155}
    assert set(drawn["operator"]) == {"Ada", "Bob"}
    assert "operator is missing for 5 of 160. nothing is missing for 160 of 160." in text


def test_all_columns_are_read_at_once(
    spectra_run: Path, spectra: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("vitreous.insight.report.SECTIONS", [])
    times = list[Path]()
    monkeypatch.setattr("vitreous.data.spectra.read_csv", lambda path: times.append(path) or read_csv(path))
    options = ["--data", str(spectra), "--target", "assay", "water", "--against", "temperature", "operator", "assay"]
    report(spectra_run, tmp_path / "report.html", *options)
    assert len(times) == 2  # the spectra, and what else is known of them


def test_a_powder_run_is_offered_patterns_of_its_own_system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vitreous.insight.report.SECTIONS", [])
    monkeypatch.setattr(powder, "powder_source", partial(powder_source, train=8, validation=8, test=8))
    run = tmp_path / "run"
    options = ["--system", "cubic", "--steps", "1", "--batch", "2", "--device", "cpu"]
    main(["train", "powder-vit", "--out", str(run), *options])
    for recipe in ("powder-vit", "powder-cnn"):
        text = report(run, tmp_path / "report.html", "--data", recipe)[1]
        assert "the test part of simulated cubic powders" in text


def test_a_part_that_the_run_does_not_have_is_one_line(
    spectra: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    job = create_job(str(spectra), ["assay"], changes={"steps": 1})
    train(replace(job, test=0.0), tmp_path / "run", bar=False)
    said = fails(capsys, "eval", str(tmp_path / "run"), str(spectra), "--target", "assay")
    assert "has no test part" in said
    out = ["--out", str(tmp_path / "report.html")]
    assert said == fails(capsys, "report", str(tmp_path / "run"), "--data", str(spectra), "--target", "assay", *out)


@pytest.mark.parametrize(("name", "what"), [("test.npz", "delete it"), ("metrics.jsonl", "it has no accuracy")])
def test_files_of_another_run_are_one_line(
    digits_run: Path, spectra_run: Path, tmp_path: Path, name: str, what: str, capsys: pytest.CaptureFixture[str]
) -> None:
    mixed = tmp_path / "mixed"
    shutil.copytree(digits_run, mixed)
    (mixed / "checksums.json").unlink()  # which would find it first
    shutil.copy(spectra_run / name, mixed)
    said = fails(capsys, "report", str(mixed))
    assert f"{name}: belongs to another run" in said
    assert what in said


@pytest.mark.parametrize("count", [4, 12])
def test_a_handful_of_spectra_makes_a_run_and_a_report(spectra: Path, tmp_path: Path, count: int) -> None:
    few = tmp_path / "few.csv"
    few.write_text("\n".join(spectra.read_text().splitlines()[: count + 1]) + "\n")
    main(["train", str(few), "--target", "assay", "--steps", "2", "--out", str(tmp_path / "run"), "--device", "cpu"])
    found, text = report(tmp_path / "run", tmp_path / "report.html")
    check(found, text)
    assert "Missing information" not in found.headings
    assert "<td>1</td>" in text  # sample to test on


def test_what_is_missing_is_said_once(digits_run: Path, tmp_path: Path) -> None:
    path = write_report(digits_run, tmp_path / "report.html", sections=[needs_captum, needs_captum])
    assert path.read_text().count("this needs captum") == 1


def test_a_typical_answer_is_neither_good_nor_bad(digits_run: Path) -> None:
    run = read_run(digits_run)
    assert run.answers is not None
    task = run.predictor.task
    errors = task.misfit(torch.from_numpy(run.answers.out), task.encode(run.answers.y)).numpy()
    typical = errors[run.answers.shown[run.typical]]
    assert 0.4 < (errors < typical[0]).mean() < 0.6
    assert 0.2 < (errors < typical[1]).mean() < 0.8


def test_the_worst_answers_are_not_all_called_mistakes(digits_run: Path) -> None:
    run = read_run(digits_run)
    assert run.answers is not None
    out = np.eye(10)[run.answers.y] * 9.0  # all right,
    order = run.answers.shown
    out[order[:2]] = np.roll(out[order[:2]], 1, axis=1)  # but for two
    section = predictions.worst(replace(run, answers=replace(run.answers, out=out)))
    assert section is not None
    assert "mistake" not in section.title + section.text
    assert "2 of these 8 are wrong" in section.text


@pytest.fixture
def two_explained(spectra_run: Path) -> Run:
    """A run of which one sample of either kind is explained, the worst by its second quantity."""
    run = read_run(spectra_run)
    assert run.answers is not None
    out = run.answers.out.copy()
    out[run.answers.shown[0], 1] += 9
    return replace(run, answers=replace(run.answers, out=out), explained=1)


def test_the_worst_answer_is_explained_by_what_makes_it_so(two_explained: Run) -> None:
    assert two_explained.explanations[0].sample.target == 1
    section = explanations.single_predictions(two_explained)
    assert section is not None
    assert [caption.partition(" =")[0] for caption, _ in section.figures[1:2]] == ["The worst prediction: water"]


def test_a_map_that_could_not_be_made_is_named(two_explained: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vitreous.insight.report.run.compute_maps", lambda question: {"rollout": np.ones(30)})
    section = explanations.single_predictions(two_explained)
    assert section is not None
    assert "missing for: attention, attention × gradient, integrated gradients." in section.text


def test_an_answer_is_explained_once_for_all_sections(two_explained: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    times = list[float]()
    monkeypatch.setattr(
        "vitreous.insight.report.run.deletion_test",
        lambda question, maps, seed: times.append(question.x.sum().item()) or deletion_test(question, maps, seed),
    )
    explanations.single_predictions(two_explained)
    section = explanations.faithfulness(two_explained)
    assert section is not None
    assert "Over 2 samples" in section.text
    assert len(times) == len(set(times)) == 2


def test_the_heads_are_measured_on_usual_samples(digits_run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = read_run(digits_run)
    assert run.answers is not None
    measured = list[np.ndarray]()
    monkeypatch.setattr(explanations, "head_measures", lambda predictor, samples: measured.append(samples) or [])
    monkeypatch.setattr(explanations, "heads_figure", lambda measures: None)
    section = explanations.heads(run)
    assert section is not None
    assert "Means over 8 of the test samples" in section.text
    np.testing.assert_array_equal(measured[0], run.answers.samples[8:])


def test_photographs_and_many_heads_do_not_make_it_large(tmp_path: Path) -> None:
    # Nothing is larger than noise.
    x = np.random.default_rng(0).integers(0, 256, size=(40, 3, 224, 224), dtype=np.uint8)
    source = Source("noise", x, np.arange(40) % 2, (Axis("y"), Axis("x")), ("r", "g", "b"), ("a", "b"))
    model = vt.ViTConfig(input=(3, 224, 224), patch=(56,), dim=12, depth=12, heads=12)
    train(SupervisedJob(source, model, TrainConfig(steps=1, batch=4), test=0.5), tmp_path / "run", bar=False)
    text = write_report(replace(read_run(tmp_path / "run"), explained=1)).read_text()
    found = Page(text)
    check(found, text)
    assert any("4 of 12 layers" in (image["alt"] or "") for image in found.images)
