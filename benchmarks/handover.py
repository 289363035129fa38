"""Hand-over to refinement programs: Rwp that rietx reaches from our project files, and from which files it starts.

    python -m benchmarks.handover                               # the example pattern
    python -m benchmarks.handover --names cimetidine nac_11bm   # and measured ones (setting VITREOUS_DATA)

rietx reads every file with its readers of TOPAS, FullProf and GSAS-II files, and refines background, cell, zero shift,
profile and axial divergence by Pawley's method. It reads models with atoms only: in TOPAS and FullProf files, the
keyword of a phase without atoms is replaced by that of a phase with atoms before reading. Rwp is over the range of our
fit, with its weights. Needs the extra `refine`.
"""

import re
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import rietx as rx
import tyro
from rich.console import Console
from rich.table import Table
from rietx.schemas.instrument import BackgroundChebyshev, EmissionLine, Geometry, Source
from threadpoolctl import threadpool_limits

from benchmarks.refinement_pulls import measured_cases
from vitreous.powder.cell import NAMES
from vitreous.powder.example import example
from vitreous.powder.indexing import IndexOptions, index_pattern
from vitreous.powder.pattern import Pattern
from vitreous.powder.projects import write_project
from vitreous.powder.refinement.refine import refine
from vitreous.powder.solution import Solution

_ALLOWED = 1.1  # Rwp relative to ours
_SHAPE = ("u", "v", "w", "x", "y")
_POSITIONS = ["phases.*.cell.*", "instrument.zero_shift"]
_PROFILE = ["instrument.profile.*", "instrument.geometry.axial_*"]
_BACKGROUND = ["instrument.background.*"]


class Model(NamedTuple):
    """A start that rietx read from files of another program."""

    structure: Any
    instrument: Any
    data: Any
    limits: tuple[float, float]


def read_gsas2(path: Path) -> Model:
    """From `.instprm`, the CIFs of the phases, `.xye`, and the limits and background of the script."""
    instrument = rx.read_gsas2_instprm(path)
    files = (path.with_name(path.stem + end) for end in ("_phase.cif", "_second.cif"))
    structure = rx.Structure(phases=[x for file in files if file.exists() for x in rx.Structure.from_cif(file).phases])
    script = path.with_name(f"{path.stem}_gsas2.py").read_text()
    instrument.background = _chebyshev(_numbers(r"coefficients = \[(.*?)\]", script))
    low, high = _numbers(r'"Limits": \[(.*?)\]', script)
    return Model(structure, instrument, rx.read_pattern(path.with_suffix(".xye")), (low, high))


def read_fullprof(path: Path) -> Model:
    """From `.pcr` and `.dat`."""
    text = re.sub(r"(?m)^(0 0 0 0\.0 0\.0 1\.0) 2 ", r"\1 0 ", path.read_text())  # Jbt: from Le Bail to Rietveld
    copy = path.with_name(f"{path.stem}_atoms.pcr")
    copy.write_text(text)
    model = rx.read_fullprof_pcr(copy)
    phase, waves = model.phases[0], model.pattern
    lines = [(waves["lambda1"], 1.0)] + [(waves["lambda2"], waves["ratio"])] * (waves["ratio"] > 0)
    widths = {name: phase.profile[name].value for name in ("u", "v", "w")}
    widths |= {"x": phase.profile["y"].value, "y": phase.profile["x"].value}  # X and Y have the opposite meaning
    instrument = _instrument(lines, widths, phase.profile["s_l"].value, _mean_shift_fullprof(model))
    angles, values = (
        np.array(column) for column in zip(*((at, each.value) for at, each in model.background), strict=True)
    )
    low, high = angles[0], angles[-1]
    instrument.background = _chebyshev(_fit_chebyshev(angles, values))
    structure = _structure([phase.cell[name].value for name in NAMES], phase.space_group)
    columns = np.loadtxt(path.with_suffix(".dat"), skiprows=6)
    return Model(structure, instrument, _pattern(columns), (low, high))


def read_topas(path: Path) -> Model:
    """From `.inp` and `.xye`."""
    text = path.read_text()
    copy = path.with_name(f"{path.stem}_atoms.inp")
    copy.write_text(text.replace("hkl_Is", "str") + "    site C1 x 0 y 0 z 0 occ C 1 beq 1\n")
    model = rx.read_topas_inp(copy)
    values = model.symbols
    prm = {name: _value(values[name]) for name in values}
    widths = {name: prm[f"width_{name}"] for name in ("u", "v", "w")}
    widths |= {"x": prm["width_size"], "y": prm["width_strain"]}
    low, high = _numbers(r"start_X (\S+) finish_X (\S+)", text)
    (radius,) = _numbers(r"Rs (\S+)", text)
    lines = [(line.wavelength, line.area) for line in model.emission_lines]
    middle = np.radians((low + high) / 4)
    zero = prm["line_zero"] + prm["line_displacement"] * np.cos(middle) + prm["line_transparency"] * np.sin(2 * middle)
    instrument = _instrument(lines, widths, prm["axial_length"] / (2 * radius), float(zero))
    instrument.background = _chebyshev(_numbers(r"bkg @ (.*)", text))
    structure = rx.io.projects.topas.to_structure(model)
    return Model(structure, instrument, rx.read_pattern(path.with_suffix(".xye")), (low, high))


READERS: dict[str, Callable[[Path], Model]] = {
    ".pcr": read_fullprof,
    ".inp": read_topas,
    ".instprm": read_gsas2,
}


def _value(entry: Any) -> float:
    return float(getattr(entry, "value", entry))


def _numbers(pattern: str, text: str) -> list[float]:
    found = re.search(pattern, text)
    assert found is not None, pattern
    return [float(word) for group in found.groups() for word in group.replace(",", " ").split()]


def _mean_shift_fullprof(model: Any) -> float:
    zero, cosine, sine = (model.zero_shift[name].value for name in ("zero", "sycos", "sysin"))
    middle = np.radians(np.mean([at for at, _ in model.background]) / 2)
    return float(zero + cosine * np.cos(middle) + sine * np.sin(2 * middle))


def _chebyshev(values: Any) -> Any:
    return BackgroundChebyshev(coefficients=[rx.Parameter(value=float(value), vary=True) for value in values])


def _fit_chebyshev(angles: Any, values: Any) -> Any:
    scaled = 2 * (angles - angles[0]) / (angles[-1] - angles[0]) - 1
    return np.polynomial.chebyshev.chebfit(scaled, values, min(35, (len(angles) + 5) // 2 - 1))


def _instrument(lines: list[tuple[float, float]], widths: dict[str, float], axial: float, zero: float) -> Any:
    emission = [
        EmissionLine(wavelength=rx.Parameter(value=wave), weight=rx.Parameter(value=weight)) for wave, weight in lines
    ]
    kind = "debye_scherrer" if len(lines) == 1 else "bragg_brentano"
    instrument = rx.Instrument(source=Source(lines=emission), geometry=Geometry(kind=kind, goniometer_radius_mm=200.0))
    for name in _SHAPE:
        getattr(instrument.profile, name).value = widths[name]
    instrument.geometry.axial_sl.value = instrument.geometry.axial_hl.value = axial
    instrument.zero_shift.value = zero
    return instrument


def _structure(cell: list[float], space_group: str) -> Any:
    sides = rx.Cell(**{name: rx.Parameter(value=value) for name, value in zip(NAMES, cell, strict=True)})
    atom = rx.Atom(label="C1", species="C", **{axis: rx.Parameter(value=0.0) for axis in "xyz"})
    return rx.Structure(phases=[rx.Phase(name="phase", space_group=space_group, cell=sides, atoms=[atom])])


def _pattern(columns: Any) -> Any:
    two_theta, intensity, sigma = columns.T.tolist()
    return rx.PatternData(two_theta=two_theta, intensity=intensity, sigma=sigma)


def refine_elsewhere(model: Model) -> float:
    """Rwp of a Pawley fit in rietx: background first, then everything."""
    everything = [*_BACKGROUND, *_POSITIONS, *_PROFILE]
    stages = [rx.Stage("background", _BACKGROUND), rx.Stage("all", everything)]
    refinement = rx.Refinement(model.structure, model.instrument)
    plan = rx.RefinementPlan(stages=stages)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of peaks in the residual, which it looks for
        result = refinement.fit(model.data, mode="pawley", plan=plan, two_theta_limits=model.limits, telemetry=False)
    return float(result.statistics.rwp)


class Row(NamedTuple):
    """Rwp of a pattern: ours, and that of rietx from each kind of file; times in seconds."""

    name: str
    ours: float
    theirs: dict[str, float]
    our_seconds: float
    seconds: dict[str, float]


def compare(pattern: Pattern) -> Row | None:
    """The row of one pattern; None without a likely cell."""
    solutions = index_pattern(pattern, IndexOptions(hints=False)).solutions
    best = solutions[0] if solutions else None
    if best is None or best.fit is None:
        return None
    start = time.perf_counter()
    _our_fit(pattern, best)
    our_seconds = time.perf_counter() - start
    theirs, seconds = {}, {}
    with tempfile.TemporaryDirectory() as folder, threadpool_limits(1):
        for suffix, read in READERS.items():
            path = Path(folder) / f"sample{suffix}"
            write_project(best, path, pattern)
            model = read(path)
            start = time.perf_counter()
            theirs[suffix] = refine_elsewhere(model)
            seconds[suffix] = time.perf_counter() - start
    return Row(pattern.name.partition(".")[0], best.fit.rwp, theirs, our_seconds, seconds)


def _our_fit(pattern: Pattern, best: Solution) -> None:
    assert best.fit is not None
    refine(
        pattern.two_theta, pattern.intensity, best.conventional, wavelength=best.wavelength,
        wavelength2=pattern.wavelength2, ratio=pattern.ratio, sigma=pattern.sigma, zero=best.zero,
        system=best.crystal_system, centring=best.centring, most=max(len(best.fit.hkl), 10),
    )  # fmt: skip


def show(rows: list[Row]) -> None:
    """Print a row for each pattern."""
    console = Console(width=120)
    table = Table(title="Rwp of our fit, and of rietx from our files (seconds of the fits)")
    for heading in ("pattern", "ours", *READERS):
        table.add_column(heading, justify="left" if heading == "pattern" else "right")
    for row in rows:
        cells = [f"{row.theirs[suffix]:.2%} ({row.seconds[suffix]:.1f})" for suffix in READERS]
        table.add_row(row.name, f"{row.ours:.2%} ({row.our_seconds:.1f})", *cells)
    console.print(table)
    bad = [f"{row.name} {suffix}" for row in rows for suffix, rwp in row.theirs.items() if rwp > _ALLOWED * row.ours]
    console.print(f"more than {_ALLOWED - 1:.0%} above ours: {', '.join(bad) or 'none'}")


def main(names: tuple[str, ...] = ()) -> None:
    """Index patterns, refine them elsewhere from our files, and print the table.

    Args:
        names: words of which a measured pattern's name contains one; the example pattern is always first.
    """
    cases = [case for case in (measured_cases(10) if names else []) if any(word in case.name for word in names)]
    patterns = [example("thiosulfate"), *(case.pattern for case in cases)]
    show([row for pattern in patterns if (row := compare(pattern)) is not None])


if __name__ == "__main__":
    tyro.cli(main)
