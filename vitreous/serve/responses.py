"""Response schemas, from which the OpenAPI description is generated."""

from typing import Any, Literal

from pydantic import BaseModel, Field

Numbers = list[float]
Nested = list[Any]  # numbers in as many levels of lists as there are axes


class ErrorResponse(BaseModel):
    """An error message of one line."""

    error: str


class Axis(BaseModel):
    """Coordinates along an axis: `origin + spacing · i`, in `unit`."""

    name: str
    unit: str
    origin: float
    spacing: float
    count: int


class Target(BaseModel):
    """A predicted quantity."""

    name: str
    unit: str


class Model(BaseModel):
    """A served model."""

    name: str
    kind: Literal["image", "spectrum", "pattern", "set", "volume"]
    task: Literal["classification", "regression"]
    data: str
    input: list[int]
    shorter: bool
    axes: list[Axis]
    channels: list[str]
    white: float | None
    classes: list[str]
    targets: list[Target]
    intervals: bool
    coverage: float | None
    maps: list[str]
    layers: int
    heads: int
    formats: list[str]


class Powder(BaseModel):
    """Options of `/v1/index`."""

    formats: list[str]
    anodes: list[str]
    systems: list[str]
    projects: list[str]


class PhaseDatabase(BaseModel):
    """The database of `/v1/identify`: name of its file and number of its phases."""

    name: str
    phases: int


class ClientLimits(BaseModel):
    """Limits for clients: bytes, points, pixels, samples, seconds."""

    body: int
    points: int
    pixels: int
    rows: int
    seconds: float
    search_seconds: float


class ModelsResponse(BaseModel):
    """Everything that is served."""

    models: list[Model]
    powder: Powder | None
    database: PhaseDatabase | None
    anodes: list[str]
    limits: ClientLimits


class ExamplePattern(BaseModel):
    """A powder pattern that comes with the package."""

    name: str
    about: str


class ExampleSample(BaseModel):
    """A sample `(channels, *grid)` of a run's test part, and its true answer."""

    model: str
    name: str
    truth: str
    sample: Nested


class ExamplesResponse(BaseModel):
    """Example inputs."""

    patterns: list[ExamplePattern]
    samples: list[ExampleSample]


class Value(Target):
    """A quantity of one sample, with its interval if requested."""

    value: float
    lower: float | None = None
    upper: float | None = None


class Result(BaseModel):
    """Which sample a result is of, and its familiarity: below 0.01 it is unlike the training data; null if unknown."""

    file: int
    row: int
    familiarity: float | None = None


class Quantities(Result):
    """Regression result of one sample."""

    values: list[Value]


class Probabilities(Result):
    """Classification result of one sample."""

    class_: str = Field(alias="class")
    probability: float
    probabilities: Numbers


class PredictResponse(BaseModel):
    """Predictions of all samples of a request."""

    model: str
    task: Literal["classification", "regression"]
    coverage: float | None
    targets: list[Target]
    classes: list[str]
    rows: list[Quantities | Probabilities]


class Map(BaseModel):
    """Values over the grid, or of the tokens."""

    name: str
    values: Nested


class ExplainResponse(BaseModel):
    """Attribution maps of one sample."""

    model: str
    answer: str
    row: Quantities | Probabilities
    on: Literal["grid", "tokens"]
    axes: list[Axis]
    channels: list[str]
    sample: Nested
    places: Numbers
    maps: list[Map]
    heads: list[Map]


class Pattern(BaseModel):
    """The pattern as read: 2θ in degrees, intensity in the unit of the file, wavelengths in Å."""

    wavelength: float
    wavelength2: float | None
    radiation: str | None
    points: int
    two_theta: Numbers
    intensity: Numbers


class Peak(BaseModel):
    """A detected peak: 2θ and its error in degrees, relative area, d in Å."""

    two_theta: float
    error: float
    intensity: float
    d: float


class Tick(BaseModel):
    """Position of a reflection, in degrees."""

    two_theta: float
    hkl: list[int]


class CellParameters(BaseModel):
    """Lengths in Å, angles in degrees."""

    a: float
    b: float
    c: float
    alpha: float
    beta: float
    gamma: float


class Cell(CellParameters):
    """A candidate unit cell."""

    system: str
    centring: str
    reduced: Numbers
    volume: float
    m20: float
    f20: float
    indexed: int
    lines: int
    zero: float
    probability: float
    formula_units: float | None
    ticks: list[Tick]
    cif: str


class Fit(CellParameters):
    """The first cell, refined on the whole pattern."""

    errors: CellParameters
    text: str
    zero: float
    rwp: float
    chi2: float
    two_theta: Numbers
    observed: Numbers
    calculated: Numbers
    background: Numbers
    ticks: list[Tick]


class UnexplainedLine(BaseModel):
    """A line that no phase explains: 2θ in degrees, relative intensity, share of the intensity of all lines."""

    two_theta: float
    intensity: float | None
    share: float | None


class SecondPhase(Cell):
    """A second phase, refined together with the first cell: its refined cell and shares of the intensity of both."""

    errors: CellParameters
    refined: CellParameters
    text: str
    share: float
    first_share: float


class SpaceGroup(BaseModel):
    """A space group in the setting of the cell, and how many of the crystals with its extinction symbol have it."""

    number: int
    name: str
    share: float


class ExtinctionSymbol(BaseModel):
    """An extinction symbol: its probability, the number of absent lines, and its space groups."""

    symbol: str
    probability: float
    absences: int
    space_groups: list[SpaceGroup]


class Calibration(BaseModel):
    """The shifts of the lines by a standard in the sample, with standard errors; angles in degrees."""

    standard: str
    zero: float
    displacement: float
    zero_error: float
    displacement_error: float
    lines: int
    rms: float


class Project(BaseModel):
    """A start of a fit in another program: its files in a ZIP archive (base64), and what to do with them."""

    program: str
    phases: int
    files: list[str]
    advice: str
    archive: str


class IndexResponse(BaseModel):
    """Unit cells of a pattern, and what was known of it."""

    verdict: Literal["likely", "unsure", "none"]
    hints: list[str]
    pattern: Pattern | None
    peaks: list[Peak]
    cells: list[Cell]
    fit: Fit | None
    known: dict[str, Any]
    calibration: Calibration | None
    symbols: list[ExtinctionSymbol]
    unexplained: list[UnexplainedLine]
    second: SecondPhase | None
    csv: str
    lines_csv: str
    cif: str
    projects: list[Project]


class HealthResponse(BaseModel):
    """Status of the service."""

    status: Literal["ok"]
