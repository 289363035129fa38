"""What phases leave of a pattern, and the simulated mixtures that show it."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.powder.identify.crystals import write_cifs
from tests.powder.identify.samples import sample, small_database
from vitreous.core.errors import InputError
from vitreous.powder import (
    Database,
    Pattern,
    find_peaks,
    identify_pattern,
    remaining_pattern,
    simulate_mixture,
    with_unknown,
)
from vitreous.powder.identify.answer import Identification
from vitreous.powder.sim.simulate import choose_effects, crystal_from_cif, simulate_pattern

pytest.importorskip("gemmi")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("remainder")


@pytest.fixture(scope="module")
def incomplete(folder: Path) -> Identification:
    """A sample of halite and rutile, identified with a database that lacks rutile."""
    database = Database.open(small_database(folder))
    return identify_pattern(sample(folder, {"halite": 50, "rutile": 50}), database)


def peaks_of(pattern: Pattern) -> np.ndarray:
    found = find_peaks(pattern.two_theta, pattern.intensity, pattern.sigma, pattern.wavelength, pattern.wavelength2)
    return np.asarray(found.two_theta)


def test_the_remaining_lines_are_those_of_the_phase_that_the_database_lacks(
    folder: Path, incomplete: Identification
) -> None:
    left = peaks_of(remaining_pattern(incomplete))
    rutile = peaks_of(sample(folder, {"rutile": 1}))
    halite = np.array([27.37, 31.70, 45.45, 56.47, 66.23])
    apart = np.abs(halite[:, None] - rutile).min(axis=1) > 0.5
    assert np.abs(left[:, None] - rutile).min(axis=1).max() < 0.1
    assert len(left) >= 8
    assert not any(np.abs(left - angle).min() < 0.15 for angle in halite[apart])


def test_standard_errors_are_larger_where_phases_have_lines(incomplete: Identification) -> None:
    left = remaining_pattern(incomplete)
    assert left.sigma is not None
    on_line = np.abs(left.two_theta - 45.47) < 0.05
    beside = np.abs(left.two_theta - 50.0) < 0.5
    assert left.sigma[on_line].mean() > 10 * left.sigma[beside].mean()


def test_the_remainder_does_not_depend_on_the_unit_of_intensity(folder: Path, incomplete: Identification) -> None:
    pattern = sample(folder, {"halite": 50, "rutile": 50})
    assert pattern.sigma is not None
    scaled = replace(pattern, intensity=pattern.intensity / 1e7, sigma=pattern.sigma / 1e7)
    database = Database.open(folder / "my.db")
    ours, theirs = (peaks_of(remaining_pattern(each)) for each in (identify_pattern(scaled, database), incomplete))
    assert len(ours) == pytest.approx(len(theirs), abs=1)


def test_a_phase_found_is_not_called_unknown(incomplete: Identification) -> None:
    """With other intensities than its entry, its own lines remain."""
    (halite,) = [phase for phase in incomplete.phases if phase.name == "halite"]
    rutile = replace(halite, name="with the cell of rutile", cell=(4.5937, 4.5937, 2.9587, 90.0, 90.0, 90.0))
    told = with_unknown(replace(incomplete, phases=(rutile,))).unknown
    assert "the remaining lines fit the cell of with the cell of rutile" in told
    assert "an unknown phase is tetragonal P" in with_unknown(incomplete).unknown


def test_nothing_is_said_where_no_line_is_left(incomplete: Identification) -> None:
    complete = replace(incomplete, unexplained=())
    assert with_unknown(complete) is complete


def test_a_mixture_of_one_crystal_is_that_crystal(folder: Path) -> None:
    path = write_cifs(folder / "own", ("halite",)) / "halite.cif"
    effects = choose_effects({"width": (0.1,)}, (20.0, 60.0), clean=True)
    mixture = simulate_mixture({path: 3.0}, effects)
    alone = simulate_pattern(crystal_from_cif(path, effects.s_max), effects)
    correlation = np.corrcoef(mixture.intensity, alone.intensity)[0, 1]
    assert correlation > 0.99  # dispersion and vibration change intensities a little


def test_the_same_seed_gives_the_same_counts(folder: Path) -> None:
    first, same, other = (sample(folder, {"halite": 1}, seed).intensity for seed in (1, 1, 2))
    assert np.array_equal(first, same)
    assert not np.array_equal(first, other)


@pytest.mark.parametrize("fractions", [{}, {"a.cif": 0.0}, {"a.cif": -1.0, "b.cif": 2.0}, {"a.cif": float("nan")}])
def test_masses_that_are_none_are_refused(fractions: dict[Path | str, float]) -> None:
    with pytest.raises(InputError, match="fractions: found"):
        simulate_mixture(fractions)
