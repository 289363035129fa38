"""The command line and new Python processes, as users run them."""

import os
import subprocess
import sys

import pytest

from vitreous.cli import main


def fails(capsys: pytest.CaptureFixture[str], *args: str) -> str:
    """Run a command that must fail with exit code 2; return its error message of one line."""
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
    """Run code in a new process with additional environment variables; return its output."""
    done = subprocess.run([sys.executable, "-c", code], env=os.environ | environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout
