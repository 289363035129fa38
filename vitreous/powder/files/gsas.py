"""GSAS text files: one BANK of points, some with standard errors (ESD, FXYE)."""

import re

import numpy as np

from vitreous.powder.files.columns import radiation_from_header
from vitreous.powder.files.content import Content, make_pattern
from vitreous.powder.pattern import Floats, Pattern


def read_gsas(content: Content) -> Pattern:
    """The first bank; geddes reads the points."""
    x, y = content.counts()
    lines = content.text().splitlines()
    bank = next(index for index, line in enumerate(lines) if line.startswith("BANK"))
    body = [line for line in lines[bank + 1 :] if line.strip() and line[0] not in "#!"]
    end = next((index for index, line in enumerate(body) if line.startswith("BANK")), len(body))
    sigma: Floats | None = None
    if re.search(r"\sFXYE\b", lines[bank]):
        sigma = np.loadtxt(body[:end], usecols=2, ndmin=1)
    elif re.search(r"\sESD\b", lines[bank]):
        sigma = _standard_errors(body[:end], y)
    return make_pattern(x, y, sigma, radiation_from_header(lines[:bank]))


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
