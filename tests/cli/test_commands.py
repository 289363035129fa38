"""The command line: help that teaches without torch, mistakes in one line with exit code 2."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

import vitreous as vt
from tests.spectra import spectra_file
from tests.users import fails, python
from vitreous.cli import COMMANDS, main
from vitreous.train import Recipe


@pytest.mark.parametrize("command", [[], *([name] for name in COMMANDS)])
def test_help_loads_neither_torch_nor_numpy(command: list[str]) -> None:
    out = python(
        f"""
import sys
from vitreous.cli import main
try:
    main({[*command, "--help"]!r})
except SystemExit as end:
    assert not end.code
print([name for name in ("torch", "numpy") if name in sys.modules])
"""
    )
    assert out.splitlines()[-1] == "[]"
    assert "usage: vitreous" in out


def test_importing_the_package_loads_torch_only_when_needed() -> None:
    code = "import sys, vitreous as vt; print('torch' in sys.modules); vt.ViT; print('torch' in sys.modules)"
    assert python(code).split() == ["False", "True"]


def test_every_public_name_exists() -> None:
    assert all(getattr(vt, name) is not None for name in vt.__all__)
    assert dir(vt) == sorted(vt.__all__)
    with pytest.raises(AttributeError, match="no attribute 'Vit'"):
        vt.Vit  # noqa: B018


def test_no_command_shows_the_help(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main([])
    assert not end.value.code
    assert "Vision Transformers for scientific data" in capsys.readouterr().out


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    main(["--version"])
    assert capsys.readouterr().out == f"vitreous {vt.__version__}\n"


def test_models_prints_parameters_and_flops(capsys: pytest.CaptureFixture[str]) -> None:
    main(["models"])
    out = capsys.readouterr().out
    assert all(name in out for name in vt.list_models())
    assert "86,567,656" in out
    assert "32.70" in out  # ViT-B/16: 2 × 17.56 G multiply-adds, but for what of the last block nothing reads


def test_models_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    main(["models", "vit_spectrum*", "--json"])
    found = json.loads(capsys.readouterr().out)
    assert found["vit_spectrum_4500"]["input"] == [1, 4500]
    assert found["vit_spectrum_4500"]["parameters"] == 234_246


def test_summary_of_a_name_and_of_a_folder(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    main(["summary", "vit_spectrum_4500"])
    assert "head, 64 → 64 → 6" in capsys.readouterr().out
    vt.save_model(vt.create_model("vit_micro_patch2_8", depth=1, bias="relative", pool="flatten"), tmp_path)
    main(["summary", str(tmp_path)])
    out = capsys.readouterr().out
    assert "bias, relative" in out
    assert "head, 1024 → 10" in out


def test_mistakes_are_one_line(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert "Unrecognized options: modls" in fails(capsys, "modls")
    assert "--jsn" in fails(capsys, "models", "--jsn")
    assert "no name matches 'zzz*'" in fails(capsys, "models", "zzz*")
    assert "MODEL" in fails(capsys, "summary")
    assert "did you mean vit_base_patch16_224" in fails(capsys, "summary", "vit_base_patch16_22")
    assert "config.json: cannot be read" in fails(capsys, "summary", str(tmp_path))


def test_demo_trains_both_models_and_draws_how_it_went(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    create = Recipe.create

    def create_short(self: Recipe, *args: Any, **options: Any) -> Any:
        job = create(self, *args, **options)
        return replace(job, settings=replace(job.settings, steps=4, evaluate_every=2))

    monkeypatch.setattr(Recipe, "create", create_short)
    main(["demo", "--out", str(tmp_path / "demo")])
    out = capsys.readouterr().out
    assert "vit_huge_patch14_224" in out
    assert "(B, 451, 64)" in out
    assert "a spectrum of 4500 points" in out
    assert "Scores on the test part" in out
    assert (tmp_path / "demo" / "digits.png").stat().st_size > 10_000
    assert "mixture.xy: phases" in out
    assert str(tmp_path / "demo" / "report.html") in out.replace("\n", "")
    assert "vitreous train digits --model vit" in (tmp_path / "demo" / "report.html").read_text()


def test_many_scores_are_told_a_line_each(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from vitreous.cli.output import print_results

    monkeypatch.chdir(tmp_path)
    for count in (2, 12):
        run = Path(f"run-{count}")
        run.mkdir()
        scores = {f"mae/quantity {number}": number / 7 for number in range(count)}
        told = {"steps": 10, "seconds": 3.0, "parameters": 1_234_567, "test": scores}
        (run / "result.json").write_text(json.dumps(told))
        print_results([run])
        out = capsys.readouterr().out
        assert "1,234,567" in out
        lines = [line for line in out.splitlines() if "mae/quantity" in line]
        assert len(lines) == (1 if count == 2 else count)


def test_train_eval_predict_and_compare(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    data, run = str(spectra_file(tmp_path / "spectra.csv")), str(tmp_path / "run")
    main(["train", data, "--out", run, "--target", "height:mm", "--steps", "20", "--batch", "16", "--device", "cpu"])
    assert "Scores on the test part" in capsys.readouterr().out
    main(["eval", run, data, "--target", "height:mm"])
    assert "rmse" in capsys.readouterr().out
    main(["predict", run, data])
    header, *rows = capsys.readouterr().out.splitlines()
    assert header == "sample,height (mm),familiarity"
    assert len(rows) == 60
    main(["predict", run, data, "--format", "json", "--out", str(tmp_path / "answer.json"), "--interval", "0.5"])
    found = json.loads((tmp_path / "answer.json").read_text())
    interval = {"height (mm) lower 50%", "height (mm) upper 50%"}
    assert set(found[0]) == {"sample", "height (mm)", "familiarity"} | interval
    main(["compare", run, run])
    assert "rmse" in capsys.readouterr().out


def test_a_run_that_tells_nothing_has_a_row_of_its_own(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "result.json").write_text("{}")
    main(["compare", str(tmp_path)])
    assert "parameters" in capsys.readouterr().out


def test_mistakes_in_training_are_one_line(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    data, out = str(spectra_file(tmp_path / "spectra.csv")), str(tmp_path / "run")
    assert "neither a file or folder nor a recipe (digits, mnist" in fails(capsys, "train", "nothing", "--out", out)
    assert "width" in fails(capsys, "train", data, "--out", out, "--target", "width")
    assert "has its own" in fails(capsys, "train", "digits", "--out", out, "--target", "a")
    assert "no labels to train on" in fails(capsys, "train", data, "--out", out)
    assert "is no run folder" in fails(capsys, "predict", str(tmp_path), data)
    assert "is no finished run" in fails(capsys, "compare", str(tmp_path))
    assert "found no runs" in fails(capsys, "compare")
    assert "is no run folder" in fails(capsys, "eval", out, data)
    if not torch.cuda.is_available():
        assert "no CUDA device" in fails(capsys, "train", "digits", "--out", out, "--device", "cuda")
    assert not (tmp_path / "run").exists()
