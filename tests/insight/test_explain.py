"""`vitreous explain`: a figure for every run, and mistakes in one line."""

import re
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.insight.predictors import KINDS, VITS, predictor, sample
from tests.spectra import spectra_file
from tests.users import fails
from vitreous.cli import main
from vitreous.core.errors import InputError
from vitreous.insight.attribution import ExplainedSample
from vitreous.insight.explanation import explain, explain_heads


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_run_is_explained(kind: str) -> None:
    told = explain(predictor(kind), sample(kind), name="sample")
    told.figure.draw_without_rendering()
    panels = [axes.get_title("left") for figure in told.figure.subfigs for axes in figure.axes]
    assert [title for title in panels if title.startswith("attention")] == [] or kind in VITS
    assert any(title.startswith("integrated gradients") for title in panels)
    assert panels[-2:] == ["deletion", "insertion"]
    what = "is a CNN" if kind.startswith("cnn") else "has blocks without mixing"
    lacking = f"the run {what}: it has no attention, so there are attributions only"
    assert (lacking in told.text) == (kind not in VITS)
    if kind in VITS:
        explain_heads(predictor(kind), sample(kind), name="sample").figure.draw_without_rendering()


def test_a_spectrum_is_drawn_along_its_axis_and_the_target_can_be_chosen() -> None:
    told = explain(predictor("spectrum"), sample("spectrum"), "water")
    assert re.match(r"water = \S+ %$", told.text[0])
    above, _ = told.figure.subfigs
    assert above.axes[-1].get_xlabel() == "wavelength (nm)"
    assert above.axes[-1].get_xlim() == (0.0, 92.0)


def test_a_class_that_was_not_predicted_is_told_beside_the_one_that_was() -> None:
    found, x = predictor("picture"), sample("picture")
    (best,) = found(x[None]).labels
    (other, *_) = (name for name in found.task.classes if name != best)
    assert ExplainedSample(found, x).answer.startswith(f"{best}, probability ")
    assert "predicted" not in ExplainedSample(found, x).answer
    assert re.fullmatch(rf"{other}, probability \S+ \(predicted: {best}\)", ExplainedSample(found, x, other).answer)


def test_the_model_is_asked_once_for_its_answer() -> None:
    question, asked = ExplainedSample(predictor("picture"), sample("picture")), list[object]()
    question.model.register_forward_hook(lambda *given: asked.append(given))
    assert question.answer
    assert not asked


def test_without_captum_a_transformer_is_explained_by_the_other_maps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "captum.attr", None)
    told = explain(predictor("spectrum"), sample("spectrum"))
    assert told.text[2].endswith("which is not installed: pip install 'vitreous[insight]'")
    above, _ = told.figure.subfigs
    assert len(above.axes) == 3
    with pytest.raises(InputError, match="this needs captum"):
        explain(predictor("cnn spectrum"), sample("cnn spectrum"))


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    data = str(spectra_file(folder / "spectra.csv"))
    for model in ("vit", "cnn"):
        out = str(folder / model)
        main(["train", data, "--out", out, "--target", "height:mm", "--steps", "4", "--batch", "16", "--model", model])
    return folder


def test_the_command_draws_and_says_what_it_found(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = runs / "why.svg"
    main(["explain", str(runs / "vit"), str(runs / "spectra.csv"), "--row", "3", "--out", str(out)])
    said = capsys.readouterr().out.splitlines()
    assert said[0].startswith("height = ")
    assert said[0].endswith(" mm")
    assert "insertion − deletion" in said[1] or "nothing to explain" in said[1]
    assert said[2] == f"The figure is in {out}"
    assert "<svg" in out.read_text()
    main(["explain", str(runs / "cnn"), str(runs / "spectra.csv"), "--out", str(runs / "cnn.png")])
    assert "it has no attention" in capsys.readouterr().out
    main(["explain", str(runs / "vit"), str(runs / "spectra.csv"), "--heads", "--out", str(runs / "heads.pdf")])
    main(["explain", str(runs / "vit"), str(runs / "spectra.csv"), "--layer", "0", "-1", "--out", str(out)])


def test_mistakes_are_one_line(runs: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    vit, cnn, data, out = str(runs / "vit"), str(runs / "cnn"), str(runs / "spectra.csv"), str(tmp_path / "why.png")
    short = tmp_path / "short.csv"
    np.savetxt(short, np.ones((2, 5)), delimiter=",", header="500,502,504,506,508", comments="")
    for words, args in {
        "layer 9 does not exist; the model has layers 0 to": (vit, data, "--layer", "9"),
        "is a CNN, which has no attention": (cnn, data, "--heads"),
        "row: found 60, but": (vit, data, "--row", "60"),
        "target: found 'width', expected one of height": (vit, data, "--target", "width"),
        "found samples of shape (1, 5), expected (1, 20)": (vit, str(short)),
        "found samples of shape (1, 8, 8)": (vit, "digits"),
        "short.cvs: no such file or folder": (vit, str(tmp_path / "short.cvs")),
        "anode: only for powder patterns": (vit, data, "--anode", "Cu"),
        "is no run folder": (str(tmp_path), data),
    }.items():
        capsys.readouterr()
        assert words in fails(capsys, "explain", *args, "--out", out)
    assert "file type: unknown choice '.gif'" in fails(capsys, "explain", vit, data, "--out", str(tmp_path / "why.gif"))
    assert "cannot be written" in fails(capsys, "explain", vit, data, "--out", str(tmp_path / "no" / "why.png"))
    assert not Path(out).exists()
