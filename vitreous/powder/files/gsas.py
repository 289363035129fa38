"""GSAS text files: the first bank of points."""

import re

import numpy as np

from vitreous.core.errors import InputError
from vitreous.powder.files.axes import TIME_OF_FLIGHT
from vitreous.powder.files.content import Content
from vitreous.powder.files.header import radiation_from_header
from vitreous.powder.pattern import Floats, Pattern


def read_gsas(content: Content) -> Pattern:
    """The first BANK of points, some with standard errors (ESD, FXYE); geddes reads the points."""
    lines = [line for match in re.finditer(r"[^\r\n]+", content.text()) if (line := match[0]).strip()]
    bank = next(index for index, line in enumerate(lines) if _is_bank(line))
    if (times := re.search(r"\s(SLOG|RALF|LOG6|TIME_MAP)\b", lines[bank])) is not None:
        raise InputError(f"found a bank of times of flight ({times[1]}), expected angles (CONST): {TIME_OF_FLIGHT}")
    x, y = content.counts()
    body = [line for line in lines[bank + 1 :] if line.strip()[0] not in "#!"]
    end = next((index for index, line in enumerate(body) if _is_bank(line)), len(body))
    sigma: Floats | None = None
    if re.search(r"\sFXYE\b", lines[bank]):
        sigma = np.loadtxt(body[:end], usecols=2, ndmin=1)
    elif re.search(r"\sESD\b", lines[bank]):
        sigma = _standard_errors(body[:end], y)
    return Pattern(x, y, sigma).with_radiation(radiation_from_header(lines[:bank]))


def _is_bank(line: str) -> bool:
    return line.split(maxsplit=1)[0] == "BANK"


def _standard_errors(body: list[str], y: Floats) -> Floats | None:
    """Standard errors that alternate with the intensities, in fields of eight characters or separated by spaces."""
    for split in (lambda line: re.findall(".{1,8}", line), str.split):
        try:
            values = np.array([float(word) for line in body for word in split(line) if word.strip()])
        except ValueError:
            continue
        if len(values) >= 2 * len(y) and np.array_equal(values[: 2 * len(y) : 2], y):
            return values[1 : 2 * len(y) : 2]
    return None
