"""The result of an identification as one HTML page: phases, amounts, cells, rivals, and the fit of the pattern."""

from collections.abc import Sequence

from vitreous.insight.html_page import Section, Table, percent, render_page
from vitreous.powder.cell import COLUMNS
from vitreous.powder.identify.answer import Identification, IdentifiedPhase

_AMOUNTS = (
    "Mass percent is that of the crystalline phases found, from the scale of each phase, the mass and the volume of "
    "its cell (Hill and Howard 1987). Standard errors, in parentheses in units of the last digit, are those of the fit "
    "and of the intensities of each phase; they do not know of microabsorption, of texture that one parameter cannot "
    "describe, or of what is not crystalline."
)
_MEANING = (
    "The probability is that the phase is in the sample and is this entry of the database rather than another one. "
    "Intensity is the phase's share of the areas of all lines. Texture is the March-Dollase parameter of preferred "
    "orientation; 1 is none."
)
_FIGURE = "Measured pattern, share of each phase above the background, positions of its lines, and the difference"


def identified_page(result: Identification, command: str) -> str:
    """The HTML page of an identification, with the command that writes the page."""
    remarks = [*result.pattern.notes, *result.hints, *filter(None, (result.unexplained_text, result.unknown))]
    if result.amorphous is not None:
        remarks.insert(0, f"{percent(result.amorphous)} of the sample's mass are not crystalline")
    text = "".join(f"{remark[:1].upper()}{remark[1:]}. " for remark in remarks)
    sections = [Section("Phases", text, [(_FIGURE, result.plot())], [_phases(result.phases)])]
    if result.phases:
        sections.append(Section("Refined cells", tables=[_cells(result.phases)]))
    rivals = [phase for phase in result.phases if phase.rivals]
    if rivals:
        sections.append(Section("Other entries that fit nearly as well", tables=[_rivals(rivals)]))
    if result.unexplained:
        sections.append(Section("Unexplained lines", tables=[_unexplained(result)]))
    sections.append(Section("What the numbers mean", f"{_AMOUNTS}\n\n{_MEANING}"))
    sections.append(Section("To make this page", code=command))
    return render_page(result.pattern.name, "The phases of a powder pattern.", _summary(result), sections)


def _summary(result: Identification) -> list[tuple[str, str]]:
    phases = [(phase.name, phase.fraction_text) for phase in result.phases[:4]]
    amorphous = [] if result.amorphous is None else [("amorphous", percent(result.amorphous))]
    unexplained = [("unexplained intensity", percent(result.unexplained_share))] if result.unexplained else []
    return [*(phases or [("phases", "none")]), *amorphous, *unexplained, ("Rwp", percent(result.rwp))]


def _phases(phases: Sequence[IdentifiedPhase]) -> Table:
    rows = [
        [
            phase.name, phase.formula, phase.fraction_text, percent(phase.share), f"{phase.probability:.2f}",
            f"{phase.texture:.2f}", phase.source,
        ]
        for phase in phases
    ]  # fmt: skip
    headings = ("phase", "formula", "mass", "intensity", "probability", "texture", "source")
    return Table(headings, rows, "The phases found, the most by mass first")


def _cells(phases: Sequence[IdentifiedPhase]) -> Table:
    rows = [[phase.name, phase.spacegroup or phase.system, *phase.cell_texts] for phase in phases]
    return Table(("phase", "symmetry", *COLUMNS), rows)


def _rivals(phases: Sequence[IdentifiedPhase]) -> Table:
    rows = [
        [phase.name, rival.name, rival.formula, f"{rival.probability:.3f}", rival.source]
        for phase in phases
        for rival in phase.rivals
    ]
    return Table(("in the place of", "entry", "formula", "probability", "source"), rows, "Rivals of the phases")


def _unexplained(result: Identification) -> Table:
    rows = [[f"{line.two_theta:.3f}", percent(line.intensity)] for line in result.unexplained]
    return Table(("2θ (°)", "of the strongest line"), rows, "Lines of no phase found")
