"""The demonstration behind `make demo`: what the package has and what passes through it."""

import math

import torch
from rich.console import Console

from vitreous.nn import record
from vitreous.zoo import create_model
from vitreous.zoo.show import console, print_models, print_summary

_BARS = " ▁▂▃▄▅▆▇█"


def run() -> None:
    """Print the model table, the S0 model's parts, and a forward on a spectrum and on an image."""
    print_models()
    print_summary("vit_spectrum_4500")
    torch.manual_seed(0)
    screen = console()
    _spectrum(screen)
    _image(screen)
    screen.print("\nThe weights above are random: train them on your own data, or load a checkpoint of timm's with")
    screen.print('  vt.create_model("vit_small_patch16_224", weights="model.safetensors", out=10)', highlight=False)


def _spectrum(screen: Console) -> None:
    """Thirty Lorentzian lines on 4500 points through the model of S0."""
    points = torch.arange(4500.0)
    centres, heights = torch.rand(30, 1) * 4300 + 100, torch.rand(30, 1) ** 2
    pattern = (heights / (1 + ((points - centres) / 12) ** 2)).sum(0)
    model = create_model("vit_spectrum_4500").eval()
    with torch.no_grad(), record(model, layers=[-1]) as seen:
        out = model((pattern / pattern.max()).reshape(1, 1, -1))
    attention = seen.attention[3][0, :, 0, 1:].mean(0)  # of the class token, mean of the heads
    screen.rule("a spectrum of 4500 points through vit_spectrum_4500")
    screen.print("spectrum ", _line(pattern), highlight=False)
    screen.print("attention", _line(attention - attention.min()), highlight=False)
    screen.print("outputs  ", "  ".join(f"{value:+.3f}" for value in out[0].tolist()))


def _image(screen: Console) -> None:
    """A ring of 28×28 pixels through the small image model."""
    y, x = torch.meshgrid(torch.arange(28.0) - 13.5, torch.arange(28.0) - 13.5, indexing="ij")
    ring = torch.exp(-(((x**2 + y**2).sqrt() - 8) ** 2) / 4)
    model = create_model("vit_mini_patch4_28").eval()
    with torch.no_grad():
        probabilities = model(ring.reshape(1, 1, 28, 28)).softmax(-1)[0]
    screen.rule("an image of 28×28 pixels through vit_mini_patch4_28")
    for row in ring[::2]:
        screen.print("   " + "".join(_bar(v) for v in row.tolist()), highlight=False)
    screen.print("class probabilities ", "  ".join(f"{p:.2f}" for p in probabilities.tolist()))


def _line(values: torch.Tensor, width: int = 64) -> str:
    """The largest value in each of `width` bins, as bars."""
    size = math.ceil(len(values) / width)
    bins = [chunk.max().item() for chunk in values.split(size)]
    top = max(bins) or 1.0
    return "".join(_bar(value / top) for value in bins)


def _bar(share: float) -> str:
    return _BARS[min(len(_BARS) - 1, math.ceil(share * (len(_BARS) - 1) - 0.3))]
