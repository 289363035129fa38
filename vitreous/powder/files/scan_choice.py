"""Several scans in one file: which of them are read, and how scans become one pattern."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from vitreous.core.errors import InputError
from vitreous.powder.files.reading import MOST_SCANS, ReadOptions
from vitreous.powder.pattern import Pattern, check_pattern

_SAME_ANGLE = 0.1  # of a step: angles of two scans that count as equal
_SAME_WAVELENGTH = 1e-4  # relative
_LISTED = 5  # scans in an error message
ADVICE = "choose one with --scan 1 or combine them with --scan merge"


def choose_scans(scans: Sequence[str], options: ReadOptions, is_required: bool = False) -> range:
    """Indices of the scans that are read: the first, the chosen one or all.

    `scans` describes each in a few words. With `is_required`, one of several scans must be chosen.
    """
    count = len(scans)
    if options.merges:
        if count > MOST_SCANS:
            raise InputError(f"scan: found {count} scans to merge, expected at most {MOST_SCANS}")
        return range(count)
    listed = "; ".join(scan for scan in scans[:_LISTED] if scan) + "; …" * (count > _LISTED)
    listed = f" ({listed})" if any(scans) else ""
    if options.scan is None and is_required and count > 1:
        raise InputError(f"found {count} scans{listed}; {ADVICE}")
    number = 1 if options.scan is None else int(options.scan)
    if number > count:
        raise InputError(f"scan: found {number}, but the file has {count} scan{'s' * (count > 1)}{listed}")
    return range(number - 1, number)


def merge_scans(scans: Sequence[Pattern]) -> Pattern:
    """One pattern: intensities along the same angles are added, scans of different ranges are joined."""
    if len(scans) == 1:
        return scans[0]
    wavelengths = [scan.wavelength for scan in scans if scan.wavelength is not None]
    if wavelengths and max(wavelengths) > (1 + _SAME_WAVELENGTH) * min(wavelengths):
        found = f"{min(wavelengths):g} and {max(wavelengths):g} Å"
        raise InputError(f"scan: found wavelengths of {found} among the scans, expected one; choose one with --scan 1")
    groups: list[list[Pattern]] = []
    for scan in map(check_pattern, scans):
        group = next((group for group in groups if _has_same_angles(group[0], scan)), None)
        if group is None:
            groups.append([scan])
        else:
            group.append(scan)
    sums = sorted(map(_add, groups), key=lambda scan: float(scan.two_theta[0]))
    note = f"{len(scans)} scans were {'added' if len(sums) == 1 else 'combined'}"
    pattern = sums[0]
    for scan in sums[1:]:
        pattern = _join(pattern, scan)
    return replace(pattern, notes=(*scans[0].notes, note))


def _has_same_angles(first: Pattern, second: Pattern) -> bool:
    if len(first.two_theta) != len(second.two_theta):
        return False
    step = float(np.median(np.diff(first.two_theta)))
    return bool(np.abs(first.two_theta - second.two_theta).max() < _SAME_ANGLE * step)


def _add(scans: list[Pattern]) -> Pattern:
    errors = [scan.sigma for scan in scans if scan.sigma is not None]
    sigma = np.sqrt(np.square(errors).sum(0)) if len(errors) == len(scans) else None
    return replace(scans[0], intensity=np.sum([scan.intensity for scan in scans], axis=0), sigma=sigma)


def _join(low: Pattern, high: Pattern) -> Pattern:
    """Two ranges; of an angle that both have, the value of the lower one is used."""
    end = float(low.two_theta[-1])
    step = float(np.median(np.diff(low.two_theta)))
    first = int(np.searchsorted(high.two_theta, end + _SAME_ANGLE * step))
    if first > 1:
        overlap = f"{high.two_theta[0]:g} to {end:g}° at different angles"
        raise InputError(f"scan: found scans that overlap from {overlap}; choose one with --scan 1")
    sigma = None
    if low.sigma is not None and high.sigma is not None:
        sigma = np.concatenate((low.sigma, high.sigma[first:]))
    x, y = (np.concatenate((getattr(low, name), getattr(high, name)[first:])) for name in ("two_theta", "intensity"))
    return replace(low, two_theta=x, intensity=y, sigma=sigma)
