"""Mixtures of known composition come out with their phases, amounts and cells."""

import dataclasses

import numpy as np
import pytest

from tests.powder.identify.crystals import cif
from tests.powder.identify.samples import sample, small_database
from vitreous.core.errors import InputError
from vitreous.powder import build_database
from vitreous.powder.identify.database import Database
from vitreous.powder.identify.identification import IdentifyOptions, identify_pattern
from vitreous.powder.pattern import Pattern

MIXTURE = {"quartz": 0.5, "halite": 0.3, "fluorite": 0.2}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("identify")


@pytest.fixture(scope="module")
def database(folder):
    return Database.open(small_database(folder))


@pytest.fixture(scope="module")
def pattern(folder):
    return sample(folder, MIXTURE)


@pytest.fixture(scope="module")
def answer(pattern, database):
    return identify_pattern(pattern, database)


def test_phases_and_mass_fractions_of_a_mixture(answer):
    found = {phase.name.lower(): phase.fraction for phase in answer.phases}
    assert found.keys() == MIXTURE.keys()
    for name, fraction in MIXTURE.items():
        assert found[name] == pytest.approx(fraction, abs=0.02)
    assert sum(found.values()) == pytest.approx(1)


def test_true_fractions_lie_within_three_standard_errors(answer):
    for phase in answer.phases:
        assert abs(phase.fraction - MIXTURE[phase.name.lower()]) < 3 * phase.fraction_error


def test_a_complete_answer_has_no_unknown_phase(answer):
    assert answer.unexplained == ()
    assert answer.unknown_probability < 0.1
    assert all(phase.probability > 0.9 for phase in answer.phases)


def test_curves_add_up_to_the_fit(answer):
    curves = answer.curves
    assert curves.parts.shape == (len(answer.phases), len(curves.two_theta))
    residual = curves.observed - curves.calculated
    assert np.abs(residual).mean() < 0.05 * (curves.observed - curves.background).mean() + 5


def test_a_phase_that_the_database_lacks_is_announced(folder, database):
    answer = identify_pattern(sample(folder, {"rutile": 0.5, "fluorite": 0.5}), database)
    assert answer.unknown_probability > 0.9
    assert "Fluorite" in {phase.name.capitalize() for phase in answer.phases}


def test_elements_that_may_not_be_there_leave_phases_out(pattern, database):
    answer = identify_pattern(pattern, database, IdentifyOptions(excluded=("F",)))
    assert "fluorite" not in {phase.name.lower() for phase in answer.phases}
    only = identify_pattern(pattern, database, IdentifyOptions(elements=("Si",)))
    assert {phase.name.lower() for phase in only.phases} == {"quartz"}


def test_the_number_of_phases_is_limited(pattern, database):
    assert len(identify_pattern(pattern, database, IdentifyOptions(most=1)).phases) == 1


def test_an_internal_standard_tells_the_amorphous_share(pattern, database, answer):
    halite = next(phase for phase in answer.phases if phase.name.lower() == "halite")
    weighed = halite.fraction / 2
    result = identify_pattern(pattern, database, IdentifyOptions(standard=("halite", weighed)))
    assert result.amorphous == pytest.approx(0.5 / (1 - weighed), rel=0.02)


def test_intensities_in_any_unit_give_the_same_answer(pattern, database, answer):
    scaled = dataclasses.replace(pattern, intensity=pattern.intensity * 0.37, sigma=pattern.sigma * 0.37)
    result = identify_pattern(scaled, database)
    assert [phase.name for phase in result.phases] == [phase.name for phase in answer.phases]
    for one, other in zip(result.phases, answer.phases, strict=True):
        assert one.fraction == pytest.approx(other.fraction, abs=0.01)


def test_bad_input_is_one_clear_line(pattern, database):
    flat = Pattern(pattern.two_theta, np.random.default_rng(0).poisson(100, len(pattern.two_theta)).astype(float))
    for options, wrong, message in (
        (IdentifyOptions(), dataclasses.replace(pattern, wavelength=None), "does not state its wavelength"),
        (IdentifyOptions(), dataclasses.replace(pattern, radiation="neutrons"), "found neutrons"),
        (IdentifyOptions(), dataclasses.replace(flat, wavelength=1.5406), "found no lines"),
        (IdentifyOptions(elements=("Au",)), pattern, "Au"),
        (IdentifyOptions(standard=("gold", 0.1)), pattern, "'gold'"),
    ):
        with pytest.raises(InputError, match=message) as fault:
            identify_pattern(wrong, database, options)
        assert "\n" not in str(fault.value)
    with pytest.raises(InputError, match="max-phases: found 0"):
        IdentifyOptions(most=0)


def test_cells_of_unknown_elements_are_found(folder, pattern):
    cells = folder / "cells.csv"
    cells.write_text("a,b,c,spacegroup,name\n5.6402,5.6402,5.6402,F m -3 m,salt\n")
    build_database([cells], folder / "cells.db", jobs=1, progress=False)
    database = Database.open(folder / "cells.db")
    assert [phase.name for phase in identify_pattern(pattern, database).phases] == ["salt"]
    with pytest.raises(InputError, match="standard: the entry of salt has no atoms"):
        identify_pattern(pattern, database, IdentifyOptions(standard=("salt", 0.1)))


def test_phases_left_out_by_their_number_are_not_only_those_of_no_database(pattern, database):
    (hint,) = identify_pattern(pattern, database, IdentifyOptions(most=1)).hints
    assert hint.endswith("or more than the 1 phase(s) that are looked for")


def test_polymorphs_without_names_are_rivals(folder):
    """Their formula, which stands for the name, does not make them one phase."""
    cubic = cif("halite", title="?")
    tetragonal = cubic.replace("a 5.64020", "a 3.98822").replace("b 5.64020", "b 3.98822")
    tetragonal = tetragonal.replace("F m -3 m", "I 4/m m m").replace("Cl 0.5 0.5 0.5", "Cl 0 0 0.5")
    polymorphs = folder / "polymorphs"
    polymorphs.mkdir()
    for number, text in enumerate((cubic, tetragonal)):
        (polymorphs / f"{number}.cif").write_text(text)
    build_database([polymorphs], folder / "polymorphs.db", jobs=1, progress=False)
    answer = identify_pattern(sample(folder, {"halite": 1.0}), Database.open(folder / "polymorphs.db"))
    (phase,) = answer.phases
    assert phase.probability + phase.rivals[0].probability == pytest.approx(1, abs=0.02)


def test_a_large_database_is_shortened_by_strong_lines(pattern, database, answer, monkeypatch):
    monkeypatch.setattr("vitreous.powder.identify.identification.SHORTLIST", 3)
    result = identify_pattern(pattern, database)
    assert [phase.name for phase in result.phases] == [phase.name for phase in answer.phases]
