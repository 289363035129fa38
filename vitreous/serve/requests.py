"""Request schemas. Fields are the same in JSON and in forms with files."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from vitreous.powder.files.reading import MOST_SCANS, AxisName

_Text = Annotated[str, Field(max_length=200)]
_Texts = Annotated[list[_Text], Field(max_length=32, fail_fast=True)]
_Numbers = Annotated[list[float], Field(fail_fast=True)]
_Wavelength = Annotated[float | None, Field(description="wavelength in Å; replaces the wavelength in the file")]
_Anode = Annotated[_Text | None, Field(description="X-ray tube anode, e.g. Cu; replaces the radiation in the file")]
_Model = Annotated[_Text | None, Field(description="name of the model; optional if only one model is served")]
_Target = Annotated[_Text | None, Field(description="class or quantity to explain")]
_Maps = Annotated[_Texts | None, Field(description="maps to compute; default: attention and rollout, if available")]
_Limits = Annotated[list[float], Field(min_length=2, max_length=2)]
_Columns = Annotated[list[_Text], Field(max_length=3, fail_fast=True)]
_Scan = Annotated[int, Field(ge=1, le=MOST_SCANS)] | Literal["merge", "all"] | None
_Cell = Annotated[list[float], Field(min_length=1, max_length=6, fail_fast=True)]
_Standard = Literal["Si", "LaB6", "Al2O3", "CeO2"]
_Program = Literal["FullProf", "TOPAS", "GSAS-II", "Jana"]
_ELEMENTS = "symbols: each phase has one of these at least, and no others but H and O; default: any"
_Systems = Annotated[_Texts | None, Field(description="crystal systems to search; default: all")]


class RequestModel(BaseModel):
    """Base of all requests; unknown fields are errors."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)


class _Predict(RequestModel):
    model: _Model = None
    coverage: Annotated[float | None, Field(gt=0, lt=1, description="coverage of prediction intervals")] = None


class PredictSamples(_Predict):
    """Samples as numbers."""

    samples: Annotated[list[Any], Field(min_length=1, description="each (*grid) or (channels, *grid)")]


class PredictFiles(_Predict):
    """Samples in files."""

    anode: _Anode = None
    wavelength: _Wavelength = None


class _Explain(RequestModel):
    model: _Model = None
    target: _Target = None
    maps: _Maps = None
    heads: Annotated[bool, Field(description="return the attention of every head of one layer")] = False
    layer: Annotated[int, Field(description="layer for heads, counted from 0, or from the end if negative")] = -1


class ExplainSample(_Explain):
    """A sample as numbers."""

    sample: Annotated[list[Any], Field(min_length=1, description="(*grid) or (channels, *grid)")]


class ExplainFile(_Explain):
    """A sample in a file."""

    row: Annotated[int, Field(ge=0, description="sample of the file, counted from 0")] = 0
    anode: _Anode = None
    wavelength: _Wavelength = None


class _Pattern(RequestModel):
    anode: _Anode = None
    wavelength: _Wavelength = None


class PatternNumbers(_Pattern):
    """A pattern as numbers, or the name of an example."""

    example: _Text | None = None
    two_theta: Annotated[_Numbers | None, Field(description="degrees, increasing")] = None
    intensity: _Numbers | None = None
    sigma: Annotated[_Numbers | None, Field(description="standard errors of the intensities")] = None


class PatternFields(_Pattern):
    """How a file is to be read."""

    axis: Annotated[AxisName | None, Field(description="quantity of the first column; replaces its heading")] = None
    fixed_angle: Annotated[float | None, Field(gt=0, lt=180, description="2θ of the detector, for energies")] = None
    columns: Annotated[_Columns, Field(description="names or numbers, from 1, of angle, intensity, error")] = []
    scan: Annotated[_Scan, Field(description="number of the scan in the file, from 1, or merge")] = None


class _Index(RequestModel):
    peaks: Annotated[bool, Field(description="the numbers are a list of peaks, not a pattern")] = False
    system: _Systems = None
    most: Annotated[int, Field(ge=1, le=20, description="number of cells to return")] = 5
    volume: Annotated[_Limits | None, Field(description="smallest and largest volume of the cell, Å³")] = None
    range: Annotated[_Limits | None, Field(description="first and last 2θ to use, degrees")] = None
    exclude: Annotated[_Texts | None, Field(description="2θ to leave out, e.g. 26.5 or 33.1-33.4")] = None
    zero: Annotated[float | None, Field(description="known zero shift, degrees; none is fitted")] = None
    standard: Annotated[_Standard | None, Field(description="standard in the sample that calibrates 2θ")] = None
    cell: Annotated[_Cell | None, Field(description="a b c (Å) α β γ (°): refine and judge it, search no other")] = None
    formula: Annotated[_Text | None, Field(description="chemical formula, e.g. Na2S2O3·5H2O")] = None
    density: Annotated[float | None, Field(gt=0, lt=30, description="g/cm³, with a formula")] = None
    neutrons: Annotated[bool, Field(description="the radiation is neutrons of one wavelength")] = False
    projects: Annotated[list[_Program], Field(description="programs to write projects for", max_length=8)] = []


class IndexNumbers(_Index, PatternNumbers):
    """A pattern or a list of peaks as numbers, or the name of an example."""


class IndexFile(_Index, PatternFields):
    """A pattern or a list of peaks in a file."""


class _Identify(RequestModel):
    elements: Annotated[_Texts, Field(description=_ELEMENTS)] = []
    exclude_elements: Annotated[_Texts, Field(description="elements that no phase has")] = []
    max_phases: Annotated[int, Field(ge=1, le=12, description="largest number of phases")] = 4


class IdentifyNumbers(_Identify, PatternNumbers):
    """A pattern as numbers, or the name of an example."""


class IdentifyFile(_Identify, PatternFields):
    """A pattern in a file."""
