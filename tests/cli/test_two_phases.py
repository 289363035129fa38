"""`vitreous index` shows, writes and counts the phases of a pattern."""

import csv
import json
from pathlib import Path

import pytest

from tests.powder import mixtures
from vitreous.cli import main
from vitreous.powder.files import write_pattern


@pytest.fixture
def mixture(tmp_path: Path) -> list[str]:
    """The words of a command that indexes a pattern of two phases."""
    path = tmp_path / "mixture.xy"
    write_pattern(path, mixtures.two_phases())
    return ["index", str(path), "--wavelength", str(mixtures.WAVELENGTH), "--system", *mixtures.SYSTEMS]


def test_both_phases_are_in_json_and_every_line_names_its_phase(
    mixture: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    main([*mixture, "--lines", str(tmp_path / "lines.csv"), "--figure", str(tmp_path / "fit.png"), "--json"])
    record = json.loads(capsys.readouterr().out)[0]
    assert [phase["solution"]["system"] for phase in record["phases"]] == ["tetragonal", "cubic"]
    assert record["phases"][1]["refined"]["cell"][0] == pytest.approx(mixtures.MINOR[0], rel=1e-3)
    assert record["unexplained"] == []
    lines = list(csv.DictReader((tmp_path / "lines.csv").read_text().splitlines()))
    assert {line["phase"] for line in lines} == {"1", "2"}
    assert [line["phase"] for line in record["lines"]] == [int(line["phase"]) for line in lines]
    assert (tmp_path / "fit.png").stat().st_size > 5000


def test_one_phase_names_the_lines_that_it_leaves(mixture: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    main([*mixture, "--phases", "1"])
    out = capsys.readouterr().out
    assert "of the intensity, are unexplained: " in out
    assert "two phases" not in out


def test_another_number_of_phases_is_an_error_of_one_line(
    mixture: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    with pytest.raises(SystemExit) as end:
        main([*mixture, "--phases", "3"])
    assert end.value.code == 2
    assert capsys.readouterr().err.count("\n") == 1
