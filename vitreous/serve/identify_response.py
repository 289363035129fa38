"""Response schema of `/v1/identify`."""

from typing import Literal

from pydantic import BaseModel

from vitreous.serve.responses import Numbers, Tick


class Rival(BaseModel):
    """Another phase of the database that fits nearly as well."""

    name: str
    formula: str
    source: str
    probability: float


class Phase(BaseModel):
    """A phase of a sample: its refined cell in Å and degrees, fractions of the mass and of the intensity."""

    name: str
    formula: str
    source: str
    space_group: str
    system: str
    cell: Numbers
    cell_errors: Numbers
    text: str
    probability: float
    mass_fraction: float | None
    mass_fraction_error: float | None
    mass_text: str
    intensity_share: float
    texture: float
    rivals: list[Rival]
    ticks: list[Tick]


class LineWithoutPhase(BaseModel):
    """A line that no phase explains: 2θ in degrees, intensity relative to the strongest line."""

    two_theta: float
    intensity: float


class Measured(BaseModel):
    """The pattern as read: wavelengths in Å, number of points."""

    wavelength: float
    wavelength2: float | None
    radiation: str | None
    points: int


class PhaseCurves(BaseModel):
    """2θ in degrees, and intensities: measured, background, and the part of each phase."""

    two_theta: Numbers
    observed: Numbers
    background: Numbers
    parts: list[Numbers]


class IdentifyResponse(BaseModel):
    """Phases of a pattern, and what they leave unexplained."""

    verdict: Literal["likely", "unsure", "none"]
    hints: list[str]
    pattern: str
    database: str
    phases: list[Phase]
    rwp: float
    chi2: float
    zero_shift: float
    unexplained_lines: list[LineWithoutPhase]
    unexplained_share: float
    unknown_phase_probability: float
    unknown_phase: str
    amorphous_fraction: float | None
    measured: Measured
    curves: PhaseCurves
    csv: str
