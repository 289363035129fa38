"""Projects for refinement programs: from an indexed pattern to the start of a Pawley or Le Bail fit elsewhere.

from vitreous.powder.projects import write_project

write_project(best, Path("sample.pcr"), pattern)
"""

import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from vitreous.core.atomic import write_atomically
from vitreous.core.errors import InputError
from vitreous.core.extras import load_extra
from vitreous.powder.pattern import Pattern
from vitreous.powder.projects.fullprof import fullprof_files
from vitreous.powder.projects.gsas2 import gsas2_files
from vitreous.powder.projects.jana import jana_files
from vitreous.powder.projects.start import RefinementStart, refinement_start
from vitreous.powder.projects.topas import topas_files
from vitreous.powder.solution import Solution

__all__ = ["PROJECTS", "RefinementStart", "check_projects", "project_files", "refinement_start", "write_project"]

_NAME = re.compile(r"[A-Za-z0-9_+][A-Za-z0-9_.+-]*")  # names that every program reads without quotes


class Project(NamedTuple):
    """A format: its program, the ends of the names of its files, and what writes their content."""

    program: str
    endings: tuple[str, ...]
    contents: Callable[[Solution, RefinementStart, str], dict[str, str]]


def _jana(solution: Solution, start: RefinementStart, name: str) -> dict[str, str]:
    return jana_files(start, name, solution.to_cif(profile=True))


PROJECTS = {
    ".pcr": Project("FullProf", (".pcr", ".dat"), lambda _, start, name: fullprof_files(start, name)),
    ".inp": Project("TOPAS", (".inp", ".xye"), lambda _, start, name: topas_files(start, name)),
    ".instprm": Project(
        "GSAS-II", (".instprm", "_phase.cif", ".xye", "_gsas2.py"), lambda _, start, name: gsas2_files(start, name)
    ),
    ".m50": Project("Jana", (".m50", "_jana.cif", ".xye", "_jana.txt"), _jana),
}
"""Formats by the suffix of their main file."""


def project_files(path: Path) -> list[Path]:
    """The files of a project, the main one first; a wrong name raises `InputError`."""
    project = PROJECTS.get(path.suffix)
    if project is None:
        choices = ", ".join(f"{suffix} ({each.program})" for suffix, each in PROJECTS.items())
        raise InputError(f"project: found {path.name}, expected a name that ends in one of: {choices}")
    if not _NAME.fullmatch(path.stem):
        raise InputError(f"project: found {path.name}, expected a name of letters, digits, _, +, - and dots")
    return [path.with_name(path.stem + ending) for ending in project.endings]


def check_projects(paths: Sequence[Path], inputs: Iterable[Path]) -> None:
    """Raise `InputError` if a project has a wrong name, would replace an input, or needs what is not installed."""
    read = {each.resolve() for each in inputs}
    for path in paths:
        for file in project_files(path):
            if file.resolve() in read:
                raise InputError(
                    f"project: found {path}, whose {file.name} is the measured pattern; expected another name"
                )
        if path.suffix == ".instprm":
            load_extra("rietx", "refine")


def write_project(solution: Solution, path: Path, pattern: Pattern | None = None) -> list[Path]:
    """Write a start of a Pawley or Le Bail fit; the suffix of `path` chooses the program. Returns the files.

    Further files lie beside it and have names that begin as its own: they are replaced if they exist.

    Args:
        solution: with a refinement on the whole pattern.
        path: FullProf .pcr, TOPAS .inp, GSAS-II .instprm or Jana .m50.
        pattern: the one that was indexed, for its points beyond the range of the fit.
    """
    files = project_files(path)
    contents = PROJECTS[path.suffix].contents(solution, refinement_start(solution, pattern), path.stem)
    for file, content in zip(files, contents.values(), strict=True):
        write_atomically(file, content.encode())
    return files
