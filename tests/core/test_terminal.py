"""The progress bar appears on a terminal only."""

import pytest

from vitreous.core.terminal import track


def test_a_terminal_shows_a_bar(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert list(track([3, 1, 2], "explaining")) == [3, 1, 2]
    out, err = capsys.readouterr()
    assert out == ""
    assert "explaining" in err


def test_a_file_shows_no_bar(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    assert list(track([3, 1, 2], "explaining")) == [3, 1, 2]
    assert capsys.readouterr() == ("", "")
