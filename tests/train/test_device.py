"""Words of the command line for where and in which precision to run."""

import os
from pathlib import Path

import pytest
import torch

from vitreous.cli import main
from vitreous.train.device import cache_compiled_code, pick_precision


def test_auto_is_float32_on_a_cpu() -> None:
    assert pick_precision("auto", "cpu") == "float32"


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_a_precision_that_is_named_is_taken(precision: str) -> None:
    assert pick_precision(precision, "cpu") == precision


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_eight_bits_without_a_gpu_are_refused_with_the_fallback(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["train", "digits", "--out", str(tmp_path / "run"), "--precision", "float8", "--device", "cpu"])
    assert ended.value.code == 2
    said = capsys.readouterr().err
    assert "float8 needs a GPU" in said
    assert "use float32 instead" in said
    assert not (tmp_path / "run").exists()


def test_the_compiler_keeps_its_work_in_the_users_cache_unless_told_where(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("TORCHINDUCTOR_CACHE_DIR", raising=False)
    cache_compiled_code()
    assert os.environ["TORCHINDUCTOR_CACHE_DIR"] == str(tmp_path / "vitreous" / "compiled")
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", "elsewhere")
    cache_compiled_code()
    assert os.environ["TORCHINDUCTOR_CACHE_DIR"] == "elsewhere"
