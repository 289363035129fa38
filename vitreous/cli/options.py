"""Options that several commands share."""

from dataclasses import dataclass
from typing import Annotated, Literal

from tyro.conf import arg

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
_TARGET = "the label columns, as in train."
_PART = "which part of the data; 'all' for data that the run has not seen."
_ANODE = "for powder patterns: anode of the X-ray tube, e.g. Cu; replaces the one in the file."
_WAVELENGTH = "for powder patterns: wavelength in ångström; replaces the one in the file."

ScaleOption = Annotated[Scale | None, arg(help=_SCALE)]
MergeOption = Annotated[tuple[int, ...], arg(help=_MERGE)]
TargetOption = Annotated[tuple[str, ...], arg(help=_TARGET)]
PartOption = Annotated[Part, arg(help=_PART)]
AnodeOption = Annotated[str | None, arg(help=_ANODE)]
WavelengthOption = Annotated[float | None, arg(help=_WAVELENGTH)]
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


NO_LOOP_OPTIONS = LoopOptions()
