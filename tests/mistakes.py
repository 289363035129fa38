"""A user's mistake on the command line."""

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
