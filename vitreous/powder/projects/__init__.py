"""Projects for refinement programs: from an indexed pattern to the start of a Pawley or Le Bail fit elsewhere.

from vitreous.powder.projects import write_project

write_project(best, Path("sample.pcr"), pattern)
"""

import re
from collections.abc import Callable, Iterable, Sequence
from importlib.util import find_spec
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

__all__ = [
    "PROJECTS", "RefinementStart", "available_projects", "check_projects", "project_contents", "project_files",
    "refinement_start", "write_project",
]  # fmt: skip

_NAME = re.compile(r"[A-Za-z0-9_+][A-Za-z0-9_.+-]*")  # names that every program reads without quotes


class Project(NamedTuple):
    """A format: its program, the ends of the names of its files, and what writes their content.

    `advice` says what to do with the files, whose names begin with {name}; `phases` is the largest number of phases.
    """

    program: str
    endings: tuple[str, ...]
    contents: Callable[[Solution, Sequence[RefinementStart], str], dict[str, str]]
    advice: str
    phases: int = 1


def _jana(solution: Solution, starts: Sequence[RefinementStart], name: str) -> dict[str, str]:
    return jana_files(starts[0], name, solution.to_cif(profile=True))


PROJECTS = {
    ".pcr": Project(
        "FullProf", (".pcr", ".dat"), lambda _, starts, name: fullprof_files(starts[0], name),
        "Open {name}.pcr in FullProf and run it: a Le Bail fit.",
    ),
    ".inp": Project(
        "TOPAS", (".inp", ".xye"), lambda _, starts, name: topas_files(starts[0], name),
        "Load {name}.inp in TOPAS and run it: a Pawley fit.",
    ),
    ".instprm": Project(
        "GSAS-II", (".instprm", "_phase.cif", "_second.cif", ".xye", "_gsas2.py"),
        lambda _, starts, name: gsas2_files(starts, name),
        "Run {name}_gsas2.py with the Python of GSAS-II: it makes {name}.gpx with a Le Bail fit.", phases=2,
    ),
    ".m50": Project(
        "Jana", (".m50", "_jana.cif", ".xye", "_jana.txt"), _jana,
        "Import {name}_jana.cif and {name}.xye in Jana and copy the values of the profile from {name}_jana.txt.",
    ),
}  # fmt: skip
"""Formats by the suffix of their main file."""


def project_files(path: Path) -> list[Path]:
    """All files that a project may have, the main one first; a wrong name raises `InputError`."""
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


def available_projects() -> dict[str, str]:
    """Suffixes of the formats by their programs; those that need a package that is not installed are left out."""
    missing = {".instprm"} if find_spec("rietx") is None else set[str]()
    return {project.program: suffix for suffix, project in PROJECTS.items() if suffix not in missing}


def project_contents(
    solution: Solution, name: str, pattern: Pattern | None = None, second: Solution | None = None
) -> dict[str, str]:
    """The content of each file of a project, `name` first; the arguments are as those of `write_project`."""
    path = Path(name)
    project_files(path)  # checks the name
    project = PROJECTS[path.suffix]
    phases = [solution] if second is None else [solution, second]
    starts = [refinement_start(phase, pattern) for phase in phases[: project.phases]]
    return {path.stem + end: content for end, content in project.contents(solution, starts, path.stem).items()}


def write_project(
    solution: Solution, path: Path, pattern: Pattern | None = None, second: Solution | None = None
) -> list[Path]:
    """Write a start of a Pawley or Le Bail fit; the suffix of `path` chooses the program. Returns the files.

    Further files lie beside it and have names that begin as its own: they are replaced if they exist.

    Args:
        solution: with a refinement on the whole pattern.
        path: FullProf .pcr, TOPAS .inp, GSAS-II .instprm or Jana .m50.
        pattern: the one that was indexed, for its points beyond the range of the fit.
        second: a phase that was refined together with the solution; only GSAS-II's project has it.
    """
    contents = project_contents(solution, path.name, pattern, second)
    files = [path.with_name(name) for name in contents]
    for file, content in zip(files, contents.values(), strict=True):
        write_atomically(file, content.encode())
    return files
