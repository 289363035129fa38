"""`vitreous demo`: a transformer trained on embedded data beside a CNN, figures, a report, a unit cell and phases."""

import math
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor

_SHADES = " ░▒▓█"
_BARS = " ▁▂▃▄▅▆▇█"


def demo(out: Path | None = None) -> None:
    """Train a transformer and a CNN on handwritten digits in about a minute, compare them, and draw the training.

    Args:
        out: folder for the runs, the figure and the report; a temporary one if not given.
    """
    from vitreous.cli.models import models
    from vitreous.cli.output import print_line, print_results
    from vitreous.cli.report import write_run_report
    from vitreous.cli.summary import summary
    from vitreous.core.terminal import console
    from vitreous.data import digits, split
    from vitreous.insight import training_figure
    from vitreous.recipes.jobs import create_job
    from vitreous.run.predictor import load
    from vitreous.train.trainer import train

    screen = console()
    models()
    summary("vit_spectrum_4500")
    _show_spectrum()
    folder = out or Path(tempfile.mkdtemp(prefix="vitreous-demo-"))
    folder.mkdir(parents=True, exist_ok=True)
    screen.rule("training on 1,797 images of handwritten digits, 8×8 pixels")
    runs = [folder / "vit", folder / "cnn"]
    for run in runs:
        train(create_job("digits", model=run.name), run)
    print_results(runs)
    source = digits()
    assert source.y is not None
    rows = split(source).test
    prediction = load(runs[0])(source.x[rows])
    figure = folder / "digits.png"
    training_figure(runs, prediction, source.y[rows], figure)
    _show_images(source.x[rows, 0], prediction.labels, [source.classes[i] for i in source.y[rows]])
    print_line(f"The runs are in {folder}, curves and confusion in {figure}")
    print_line(f"Try:  vitreous eval {runs[0]} digits")
    screen.rule("the report")
    report = write_run_report(runs[0], folder / "report.html")
    print_line(f"What the transformer learned, to open in a browser: {report}")
    screen.rule("the unit cell of a powder pattern")
    _index_example(folder)
    screen.rule("the phases of a powder sample")
    _identify_example(folder)
    screen.rule("a page to draw digits and drop patterns on")
    print_line(f"vitreous serve {runs[0]} --powder", soft_wrap=True)
    print_line("and then, in a browser, http://127.0.0.1:8000")


def _index_example(folder: Path) -> None:
    """Index a pattern that comes with the package, and draw the fit."""
    from vitreous.cli.index import index
    from vitreous.cli.output import print_line
    from vitreous.cli.powder import example

    pattern, page, figure = (folder / f"triclinic.{suffix}" for suffix in ("xy", "html", "png"))
    example("triclinic", out=pattern)
    started = time.monotonic()
    index((pattern,), figure=figure, report=page)
    print_line(f"Found in {time.monotonic() - started:.1f} s; the fit is in {figure}, the page about it in {page}")


def _identify_example(folder: Path) -> None:
    """Build a database of a few minerals, and identify a simulated mixture of some of them."""
    from vitreous.cli.identify import identify
    from vitreous.cli.output import print_line
    from vitreous.powder.identify.example import MINERALS, MIXTURE, write_example

    pattern, database = write_example(folder)
    mixed = ", ".join(f"{name} {mass:g} %" for name, mass in MIXTURE.items())
    print_line(f"A database of {len(MINERALS)} minerals, and the simulated pattern of {mixed} by mass:")
    figure = folder / "mixture.png"
    started = time.monotonic()
    identify((pattern,), database=database, anode="Cu", figure=figure)
    print_line(f"Found in {time.monotonic() - started:.1f} s; the share of each phase is in {figure}")


def _show_spectrum() -> None:
    """Thirty Lorentzian lines on 4500 points through the untrained model of S0, and its attention."""
    import torch

    from vitreous.core.terminal import console
    from vitreous.nn import record
    from vitreous.zoo import create_model

    rng = torch.Generator().manual_seed(0)
    centres = torch.rand(30, 1, generator=rng) * 4300 + 100
    heights = torch.rand(30, 1, generator=rng) ** 2
    pattern = (heights / (1 + ((torch.arange(4500.0) - centres) / 12) ** 2)).sum(0)
    model = create_model("vit_spectrum_4500").eval()
    with torch.no_grad(), record(model, layers=[-1]) as seen:
        out = model((pattern / pattern.max()).reshape(1, 1, -1))
    attention = seen.attention[3][0, :, 0, 1:].mean(0)  # of the class token, mean of the heads
    screen = console()
    screen.rule("a spectrum of 4500 points through vit_spectrum_4500, with random weights")
    screen.print("spectrum ", _bars(pattern), highlight=False)
    screen.print("attention", _bars(attention - attention.min()), highlight=False)
    screen.print("outputs  ", "  ".join(f"{value:+.3f}" for value in out[0].tolist()))


def _bars(values: "Tensor", width: int = 64) -> str:
    """The largest value in each of `width` bins, as bars."""
    bins = [chunk.max().item() for chunk in values.split(math.ceil(len(values) / width))]
    return "".join(_BARS[math.ceil(max(0.0, value / max(bins)) * 8 - 0.3)] for value in bins)


def _show_images(images: Any, predicted: list[str], true: list[str], most: int = 6) -> None:
    """A few test images as text: wrong answers first."""
    from vitreous.cli.output import print_line

    order = sorted(range(len(predicted)), key=lambda i: predicted[i] == true[i])[:most]
    for row in range(images.shape[1]):
        print_line("   ".join("".join(2 * _SHADES[round(4 * v)] for v in images[i][row]) for i in order))
    captions = [f"{predicted[i]} ✓" if predicted[i] == true[i] else f"{predicted[i]} ✗ ({true[i]})" for i in order]
    print_line("   ".join(text.ljust(2 * images.shape[2]) for text in captions))
