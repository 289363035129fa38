"""The command line as its users meet it: their mistakes, and a process of its own."""

import subprocess
import sys

import pytest

from vitreous.cli import main


def fails(capsys: pytest.CaptureFixture[str], *args: str) -> str:
    """The one line that a command ends with."""
    capsys.readouterr()
    with pytest.raises(SystemExit) as end:
        main(args)
    assert end.value.code == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("vitreous: error: ")
    assert err.count("\n") == 1
    return err


def python(code: str) -> str:
    """What a new process prints."""
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
