"""What the service is asked, field by field; the same whether it comes as JSON or as a form with files."""

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

_Word = Annotated[str, Field(max_length=200)]
_Words = Annotated[list[_Word], Field(max_length=32, fail_fast=True)]
_Numbers = Annotated[list[float], Field(fail_fast=True)]
_Wavelength = Annotated[float | None, Field(description="Å, in place of what the file says")]
_Anode = Annotated[_Word | None, Field(description="of the X-ray tube, e.g. Cu, in place of what the file says")]
_Name = Annotated[_Word | None, Field(description="of the model; may be left out where one is served")]
_Target = Annotated[_Word | None, Field(description="class or quantity to explain")]
_Maps = Annotated[_Words | None, Field(description="attention and rollout, or what the model has, if not given")]
_Systems = Annotated[_Words | None, Field(description="crystal systems to search; all if not given")]


class Question(BaseModel):
    """Fields that a client may send; others are refused."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)


class _Predict(Question):
    model: _Name = None
    coverage: Annotated[float | None, Field(gt=0, lt=1, description="of intervals around quantities")] = None


class PredictSamples(_Predict):
    """Samples as numbers."""

    samples: Annotated[list[Any], Field(min_length=1, description="each (*grid) or (channels, *grid)")]


class PredictFiles(_Predict):
    """Samples in files."""

    anode: _Anode = None
    wavelength: _Wavelength = None


class _Explain(Question):
    model: _Name = None
    target: _Target = None
    maps: _Maps = None
    heads: Annotated[bool, Field(description="give every head of a layer, too")] = False
    layer: Annotated[int, Field(description="counted from 0, or from the end with -1")] = -1


class ExplainSample(_Explain):
    """A sample as numbers."""

    sample: Annotated[list[Any], Field(min_length=1, description="(*grid) or (channels, *grid)")]


class ExplainFile(_Explain):
    """A sample in a file."""

    row: Annotated[int, Field(ge=0, description="which sample of the file, counted from 0")] = 0
    anode: _Anode = None
    wavelength: _Wavelength = None


class _Index(Question):
    anode: _Anode = None
    wavelength: _Wavelength = None
    peaks: Annotated[bool, Field(description="the numbers are a list of lines, not a pattern")] = False
    system: _Systems = None
    most: Annotated[int, Field(ge=1, le=20, description="cells to give")] = 5


class IndexNumbers(_Index):
    """A pattern, or a list of lines, as numbers; or an example's name."""

    example: _Word | None = None
    two_theta: Annotated[_Numbers | None, Field(description="degrees, rising")] = None
    intensity: _Numbers | None = None
    sigma: Annotated[_Numbers | None, Field(description="standard errors of the intensities")] = None


class IndexFile(_Index):
    """A pattern, or a list of lines, in a file."""
