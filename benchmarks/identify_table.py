"""Phases and amounts of measured and simulated patterns, by `vitreous identify` and by a classical search-match.

    python -m benchmarks.identify_table --out runs/identify                    # everything on two cores, hours
    python -m benchmarks.identify_table --out runs/identify --count 8 --ways identify --groups simulated

The database has the minerals of the data folder (setting VITREOUS_DATA); for the precursors it also has the structures
in `benchmarks/phases/precursors`. It is built in OUT, with embeddings. Columns: `identify_pattern`; the same with a
database without embeddings; a match by the strongest lines (`benchmarks.phases.hanawalt`). No elements are given.

- Reference minerals: the species is right first if it is the phase with the largest share of the intensity, and in the
  first five if it is that phase or one of its first four rivals by name (for the strongest lines: the first five).
  `found`: it is among the phases of the answer. Clays are apart; glasses have no species in the database.
- Round robin and precursors: phases of more than 2 % of the mass, weighed or found.
- Simulated mixtures of one to four minerals, each 5 % of the mass or more, with cells changed by up to 0.6 %, texture,
  shifts, widths and noise of a laboratory. A phase is right if it has the name of the mineral, or its formula and space
  group, or nearly its composition and its lines. F1 counts all phases found. Twins are other entries that a pattern can
  hardly tell from the mineral without knowing elements: of the same space group with lengths within 2 %, or with strong
  lines alike. `one phase missing`: the database lacks all entries of one phase of the sample, and their twins.

A finished pattern is kept in `OUT/answers.jsonl`, and what is there is not done again. `--failures` lists errors.
"""

import json
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import lru_cache
from multiprocessing import get_context
from pathlib import Path
from typing import Literal, NamedTuple

import torch
import tyro
from rich.console import Console
from rich.progress import track
from rich.table import Table

from benchmarks.phases import cases
from benchmarks.phases.cases import Case, Truth
from benchmarks.phases.figures import ROWS, Record, seconds_text, show_failures
from benchmarks.phases.hanawalt import search_match
from vitreous.powder.identify.database import Database
from vitreous.powder.identify.identification import identify_pattern
from vitreous.powder.pattern import Pattern

Way = Literal["identify", "no embedding", "strongest lines"]
WAYS: tuple[Way, ...] = ("identify", "no embedding", "strongest lines")
GroupName = Literal["reference", "round robin", "precursors", "simulated", "missing"]
_GROUPS: dict[GroupName, tuple[str, ...]] = {
    "reference": (cases.MINERALS, cases.CLAYS),
    "round robin": (cases.ROUND_ROBIN,),
    "precursors": (cases.LONG, cases.SHORT),
    "simulated": (cases.SIMULATED,),
    "missing": (cases.MISSING,),
}
_LISTED = 5  # names of rivals that are kept


class Task(NamedTuple):
    """A pattern to be identified, in words: the group, the name or number, and the way."""

    group: str
    name: str
    way: Way


class Answer(NamedTuple):
    """What a way says: phases as (entry, mass fraction, share), entries that may be the first one, an unknown phase."""

    phases: tuple[tuple[int, float | None, float], ...]
    ranking: tuple[int | str, ...]
    unknown: float


def identified(database: Database, pattern: Pattern) -> Answer:
    """By `identify_pattern`; rivals are known by their names."""
    result = identify_pattern(pattern, database)
    phases = sorted(result.phases, key=lambda phase: -phase.share)
    rivals: tuple[int | str, ...] = ()
    if phases:
        rivals = phases[0].entry, *(rival.name.lower() for rival in phases[0].rivals)
    return Answer(tuple((p.entry, p.fraction, p.share) for p in phases), rivals, result.unknown_probability)


def matched(database: Database, pattern: Pattern) -> Answer:
    """By the strongest lines."""
    result = search_match(database, pattern, cases.solid_entries(database))
    phases = sorted(result.phases, key=lambda phase: -phase.share)
    return Answer(tuple((p.entry, p.fraction, p.share) for p in phases), result.ranking, float(result.has_unknown))


_ANSWERS: dict[Way, Callable[[Database, Pattern], Answer]] = {
    "identify": identified,
    "no embedding": lambda database, pattern: identified(cases.without_embedding(database), pattern),
    "strongest lines": matched,
}


def record_of(case: Case, answer: Answer, task: Task, seconds: float) -> Record:
    """What is kept of an answer: which of its phases are right, its amounts, and its words."""
    database = case.database
    phases = []
    for entry, fraction, share in answer.phases:
        phases.append({
            "name": f"{database.name(entry)} {database.formula(entry)}", "fraction": fraction, "share": share,
            "right": _places(case.truths, entry, twins=False), "twin": _places(case.truths, entry, twins=True),
        })  # fmt: skip
    names = list(
        dict.fromkeys(each if isinstance(each, str) else database.name(each).lower() for each in answer.ranking)
    )
    right = {database.name(i).lower() for truth in case.truths for i in truth.entries}
    rank = next((place for place, name in enumerate(names) if name in right), None)
    truths = [{"name": t.name, "fraction": t.fraction, "share": t.share} for t in case.truths]
    missing = case.missing and {"name": case.missing.name, "share": case.missing.share}
    return {
        "group": case.group, "name": case.name, "way": task.way, "seconds": seconds, "truths": truths,
        "missing": missing, "phases": phases, "rank": rank, "ranking": names[:_LISTED], "unknown": answer.unknown,
    }  # fmt: skip


def _places(truths: Sequence[Truth], entry: int, twins: bool) -> int | None:
    """The true phase that an entry is, or is a twin of."""
    for place, truth in enumerate(truths):
        if entry in truth.entries or (twins and entry in truth.twins):
            return place
    return None


def solve(task: Task, folder: Path, seed: int) -> Record:
    """Identify one pattern."""
    torch.set_num_threads(1)
    case = _case(task.group, task.name, folder, seed)
    if not _is_warm():
        _ANSWERS[task.way](case.database, case.pattern)  # imports and the model
    start = time.process_time()
    answer = _ANSWERS[task.way](case.database, case.pattern)
    return record_of(case, answer, task, time.process_time() - start)


_warm: list[bool] = []


def _is_warm() -> bool:
    _warm.append(True)
    return len(_warm) > 1


@lru_cache(maxsize=2)
def _database(path: Path) -> Database:
    return Database.open(path)


@lru_cache(maxsize=1)
def _case(group: str, name: str, folder: Path, seed: int) -> Case:
    """The same for all ways."""
    plain, extended = cases.databases(folder)
    database = _database(extended if group in (cases.LONG, cases.SHORT) else plain)
    if group in (cases.MINERALS, cases.CLAYS):
        return cases.reference_case(database, name, dict(cases.reference_names(database))[name])
    if group in (cases.SIMULATED, cases.MISSING):
        return cases.simulated_case(database, group, int(name), seed)
    return cases.mixture_case(database, group, name)


def all_tasks(folder: Path, groups: Sequence[GroupName], ways: Sequence[Way], count: int) -> list[Task]:
    """The chosen groups with `count` simulated mixtures in each of theirs."""
    database = _database(next(iter(cases.databases(folder))))
    chosen = [name for group in groups for name in _GROUPS[group]]
    names: list[tuple[str, str]] = [
        (cases.CLAYS if cases.is_clay(species) else cases.MINERALS, name)
        for name, species in cases.reference_names(database)
    ]
    names += cases.mixture_files()
    names += [(group, str(i)) for i in range(count) for group in (cases.SIMULATED, cases.MISSING)]
    order = [name for group in chosen for name in names if name[0] == group]
    return [Task(*name, way) for name in order for way in ways]


def solved(tasks: Sequence[Task], folder: Path, seed: int, jobs: int) -> Iterator[Record]:
    """Records as they come, from processes of one thread each."""
    if jobs == 1:
        yield from (solve(task, folder, seed) for task in tasks)
        return
    with ProcessPoolExecutor(jobs, get_context("spawn")) as pool:
        running = [pool.submit(solve, task, folder, seed) for task in tasks]
        for each in running:
            yield each.result()


def show(records: list[Record], ways: Sequence[Way]) -> None:
    """Print the table."""
    table = Table(title="Phases of powder patterns")
    for heading in ("patterns", "figure", "to reach", *ways):
        table.add_column(heading, justify="left" if heading in ("patterns", "figure") else "right")
    for group in cases.GROUPS:
        by_way = [[r for r in records if r["group"] == group and r["way"] == way] for way in ways]
        if not any(by_way):
            continue
        number = max(len(chosen) for chosen in by_way)
        for place, (figure, wanted, of) in enumerate(ROWS[group]):
            cells = [of(chosen) if chosen else "-" for chosen in by_way]
            table.add_row("" if place else f"{group} ({number})", figure, wanted, *cells)
        table.add_row(
            "", "seconds a pattern, median", "2", *(seconds_text(chosen) if chosen else "-" for chosen in by_way)
        )
        table.add_section()
    Console(width=150).print(table)


def main(
    out: Path, count: int = 100, groups: tuple[GroupName, ...] = tuple(_GROUPS), ways: tuple[Way, ...] = WAYS,
    jobs: int = 2, seed: int = 28, failures: bool = False,
) -> None:  # fmt: skip
    """Identify what is not yet identified and print the table.

    Args:
        out: folder of answers.jsonl and of the databases.
        count: simulated mixtures, and as many of which the database lacks a phase.
        groups: which patterns, in this order.
        ways: which columns.
        jobs: processes of one thread each.
        seed: of the simulated mixtures.
        failures: list the answers with an error, too.
    """
    torch.set_num_threads(1)
    out.mkdir(parents=True, exist_ok=True)
    path = out / "answers.jsonl"
    records = [json.loads(line) for line in path.read_text().splitlines()] if path.is_file() else []
    tasks = all_tasks(out, groups, ways, count)
    finished = {(r["group"], r["name"], r["way"]) for r in records if r["seed"] == seed}
    left = [task for task in tasks if task not in finished]
    with path.open("a") as file:
        for record in track(solved(left, out, seed, jobs), "identifying", len(left)):
            record["seed"] = seed
            file.write(json.dumps(record) + "\n")
            file.flush()
            records.append(record)
    wanted = {(*task, seed) for task in tasks}
    chosen = [r for r in records if (r["group"], r["name"], r["way"], r["seed"]) in wanted]
    if failures:
        show_failures(chosen)
    show(chosen, ways)


if __name__ == "__main__":
    tyro.cli(main)
