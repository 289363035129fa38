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

from vitreous.commands import experiment, print_results, report
from vitreous.data import digits, split
from vitreous.insight import training_figure
from vitreous.nn import record
from vitreous.powder.commands import write_example
from vitreous.powder.indexing import Wanted, index_files
from vitreous.train.predictor import load
from vitreous.train.run import train
from vitreous.zoo import create_model
from vitreous.zoo.show import console, print_models, print_summary

_SHADES = " ░▒▓█"
_BARS = " ▁▂▃▄▅▆▇█"


def run(out: Path | None = None) -> None:
    """Train the ViT and the CNN on scikit-learn's digits, compare them, and draw curves and confusion."""
    screen = console()
    print_models()
    print_summary("vit_spectrum_4500")
    _spectrum(screen)
    folder = out or Path(tempfile.mkdtemp(prefix="vitreous-demo-"))
    folder.mkdir(parents=True, exist_ok=True)
    screen.rule("training on 1,797 images of handwritten digits, 8×8 pixels")
    runs = [folder / "vit", folder / "cnn"]
    for place in runs:
        train(experiment("digits", (), place.name, {}), place)
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
    where = report(runs[0], folder / "report.html", None, (), "test", ())
    screen.print(f"What the transformer learnt, to open in a browser: {where}", highlight=False)
    screen.rule("the unit cell of a powder pattern")
    _cell(screen, folder)
    screen.rule("a page to draw digits and drop patterns on")
    screen.print(f"vitreous serve {runs[0]} --powder", highlight=False, soft_wrap=True)
    screen.print("and then, in a browser, http://127.0.0.1:8000", highlight=False)


def _cell(screen: Console, folder: Path) -> None:
    """Index a pattern that comes with the package, and draw the fit."""
    pattern, page, figure = folder / "triclinic.xy", folder / "triclinic.html", folder / "triclinic.png"
    write_example("triclinic", pattern)
    started = time.monotonic()
    index_files([pattern], Wanted(), figure, page, as_json=False)
    screen.print(
        f"Found in {time.monotonic() - started:.1f} s; the fit is in {figure}, the page about it in {page}",
        highlight=False,
    )


def _spectrum(screen: Console) -> None:
    """Thirty Lorentzian lines on 4500 points through the untrained model of S0, and where it looks."""
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


def _show(screen: Console, images: NDArray[Any], found: list[str], true: list[str], most: int = 6) -> None:
    """A few test images as text: those that the model got wrong first."""
    order = sorted(range(len(found)), key=lambda i: found[i] == true[i])[:most]
    for row in range(images.shape[1]):
        screen.print(
            "   ".join("".join(2 * _SHADES[round(4 * v)] for v in images[i][row]) for i in order), highlight=False
        )
    told = [f"{found[i]} ✓" if found[i] == true[i] else f"{found[i]} ✗ ({true[i]})" for i in order]
    screen.print("   ".join(text.ljust(2 * images.shape[2]) for text in told), highlight=False)
