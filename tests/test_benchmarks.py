"""The scripts that print the tables of the docs can be started."""

import sys
from importlib import import_module
from pathlib import Path

import pytest
import tyro

import benchmarks

SCRIPTS = sorted(path.stem for path in Path(benchmarks.__path__[0]).glob("*.py"))


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_benchmark_says_how_it_is_used(
    name: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    module = import_module(f"benchmarks.{name}")
    monkeypatch.setattr(sys, "argv", [name, "--help"])
    with pytest.raises(SystemExit) as left:
        tyro.cli(module.main)
    assert left.value.code == 0
    assert f"python -m benchmarks.{name}" in module.__doc__
    assert "usage" in capsys.readouterr().out
