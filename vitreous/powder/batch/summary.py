"""`BatchSummary`: what many patterns gave, by crystal system and probability."""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from vitreous.powder.batch.row import Row

PROBABILITIES = (0.9, 0.5, 0.0)
"""Lowest probabilities of the classes that are counted."""
NO_CELL = "no cell"
FAILED = "failed"


@dataclass
class BatchSummary:
    """Numbers of patterns.

    Args:
        indexed: patterns that this command indexed.
        skipped: patterns whose rows were there already.
        counts: rows by crystal system, `NO_CELL` or `FAILED`, and lowest probability of the class.
    """

    indexed: int = 0
    skipped: int = 0
    counts: Counter[tuple[str, float]] = field(default_factory=Counter)

    @property
    def failed(self) -> int:
        """Files that could not be indexed, now or before."""
        return self.counts[FAILED, 0.0]

    @property
    def total(self) -> int:
        """Rows of all kinds."""
        return self.counts.total()

    def count(self, rows: Iterable[Row]) -> Iterator[Row]:
        """The same rows, which are counted as they pass."""
        for row in rows:
            self.counts[_class_of(row)] += 1
            yield row


def _class_of(row: Row) -> tuple[str, float]:
    if row["fault"] is not None:
        return FAILED, 0.0
    if row["system"] is None:
        return NO_CELL, 0.0
    return row["system"], next(lowest for lowest in PROBABILITIES if row["probability"] >= lowest)
