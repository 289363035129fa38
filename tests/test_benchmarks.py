"""The scripts that print the tables of the docs can be started, as they say."""

import re
import shlex
from functools import wraps
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import tyro

import benchmarks

SCRIPTS = sorted(path.stem for path in Path(benchmarks.__path__[0]).glob("*.py"))


def said(module: ModuleType) -> list[list[str]]:
    """The words after the name in each command that a script gives as an example."""
    name = module.__name__.rpartition(".")[2]
    lines = re.findall(rf"python -m benchmarks\.{name}\b([^#\n`]*)", module.__doc__ or "")
    return [shlex.split(line) for line in lines]


def test_there_are_scripts() -> None:
    assert "gallery" in SCRIPTS


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_says_how_it_is_used(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    module = import_module(f"benchmarks.{name}")
    assert "tyro.cli(main)" in Path(module.__file__ or "").read_text()
    with pytest.raises(SystemExit) as left:
        tyro.cli(module.main, args=["--help"])
    assert left.value.code == 0
    assert "usage" in capsys.readouterr().out


@pytest.mark.parametrize("name", SCRIPTS)
def test_the_commands_that_a_script_gives_are_understood(name: str) -> None:
    module = import_module(f"benchmarks.{name}")

    @wraps(module.main)
    def nothing(*args: Any, **named: Any) -> None:
        """In place of the work."""

    commands = said(module)
    assert commands
    for words in commands:
        tyro.cli(nothing, args=words)
