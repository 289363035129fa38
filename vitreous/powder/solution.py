"""The answers of indexing: a `Solution` is one unit cell, an `IndexResult` all solutions of one pattern."""

from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

import numpy as np

from vitreous.core.errors import InputError
from vitreous.powder.cell import cell_line, refined_parameters, volumes
from vitreous.powder.indexed_lines import (
    IndexedLine,
    Reflections,
    UnexplainedLine,
    assign_lines,
    describe_unexplained,
    unexplained_lines,
)
from vitreous.powder.lattice_prior import log_prior
from vitreous.powder.pattern import Pattern
from vitreous.powder.peaks import Peaks
from vitreous.powder.refinement import Fit, reflections
from vitreous.powder.tuning import DOUBTS

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from vitreous.powder.calibration import Calibration
    from vitreous.powder.known import Known
    from vitreous.powder.profile_symmetry import ProfileSymmetry
    from vitreous.powder.symmetry import RankedSymbol


_LIKELY_SYMBOL = 0.05  # probability of an extinction symbol: the text names those above it,
_SHOWN_SYMBOLS = 3  # at most so many,
_LISTED_SYMBOLS = 5  # and the record so many
_REFINED = (
    "cell", "errors", "zero", "zero_error", "displacement", "displacement_error", "transparency", "transparency_error",
    "rwp", "chi2", "unexplained",
)  # fmt: skip


@dataclass(frozen=True)
class Solution:
    """A unit cell that explains a pattern.

    Args:
        cell: a, b, c (Å), α, β, γ (°) of the Niggli-reduced primitive cell.
        conventional: the same of the conventional cell.
        system: crystal system of the lattice; hexagonal also stands for trigonal crystals with a primitive lattice.
        volume: of the conventional cell, Å³.
        m20: de Wolff's figure of merit over the first 20 lines, or as many as there are.
        f20: Smith and Snyder's figure of merit, in 1/°.
        indexed: number of lines that the cell explains.
        lines: number of lines that were used.
        possible: number of calculated lines up to the last of these.
        zero: zero shift in degrees.
        evidence: log-likelihood ratio of the lines under this cell and under chance, with the prior of the lattice.
        probability: that this is the right lattice.
        unexplained: share of the crystal's own lines that the cell does not explain; weak lines count less.
        margin: of the best solution, its evidence above that of the next.
        wavelength: ångström.
        radiation: `X-rays` or `neutrons`, if that is known.
        two_theta: angles of the lines that were used, in degrees.
        intensity: of these lines, relative to the strongest; empty if unknown.
        tolerance: degrees within which a cell explains these lines.
        fit: refinement on the whole pattern, if there was one.
        symbols: extinction symbols with their space groups by that refinement, likeliest first.
        formula_units: number of formula units in the conventional cell, not rounded; None if no formula is known.
    """

    cell: tuple[float, ...]
    conventional: tuple[float, ...]
    system: str
    centring: str
    volume: float
    m20: float
    f20: float
    indexed: int
    lines: int
    zero: float
    evidence: float
    probability: float
    possible: int = field(default=0, repr=False)
    unexplained: float = field(default=0.0, repr=False)
    margin: float = field(default=0.0, repr=False)
    wavelength: float = field(default=0.0, repr=False)
    two_theta: tuple[float, ...] = field(default=(), repr=False)
    intensity: tuple[float, ...] = field(default=(), repr=False)
    tolerance: tuple[float, ...] = field(default=(), repr=False)
    fit: Fit | None = field(default=None, repr=False, compare=False)
    symbols: tuple["RankedSymbol", ...] = field(default=(), repr=False, compare=False)
    formula_units: float | None = field(default=None, repr=False)
    radiation: str | None = field(default=None, repr=False)

    @property
    def crystal_system(self) -> str:
        """The crystal system in which a rhombohedral lattice is trigonal."""
        return "trigonal" if self.centring == "R" else self.system

    @property
    def log_prior(self) -> float:
        """The logarithm of how often crystals have such a lattice, which is part of the evidence."""
        return log_prior(self.system, self.centring, float(volumes([self.cell])[0]))

    @property
    def refined(self) -> tuple[float, ...]:
        """The conventional cell, as refined on the whole pattern if it was."""
        return self.conventional if self.fit is None else self.fit.cell

    @property
    def errors(self) -> tuple[float, ...] | None:
        """Standard errors of `refined`, 0 where the system fixes a parameter; None if it was not refined."""
        return None if self.fit is None else self.fit.errors

    @property
    def why(self) -> str:
        """The reasons for the probability."""
        margin = f", {self.margin:.1f} above the next lattice" if self.margin > 0 else ""
        explained = f"{self.indexed} of {self.lines} lines explained"
        return f"{explained}, M20 {self.m20:.1f}, F20 {self.f20:.1f}, evidence {self.evidence:.1f}{margin}"

    @property
    def space_groups(self) -> str:
        """The likely extinction symbols with their space groups, in words; empty if there was no refinement."""
        return "; ".join(each.text for each in self.symbols[:_SHOWN_SYMBOLS] if each.probability >= _LIKELY_SYMBOL)

    @property
    def doubts(self) -> str:
        """What speaks against the solution, in words; empty if it is very likely."""
        limits, found = DOUBTS, list[str]()
        if self.probability > limits.probability:
            return ""
        if self.unexplained > limits.unexplained_lines:
            found.append(f"{self.lines - self.indexed} of {self.lines} lines are unexplained")
        if self.fit is not None and self.fit.unexplained > limits.unexplained_intensity:
            found.append(f"{self.fit.unexplained:.0%} of the intensity is at no reflection")
        if self.fit is not None and self.fit.rwp > limits.misfit * self.fit.rexp:
            found.append(f"Rwp is {self.fit.rwp:.1%} where noise alone gives {self.fit.rexp:.1%}")
        if 0 < self.margin < limits.margin:
            found.append("another lattice explains the lines nearly as well")
        if self.margin < 0:
            found.append("a related lattice, or chance, explains the lines better")
        if self.possible > limits.density * self.lines:
            found.append(f"{self.possible} lines are possible where {self.lines} were observed")
        if self.lines < limits.few_lines:
            found.append(f"there are only {self.lines} lines")
        return "; ".join(found)

    @property
    def text(self) -> str:
        """The solution in a few lines of plain text."""
        cell = cell_line(self.conventional) if self.fit is None else refined_parameters(self.fit.cell, self.fit.errors)
        volume = float(volumes([self.refined])[0])
        first = f"{self.system} {self.centring}, probability {self.probability:.3f}"
        shifts = f"zero shift {self.zero:.3f}°" if self.fit is None else self.fit.shifts
        lines = [first, f"{cell}, V = {volume:.1f} Å³, {shifts}", self.why]
        lines += [f"{self.formula_units:.2f} formula units in the cell"] if self.formula_units is not None else []
        lines += [f"extinction symbol {self.space_groups}"] if self.symbols else []
        return "\n".join([*lines, *([f"against it: {self.doubts}"] if self.doubts else [])])

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        from vitreous.powder.notebook import solution_line

        return solution_line(self)

    def _repr_html_(self) -> str:
        from vitreous.powder.notebook import solution_html

        return solution_html(self)

    def reflections(self, limits: tuple[float, float], most: int = 200) -> tuple[np.ndarray, np.ndarray]:
        """Miller indices `(n, 3)` and observed 2θ `(n,)` in degrees, zero shift included, of the first reflections.

        `limits` are the first and last 2θ in degrees, `most` is the largest number of reflections.
        """
        hkl, angle = self._ideal_reflections(self.conventional, limits, most)
        return hkl, angle + self.zero

    def refined_reflections(self, limits: tuple[float, float], most: int = 2000) -> Reflections:
        """The same as `reflections` by the refinement, with all its shifts of the lines; needs a `fit`."""
        if self.fit is None:
            raise InputError("fit: found none, expected a refined solution")
        hkl, angle = self._ideal_reflections(self.fit.cell, limits, most)
        return hkl, angle + self.fit.shifts_at(angle)

    def _ideal_reflections(self, cell: Sequence[float], limits: tuple[float, float], most: int) -> Reflections:
        """Reflections without any shift; none if there are none in the range."""
        try:
            return reflections(cell, self.crystal_system, self.centring, self.wavelength, limits, most)
        except InputError:
            return np.zeros((0, 3), dtype=np.int64), np.zeros(0)

    def indexed_lines(self) -> list[IndexedLine]:
        """The observed lines with the indices of the nearest reflections."""
        if not self.two_theta:
            return []
        calculated = self.reflections(self._line_range, 2000)
        return assign_lines(self.two_theta, self.intensity, self.tolerance, [calculated])

    @property
    def unexplained_lines(self) -> list[UnexplainedLine]:
        """The observed lines that the cell does not explain, with their shares of the intensity of all lines."""
        return unexplained_lines(self.indexed_lines())

    @property
    def _line_range(self) -> tuple[float, float]:
        """The first and last 2θ in degrees of reflections that may explain the lines."""
        return 0.1, min(179.0, self.two_theta[-1] + 1)

    def to_dict(self) -> dict[str, Any]:
        """The solution as JSON values: the fields that `repr` shows, and the formula units if they are known."""
        record = {part.name: getattr(self, part.name) for part in fields(self) if part.repr}
        return record if self.formula_units is None else record | {"formula_units": round(self.formula_units, 3)}

    def phase_record(self) -> dict[str, Any]:
        """A refined phase as JSON values: its solution, share of the intensity, refined cell and errors."""
        assert self.fit is not None
        refined = {name: getattr(self.fit, name) for name in ("share", "cell", "errors")}
        return {"solution": self.to_dict(), "share": refined.pop("share"), "refined": refined}

    def plot(self, title: str = "") -> "Figure":
        """A figure of the refinement, or of observed and calculated lines if there was none."""
        from vitreous.powder.figures.fit import fit_figure, lines_figure

        return lines_figure(self, title) if self.fit is None else fit_figure(self.fit, title)

    def to_cif(self, refined: bool = True, profile: bool = False) -> str:
        """The cell as a CIF; with `refined`, as refined on the whole pattern, if it was, with standard errors.

        `profile` adds space group, reflections, and measured and calculated profile of that refinement.
        """
        from vitreous.powder.projects.cell_cif import cell_cif

        return cell_cif(self, self.fit if refined else None, profile)


@dataclass(frozen=True)
class IndexResult:
    """The solutions of one pattern or peak list, best first; or the error that prevented them.

    Args:
        name: of the file or pattern.
        solutions: best first; the first one holds the refinement on the whole pattern.
        hints: what may be wrong, one sentence each.
        peaks: lines found in the pattern; None for a peak list.
        pattern: all of its points at corrected angles, also those that were not used; None for a peak list.
        symmetry: what the whole profile and the cells say about the symmetry; None unless it was asked for or is all
            that can be said.
        known: what was known beforehand.
        calibration: of the angles with a standard, if there was one.
        second: a phase beside the first solution, refined together with it.
    """

    name: str
    solutions: list[Solution]
    hints: Sequence[str] = ()
    error: str | None = None
    peaks: Peaks | None = None
    symmetry: "ProfileSymmetry | None" = None
    known: "Known | None" = None
    calibration: "Calibration | None" = None
    second: Solution | None = None
    pattern: Pattern | None = field(default=None, compare=False)

    @property
    def best(self) -> Solution | None:
        """The first solution."""
        return self.solutions[0] if self.solutions else None

    def plot(self, title: str = "") -> "Figure":
        """A figure of the refinement of all phases, or of the lines if there was none; needs a solution."""
        from vitreous.powder.figures.fit import phases_figure

        if self.best is None:
            raise InputError(f"{self.name}: found no cell, expected one to draw")
        return self.best.plot(title) if self.second is None else phases_figure(self.phases, title)

    @property
    def phases(self) -> list[Solution]:
        """The first solution and, if there is one, the second phase, which has less of the intensity."""
        return [phase for phase in (self.best, self.second) if phase is not None]

    def indexed_lines(self) -> list[IndexedLine]:
        """The observed lines with the indices of the nearest reflections of either phase."""
        if self.best is None or self.second is None:
            return [] if self.best is None else self.best.indexed_lines()
        first = self.best
        calculated = [phase.refined_reflections(first._line_range) for phase in (first, self.second)]
        return assign_lines(first.two_theta, first.intensity, first.tolerance, calculated)

    @property
    def unexplained(self) -> list[UnexplainedLine]:
        """The observed lines that no phase explains, with their shares of the intensity of all lines."""
        return unexplained_lines(self.indexed_lines())

    @property
    def unexplained_text(self) -> str:
        """The unexplained lines in words; empty where they amount to nothing."""
        return describe_unexplained(self.unexplained, len(self.best.two_theta)) if self.best is not None else ""

    @property
    def fit(self) -> Fit | None:
        """The refinement of the first solution on the whole pattern, if there was one."""
        return None if self.best is None else self.best.fit

    @property
    def phases_text(self) -> str:
        """The phases with their shares of the intensity, a line for each; empty if there is one."""
        if self.second is None or self.fit is None:
            return ""
        lines = [f"two phases, refined together (Rwp {self.fit.rwp:.1%}); shares are of the intensity, not of the mass"]
        for number, phase in enumerate(self.phases, 1):
            assert phase.fit is not None
            cell = refined_parameters(phase.fit.cell, phase.fit.errors)
            lattice = f"{phase.system} {phase.centring}, probability {phase.probability:.3f}"
            lines.append(f"{number}: {phase.fit.share:.1%}, {lattice}: {cell}")
        return "\n".join(lines)

    @property
    def remarks(self) -> list[str]:
        """The hints, what speaks against the first solution, and what the profile says about the symmetry."""
        against = [f"against the first cell: {self.best.doubts}"] if self.best is not None and self.best.doubts else []
        symmetry = [f"symmetry by the whole profile: {self.symmetry.text}"] if self.symmetry is not None else []
        return [*self.hints, *against, *symmetry]

    @property
    def text(self) -> str:
        """Hints and solutions as plain text."""
        remarks = [self.error] if self.error is not None else list(self.hints)
        remarks += [self.calibration.text] if self.calibration is not None else []
        remarks += [self.unexplained_text] if self.unexplained_text else []
        texts = [solution.text for solution in self.solutions]
        texts += [self.phases_text] if self.second is not None else []
        return "\n".join([*(f"{self.name}: {remark}" for remark in remarks), *texts])

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        from vitreous.powder.notebook import result_line

        return result_line(self)

    def _repr_html_(self) -> str:
        from vitreous.powder.notebook import result_html

        return result_html(self)

    def to_dict(self) -> dict[str, Any]:
        """The result as JSON values."""
        record: dict[str, Any] = {"file": self.name, "solutions": [solution.to_dict() for solution in self.solutions]}
        if self.best is not None:
            record["lines"] = [line.to_dict() for line in self.indexed_lines()]
            record["unexplained"] = [line.to_dict() for line in self.unexplained]
        if self.best is not None:
            record["wavelength"] = self.best.wavelength
            record["radiation"] = self.best.radiation
        if self.best is not None and self.best.symbols:
            record["extinction_symbols"] = [symbol.to_dict() for symbol in self.best.symbols[:_LISTED_SYMBOLS]]
        if self.remarks:
            record["hints"] = self.remarks
        if self.known is not None and (known := self.known.to_dict()):
            record["known"] = known
        if self.calibration is not None:
            record["calibration"] = self.calibration.to_dict()
        if self.symmetry is not None:
            record["symmetry"] = self.symmetry.to_dict()
        if self.error is not None:
            record["fault"] = self.error
        if self.fit is not None:
            record["refined"] = {name: getattr(self.fit, name) for name in _REFINED}
        if self.second is not None:
            record["phases"] = [phase.phase_record() for phase in self.phases]
        return record
