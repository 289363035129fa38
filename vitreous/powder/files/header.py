"""Wavelengths and the kind of radiation stated in the header lines of text files."""

import re
from collections.abc import Iterable
from dataclasses import replace

from vitreous.powder.radiation import NEUTRONS, X_RAYS, Radiation, radiation_from_file

_K = r"k[-_ ]?(?:alpha|α|a(?![a-z]))"
_LABEL = rf"(?<![a-z])(?:{_K}|wave[-_ ]?length|lambda|wl|alpha(?=[12]))"
# Without a limit on the words in between, a long row of labels would take a time quadratic in its length.
_GAP = r"(?:[\s=:,()\[\]\"']++|is|in|wave[-_ ]?length|angstroms?|å|a(?![a-z])|nm){0,30}+"
_NUMBER = r"(\d*\.\d+(?:e[-+]?\d+)?|\d+e[-+]?\d+)"
_FIRST = re.compile(rf"{_LABEL}(?:[-_ ]*1(?![.\d]))?+{_GAP}{_NUMBER}")
_SECOND = re.compile(rf"{_LABEL}[-_ ]*2(?![.\d]){_GAP}{_NUMBER}")
_RATIO = re.compile(rf"ratio(?:\W*{_K}[-_ ]*2\W*{_K}[-_ ]*1)?{_GAP}{_NUMBER}")
_NAMES = {NEUTRONS: re.compile(r"\bneutrons?\b"), X_RAYS: re.compile(rf"\bx-?rays?\b|\bsynchrotron\b|(?<![a-z]){_K}")}


def radiation_from_header(lines: Iterable[str]) -> Radiation:
    """The first wavelength, Kα2 and ratio stated by lines such as `# wavelength = 1.5406 Å` or `_WL2 = 1.5444`."""
    values: dict[re.Pattern[str], float] = {}
    names: set[str] = set()
    for part in (part.lower() for line in lines for part in line.split(";")):
        names.update(name for name, word in _NAMES.items() if word.search(part))
        kinds = (_RATIO,) if "ratio" in part else () if re.search("beta|β", part) else (_SECOND, _FIRST)
        for kind in kinds:
            if match := kind.search(part):
                value = float(match[1])
                if kind is not _RATIO:
                    value *= 1e10 if value < 1e-8 else 10 if re.search(r"(?<![a-z])nm\b", part) else 1  # metres, nm
                values.setdefault(kind, value)
    radiation = radiation_from_file(values.get(_FIRST), values.get(_SECOND), values.get(_RATIO))
    return replace(radiation, name=names.pop() if len(names) == 1 else None)
