"""The demonstration behind `make demo`: a transformer trained on embedded data beside a CNN, a figure and a report."""

import math
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
from numpy.typing import NDArray
from rich.console import Console
from torch import Tensor

from vitreous.cli.index import index
from vitreous.cli.models import models
from vitreous.cli.powder_example import example
from vitreous.cli.report import write_run_report
from vitreous.cli.results import print_results
from vitreous.cli.summary import summary
from vitreous.core.terminal import console
from vitreous.data import digits, split
from vitreous.insight import training_figure
from vitreous.nn import record
from vitreous.recipes.jobs import create_job
from vitreous.run.predictor import load
from vitreous.train.trainer import train
from vitreous.zoo import create_model

_SHADES = " ░▒▓█"
_BARS = " ▁▂▃▄▅▆▇█"


def run_demo(out: Path | None = None) -> None:
    """Train the ViT and the CNN on scikit-learn's digits, compare them, and draw curves and confusion."""
    screen = console()
    models()
    summary("vit_spectrum_4500")
    _spectrum(screen)
    folder = out or Path(tempfile.mkdtemp(prefix="vitreous-demo-"))
    folder.mkdir(parents=True, exist_ok=True)
    screen.rule("training on 1,797 images of handwritten digits, 8×8 pixels")
    runs = [folder / "vit", folder / "cnn"]
    for place in runs:
        train(create_job("digits", model=place.name), place)
    print_results(runs)
    source = digits()
    assert source.y is not None
    rows = split(source).test
    answer = load(runs[0])(source.x[rows])
    figure = folder / "digits.png"
    training_figure(runs, answer, source.y[rows], figure)
    _show(screen, source.x[rows, 0], answer.labels, [source.classes[i] for i in source.y[rows]])
    screen.print(f"The runs are in {folder}, curves and confusion in {figure}", highlight=False)
    screen.print(f"Try:  vitreous eval {runs[0]} digits", highlight=False)
    screen.rule("the report")
    where = write_run_report(runs[0], folder / "report.html")
    screen.print(f"What the transformer learned, to open in a browser: {where}", highlight=False)
    screen.rule("the unit cell of a powder pattern")
    _cell(screen, folder)
    screen.rule("a page to draw digits and drop patterns on")
    screen.print(f"vitreous serve {runs[0]} --powder", highlight=False, soft_wrap=True)
    screen.print("and then, in a browser, http://127.0.0.1:8000", highlight=False)


def _cell(screen: Console, folder: Path) -> None:
    """Index a pattern that comes with the package, and draw the fit."""
    pattern, page, figure = folder / "triclinic.xy", folder / "triclinic.html", folder / "triclinic.png"
    example("triclinic", out=pattern)
    started = time.monotonic()
    index((pattern,), figure=figure, report=page)
    screen.print(
        f"Found in {time.monotonic() - started:.1f} s; the fit is in {figure}, the page about it in {page}",
        highlight=False,
    )


def _spectrum(screen: Console) -> None:
    """Thirty Lorentzian lines on 4500 points through the untrained model of S0, and its attention."""
    rng = torch.Generator().manual_seed(0)
    centres = torch.rand(30, 1, generator=rng) * 4300 + 100
    heights = torch.rand(30, 1, generator=rng) ** 2
    pattern = (heights / (1 + ((torch.arange(4500.0) - centres) / 12) ** 2)).sum(0)
    model = create_model("vit_spectrum_4500").eval()
    with torch.no_grad(), record(model, layers=[-1]) as seen:
        out = model((pattern / pattern.max()).reshape(1, 1, -1))
    attention = seen.attention[3][0, :, 0, 1:].mean(0)  # of the class token, mean of the heads
    screen.rule("a spectrum of 4500 points through vit_spectrum_4500, with random weights")
    screen.print("spectrum ", _line(pattern), highlight=False)
    screen.print("attention", _line(attention - attention.min()), highlight=False)
    screen.print("outputs  ", "  ".join(f"{value:+.3f}" for value in out[0].tolist()))


def _line(values: Tensor, width: int = 64) -> str:
    """The largest value in each of `width` bins, as bars."""
    bins = [chunk.max().item() for chunk in values.split(math.ceil(len(values) / width))]
    return "".join(_BARS[math.ceil(max(0.0, value / max(bins)) * 8 - 0.3)] for value in bins)


def _show(screen: Console, images: NDArray[Any], predicted: list[str], true: list[str], most: int = 6) -> None:
    """A few test images as text: wrong answers first."""
    order = sorted(range(len(predicted)), key=lambda i: predicted[i] == true[i])[:most]
    for row in range(images.shape[1]):
        screen.print(
            "   ".join("".join(2 * _SHADES[round(4 * v)] for v in images[i][row]) for i in order), highlight=False
        )
    captions = [f"{predicted[i]} ✓" if predicted[i] == true[i] else f"{predicted[i]} ✗ ({true[i]})" for i in order]
    screen.print("   ".join(text.ljust(2 * images.shape[2]) for text in captions), highlight=False)
