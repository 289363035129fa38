"""Powder CIF: the profile of the first data block that has one."""

from typing import Any

import numpy as np

from vitreous.core.errors import InputError
from vitreous.core.extras import load_extra
from vitreous.powder.files.content import Content
from vitreous.powder.pattern import Floats, Pattern
from vitreous.powder.radiation import Radiation, radiation_from_file

_ANGLES = ("_pd_proc_2theta_corrected", "_pd_meas_2theta_scan")
_RANGES = ("_pd_proc_2theta_range_", "_pd_meas_2theta_range_")
_INTENSITIES = (
    "_pd_proc_intensity_total", "_pd_meas_intensity_total", "_pd_meas_counts_total", "_pd_proc_intensity_net",
)  # fmt: skip
_WEIGHTS = "_pd_proc_ls_weight"
_WAVELENGTH = "_diffrn_radiation_wavelength"

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
            width = item.loop.width()
            columns |= {tag: list(item.loop.values[k::width]) for k, tag in enumerate(item.loop.tags)}
    return {tag.lower().replace(".", "_"): values for tag, values in columns.items()}


def _two_theta(block: Block, count: int) -> Floats | None:
    for name in _ANGLES:
        if name in block:
            x, _ = _parse_numbers(block[name])
            if len(x) != count:
                raise InputError(f"{name} has {len(x)} values and the intensities {count}")
            return x
    for name in _RANGES:
        if f"{name}min" in block and f"{name}max" in block:
            (low, high), _ = _parse_numbers(block[f"{name}min"] + block[f"{name}max"])
            return np.linspace(low, high, count)
    return None


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
    """From the first block that states a wavelength; weights of several lines are relative to the first."""
    for block in blocks:
        words = [word for word in block.get(_WAVELENGTH, []) if word[:1].isdigit() or word[:1] == "."]
        if words:
            lines, _ = _parse_numbers(words)
            weights = [word for word in block.get(f"{_WAVELENGTH}_wt", []) if word not in ("?", ".")]
            shares = _parse_numbers(weights)[0] if len(weights) == len(lines) > 1 else None
            ratio = None if shares is None or shares[0] <= 0 else float(shares[1] / shares[0])
            return radiation_from_file(float(lines[0]), float(lines[1]) if len(lines) > 1 else None, ratio)
    return Radiation()
