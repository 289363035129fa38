"""Crystal system and extinction group from the raw profile, by a transformer, without lines and without a cell.

The folder `symmetry_model/` beside this module has the mean of the weights of two runs of the recipe `powder-symmetry`,
of which the second began with the first (docs/indexing.md, "Accuracy"). Where lines are few, its
answer guides the search for a cell; where there is no likely cell, it is an answer of its own.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from importlib.resources import as_file, files
from typing import Any

import numpy as np

from vitreous.core.errors import InputError
from vitreous.powder.pattern import Pattern, to_grid
from vitreous.powder.sim.source import q_grid
from vitreous.powder.sim.space_groups import SYSTEMS, groups_of_system, load_table
from vitreous.powder.sim.symmetry_source import ExtinctionGroup, extinction_groups
from vitreous.powder.solution import Solution
from vitreous.powder.tuning import PROFILE_TUNING, ProfileTuning
from vitreous.run.predictor import Predictor, load

_SHOWN_SYSTEMS = 3
_LEAST_SHARE = 0.01  # of a symmetry: the text names those above it
_LEAST = 1e-3  # probability of a system below which the model's answer is not trusted any further


@dataclass(frozen=True)
class ProfileSymmetry:
    """What the whole profile says about the symmetry.

    Args:
        systems: probability of each crystal system.
        groups: extinction groups with their probabilities, likeliest first.
    """

    systems: Mapping[str, float]
    groups: tuple[tuple[ExtinctionGroup, float], ...]

    @property
    def system(self) -> str:
        """The likeliest crystal system."""
        return max(self.systems, key=lambda name: self.systems[name])

    @property
    def text(self) -> str:
        """The likeliest systems and the likeliest extinction group, in one line."""
        ranked = sorted(self.systems.items(), key=lambda item: -item[1])[:_SHOWN_SYSTEMS]
        group, share = self.groups[0]
        numbers = ", ".join(map(str, group.groups))
        systems = ", ".join(f"{name} {p:.0%}" for name, p in ranked if p >= _LEAST_SHARE)
        return f"{systems}; likeliest space groups No. {numbers} ({share:.0%})"

    def to_dict(self) -> dict[str, Any]:
        """The probabilities as JSON values, with the five likeliest extinction groups."""
        groups = [
            {"system": group.system, "space_groups": list(group.groups), "probability": round(share, 4)}
            for group, share in self.groups[:5]
        ]
        return {"systems": {name: round(p, 4) for name, p in self.systems.items()}, "extinction_groups": groups}

    def support(self, system: str, centring: str) -> float:
        """By how much the profile raises the log-probability of a lattice, over how often crystals have its system.

        A primitive hexagonal lattice may be that of a trigonal crystal.
        """
        names = _crystal_systems(system, centring)
        seen, usual = sum(self.systems[name] for name in names), sum(_usual_shares()[name] for name in names)
        return math.log(max(seen, _LEAST) / usual)

    def with_solutions(
        self, solutions: Sequence[Solution], tuning: ProfileTuning = PROFILE_TUNING
    ) -> "ProfileSymmetry":
        """The symmetry by the profile and by the cells, which explain the lines and have probabilities."""
        by_cells = dict.fromkeys(SYSTEMS, 0.0)
        usual, rest = _usual_shares(), 1.0
        for solution in solutions:
            names = _crystal_systems(solution.system, solution.centring)
            for name in names:
                by_cells[name] += solution.probability * usual[name] / sum(usual[each] for each in names)
            rest -= solution.probability
        joint = {
            name: (by_cells[name] + max(rest, _LEAST) * usual[name])
            * (max(self.systems[name], _LEAST) / usual[name]) ** tuning.trust
            for name in SYSTEMS
        }
        total = sum(joint.values())
        systems = {name: share / total for name, share in joint.items()}
        groups = [
            (group, share * systems[group.system] / max(self.systems[group.system], 1e-9))
            for group, share in self.groups
        ]  # fmt: skip
        return replace(self, systems=systems, groups=tuple(sorted(groups, key=lambda each: -each[1])))


def _crystal_systems(system: str, centring: str) -> tuple[str, ...]:
    """The crystal systems that crystals with a lattice may have."""
    if centring == "R" or system == "trigonal":
        return ("trigonal",)
    return ("trigonal", "hexagonal") if system == "hexagonal" else (system,)


@lru_cache(maxsize=1)
def symmetry_model() -> Predictor:
    """The trained model."""
    with as_file(files("vitreous.powder") / "symmetry_model") as folder:
        return load(folder)


def predict_symmetry(pattern: Pattern, model: Predictor | None = None) -> ProfileSymmetry:
    """The probabilities of crystal systems and extinction groups of a pattern; `model` is the package's by default.

    The model is trained on equally many crystals of each system; the answer is for systems as often as real crystals
    have them.
    """
    profile = np.clip(to_grid(pattern, q_grid().numpy()), 0, None)
    if not profile.any():
        limits = f"q = {q_grid()[0]:.1f} to {q_grid()[-1]:.1f} Å⁻¹"
        raise InputError(f"{pattern.name}: found no intensity between {limits}, where the model reads symmetry")
    profile = (profile / profile.max()).astype(np.float32)  # the unit of intensity does not matter
    probabilities = (model or symmetry_model()).predict(profile[None, None]).probabilities
    assert probabilities is not None
    usual = _usual_shares()
    share = probabilities[0].astype(float) * np.array([usual[group.system] for group in extinction_groups()])
    share /= share.sum()
    systems = dict.fromkeys(SYSTEMS, 0.0)
    ranked = [(group, float(p)) for group, p in zip(extinction_groups(), share, strict=True)]
    for group, p in ranked:
        systems[group.system] += p
    return ProfileSymmetry(systems, tuple(sorted(ranked, key=lambda each: -each[1])))


@lru_cache(maxsize=1)
def _usual_shares() -> dict[str, float]:
    """The share of real crystals in each crystal system."""
    frequency = load_table("prior")["frequency"]
    of_system = {system: float(frequency[np.array(groups_of_system(system)) - 1].sum()) for system in SYSTEMS}
    total = sum(of_system.values())
    return {system: share / total for system, share in of_system.items()}
