"""Arguments and options that several commands share, with their help texts."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from tyro.conf import OmitArgPrefixes, Positional, arg

Scale = Literal["none", "channel", "sample", "point", "root", "slope", "curvature"]
Part = Literal["all", "train", "validation", "test"]
Device = Literal["auto", "cpu", "cuda"]

_SCALE = (
    "scaling of the samples. sample: each by its own mean and deviation; point: every point by those of all samples; "
    "slope, curvature: derivatives of a spectrum, by both, for bands on a background."
)
_MERGE = (
    "number of tokens that every block merges into similar ones, e.g. 8, at most half of them: faster. Several numbers "
    "are for the first blocks, one each; the other blocks merge none, e.g. 40 20."
)
_PART = "which part of the data; 'all' for data that the run has not seen."
_DATA = "a recipe, a folder of images or a file of spectra."
_ANODE = "anode of the X-ray tube, e.g. Cu; replaces the"
_PATTERN_WAVELENGTH = "for powder patterns: wavelength in ångström; replaces the one in the file."
_COLUMNS = "names or numbers (from 1) of the columns of text files: angle, intensity and optionally its standard error."
_SCAN = (
    "which scan of a file with several, from 1. merge (or all): add scans along the same angles, join those of "
    "different ranges. Default: the first; text files with several need a choice."
)

RunArgument = Annotated[Path, Positional, arg(metavar="RUN", help="folder of the run.")]
DataArgument = Annotated[str, Positional, arg(metavar="RECIPE_OR_DATA", help=_DATA)]
ScaleOption = Annotated[Scale | None, arg(help=_SCALE)]
MergeOption = Annotated[tuple[int, ...], arg(help=_MERGE)]
TargetOption = Annotated[tuple[str, ...], arg(help="the label columns, as in train.")]
PartOption = Annotated[Part, arg(help=_PART)]
AnodeOption = Annotated[str | None, arg(help=f"{_ANODE} radiation that the files state.")]
WavelengthOption = Annotated[float | None, arg(help="ångström; replaces the wavelength that the files state.")]
PatternAnodeOption = Annotated[str | None, arg(help=f"for powder patterns: {_ANODE} one in the file.")]
PatternWavelengthOption = Annotated[float | None, arg(help=_PATTERN_WAVELENGTH)]
ColumnsOption = Annotated[
    tuple[str, ...], arg(metavar="X Y [SIGMA]", help_behavior_hint="(example: 1 3, or tth Iobs esd)", help=_COLUMNS)
]
ScanOption = Annotated[int | Literal["merge", "all"] | None, arg(metavar="N|merge", help=_SCAN)]
DeviceOption = Annotated[Device, arg(help="where to compute; auto is a GPU if there is one.")]
ResumeOption = Annotated[bool, arg(help="continue a run that was stopped, or begin it.")]


@dataclass(frozen=True)
class LoopOptions:
    """How long and how fast to train. The recipe's own settings apply unless they are set here.

    Args:
        epochs: how often every sample is used.
        steps: optimiser steps, instead of epochs.
        minutes: time limit; the learning rate then falls with the time.
        batch: samples of a step; for texts tokens; contrast needs large batches.
        lr: highest learning rate.
        optimiser: AdamW, or Muon for the matrices.
        precision: auto is bfloat16 on a GPU that has it, float32 elsewhere; float8 uses FP8 matrix multiplication.
        seed: of all random numbers.
    """

    epochs: float | None = None
    steps: int | None = None
    minutes: float | None = None
    batch: int | None = None
    lr: float | None = None
    optimiser: Literal["adamw", "muon"] | None = None
    precision: Literal["auto", "float32", "bfloat16", "float8"] | None = None
    seed: int | None = None


@dataclass(frozen=True)
class ReadFlags:
    """How pattern files are read, where they do not say it.

    Args:
        axis: first column of text files: 2theta or theta in degrees, d in Å, q in 1/Å, 1/d2 in 1/Å², sin2theta (the
            square of sin θ), energy in keV. Default: what the heading says, or 2θ. Replaces the heading.
        fixed_angle: 2θ of the detector in degrees, for an energy-dispersive pattern (axis energy): d is 12.398 Å keV
            over 2 E sin θ.
        neutrons: the radiation is neutrons of one wavelength; reports and CIF say so.
    """

    axis: Literal["2theta", "theta", "d", "q", "1/d2", "sin2theta", "energy"] | None = None
    fixed_angle: float | None = None
    columns: ColumnsOption = ()
    scan: ScanOption = None
    neutrons: bool = False


LoopOption = OmitArgPrefixes[LoopOptions]
NO_LOOP_OPTIONS = LoopOptions()
ReadOption = OmitArgPrefixes[ReadFlags]
NO_READ_FLAGS = ReadFlags()
