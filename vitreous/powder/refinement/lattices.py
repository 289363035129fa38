"""The reflections of the phases of a pattern, as one linear form of the free elements of all their metrics."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from vitreous.powder.refinement.metric import ReciprocalMetric, metric_of_cell, reflection_forms
from vitreous.powder.refinement.profile import Array, Indices


class Lattice(NamedTuple):
    """The lattice of a phase: a, b, c in ångström, α, β, γ in degrees, in the conventional setting of the system."""

    cell: Sequence[float]
    system: str  # with trigonal for rhombohedral lattices
    centring: str


class Reflections(NamedTuple):
    """The reflections of all phases by ascending angle; 1/d² is `form` times `first`."""

    hkl: Indices  # (n, 3)
    phase: Indices  # (n,), number of the lattice
    form: Array  # (n, elements): the elements of other phases have factors of 0
    angles: Array  # (n,), 2θ in degrees
    metrics: tuple[ReciprocalMetric, ...]
    complete: bool  # whether these are all reflections in the range; if not, they end where a phase has too many

    @property
    def first(self) -> Array:
        """The free elements of all metrics at the start of a refinement."""
        return np.concatenate([metric.first for metric in self.metrics])

    def elements(self, phase: int) -> slice:
        """The place of the elements of one phase among those of all."""
        ends = np.cumsum([0, *(len(metric.first) for metric in self.metrics)])
        return slice(int(ends[phase]), int(ends[phase + 1]))


def find_reflections(
    lattices: Sequence[Lattice], wavelength: float, limits: tuple[float, float], most: int
) -> Reflections:
    """The reflections of lattices in a range of 2θ (degrees), up to the angle at which one of them has `most`."""
    metrics = tuple(metric_of_cell(list(lattice.cell), lattice.system) for lattice in lattices)
    parts = [
        reflection_forms(metric, lattice.system, lattice.centring, wavelength, limits, most)
        for metric, lattice in zip(metrics, lattices, strict=True)
    ]
    ends = [angles[-1] for *_, angles in parts if len(angles) == most]
    angles = np.concatenate([angles for *_, angles in parts])
    hkl = np.concatenate([hkl for hkl, *_ in parts])
    phase = np.repeat(np.arange(len(parts)), [len(form) for _, form, _ in parts])
    form = np.zeros((len(angles), sum(len(metric.first) for metric in metrics)))
    row = column = 0
    for _, own, _ in parts:
        form[row : row + len(own), column : column + own.shape[1]] = own
        row, column = row + len(own), column + own.shape[1]
    order = np.argsort(angles, kind="stable")
    order = order[angles[order] <= min(ends, default=np.inf)]
    return Reflections(hkl[order], phase[order], form[order], angles[order], metrics, not ends)
