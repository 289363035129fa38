"""What is in a sample: `Identification`, with its phases, their amounts, and what no phase explains."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vitreous.powder.cell import COLUMNS, refined_parameters, with_error
from vitreous.powder.pattern import Floats, Pattern

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_NO_ERROR = 1e-8  # Å or degrees: a standard error that is a rounding error
_SHOWN_LINES = 6  # unexplained lines of a text


@dataclass(frozen=True)
class Rival:
    """Another entry that fits nearly as well in the place of a phase."""

    name: str
    formula: str
    source: str
    probability: float


@dataclass(frozen=True)
class IdentifiedPhase:
    """A phase of a sample.

    Args:
        name, formula, source: of the entry of the database.
        spacegroup: symbol, or "" if the entry has none.
        system: crystal system.
        cell: refined, a, b, c in Å and α, β, γ in degrees.
        cell_errors: standard errors; 0 for what the symmetry fixes.
        probability: that the phase is in the sample and is this one.
        fraction: of the mass of all phases found, 0 to 1; None for an entry without atoms.
        fraction_error: standard error of the fraction.
        share: of the intensity of all lines.
        texture: March-Dollase parameter, 1 for none.
        entry: place in the database.
        rivals: other entries, likeliest first.
    """

    name: str
    formula: str
    source: str
    spacegroup: str
    system: str
    cell: tuple[float, ...]
    cell_errors: tuple[float, ...]
    probability: float
    fraction: float | None
    fraction_error: float | None
    share: float
    texture: float
    entry: int
    rivals: tuple[Rival, ...] = ()

    @property
    def cell_text(self) -> str:
        """The refined cell with standard errors in brackets."""
        return refined_parameters(*zip(*self._shown_cell, strict=True))

    @property
    def cell_texts(self) -> list[str]:
        """Each of the six parameters with its standard error in brackets."""
        return [with_error(value, error) for value, error in self._shown_cell]

    @property
    def _shown_cell(self) -> list[tuple[float, float]]:
        """Parameters and errors without rounding errors, so that equal axes are equal."""
        errors = [float(f"{error:.3g}") if error > _NO_ERROR else 0.0 for error in self.cell_errors]
        return [(round(value, 7), error) for value, error in zip(self.cell, errors, strict=True)]

    @property
    def fraction_text(self) -> str:
        """Mass percent with its standard error in brackets, e.g. `13.5(4) %`."""
        if self.fraction is None or self.fraction_error is None:
            return "—"
        return f"{with_error(100 * self.fraction, 100 * self.fraction_error)} %"

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        return {
            "name": self.name, "formula": self.formula, "source": self.source, "space_group": self.spacegroup,
            "system": self.system, "cell": [round(x, 5) for x in self.cell],
            "cell_errors": [round(x, 6) for x in self.cell_errors], "probability": round(self.probability, 4),
            "mass_fraction": None if self.fraction is None else round(self.fraction, 5),
            "mass_fraction_error": None if self.fraction_error is None else round(self.fraction_error, 5),
            "intensity_share": round(self.share, 5), "texture": round(self.texture, 3),
            "rivals": [
                {"name": r.name, "formula": r.formula, "source": r.source, "probability": round(r.probability, 4)}
                for r in self.rivals
            ],
        }  # fmt: skip


@dataclass(frozen=True)
class UnexplainedLine:
    """A line that belongs to no phase found: 2θ in degrees, and its intensity relative to the strongest line."""

    two_theta: float
    intensity: float


@dataclass(frozen=True, eq=False)
class SampleCurves:
    """What a figure of the fit shows, `(points,)` each: 2θ in degrees and intensities in the pattern's unit."""

    two_theta: Floats
    observed: Floats
    background: Floats
    parts: Floats  # (phases, points)

    @property
    def calculated(self) -> Floats:
        """Background and all phases."""
        total: Floats = self.background + self.parts.sum(axis=0)
        return total


@dataclass(frozen=True, eq=False)
class Identification:
    """The phases of a sample, the most by mass first.

    Args:
        phases: what was found.
        pattern: what was measured.
        database: name of the database file.
        rwp: weighted profile residual, 0 to 1.
        chi2: reduced χ² for counting errors.
        unexplained: lines of no phase.
        unexplained_share: their share of the intensity of all lines.
        unknown_probability: that the sample has a phase which the database lacks.
        amorphous: mass fraction of what is not crystalline, if an internal standard was named; else None.
        zero: shift of the lines in degrees at low angle.
        curves: for figures.
        hints: what the reader should know, one sentence each.
        unknown: text about the cell of the unknown phase, if the remaining lines were indexed.
    """

    phases: tuple[IdentifiedPhase, ...]
    pattern: Pattern
    database: str
    rwp: float
    chi2: float
    unexplained: tuple[UnexplainedLine, ...]
    unexplained_share: float
    unknown_probability: float
    amorphous: float | None
    zero: float
    curves: SampleCurves
    hints: tuple[str, ...] = ()
    unknown: str = ""

    @property
    def unexplained_text(self) -> str:
        """The lines that belong to no phase found, in words; empty if there are none."""
        if not self.unexplained:
            return ""
        strongest = sorted(self.unexplained, key=lambda line: -line.intensity)[:_SHOWN_LINES]
        angles = ", ".join(f"{angle:.2f}°" for angle in sorted(line.two_theta for line in strongest))
        more = ", …" if len(self.unexplained) > _SHOWN_LINES else ""
        lines = "1 line" if len(self.unexplained) == 1 else f"{len(self.unexplained)} lines"
        return f"unexplained: {lines}, {self.unexplained_share:.1%} of the intensity: {angles}{more}"

    @property
    def text(self) -> str:
        """A few lines for people."""
        lines = [f"{self.pattern.name}: {len(self.phases)} phase(s), Rwp {100 * self.rwp:.1f} %"]
        for phase in self.phases:
            lines.append(
                f"  {phase.fraction_text:>12}  {phase.name} {phase.formula}  ({phase.system}, "
                f"{phase.cell_text}), probability {phase.probability:.2f}"
            )
        return "\n".join([*lines, *(f"  {hint}" for hint in self.hints)])

    def __repr__(self) -> str:
        return self.text

    def plot(self) -> "Figure":
        """A figure of the pattern with the share of each phase."""
        from vitreous.powder.figures.identify import draw_identification

        return draw_identification(self)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        return {
            "pattern": self.pattern.name, "database": Path(self.database).name,
            "phases": [phase.to_dict() for phase in self.phases],
            "rwp": round(self.rwp, 5), "chi2": round(self.chi2, 3),
            "unexplained_lines": [
                {"two_theta": round(line.two_theta, 4), "intensity": round(line.intensity, 4)}
                for line in self.unexplained
            ],
            "unexplained_share": round(self.unexplained_share, 4),
            "unknown_phase_probability": round(self.unknown_probability, 3), "unknown_phase": self.unknown,
            "amorphous_fraction": None if self.amorphous is None else round(self.amorphous, 4),
            "zero_shift": round(self.zero, 4), "hints": list(self.hints),
        }  # fmt: skip


HEADINGS = ("phase", "formula", "mass", *COLUMNS, "probability")
