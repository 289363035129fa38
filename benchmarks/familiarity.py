"""Share of samples that are reported as unlike the training data, at a familiarity below 0.01.

    python -m benchmarks.familiarity --steps 600                      # digits and MNIST in the docs; spectra: 300
    python -m benchmarks.familiarity --data tecator --steps 20        # short test

The data are in `$VITREOUS_DATA`: tablets and Tecator (near-infrared spectra), digits (8×8, of scikit-learn) and MNIST.
The first row of each counts false alarms: test samples. Letters are drawn in several fonts, rotated, sheared and
stretched at random, and framed as the page of the digits frames strokes; those that look like a digit are counted
apart. The peer has the same false alarms on the validation part: for spectra the Mahalanobis distance of the
embedding, for digits the probability of the predicted class.
"""

import string
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tyro
from matplotlib.font_manager import FontProperties
from matplotlib.textpath import TextPath
from numpy.typing import NDArray
from PIL import Image, ImageDraw
from rich.console import Console
from rich.table import Table

from vitreous.data import Source, split
from vitreous.data.builtin import data_folder
from vitreous.data.source import Axis, Target
from vitreous.recipes import load_recipe
from vitreous.run.answers import outputs, with_features
from vitreous.run.familiarity import UNFAMILIAR
from vitreous.run.predictor import Predictor, load
from vitreous.train import SupervisedJob, train
from vitreous.train.own_data import own_data_job

Array = NDArray[Any]
DATA = ("tablets", "tecator", "digits", "mnist")
RECIPES = {"digits": "digits", "mnist": "mnist-cpu"}
LIKE_DIGITS = "OoIlSsZzBbgq"
_FONTS = [
    FontProperties(family=family, weight=weight)
    for family in ("DejaVu Sans", "DejaVu Serif", "DejaVu Sans Mono", "STIXGeneral")
    for weight in ("normal", "bold")
]
_FINE = 8  # canvas pixels per pixel of the model, as on the page
_COUNT = 1000


def letter(character: str, side: int, rng: np.random.Generator) -> Array:
    """A letter `(side, side)` from 0 to 1, framed as vitreous/serve/page/rasterize.js frames strokes."""
    angle, shear, stretch = np.radians(rng.uniform(-12, 12)), rng.uniform(-0.2, 0.2), rng.uniform(0.85, 1.15)
    turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]]) @ [[1, shear], [0, stretch]]
    font = _FONTS[rng.integers(len(_FONTS))]
    outlines = TextPath((0, 0), character, size=100, prop=font).to_polygons(closed_only=True)
    outlines = [np.asarray(outline) @ turn.T * [1, -1] for outline in outlines]
    low, high = (function(np.concatenate(outlines), axis=0) for function in (np.min, np.max))
    pixels, small = side * _FINE, side < 16
    scale = pixels * (1.0 if small else 0.72) / max(high - low)

    def paint(shift: Array) -> Array:
        ink = np.zeros((pixels, pixels), bool)
        for outline in outlines:
            canvas = Image.new("1", (pixels, pixels))
            points = (outline - (low + high) / 2) * scale + pixels / 2 + shift
            ImageDraw.Draw(canvas).polygon([tuple(point) for point in points], fill=1)
            ink ^= np.asarray(canvas)
        return ink

    ink = paint(np.zeros(2))
    if not small:  # the centre of mass is centred
        rows, columns = np.nonzero(ink)
        ink = paint(pixels / 2 - np.array([columns.mean(), rows.mean()]))
    return np.asarray(ink.reshape(side, _FINE, side, _FINE).mean((1, 3)))


def letters(characters: Sequence[str], side: int, white: float) -> Array:
    """Images `(n, 1, side, side)` of the characters in turn."""
    rng = np.random.default_rng(0)
    images = [letter(characters[i % len(characters)], side, rng) for i in range(_COUNT)]
    return (white * np.stack(images)[:, None]).astype(np.float32)


def foreign_images(test: Array) -> Iterator[tuple[str, Array]]:
    """Images that are no digits."""
    side, white, rng = test.shape[-1], float(test.max()), np.random.default_rng(0)
    others = [character for character in string.ascii_letters if character not in LIKE_DIGITS]
    yield "letters", letters(others, side, white)
    yield f"letters like digits ({LIKE_DIGITS})", letters(LIKE_DIGITS, side, white)
    yield "noise", (white * rng.random((_COUNT, *test.shape[1:]))).astype(np.float32)
    yield "inverted", white - test.astype(np.float32)


def foreign_spectra(test: Array, second: Array | None) -> Iterator[tuple[str, Array]]:
    """Spectra `(n, 1, points)` that the training part has none of."""
    shift = round(0.05 * test.shape[-1])
    yield "noise", np.random.default_rng(0).normal(test.mean(), test.std(), test.shape)
    yield "reversed", test[..., ::-1]
    yield "shifted by 5 %", np.concatenate([np.repeat(test[..., :1], shift, -1), test[..., :-shift]], -1)
    yield "times 1,000,000", test * 1e6
    yield "times 2", test * 2
    yield "constant", np.full_like(test, test.mean())
    if second is not None:
        yield "other instrument", second


def spectra_job(name: str, steps: int) -> tuple[SupervisedJob, Array | None]:
    """A training on spectra with the template for one's own data, and the test part on another instrument."""
    with np.load(data_folder() / "spectra" / f"{name}.npz", allow_pickle=False) as file:
        parts = {key: np.asarray(file[key], np.float32) for key in file.files if key.startswith(("train_", "test_"))}
    x = np.concatenate([parts["train_x"], parts["test_x"]])[:, None]
    y = np.concatenate([parts["train_y"], parts["test_y"]]).reshape(len(x), -1)[:, :1].astype(np.float64)
    count = len(parts["train_x"])
    rows = {"train": np.arange(count), "test": np.arange(count, len(x))}
    job = own_data_job(Source(name, x, y, (Axis(),), ("absorbance",), (), (Target("content"),), rows), "vit", "")
    second = parts.get("test_x_second_instrument")
    return job.with_changes({"steps": steps}), None if second is None else second[:, None]


def peer(predictor: Predictor, train_x: Array, validation: Array) -> tuple[str, Callable[[Array], Array]]:
    """The name of the peer, and its scores: high for samples that it takes for foreign."""
    if predictor.classes:
        return "probability", lambda x: 1 - np.asarray(predictor(x).probabilities).max(1)
    count, model = predictor.task.outputs, with_features(predictor.model)

    def embed(x: Array) -> Array:
        x = np.ascontiguousarray(x, np.float32)
        return outputs(model, x, np.arange(len(x)), predictor.scaling)[:, count:].double().numpy()

    seen = embed(train_x)
    precision = np.linalg.pinv(np.cov(seen.T) + 1e-6 * np.eye(seen.shape[1]))
    return "Mahalanobis", lambda x: np.einsum(
        "ni,ij,nj->n", embed(x) - seen.mean(0), precision, embed(x) - seen.mean(0)
    )


def measure(name: str, steps: int) -> tuple[str, list[tuple[str, int, float, float]]]:
    """The name of the peer, and for each kind of samples their number and the share that each of both reports."""
    second = None
    if name in RECIPES:
        job = load_recipe(RECIPES[name]).create().with_changes({"steps": steps})
    else:
        job, second = spectra_job(name, steps)
    with tempfile.TemporaryDirectory() as folder:
        train(job, Path(folder) / "run", device="cpu", bar=False)
        predictor = load(Path(folder) / "run")
    parts = split(job.source, job.validation, job.test, job.settings.seed)
    test, validation, seen = (
        np.asarray(job.source.x[rows[:4000]]) for rows in (parts.test, parts.validation, parts.train)
    )
    title, score = peer(predictor, seen, validation)
    threshold = np.quantile(score(validation), 1 - UNFAMILIAR)
    foreign = foreign_images(test) if name in RECIPES else foreign_spectra(test, second)
    rows = []
    for kind, x in [("test part (false alarms)", test), *foreign]:
        familiarity = predictor(x).familiarity
        assert familiarity is not None
        rows.append((kind, len(x), float((familiarity < UNFAMILIAR).mean()), float((score(x) > threshold).mean())))
    return title, rows


def main(data: tuple[str, ...] = DATA, steps: int = 600) -> None:
    """Train a small model on each data set and print the shares.

    Args:
        data: some of tablets, tecator, digits and mnist.
        steps: of each training.
    """
    for name in data:
        title, rows = measure(name, steps)
        table = Table(title=f"{name}: share reported as unfamiliar")
        for heading in ("samples", "number", "vitreous", f"peer: {title}"):
            table.add_column(heading, justify="left" if heading == "samples" else "right")
        for kind, count, ours, theirs in rows:
            table.add_row(kind, f"{count:,}", f"{ours:.1%}", f"{theirs:.1%}")
        Console().print(table)


if __name__ == "__main__":
    tyro.cli(main)
