"""`vitreous powder`, and training and prediction of powder patterns: what they write, and mistakes in one line."""

import csv
import inspect
import math
from dataclasses import fields
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.recipes import few_samples
from tests.users import fails, python
from vitreous.cli import COMMANDS, GROUPS, main
from vitreous.data import data_folder
from vitreous.powder import recipes as powder
from vitreous.powder.files import read_pattern, write_pattern
from vitreous.powder.pattern import Pattern
from vitreous.powder.radiation import ANODES
from vitreous.powder.sim.effects import EFFECT_LIMITS, Effects
from vitreous.powder.sim.measurement import march_dollase
from vitreous.powder.sim.simulate import (
    choose_effects,
    crystal_from_cell,
    crystal_from_cif,
    draw_effects,
    random_crystal,
    reflection_ticks,
    simulate_pattern,
)
from vitreous.powder.sim.source import powder_source
from vitreous.powder.sim.space_groups import SYSTEMS
from vitreous.powder.sim.structure import simulator_lines, structure_lines
from vitreous.powder.sim.structure_files import read_cif
from vitreous.recipes.jobs import create_job

Capture = pytest.CaptureFixture[str]

RUTILE = """data_rutile
_chemical_formula_sum 'O2 Ti'
_cell_length_a 4.5937
_cell_length_b 4.5937
_cell_length_c 2.9587
_cell_angle_alpha 90
_cell_angle_beta 90
_cell_angle_gamma 90
_symmetry_space_group_name_H-M 'P 42/m n m'
loop_
_atom_site_label
_atom_site_fract_x
_atom_site_fract_y
_atom_site_fract_z
Ti1 0 0 0
O1 0.3053 0.3053 0
"""
MEASURED = data_folder() / "powder"


@pytest.fixture
def rutile(tmp_path: Path) -> str:
    path = tmp_path / "rutile.cif"
    path.write_text(RUTILE)
    return str(path)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A monoclinic run of one step, on few patterns."""
    folder = tmp_path_factory.mktemp("runs") / "monoclinic"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(powder, "powder_source", partial(powder_source, train=20, validation=20, test=20))
        main(["train", "powder-vit", "--system", "monoclinic", "--steps", "1", "--batch", "8", "--out", str(folder)])
    return str(folder)


def angle(d: float, wavelength: float) -> float:
    return math.degrees(2 * math.asin(wavelength / 2 / d))


def highest(pattern: Pattern, centre: float) -> float:
    """2θ of the highest point near an angle."""
    near = np.abs(pattern.two_theta - centre) < 0.5
    return float(pattern.two_theta[near][pattern.intensity[near].argmax()])


@pytest.mark.parametrize("command", [["powder", *rest] for rest in ([], *([name] for name in GROUPS["powder"]))])
def test_help_loads_neither_torch_nor_numpy(command: list[str]) -> None:
    code = f"import sys; from vitreous.cli import main\ntry: main({[*command, '--help']!r})\nexcept SystemExit: pass\n"
    out = python(code + "print([name for name in ('torch', 'numpy') if name in sys.modules])")
    assert out.splitlines()[-1] == "[]"
    assert f"usage: vitreous {' '.join(command)}" in out


def test_the_group_alone_shows_its_help(capsys: Capture) -> None:
    with pytest.raises(SystemExit) as end:
        main(["powder"])
    assert not end.value.code
    out = capsys.readouterr().out
    assert "simulate" in out
    assert "vitreous powder plot" in out


def test_every_effect_is_an_option_whose_help_states_its_limits() -> None:
    """The help is written by hand, so that it needs no torch."""
    flags = inspect.signature(GROUPS["powder"]["simulate"]).parameters
    effects = flags["effects"].default
    options = {*flags, *(field.name for field in fields(effects))}
    told = " ".join((effects.__doc__ or "").split())
    for name, ends in EFFECT_LIMITS.items():
        if name == "start":  # here the first angle of --two-theta
            continue
        assert name in options
        text = told.partition(f" {name}: ")[2]
        numbers = [f"{x:g}" for x in (*ends, *getattr(Effects(), name))]
        text = text.replace("0 (no noise)", "0").replace("1e9", "1e+09").replace("3e3 to 1e5", "3000 to 100000")
        assert f"{numbers[0]} to {numbers[1]}" in text
        assert f"usually {numbers[2]} to {numbers[3]}" in text
    assert {field.name for field in fields(Effects)} - set(options) == {"start", "wavelength2"}


def test_a_cif_becomes_a_file_and_a_figure(rutile: str, tmp_path: Path, capsys: Capture) -> None:
    out, figure = tmp_path / "rutile.xy", tmp_path / "rutile.png"
    main(["powder", "simulate", rutile, "--out", str(out), "--figure", str(figure)])
    told = capsys.readouterr().out
    assert "4.5937 4.5937 2.9587 Å" in told
    assert "impurity" in told
    found = read_pattern(out)
    assert (found.wavelength, found.wavelength2) == ANODES["Cu"]
    assert 0 < found.ratio < 0.5
    assert np.array_equal(found.intensity, found.intensity.round())
    assert found.two_theta[0] == 5
    assert len(found.two_theta) == 4250
    assert figure.stat().st_size > 10_000


def test_lines_stand_where_the_instrument_puts_them(rutile: str, tmp_path: Path) -> None:
    out, d = tmp_path / "rutile.csv", 4.5937 / math.sqrt(2)
    for options, wavelength, shift in (
        ([], ANODES["Cu"][0], 0.0),
        (["--anode", "Mo"], ANODES["Mo"][0], 0.0),
        (["--wavelength", "0.7295684"], 0.7295684, 0.0),
        (["--zero", "0.4"], ANODES["Cu"][0], 0.4),
        (["--zero", "-0.4"], ANODES["Cu"][0], -0.4),
    ):
        main(["powder", "simulate", rutile, "--clean", "--points", "8500", *options, "--out", str(out)])
        expected = angle(d, wavelength) + shift
        assert highest(read_pattern(out), expected) == pytest.approx(expected, abs=0.01)


def test_a_clean_pattern_has_the_areas_of_the_structure(rutile: str, tmp_path: Path) -> None:
    effects = choose_effects({}, (10.0, 60.0), clean=True)
    crystal = crystal_from_cif(Path(rutile), effects.s_max)
    pattern = simulate_pattern(crystal, effects)
    at, hkl, strength = reflection_ticks(crystal, effects)
    alone = [i for i in range(len(at)) if np.sort(np.abs(at - at[i]))[1] > 2]
    areas = np.array([pattern.intensity[np.abs(pattern.two_theta - at[i]) < 0.9].sum() for i in alone])
    assert len(alone) >= 6
    assert (1, 1, 0) in hkl
    assert areas / areas.max() == pytest.approx(strength[alone] / strength[alone].max(), abs=0.01)


def test_equivalent_reflections_share_a_line_and_texture_tells_them_apart(rutile: str) -> None:
    structure = read_cif(rutile)
    found, spread = structure_lines(structure, 0.9), simulator_lines(structure, 0.9)
    assert spread.intensity.dtype == torch.float32
    assert (spread.owner == 0).all()
    place = (spread.s[:, None] - found.s.float()).abs().argmin(1)
    summed = torch.zeros(len(found.s)).index_add(0, place, spread.intensity)
    torch.testing.assert_close(summed, found.intensity.float(), rtol=1e-5, atol=1e-3)
    hkl = found.hkl.tolist()
    tilt = spread.tilt[place == hkl.index([1, 0, 1])]
    cos2 = (1 / 4.5937**2) / (1 / 4.5937**2 + 1 / 2.9587**2)
    assert sorted(tilt[:, 0].unique().tolist()) == pytest.approx([0, cos2], abs=1e-6)  # 011 beside 101
    assert tilt[:, 2].tolist() == pytest.approx([1 - cos2] * len(tilt), rel=1e-5)
    r = torch.tensor(0.5)
    factors = march_dollase(tilt.clamp(0, 1), r).mean(0)
    toward, across, along = march_dollase(torch.tensor([cos2, 0.0, 1 - cos2]), r).tolist()
    assert factors.tolist() == pytest.approx([(toward + across) / 2, (toward + across) / 2, along], rel=1e-5)


def test_a_cell_has_the_absences_of_its_space_group() -> None:
    cell = (5.4, 5.4, 5.4, 90.0, 90.0, 90.0)
    effects = choose_effects({}, (5.0, 90.0), clean=True)
    _, hkl, _ = reflection_ticks(crystal_from_cell(cell, 225, effects.s_max), effects)
    assert all(len({index % 2 for index in row}) == 1 for row in hkl)
    _, primitive, _ = reflection_ticks(crystal_from_cell(cell, 221, effects.s_max), effects)
    assert (1, 0, 0) in primitive


@pytest.mark.parametrize("system", SYSTEMS)
def test_random_crystals_of_every_system_are_measured(system: str, tmp_path: Path, capsys: Capture) -> None:
    out = tmp_path / "random.xye"
    main(["powder", "simulate", "--random", system, "--two-theta", "5", "60", "--seed", "1", "--out", str(out)])
    assert f"random {system}, space group" in capsys.readouterr().out
    found = read_pattern(out)
    assert found.sigma is not None
    assert found.intensity.max() > 1000


def test_a_seed_decides_everything_and_leaves_no_trace(tmp_path: Path) -> None:
    texts = []
    for seed in ("1", "1", "2"):
        before = torch.get_rng_state()
        out = tmp_path / "pattern.xy"
        main(["powder", "simulate", "--random", "cubic", "--two-theta", "10", "40", "--seed", seed, "--out", str(out)])
        assert torch.equal(torch.get_rng_state(), before)
        texts.append(out.read_text())
    assert texts[0] == texts[1] != texts[2]


def test_effects_are_drawn_within_their_ranges() -> None:
    wanted = choose_effects({"zero": (-0.1, 0.1), "width": (0.07,), "counts": (100, 1000)})
    found = [draw_effects(wanted) for _ in range(20)]
    assert all(-0.1 <= each.zero[0] == each.zero[1] <= 0.1 for each in found)
    assert len({each.zero for each in found}) == 20
    assert {each.width for each in found} == {(0.07, 0.07)}
    assert all(99 < each.counts[0] < 1001 for each in found)
    assert draw_effects(choose_effects({}, clean=True)) == choose_effects({}, clean=True)


def test_an_impurity_brings_lines_of_its_own() -> None:
    effects = choose_effects({"impurity": (0.3,)}, clean=True)
    crystal = random_crystal("cubic", effects.s_max)
    pattern = simulate_pattern(crystal, effects)
    own = simulate_pattern(crystal, choose_effects({}, clean=True))
    added = pattern.intensity - own.intensity * (pattern.intensity @ own.intensity) / (own.intensity @ own.intensity)
    assert 0.01 < np.abs(added).max() < 0.8


def test_measured_patterns_are_drawn_above_each_other(tmp_path: Path, capsys: Capture) -> None:
    files = sorted(map(str, MEASURED.glob("*.xy.gz")))
    if not files:
        pytest.skip(f"{MEASURED} is absent; set VITREOUS_DATA")
    assert len(files) == 7
    for axis in ("two-theta", "q"):
        out = tmp_path / f"{axis}.png"
        main(["powder", "plot", *files, "--wavelength", "0.7295684", "--axis", axis, "--out", str(out)])
        assert "7 pattern(s)" in capsys.readouterr().out
        assert out.stat().st_size > 20_000


def test_one_file_is_drawn(rutile: str, tmp_path: Path) -> None:
    main(["powder", "simulate", rutile, "--out", str(tmp_path / "a.xy")])
    main(["powder", "plot", str(tmp_path / "a.xy"), "--out", str(tmp_path / "a.svg")])
    assert (tmp_path / "a.svg").stat().st_size > 10_000


def test_a_run_gives_a_cell_for_each_file_whatever_its_wavelength(run: str, tmp_path: Path, capsys: Capture) -> None:
    cell = ["--cell", "5.1", "6.2", "7.3", "90", "104", "90", "--clean", "--width", "0.1"]
    files = [str(tmp_path / "copper.xy"), str(tmp_path / "silver.csv")]
    main(["powder", "simulate", *cell, "--out", files[0]])
    main(["powder", "simulate", *cell, "--anode", "Ag", "--two-theta", "2", "32", "--out", files[1]])
    capsys.readouterr()
    main(["predict", run, *files, "--interval", "0.5"])
    rows = list(csv.DictReader(capsys.readouterr().out.splitlines()))
    assert [row["sample"] for row in rows] == files
    for label in ("a (Å)", "b (Å)", "c (Å)", "beta (°)"):
        assert {label, f"{label} lower 50%", f"{label} upper 50%"} < set(rows[0])
        assert float(rows[0][label]) == pytest.approx(float(rows[1][label]), rel=0.02)
    assert len(rows[0]) == 14  # with the familiarity


def test_the_wavelength_given_goes_before_the_one_of_the_file(run: str, tmp_path: Path, capsys: Capture) -> None:
    file = str(tmp_path / "pattern.xy")
    main(["powder", "simulate", "--random", "monoclinic", "--out", file])
    answers = []
    for options in ([], ["--anode", "Cu"], ["--anode", "Mo"]):
        capsys.readouterr()
        main(["predict", run, file, *options])
        answers.append(capsys.readouterr().out)
    assert answers[0] == answers[1] != answers[2]


def test_recipes_take_the_system_and_keep_their_own_model(monkeypatch: pytest.MonkeyPatch) -> None:
    few_samples(monkeypatch)
    job = create_job("powder-cnn", system="hexagonal", changes={"batch": 16})
    assert job.config.kind == "cnn"
    assert [target.name for target in job.source.targets] == ["a", "c"]
    assert job.settings.batch == 16
    assert create_job("powder-best").config.kind == "vit"
    assert create_job("digits").config.kind == "vit"


def test_mistakes_in_training_are_one_line(capsys: Capture, tmp_path: Path) -> None:
    out = ["--out", str(tmp_path / "run")]
    assert "system: the recipe 'digits' has none" in fails(capsys, "train", "digits", "--system", "cubic", *out)
    message = fails(capsys, "train", "powder-best", "--system", "cubical", *out)
    assert "system: unknown choice 'cubical'; expected one of: triclinic, monoclinic" in message
    assert "model: unknown choice 'cnn'" in fails(capsys, "train", "powder-best", "--model", "cnn", *out)
    data = tmp_path / "data.csv"
    data.write_text("1,2,y\n1,2,3\n")
    assert "your own data have none" in fails(capsys, "train", str(data), "--system", "cubic", *out)
    assert not (tmp_path / "run").exists()


WRONG_CIFS = {
    "no cell": ("_cell_", "_other_", "found no unit cell (_cell_length_a)"),
    "an unknown element": ("O1 0.3053", "Q1 0.3053", "unknown element in the label 'Q1'"),
    "impossible angles": ("gamma 90", "gamma 0", "found angles 90 90 0°"),
    "an impossible length": ("_c 2.9587", "_c 295.87", "found lengths 4.5937 4.5937 295.87, expected 1 to 200 Å"),
    "no number": ("_c 2.9587", "_c abc", "expected finite numbers"),
}


@pytest.mark.parametrize("what", WRONG_CIFS)
def test_a_wrong_cif_is_one_line(what: str, capsys: Capture, tmp_path: Path) -> None:
    old, new, message = WRONG_CIFS[what]
    path, out = tmp_path / "wrong.cif", tmp_path / "out.xy"
    assert old in RUTILE
    path.write_text(RUTILE.replace(old, new))
    found = fails(capsys, "powder", "simulate", str(path), "--out", str(out))
    assert found.startswith(f"vitreous: error: {path}: ")
    assert message in found
    assert not out.exists()


WRONG_OPTIONS: dict[str, tuple[str, str]] = {
    "an effect out of its range": ("--zero 3", "zero: found 3 to 3, expected a range within -0.5 to 0.5"),
    "a range that falls": ("--width 0.2 0.1", "width: found 0.2 to 0.1"),
    "three values": ("--zero 0 0.1 0.2", "zero: found 3 numbers, expected one, or the two ends of a range"),
    "no number": ("--zero nan", "zero: found nan, expected a number"),
    "a word": ("--zero wide", "--zero"),
    "an unknown effect": ("--wobble 3", "Unrecognized options: --wobble"),
    "an unknown file type": ("--out pattern.foo", "pattern.foo: file type: unknown choice '.foo'; expected one of"),
    "an unknown figure type": ("--figure pattern.tex", "pattern.tex: file type: unknown choice '.tex'; expected one"),
    "a folder that is not there": ("--out nowhere/pattern.xy", "nowhere/pattern.xy: cannot be written (No such file"),
    "a figure into nowhere": ("--figure nowhere/p.png", "nowhere/p.png: cannot be written (No such file"),
    "errors of a pattern without noise": ("--clean --out p.xye", "has no standard errors for an .xye file"),
    "an unknown anode": ("--anode Xx", "anode: unknown choice 'Xx'; expected one of: Cr, Fe"),
    "a wavelength out of range": ("--wavelength 20", "wavelength: found 20, expected 0.1 to 10 ångström"),
    "anode and wavelength": ("--anode Cu --wavelength 1", "found both wavelength 1 and anode Cu"),
    "a doublet of one line": ("--wavelength 1 --alpha2 0.5", "alpha2: a single wavelength has no Kα2"),
    "angles that fall": ("--two-theta 50 20", "two_theta: found 50 to 20, expected an ascending range"),
    "angles without a line": ("--two-theta 5 10", "has no line from 5 to 10° at 1.54059 Å"),
    "too few points": ("--points 10", "points: found 10, expected at least 50"),
    "too many points": ("--points 10000000", "points: found 10000000, expected 200000 at most"),
    "a space group for a CIF": ("--spacegroup 3", "spacegroup: is for --cell"),
    "two crystals": ("--random cubic", "found a CIF and --random, expected one of"),
}


@pytest.mark.parametrize("what", WRONG_OPTIONS)
def test_a_wrong_option_is_one_line(
    what: str, rutile: str, capsys: Capture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    text, message = WRONG_OPTIONS[what]
    options = text.split()
    if not {"--out", "--figure"} & set(options):
        options += ["--out", "pattern.xy"]
    assert message in fails(capsys, "powder", "simulate", rutile, *options)
    assert [path.name for path in tmp_path.iterdir()] == ["rutile.cif"]


WRONG_CELLS: dict[str, tuple[str, str]] = {
    "no crystal": ("", "found no crystal, expected one of a CIF, --cell and --random"),
    "three numbers": ("--cell 5 6 7", "cell: found 3 number(s), expected a b c (Å) alpha beta gamma (°)"),
    "impossible angles": ("--cell 5 6 7 20 90 120", "cell: found angles 20 90 120°"),
    "another symmetry": ("--cell 5 6 7 90 90 90 --spacegroup 225", "does not have the symmetry of space group 225"),
    "no space group": ("--cell 5 5 5 90 90 90 --spacegroup 300", "found number 300, expected 1 to 230"),
    "an unknown system": ("--random cubical", "system: unknown choice 'cubical'"),
    "too large": ("--cell 190 190 190 90 90 90", "cell: too many reflections"),
}


@pytest.mark.parametrize("what", WRONG_CELLS)
def test_a_wrong_crystal_is_one_line(what: str, capsys: Capture, tmp_path: Path) -> None:
    options, message = WRONG_CELLS[what]
    out = str(tmp_path / "out.xy")
    assert message in fails(capsys, "powder", "simulate", *options.split(), "--out", out, "--anode", "Mo")


def test_nothing_to_write_is_one_line(rutile: str, capsys: Capture) -> None:
    assert "found neither --out nor --figure" in fails(capsys, "powder", "simulate", rutile)
    assert "no such file" in fails(capsys, "powder", "simulate", "none.cif", "--out", "a.xy")
    assert "simulate, plot" in fails(capsys, "powder", "simlate")


X = np.linspace(10, 60, 400)
Y = np.random.default_rng(0).poisson(20 + 500 * np.exp(-((X - 30) ** 2))).astype(float)
WRONG_PATTERNS: dict[str, tuple[str, str]] = {
    "no wavelength": ("", "does not state its wavelength; give --wavelength (in ångström) or --anode Cu"),
    "swapped columns": ("swapped", "are 2θ and intensity swapped?"),
    "nan": ("nan", "intensity: found nan in point 8, expected a finite number"),
    "ten points": ("ten", "found 10 point(s), expected 50 or more"),
    "empty": ("empty", "empty file"),
}


@pytest.mark.parametrize("what", WRONG_PATTERNS)
def test_a_wrong_pattern_is_one_line(what: str, run: str, capsys: Capture, tmp_path: Path) -> None:
    kind, message = WRONG_PATTERNS[what]
    columns = np.column_stack([X, Y])
    columns[7, 1] = np.nan if kind == "nan" else columns[7, 1]
    columns = {"swapped": columns[:, ::-1], "ten": columns[:10], "empty": columns[:0]}.get(kind, columns)
    path, out = tmp_path / "pattern.xy", tmp_path / "out.png"
    np.savetxt(path, columns)
    capsys.readouterr()
    assert message in fails(capsys, "predict", run, str(path))
    if kind:
        assert message in fails(capsys, "powder", "plot", str(path), "--out", str(out))
    else:
        assert message in fails(capsys, "powder", "plot", str(path), "--axis", "q", "--out", str(out))
    assert not out.exists()


def test_predictions_read_axis_columns_and_scans_as_flags_say(run: str, capsys: Capture, tmp_path: Path) -> None:
    main(["powder", "simulate", "--random", "monoclinic", "--seed", "1", "--out", str(tmp_path / "a.csv")])
    pattern = read_pattern(tmp_path / "a.csv")
    wavelength = pattern.wavelength
    d = wavelength / 2 / np.sin(np.radians(pattern.two_theta / 2))
    table = "\n".join(f"0 {y!r} {x!r}" for x, y in zip(d.tolist(), pattern.intensity.tolist(), strict=True))
    (tmp_path / "a.dat").write_text(f"{table}\n\n{table}\n")
    capsys.readouterr()
    answers = []
    flags = ["--axis", "d", "--columns", "3", "2", "--scan", "2"]
    for words in ([str(tmp_path / "a.csv")], [str(tmp_path / "a.dat"), *flags]):
        main(["predict", run, *words, "--wavelength", repr(wavelength)])
        answers.append([float(value) for value in capsys.readouterr().out.splitlines()[1].split(",")[1:]])
    assert answers[1] == pytest.approx(answers[0], rel=1e-3)
    assert "found 2 scans" in fails(capsys, "predict", run, str(tmp_path / "a.dat"), *flags[:-2], "--wavelength", "1.5")


def test_mistakes_in_prediction_and_plots_are_one_line(run: str, capsys: Capture, tmp_path: Path) -> None:
    path = tmp_path / "pattern.xy"
    write_pattern(path, Pattern(X, Y, None, None, "pattern"))
    capsys.readouterr()
    assert "no such file" in fails(capsys, "predict", run, str(tmp_path / "none.xy"))
    assert "expected one of them" in fails(capsys, "predict", run, str(path), "--anode", "Cu", "--wavelength", "1.5")
    assert "is that in nm?" in fails(capsys, "predict", run, str(path), "--wavelength", "0.05")
    assert "anode: unknown choice 'Xx'" in fails(capsys, "predict", run, str(path), "--anode", "Xx")
    write_pattern(path, Pattern(100 + X, Y, None, 0.2, "pattern"))
    assert "no intensity from q = 0 to 5.76" in fails(capsys, "predict", run, str(path))
    assert "unknown choice '.tex'" in fails(capsys, "powder", "plot", str(path), "--out", str(tmp_path / "a.tex"))
    assert "cannot be written" in fails(capsys, "powder", "plot", str(path), "--out", str(tmp_path / "no" / "a.png"))
    assert "Missing" in fails(capsys, "powder", "plot", str(path))


def test_radiation_is_refused_by_a_run_of_other_data(capsys: Capture, tmp_path: Path) -> None:
    data, other = tmp_path / "spectra.csv", str(tmp_path / "other")
    table = np.random.default_rng(0).normal(size=(40, 21))
    np.savetxt(data, table, delimiter=",", header=",".join(map(str, range(20))) + ",y", comments="")
    main(["train", str(data), "--target", "y", "--steps", "1", "--out", other, "--device", "cpu"])
    capsys.readouterr()
    message = fails(capsys, "predict", other, str(data), "--anode", "Cu")
    assert "anode: only for powder patterns; the model was trained on" in message
    assert "wavelength: only for" in fails(capsys, "predict", other, str(data), "--wavelength", "1.54")


def test_every_group_is_a_command() -> None:
    assert set(GROUPS) <= set(COMMANDS)
