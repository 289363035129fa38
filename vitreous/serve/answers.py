"""What the service answers, field by field: the models that make its OpenAPI description."""

from typing import Any, Literal

from pydantic import BaseModel, Field

Numbers = list[float]
Nested = list[Any]  # numbers in as many lists as there are axes


class Fault(BaseModel):
    """What is wrong, in one line."""

    error: str


class Axis(BaseModel):
    """Where the values along an axis lie: `origin + spacing · i`, in `unit`."""

    name: str
    unit: str
    origin: float
    spacing: float
    count: int


class Target(BaseModel):
    """A quantity that a model gives."""

    name: str
    unit: str


class Model(BaseModel):
    """A model that is served."""

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
    """What `/v1/index` takes."""

    formats: list[str]
    anodes: list[str]
    systems: list[str]


class Bounds(BaseModel):
    """What a client must keep to: bytes, points, pixels, samples, seconds."""

    body: int
    points: int
    pixels: int
    rows: int
    seconds: float
    search_seconds: float


class Models(BaseModel):
    """All that is served."""

    models: list[Model]
    powder: Powder | None
    anodes: list[str]
    limits: Bounds


class ExamplePattern(BaseModel):
    """A powder pattern that comes with the package."""

    name: str
    about: str


class ExampleSample(BaseModel):
    """A sample `(channels, *grid)` of a run's test part, and what is known of it."""

    model: str
    name: str
    truth: str
    sample: Nested


class Examples(BaseModel):
    """Things to try."""

    patterns: list[ExamplePattern]
    samples: list[ExampleSample]


class Value(BaseModel):
    """A quantity of one sample, with the interval that was asked for."""

    name: str
    unit: str
    value: float
    lower: float | None = None
    upper: float | None = None


class Quantities(BaseModel):
    """The answer to one sample of a regression."""

    file: int
    row: int
    values: list[Value]


class Probabilities(BaseModel):
    """The answer to one sample of a classification."""

    file: int
    row: int
    class_: str = Field(alias="class")
    probability: float
    probabilities: Numbers


class Predicted(BaseModel):
    """The answers to all samples of a request."""

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


class Explained(BaseModel):
    """Where a model looked in one sample."""

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


class Curve(BaseModel):
    """A pattern as it was read: degrees, and intensity in the file's unit; wavelengths in Å."""

    wavelength: float
    wavelength2: float | None
    points: int
    two_theta: Numbers
    intensity: Numbers


class Peak(BaseModel):
    """A line that was found: degrees, relative area, Å."""

    two_theta: float
    error: float
    intensity: float
    d: float


class Tick(BaseModel):
    """Where a reflection is seen, degrees."""

    two_theta: float
    hkl: list[int]


class CellNumbers(BaseModel):
    """Lengths in Å, angles in degrees."""

    a: float
    b: float
    c: float
    alpha: float
    beta: float
    gamma: float


class Cell(CellNumbers):
    """A unit cell that may be the pattern's."""

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
    ticks: list[Tick]
    cif: str


class Refined(CellNumbers):
    """The first cell, refined on the whole pattern."""

    errors: CellNumbers
    text: str
    zero: float
    rwp: float
    chi2: float
    two_theta: Numbers
    observed: Numbers
    calculated: Numbers
    background: Numbers
    ticks: list[Tick]


class Indexed(BaseModel):
    """The unit cells of a pattern."""

    verdict: Literal["likely", "unsure", "none"]
    hints: list[str]
    pattern: Curve | None
    peaks: list[Peak]
    cells: list[Cell]
    fit: Refined | None
    csv: str
    cif: str


class Health(BaseModel):
    """Whether the service is up."""

    status: Literal["ok"]
