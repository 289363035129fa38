"""Powder CIF: the profile of the first data block that has one."""

from dataclasses import replace
from typing import Any

import numpy as np

from vitreous.core.errors import InputError
from vitreous.core.extras import load_extra
from vitreous.powder.files.content import Content, check_count
from vitreous.powder.pattern import Floats, Pattern
from vitreous.powder.radiation import NEUTRONS, X_RAYS, Radiation, radiation_from_file

_ANGLES = ("_pd_proc_2theta_corrected", "_pd_meas_2theta_scan")
_RANGES = ("_pd_proc_2theta_range_", "_pd_meas_2theta_range_")
_COUNTS = ("_pd_proc_number_of_points", "_pd_meas_number_of_points")
_ROUNDED = 0.02  # relative error of an increment with few digits, where the number of points is stated as well
_INTENSITIES = (
    "_pd_proc_intensity_total", "_pd_meas_intensity_total", "_pd_meas_counts_total", "_pd_proc_intensity_net",
)  # fmt: skip
ANGLE_TAGS, INTENSITY_TAGS = (*_ANGLES, *_RANGES), _INTENSITIES
"""Names and beginnings of names of the tags of a profile along 2θ, in lower case with `_` for `.`."""
_WEIGHTS = "_pd_proc_ls_weight"
_WAVELENGTH = "_diffrn_radiation_wavelength"
_PROBES = ("_diffrn_radiation_probe", "_diffrn_radiation_type")

Block = dict[str, list[str]]


def read_cif(content: Content) -> Pattern:
    """Standard errors are those in parentheses, or follow from the weights of the refinement."""
    document = load_extra("gemmi", "powder").cif.read_string(content.text())
    blocks = [_columns(block) for block in document]
    for block in blocks:
        intensity = next((block[name] for name in _INTENSITIES if name in block), None)
        if intensity is None:
            continue
        y, sigma = _parse_numbers(intensity)
        x = _two_theta(block, len(y))
        if x is None:
            continue
        if sigma is None and len(block.get(_WEIGHTS, [])) == len(y):
            weight, _ = _parse_numbers(block[_WEIGHTS])
            sigma = 1 / np.sqrt(weight) if np.all(weight > 0) else None
        return Pattern(x, y, sigma).with_radiation(_radiation([block, *blocks]))
    raise InputError(f"found no powder profile, expected {_ANGLES[1]} and {_INTENSITIES[1]} or similar")


def _columns(block: Any) -> Block:
    """Every tag of a block in lower case with `_` for `.`; single values are columns of one."""
    columns: Block = {}
    for item in block:
        if item.pair is not None:
            columns[item.pair[0]] = [item.pair[1]]
        elif item.loop is not None:
            width, values = item.loop.width(), list(item.loop.values)
            columns |= {tag: values[k::width] for k, tag in enumerate(item.loop.tags)}
    return {tag.lower().replace(".", "_"): values for tag, values in columns.items()}


def _two_theta(block: Block, count: int) -> Floats | None:
    """Angles one by one, or from a range; None if there are none. Whatever the file states about them must agree."""
    stated = [int(number) for name in _COUNTS if (number := _single(block, name)) is not None]
    if stated and count not in stated:
        check_count(stated[0], count)
    for name in _ANGLES:
        if name in block:
            x, _ = _parse_numbers(block[name])
            if len(x) != count:
                raise InputError(f"{name} has {len(x)} values and the intensities {count}")
            return x
    for name in _RANGES:
        low, high, step = (_single(block, f"{name}{end}") for end in ("min", "max", "inc"))
        if low is not None and (high is not None or step is not None):
            return _even_angles(low, high, step, count, bool(stated), name)
    return None


def _even_angles(
    low: float, high: float | None, step: float | None, count: int, is_count_stated: bool, name: str
) -> Floats:
    """Angles from the first to the last, which the step or the stated number of points must confirm."""
    if step is not None and not step > 0:
        raise InputError(f"{name}inc: found {step:g}, expected a positive number of degrees")
    if high is None:
        return np.asarray(low + (step or 0.0) * np.arange(count))
    if step is not None:
        steps = (high - low) / step
        if not abs(steps - (count - 1)) <= max(0.5, is_count_stated * _ROUNDED * steps):
            raise InputError(f"states 2θ from {low:g} to {high:g} by {step:g}, {steps + 1:.0f} points, found {count}")
    elif not is_count_stated:
        raise InputError(f"states 2θ from {low:g} to {high:g} only, expected also {name}inc or {_COUNTS[1]}")
    return np.linspace(low, high, count)


def _single(block: Block, name: str) -> float | None:
    """The number of a tag that has one value; None if it is absent or unknown."""
    words = [word for word in block.get(name, []) if word not in ("?", ".")]
    return float(_parse_numbers(words)[0][0]) if len(words) == 1 else None


def _parse_numbers(words: list[str]) -> tuple[Floats, Floats | None]:
    """Values, and standard errors if all are given, in units of the last digit: 12.5(3) is 12.5 ± 0.3."""
    values, errors = np.empty(len(words)), np.full(len(words), np.nan)
    for index, word in enumerate(words):
        number, _, error = word.rstrip(")").partition("(")
        try:
            values[index] = float(number)
            if error:
                errors[index] = int(error) * 10.0 ** -len(number.partition(".")[2])
        except ValueError:
            raise InputError(f"found {word!r} in value {index + 1} of a profile, expected a number") from None
    return values, errors if np.all(np.isfinite(errors)) else None


def _radiation(blocks: list[Block]) -> Radiation:
    """From the first block that states a wavelength, and the first that states the kind of radiation."""
    name = next(filter(None, map(_radiation_name, blocks)), None)
    for block in blocks:
        words = [word for word in block.get(_WAVELENGTH, []) if word[:1].isdigit() or word[:1] == "."]
        if words:
            lines, _ = _parse_numbers(words)
            weights = [word for word in block.get(f"{_WAVELENGTH}_wt", []) if word not in ("?", ".")]
            shares = _parse_numbers(weights)[0] if len(weights) == len(lines) > 1 else None
            ratio = None if shares is None or shares[0] <= 0 else float(shares[1] / shares[0])
            second = float(lines[1]) if len(lines) > 1 else None
            return replace(radiation_from_file(float(lines[0]), second, ratio), name=name)
    return Radiation(name=name)


def _radiation_name(block: Block) -> str | None:
    """`X-rays` or `neutrons`, by the probe or a type such as `CuK\\a`; None if neither is stated."""
    for tag in _PROBES:
        text = " ".join(block.get(tag, [])).lower()
        if "neutron" in text:
            return NEUTRONS
        if "x-ray" in text or "k\\a" in text:
            return X_RAYS
    return None
