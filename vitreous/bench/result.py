"""Results of a benchmark: times and memory by library and batch, and their share of the machine's peak."""

import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from vitreous.bench.machine_peak import MachinePeak, Work
from vitreous.bench.timing import Setting


@dataclass(frozen=True)
class Row:
    """One library at one batch.

    Args:
        seconds: per step, in each round.
        memory: peak bytes; None if not measured.
        ratio: median over the rounds of its time / ours; above 1 ours is faster.
    """

    library: str
    batch: int
    seconds: Sequence[float]
    memory: int | None
    ratio: float

    @property
    def median(self) -> float:
        """Median seconds per step."""
        return statistics.median(self.seconds)

    @property
    def p90(self) -> float:
        """90th percentile of the seconds per step."""
        return statistics.quantiles(self.seconds, n=10, method="inclusive")[-1]

    @property
    def rate(self) -> float:
        """Samples per second."""
        return self.batch / self.median


@dataclass(frozen=True)
class Result:
    """All measurements; `notes` gives the libraries that are missing and why."""

    name: str
    setting: Setting
    threads: int
    work: Work
    peak_rates: MachinePeak
    rows: Sequence[Row]
    notes: dict[str, str]

    @property
    def batches(self) -> list[int]:
        """In ascending order."""
        return sorted({row.batch for row in self.rows})

    def share(self, row: Row) -> float:
        """Share of the machine's peak operations per second."""
        return self.work.flops * row.rate / self.peak_rates.flops

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON; seconds, bytes, operations."""
        floors = {batch: self.work.floors(batch, self.peak_rates) for batch in self.batches}
        return {
            "model": self.name,
            **asdict(self.setting),
            "threads": self.threads,
            "parameters": self.work.parameters,
            "flops_per_sample": self.work.flops,
            "peak_flops_per_second": self.peak_rates.flops,
            "peak_bytes_per_second": self.peak_rates.bytes,
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
