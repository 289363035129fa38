"""Texts and their translations: pairs of sentences, and which of them train, validate and test."""

import gzip
import hashlib
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from vitreous.core.errors import InputError
from vitreous.data.builtin import data_folder
from vitreous.data.source import PARTS

Pair = tuple[str, str]
_HUNDREDTHS = {"test": range(10), "validation": range(10, 13)}  # of the hash of a source


@dataclass(frozen=True)
class Pairs:
    """Sentences with their translations, in parts.

    A pair's part is decided by a hash of its source, whatever its case and spaces: equal sources are in one part.
    """

    name: str
    train: tuple[Pair, ...]
    validation: tuple[Pair, ...]
    test: tuple[Pair, ...]

    def of(self, part: str) -> tuple[Pair, ...]:
        """The pairs of a part, or of all parts."""
        parts = {"train": self.train, "validation": self.validation, "test": self.test}
        return self.train + self.validation + self.test if part == "all" else parts[part]


def split_pairs(name: str, pairs: Sequence[Pair]) -> Pairs:
    """The pairs in their parts: about a tenth to test, 3 % to validate."""
    parts: dict[str, list[Pair]] = {part: [] for part in PARTS}
    for pair in pairs:
        parts[part_of(pair[0])].append(pair)
    return Pairs(name, **{part: tuple(members) for part, members in parts.items()})


def part_of(source: str) -> str:
    """The part that a source sentence is in, always the same."""
    content = " ".join(source.casefold().split()).encode()
    place = int.from_bytes(hashlib.sha256(content).digest()[:8]) % 100
    return next((part for part, places in _HUNDREDTHS.items() if place in places), "train")


def read_lines(path: Path) -> list[str]:
    """The lines of a text file, gzipped or not."""
    try:
        content = path.read_bytes()
        return (gzip.decompress(content) if path.suffix == ".gz" else content).decode().splitlines()
    except FileNotFoundError:
        raise InputError(f"{path}: no such file") from None
    except (OSError, EOFError, zlib.error, UnicodeDecodeError) as fault:
        raise InputError(f"{path}: cannot be read ({fault})") from None


def read_pairs(path: Path) -> list[Pair]:
    """The pairs of a file, gzipped or not: a source, a tab and a target in every line."""
    pairs = []
    for number, line in enumerate(read_lines(path), start=1):
        columns = line.split("\t")
        if len(columns) != 2 or not all(column.strip() for column in columns):
            raise InputError(f"{path}: line {number} is not a source, a tab and a target")
        pairs.append((columns[0], columns[1]))
    if not pairs:
        raise InputError(f"{path}: holds no pairs")
    return pairs


def en_de() -> Pairs:
    """English messages of free software and their German translations, from `data_folder()/translation`."""
    path = data_folder() / "translation" / "en-de.tsv.gz"
    if not path.is_file():
        raise InputError(
            f"{path}: is missing; put a gzipped file of 'English, tab, German' lines there, or set VITREOUS_DATA"
        )
    return split_pairs("en-de", read_pairs(path))
