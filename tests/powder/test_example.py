"""The patterns that come with the package are indexed right, from the file to the page about it."""

import json
from pathlib import Path

import numpy as np
import pytest

from vitreous.cli import main
from vitreous.powder.example import EXAMPLES, example

CELLS = {
    "triclinic": ("triclinic P", (5.5818, 7.1262, 8.9047, 97.513, 102.227, 108.961), 2e-4),
    "thiosulfate": ("monoclinic P", (5.950125, 21.599986, 7.534863, 90, 103.78499, 90), 1e-3),
}


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_is_indexed_and_refined(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    main(["powder", "example", name])
    assert name in capsys.readouterr().out
    main(["index", f"{name}.xy", "--json", "--figure", "fit.png", "--report", "page.html"])
    (record,) = json.loads(capsys.readouterr().out)
    lattice, cell, near = CELLS[name]
    best = record["solutions"][0]
    assert f"{best['system']} {best['centring']}" == lattice
    assert best["probability"] > 0.9
    np.testing.assert_allclose(record["refined"]["cell"], cell, rtol=near)
    assert "hints" not in record
    text = Path("page.html").read_text()
    assert lattice in text
    assert f"vitreous index {name}.xy --report page.html" in text
    assert "http://" not in text.replace("http://www.w3.org", "")
    assert Path("fit.png").stat().st_size > 10_000


def test_an_example_states_its_wavelength() -> None:
    assert example("thiosulfate").wavelength == pytest.approx(0.7291367)
    assert example("triclinic").wavelength2 is not None


def test_a_report_of_several_patterns_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("a.xy", "b.xy"):
        (tmp_path / name).write_text("1 2\n")
    with pytest.raises(SystemExit) as end:
        main(["index", str(tmp_path), "--report", str(tmp_path / "page.html")])
    assert end.value.code == 2
    assert "report: found 2 patterns, expected one" in capsys.readouterr().err
