"""The lines of one phase of a sample, at the angles and with the intensities of its refined cell, texture and width."""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from vitreous.powder.cell import FORMS, PAIRS, cells_of, symmetric_matrices
from vitreous.powder.identify.entry import Entry
from vitreous.powder.identify.screen import angles, polarisation
from vitreous.powder.pattern import Floats
from vitreous.powder.sim.structure import metric

_MARGIN = 1.5  # degrees: lines beyond the ends of the pattern whose tails reach it
_FAINTEST = 1e-3  # of the strongest line: fainter ones are left out
_MOST_LINES = 150
_LOW = 0.5  # degrees: no lines below
_Planes = tuple[tuple[tuple[int, int, int], ...], ...]  # kinds of preferred orientation, each of equivalent planes
_AXES: _Planes = (((0, 0, 1),), ((0, 1, 0),), ((1, 0, 0),))
_PLANES: dict[str, _Planes] = {
    "cubic": (((1, 0, 0), (0, 1, 0), (0, 0, 1)), ((1, 1, 1), (-1, 1, 1), (1, -1, 1), (1, 1, -1))),
    "hexagonal": (((0, 0, 1),), ((1, 0, 0), (0, 1, 0), (-1, 1, 0))),
    "trigonal": (((0, 0, 1),), ((1, 0, 4), (-1, 1, 4), (0, -1, 4))),
    "tetragonal": (((0, 0, 1),), ((1, 0, 0), (0, 1, 0))),
    "monoclinic": (*_AXES, ((1, 1, 0), (1, -1, 0))),
}
_Forms = tuple[tuple[float, ...], ...]
_LENGTHS = ((1, 0, 0, 0, 0, 0), (0, 1, 0, 0, 0, 0), (0, 0, 1, 0, 0, 0))
_OTHER_AXES: dict[str, tuple[tuple[_Forms, _Planes], ...]] = {  # forms and planes in settings beside the usual one
    "trigonal": (  # rhombohedral axes
        (((1, 1, 1, 0, 0, 0), (0, 0, 0, 1, 1, 1)), (((1, 1, 1),), ((2, 1, 1), (1, 2, 1), (1, 1, 2)))),
    ),
    "monoclinic": (  # c, or a, is the unique axis
        ((*_LENGTHS, (0, 0, 0, 0, 0, 1)), (*_AXES, ((0, 1, 1), (0, 1, -1)))),
        ((*_LENGTHS, (0, 0, 0, 1, 0, 0)), _PLANES["monoclinic"]),
    ),
}
_CHANGE_TOLERANCE = 1e-4  # relative: how well a setting must obey the forms of its system


class Placed(NamedTuple):
    """Lines `(m,)` of a phase and their derivatives."""

    angle: Floats  # degrees, without the shifts of the instrument
    area: Floats  # for a scale of 1
    angle_by_metric: Floats  # (m, free), by each relative change of the free elements of the reciprocal metric
    area_by_texture: Floats  # by the logarithm of the March-Dollase parameter
    area_by_vibration: Floats  # by the displacement parameter B, Å²


@dataclass(frozen=True, eq=False)
class PhaseLines:
    """A phase of a database as the model of a fit.

    Args:
        entry: the crystal.
        wavelength: of Kα1, ångström.
        first, last: limits of the pattern, degrees.
    """

    entry: Entry
    wavelength: float
    first: float
    last: float

    @cached_property
    def _used(self) -> NDArray[np.int64]:
        lines = self.entry.lines
        angle = angles(lines.s.astype(float), self.wavelength)
        low, high = max(_LOW, self.first - _MARGIN), min(179.0, self.last + _MARGIN)
        strength = lines.intensity * polarisation(angle) * ((angle > low) & (angle < high))
        order = np.argsort(-strength)[:_MOST_LINES]
        return np.sort(order[strength[order] > _FAINTEST * strength.max(initial=0.0)])

    @cached_property
    def hkl(self) -> Floats:
        """Indices `(m, 3)` of the lines."""
        return np.asarray(self.entry.lines.hkl[self._used], dtype=float)

    @cached_property
    def intensity(self) -> Floats:
        """Multiplicity · |F|² `(m,)`, electrons²."""
        return np.asarray(self.entry.lines.intensity[self._used], dtype=float)

    @property
    def forms(self) -> Floats:
        """The changes `(free, 6)` of the reciprocal metric that keep its symmetry, each the element times a factor.

        In unusual settings, such as a tetragonal cell with the axis a, all lengths change alike.
        """
        return self._setting[0]

    @cached_property
    def _setting(self) -> tuple[Floats, _Planes]:
        """Changes of the metric, and planes of preferred orientation, in the axes in which the cell is written."""
        system = self.entry.system
        planes = _PLANES.get(system, _AXES)
        for forms, own_planes in ((FORMS[system], planes), *_OTHER_AXES.get(system, ())):
            basis = np.array([np.array(form) * self._size(form) for form in forms])
            fitted, *_ = np.linalg.lstsq(basis.T, self.start, rcond=None)
            if np.abs(fitted @ basis - self.start).max() <= _CHANGE_TOLERANCE * np.abs(self.start).max():
                return basis, own_planes
        return self.start[None], planes

    def _size(self, form: tuple[float, ...]) -> float:
        """The element that a form changes; one off the diagonal may be zero: the mean of those on it."""
        i, j = PAIRS[int(np.flatnonzero(form)[0])]
        return float(np.sqrt(self.start[i] * self.start[j]))

    def strained(self, strain: float) -> Floats:
        """The changes `(free,)` of the metric with which all lengths are longer by a share."""
        wanted = self.start * ((1 + strain) ** -2 - 1)
        return np.asarray(np.linalg.lstsq(self.forms.T, wanted, rcond=None)[0])

    @cached_property
    def start(self) -> Floats:
        """The reciprocal metric `(6,)` to begin with, in the order of `PAIRS`."""
        inverse = np.linalg.inv(metric(self.entry.cell))
        return np.array([inverse[i, j] for i, j in PAIRS])

    @cached_property
    def _products(self) -> Floats:
        """Factors `(m, 6)` of the elements of the reciprocal metric in 1/d²."""
        hkl = self.hkl
        return np.stack([hkl[:, i] * hkl[:, j] * (1 if i == j else 2) for i, j in PAIRS], axis=1)

    @cached_property
    def textures(self) -> tuple[Floats, ...]:
        """For each kind of preferred orientation, squared cosines `(planes, m)` of lines and equivalent planes.

        Crystallites lie on planes that their form shows: those of an axis, and cleavages.
        """
        inverse = np.linalg.inv(metric(self.entry.cell))
        length = np.sqrt(np.einsum("mi,ij,mj->m", self.hkl, inverse, self.hkl))
        sets = []
        for planes in self._setting[1]:
            normal = np.array(planes, dtype=float)
            size = np.sqrt(np.einsum("ki,ij,kj->k", normal, inverse, normal))
            sets.append((normal @ inverse @ self.hkl.T / size[:, None] / length) ** 2)
        return tuple(sets)

    def placed(self, change: Floats, log_texture: float, texture: int, vibration: float) -> Placed:
        """Lines of the phase with changed elements of the metric, and a March-Dollase parameter of a kind of texture.

        `vibration` is what the displacement parameter B of all atoms differs by from that of the entry, in Å².
        """
        square = np.maximum(self._products @ (self.start + change @ self.forms), 1e-12)
        s = np.sqrt(square)
        angle = angles(s, self.wavelength)
        slope = np.degrees(self.wavelength / np.sqrt(np.maximum(1 - (s * self.wavelength / 2) ** 2, 1e-4)))
        by_metric = (slope / (2 * s))[:, None] * (self._products @ self.forms.T)
        area = self.intensity * polarisation(angle) * np.exp(-vibration * square / 2)
        r, c = math.exp(log_texture), self.textures[texture]
        inner = r**2 * c + (1 - c) / r  # (planes, m)
        factor = inner**-1.5
        by_texture = area * (factor * (-1.5 / inner) * (2 * r**2 * c - (1 - c) / r)).mean(axis=0)
        area = area * factor.mean(axis=0)
        return Placed(angle, area, by_metric, by_texture, -area * square / 2)

    def cell(self, change: Floats) -> Floats:
        """The six cell parameters for a change of the metric."""
        six = self.start + change @ self.forms
        return np.asarray(cells_of(np.linalg.inv(symmetric_matrices(six[None])))[0])

    def cell_errors(self, change: Floats, covariance: Floats) -> Floats:
        """Standard errors `(6,)` of the cell parameters, from the covariance of the changes."""
        base, step = self.cell(change), 1e-6
        slopes = np.stack([(self.cell(change + step * row) - base) / step for row in np.eye(len(change))])
        return np.asarray(np.sqrt(np.maximum(np.einsum("ki,kl,li->i", slopes, covariance, slopes), 0.0)))
