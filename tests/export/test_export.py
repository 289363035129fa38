"""The command export: what it prints, what it leaves when it fails, and mistakes in one line."""

import errno
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import vitreous as vt
from tests.users import fails
from vitreous.cli import main
from vitreous.core.errors import InputError
from vitreous.export import export_program
from vitreous.run.predictor import load_file
from vitreous.train import load


def test_parity_is_printed_at_two_batch_sizes(
    regression: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["export", str(regression / "run"), "--out", str(tmp_path / "model.onnx")])
    first, last = capsys.readouterr().out.splitlines()
    assert "at batch 1 and" in first
    assert float(first.split(":")[1].split()[0]) < 1e-4
    assert last.endswith("model.onnx")
    assert [path.name for path in tmp_path.iterdir()] == ["model.onnx"]


def test_one_file_of_weights_answers_exactly_as_the_run(
    regression: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "model.safetensors"
    main(["export", str(regression / "run"), "--format", "torch", "--out", str(path)])
    assert "0.0e+00 at batch 1 and 0.0e+00 at batch 7" in capsys.readouterr().out
    x = np.random.default_rng(0).normal(size=(3, 24))
    wanted, found = load(regression / "run")(x, 0.5), vt.load(path)(x, 0.5)
    np.testing.assert_array_equal(found.values, wanted.values)
    np.testing.assert_array_equal(found.upper, wanted.upper)
    main(["predict", str(path), str(regression / "spectra.csv"), "--format", "json"])
    one = capsys.readouterr().out
    main(["predict", str(regression / "run"), str(regression / "spectra.csv"), "--format", "json"])
    assert one == capsys.readouterr().out


def test_a_damaged_file_of_weights_is_told_in_one_line(regression: Path, tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    main(["export", str(regression / "run"), "--format", "torch", "--out", str(path)])
    whole = path.read_bytes()
    for content in (b"", whole[:100], whole[:-100]):
        path.write_bytes(content)
        with pytest.raises(InputError, match=r"model\.safetensors: the file is damaged"):
            load_file(path)
    path.write_bytes(whole.replace(b'\\"dim\\"', b'\\"dam\\"'))
    with pytest.raises(InputError, match=r"model\.safetensors: .*dam"):
        load_file(path)
    with pytest.raises(InputError, match="holds only weights"):
        load_file(regression / "run" / "model.safetensors")


def test_a_program_for_torch_can_be_had_in_python(regression: Path, tmp_path: Path) -> None:
    run = load(regression / "run")
    torch.export.save(export_program(run), tmp_path / "model.pt2")
    x = torch.randn(4, 1, 24)
    _, values, _ = torch.export.load(tmp_path / "model.pt2").module()(x)
    np.testing.assert_allclose(values.detach(), run(x.numpy()).values, rtol=1e-6)


def test_mistakes_are_one_line(regression: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run, out = str(regression / "run"), str(tmp_path / "model.onnx")
    assert "is no run folder" in fails(capsys, "export", str(tmp_path), "--out", out)
    assert "is no run folder" in fails(capsys, "export", str(tmp_path / "none"), "--out", out)
    assert "pickle" in fails(capsys, "export", run, "--out", out, "--format", "pickle")
    assert "expected a file that ends in .onnx" in fails(capsys, "export", run, "--out", str(tmp_path / "model"))
    assert "expected a file that ends in .safetensors" in fails(
        capsys, "export", run, "--out", out, "--format", "torch"
    )
    assert "there is no folder" in fails(capsys, "export", run, "--out", str(tmp_path / "none" / "model.onnx"))
    (tmp_path / "folder.onnx").mkdir()
    assert "it is a folder" in fails(capsys, "export", run, "--out", str(tmp_path / "folder.onnx"))


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EACCES])
def test_a_disk_that_does_not_take_it_leaves_what_was_there(
    code: int, regression: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "model.safetensors"
    out.write_bytes(b"the last good one")

    def full(*_: Any) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, "replace", full)
    told = fails(capsys, "export", str(regression / "run"), "--format", "torch", "--out", str(out))
    assert os.strerror(code) in told
    assert out.read_bytes() == b"the last good one"
    assert [path.name for path in tmp_path.iterdir()] == ["model.safetensors"]


def test_a_full_temporary_folder_is_told_in_one_line(
    regression: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Path, "write_bytes", full)
    told = fails(
        capsys, "export", str(regression / "run"), "--format", "torch", "--out", str(tmp_path / "model.safetensors")
    )
    assert "cannot be written (No space left on device)" in told


@pytest.mark.parametrize("flags", [(), ("--int8",)])
@pytest.mark.parametrize("package", ["onnx", "onnxruntime", "onnxscript"])
def test_without_the_extra_one_line_says_how_to_get_it_or_what_to_do_instead(
    package: str, flags: tuple[str, ...], regression: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setitem(sys.modules, package, None)
    told = fails(capsys, "export", str(regression / "run"), "--out", str(tmp_path / "model.onnx"), *flags)
    assert f"needs {package}, which is not installed: pip install 'vitreous[export]'; or export with --format" in told
    assert not list(tmp_path.iterdir())


def test_predicting_without_onnxruntime_says_how_to_get_it(
    regression: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "model.onnx").write_bytes(b"any")
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    told = fails(capsys, "predict", str(tmp_path / "model.onnx"), str(regression / "spectra.csv"))
    assert "model.onnx: this needs onnxruntime, which is not installed: pip install 'vitreous[export]'" in told
