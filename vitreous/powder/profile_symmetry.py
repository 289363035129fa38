"""Crystal system and extinction group from the raw profile, by a transformer, without lines and without a cell.

The folder `symmetry_model/` beside this module is a run of the recipe `powder-symmetry`.
"""

from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import as_file, files
from typing import Any

import numpy as np

from vitreous.powder.pattern import Pattern, to_grid
from vitreous.powder.sim.source import q_grid
from vitreous.powder.sim.space_groups import SYSTEMS, groups_of_system, load_table
from vitreous.powder.sim.symmetry_source import ExtinctionGroup, extinction_groups
from vitreous.run.predictor import Predictor, load

_SHOWN_SYSTEMS = 3


@dataclass(frozen=True)
class ProfileSymmetry:
    """What the whole profile says about the symmetry.

    Args:
        systems: probability of each crystal system.
        groups: extinction groups with their probabilities, likeliest first.
    """

    systems: dict[str, float]
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
        systems = ", ".join(f"{name} {p:.0%}" for name, p in ranked)
        return f"{systems}; likeliest space groups No. {numbers} ({share:.0%})"

    def to_dict(self) -> dict[str, Any]:
        """The probabilities as JSON values, with the five likeliest extinction groups."""
        groups = [
            {"system": group.system, "space_groups": list(group.groups), "probability": round(share, 4)}
            for group, share in self.groups[:5]
        ]
        return {"systems": {name: round(p, 4) for name, p in self.systems.items()}, "extinction_groups": groups}


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
    probabilities = (model or symmetry_model()).predict(profile[None, None].astype(np.float32)).probabilities
    assert probabilities is not None
    share = probabilities[0].astype(float) * _frequencies()
    share /= share.sum()
    systems = dict.fromkeys(SYSTEMS, 0.0)
    ranked = [(group, float(p)) for group, p in zip(extinction_groups(), share, strict=True)]
    for group, p in ranked:
        systems[group.system] += p
    return ProfileSymmetry(systems, tuple(sorted(ranked, key=lambda each: -each[1])))


@lru_cache(maxsize=1)
def _frequencies() -> np.ndarray:
    """How often real crystals have the system of each extinction group, relative."""
    frequency = load_table("prior")["frequency"]
    of_system = {system: float(frequency[np.array(groups_of_system(system)) - 1].sum()) for system in SYSTEMS}
    return np.array([of_system[group.system] for group in extinction_groups()])
