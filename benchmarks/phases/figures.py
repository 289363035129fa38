"""The figures of `identify_table`: what is counted of the answers for each kind of patterns, and what was wrong."""

import math
import statistics
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from benchmarks.phases import cases

Record = dict[str, Any]
"""An answer to a pattern, as `benchmarks.identify_table` keeps it."""
_LEAST = 0.02  # of the mass, from which phases of weighed mixtures count
_FIRST = 5
_SURE = 0.5  # probability from which an unknown phase is said to be there

Row = tuple[str, str, Callable[[list[Record]], str]]


def _share(values: Sequence[bool]) -> str:
    return f"{np.mean(values):.1%} of {len(values)}" if values else "-"


def _right_first(records: list[Record]) -> str:
    return _share([bool(r["phases"]) and r["phases"][0]["right"] is not None for r in records])


def _twin_first(records: list[Record]) -> str:
    return _share([bool(r["phases"]) and r["phases"][0]["twin"] is not None for r in records])


def _in_first(records: list[Record]) -> str:
    return _share([r["rank"] is not None and r["rank"] < _FIRST for r in records])


def _among(records: list[Record]) -> str:
    return _share([any(phase["right"] is not None for phase in r["phases"]) for r in records])


def counted(phase: Record) -> bool:
    """Whether a phase found is more than 2 % of the mass; those of unknown mass count."""
    return phase["fraction"] is None or phase["fraction"] > _LEAST


def found_truths(record: Record, twins: bool = False) -> set[int]:
    """The true phases that were found."""
    return {phase["twin" if twins else "right"] for phase in record["phases"]} - {None}


def weighed(record: Record) -> set[int]:
    """The true phases of more than 2 % of the mass."""
    return {place for place, truth in enumerate(record["truths"]) if truth["fraction"] > _LEAST}


def invented(record: Record) -> list[Record]:
    """Phases of more than 2 % of the mass that are not in the sample."""
    return [phase for phase in record["phases"] if phase["right"] is None and counted(phase)]


def _found_phases(records: list[Record]) -> str:
    return f"{sum(len(weighed(r) & found_truths(r)) for r in records)} of {sum(len(weighed(r)) for r in records)}"


def _complete(records: list[Record]) -> str:
    return _share([weighed(r) <= found_truths(r) for r in records])


def _complete_twins(records: list[Record]) -> str:
    return _share([weighed(r) <= found_truths(r, twins=True) for r in records])


def _invented(records: list[Record]) -> str:
    return str(sum(len(invented(record)) for record in records))


def fraction_error(record: Record) -> float:
    """Largest deviation of a mass fraction, of the phases weighed and of those invented."""
    sums = [0.0] * len(record["truths"])
    errors = [0.0]
    for phase in record["phases"]:
        if phase["right"] is None:
            errors.append(phase["fraction"] or 0.0)
        else:
            sums[phase["right"]] += phase["fraction"] or 0.0
    return max(*errors, *(abs(s - truth["fraction"]) for s, truth in zip(sums, record["truths"], strict=True)), 0.0)


def _worst_error(records: list[Record]) -> str:
    return f"{100 * max(fraction_error(record) for record in records):.1f} mass %"


def _median_error(records: list[Record]) -> str:
    return f"{100 * statistics.median(fraction_error(record) for record in records):.1f} mass %"


def f1(records: list[Record], twins: bool = False) -> float:
    """Of all phases of all patterns together."""
    right = sum(len(found_truths(record, twins)) for record in records)
    answered = sum(len(record["phases"]) for record in records)
    return 2 * right / max(answered + sum(len(record["truths"]) for record in records), 1)


def _f1_of(phases: int = 0, twins: bool = False) -> Callable[[list[Record]], str]:
    def figure(records: list[Record]) -> str:
        chosen = [record for record in records if not phases or len(record["truths"]) == phases]
        return f"{f1(chosen, twins):.3f} of {len(chosen)}" if chosen else "-"

    return figure


def _said_unknown(records: list[Record]) -> str:
    return _share([record["unknown"] > _SURE for record in records])


def _said_clear_unknown(records: list[Record]) -> str:
    return _said_unknown([record for record in records if record["missing"]["share"] > 0.05])


def seconds_text(records: list[Record]) -> str:
    """Median and largest time of a pattern."""
    seconds = [record["seconds"] for record in records]
    return f"{statistics.median(seconds):.2f}, most {max(seconds):.1f}"


ROWS: dict[str, tuple[Row, ...]] = {
    cases.MINERALS: (
        ("right species first", "80 %", _right_first), ("in the first five", "95 %", _in_first),
        ("among the phases found", "", _among),
        ("right or a twin first", "", _twin_first),
    ),
    cases.CLAYS: (("right species first", "", _right_first), ("in the first five", "", _in_first)),
    cases.ROUND_ROBIN: (
        ("phases above 2 % found", "all", _found_phases), ("invented above 2 %", "0", _invented),
        ("largest error", "3 mass %", _worst_error),
    ),
    cases.LONG: (
        ("every phase found", "85 %", _complete),
        ("every phase or a twin found", "", _complete_twins), ("phases found", "", _found_phases),
        ("invented above 2 %", "", _invented), ("median of largest errors", "", _median_error),
    ),
    cases.SHORT: (
        ("every phase found", "70 %", _complete),
        ("every phase or a twin found", "", _complete_twins), ("phases found", "", _found_phases),
        ("invented above 2 %", "", _invented), ("median of largest errors", "", _median_error),
    ),
    cases.SIMULATED: (
        ("F1 of phases", "0.95", _f1_of()), *((f"F1, {k} phase(s)", "", _f1_of(k)) for k in (1, 2, 3, 4)),
        ("F1, twins as right", "", _f1_of(twins=True)), ("false alarms of an unknown phase", "", _said_unknown),
    ),
    cases.MISSING: (
        ("said to have an unknown phase", "90 %", _said_unknown),
        ("likewise, above 5 % of the intensity", "", _said_clear_unknown),
    ),
}  # fmt: skip


def is_right(record: Record) -> bool:
    """Whether nothing is to be told of an answer."""
    group = record["group"]
    if group in (cases.MINERALS, cases.CLAYS):
        return bool(record["phases"]) and record["phases"][0]["right"] is not None
    if group == cases.MISSING:
        return bool(record["unknown"] > _SURE)
    if group == cases.SIMULATED:
        return f1([record]) == 1 and record["unknown"] < _SURE
    return weighed(record) <= found_truths(record) and not invented(record) and fraction_error(record) < 0.03


def show_failures(records: list[Record]) -> None:
    """A paragraph for each answer with an error."""
    for record in records:
        if is_right(record):
            continue
        print(f"{record['way']} | {record['group']} | {record['name']} | unknown {record['unknown']:.2f}")
        lost = set(range(len(record["truths"]))) - found_truths(record)
        for place, truth in enumerate(record["truths"]):
            amounts = [f"{word} {100 * truth[word]:.1f} %" for word in ("fraction", "share") if truth[word] is not None]
            print(f"    {'LOST ' if place in lost else ''}{truth['name']}  {'  '.join(amounts)}")
        if record["missing"]:
            print(f"    MISSING {record['missing']['name']}  share {100 * record['missing']['share']:.1f} %")
        for phase in record["phases"]:
            kind = "" if phase["right"] is not None else "twin " if phase["twin"] is not None else "WRONG "
            mass = math.nan if phase["fraction"] is None else 100 * phase["fraction"]
            print(f"    -> {kind}{phase['name']}  fraction {mass:.1f} %  share {100 * phase['share']:.1f} %")
        if record["group"] in (cases.MINERALS, cases.CLAYS):
            print(f"    ranking: {', '.join(record['ranking'])}")
