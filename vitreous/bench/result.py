"""What a benchmark has found: rows of times and memory, and what they mean beside the machine's peak."""

import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from vitreous.bench.ceiling import Ceilings, Work
from vitreous.bench.race import Setting


@dataclass(frozen=True)
class Row:
    """One library at one batch.

    Args:
        seconds: of a step, in each round.
        memory: bytes at the peak, None where they were not measured.
        ratio: median over the rounds of its time / ours; above 1 ours is faster.
    """

    library: str
    batch: int
    seconds: Sequence[float]
    memory: int | None
    ratio: float

    @property
    def median(self) -> float:
        """Seconds of a step."""
        return statistics.median(self.seconds)

    @property
    def p90(self) -> float:
        """Seconds that nine in ten steps stay below."""
        return statistics.quantiles(self.seconds, n=10, method="inclusive")[-1]

    @property
    def rate(self) -> float:
        """Samples a second."""
        return self.batch / self.median


@dataclass(frozen=True)
class Result:
    """All that was measured; `notes` say which libraries are missing and why."""

    name: str
    setting: Setting
    threads: int
    work: Work
    ceilings: Ceilings
    rows: Sequence[Row]
    notes: dict[str, str]

    @property
    def batches(self) -> list[int]:
        """In ascending order."""
        return sorted({row.batch for row in self.rows})

    def share(self, row: Row) -> float:
        """Of the machine's measured operations a second."""
        return self.work.flops * row.rate / self.ceilings.flops

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON; seconds, bytes, operations."""
        floors = {batch: self.work.floors(batch, self.ceilings) for batch in self.batches}
        return {
            "model": self.name,
            **asdict(self.setting),
            "threads": self.threads,
            "parameters": self.work.parameters,
            "flops_per_sample": self.work.flops,
            "peak_flops_per_second": self.ceilings.flops,
            "peak_bytes_per_second": self.ceilings.bytes,
            "rows": [self._row(row) for row in self.rows],
            "floors": [{"batch": n, "flops_seconds": f, "bytes_seconds": b} for n, (f, b) in floors.items()],
            "notes": self.notes,
        }

    def _row(self, row: Row) -> dict[str, Any]:
        return {
            "library": row.library,
            "batch": row.batch,
            "rounds": len(row.seconds),
            "median_seconds": row.median,
            "p90_seconds": row.p90,
            "samples_per_second": row.rate,
            "peak_memory_bytes": row.memory,
            "share_of_peak": self.share(row),
            "time_over_ours": row.ratio,
        }
