"""The command line as its users meet it: their mistakes, and a process of its own."""

import os
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


def python(code: str, **environment: str) -> str:
    """What a new process prints, with these settings of its environment besides."""
    done = subprocess.run([sys.executable, "-c", code], env=os.environ | environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout
