"""The bar: on a terminal, and nowhere else."""

import pytest

from vitreous.track import track


def test_a_terminal_is_shown_what_is_done(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert list(track([3, 1, 2], "explaining")) == [3, 1, 2]
    out, err = capsys.readouterr()
    assert out == ""
    assert "explaining" in err


def test_a_file_is_not(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    assert list(track([3, 1, 2], "explaining")) == [3, 1, 2]
    assert capsys.readouterr() == ("", "")
