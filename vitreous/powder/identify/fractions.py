"""Mass fractions of phases from the scales of a fit (Hill and Howard 1987), and the amorphous share by a standard."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from vitreous.core.errors import InputError
from vitreous.powder.identify.answer import IdentifiedPhase
from vitreous.powder.identify.dispersion import scattering_ratio
from vitreous.powder.identify.sample_fit import SampleFit

_INTENSITY_ERROR = 0.03  # relative, of the calculated intensities of a phase: atoms, texture and absorption


@dataclass(frozen=True)
class Fraction:
    """Of the mass of all phases with atoms, 0 to 1, and its standard error."""

    value: float
    error: float


def mass_fractions(fit: SampleFit, wavelength: float) -> list[Fraction | None]:
    """For each phase, its scale times the mass and the volume of its cell, over the sum; None without atoms."""
    phases = fit.state.phases
    weight = np.zeros(len(phases))
    for number, phase in enumerate(phases):
        entry = phase.lines.entry
        if entry.has_atoms:
            scattering = scattering_ratio(entry.formula, wavelength)
            weight[number] = phase.scale * entry.cell_mass * entry.volume / scattering
    total = float(weight.sum())
    if not total:
        return [None] * len(phases)
    share = weight / total
    places = list(fit.scale_places)
    relative = fit.covariance[np.ix_(places, places)] + _INTENSITY_ERROR**2 * np.eye(len(places))
    slopes = np.diag(share) - np.outer(share, share)  # of the shares, by the logarithms of the scales
    errors = np.sqrt(np.einsum("ij,jk,ik->i", slopes, relative, slopes))
    return [
        Fraction(float(value), float(error)) if phase.lines.entry.has_atoms else None
        for value, error, phase in zip(share, errors, phases, strict=True)
    ]


def amorphous_fraction(phases: Sequence[IdentifiedPhase], standard: tuple[str, float] | None) -> float | None:
    """The mass fraction of what is not crystalline, from an internal standard of known mass fraction of the sample.

    `standard` is the name or the formula of a phase that was found, and its mass fraction.
    """
    if standard is None:
        return None
    name, weighed = standard
    found = [phase for phase in phases if name.lower() in (phase.name.lower(), phase.formula.lower())]
    if not found:
        names = ", ".join(phase.name for phase in phases) or "no phase"
        raise InputError(f"standard: found {name[:50]!r} nowhere in the sample, which has {names}")
    if found[0].fraction is None:
        raise InputError(f"standard: the entry of {found[0].name} has no atoms, so that its amount is unknown")
    return max(0.0, (1 - weighed / found[0].fraction) / (1 - weighed))
