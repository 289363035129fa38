"""Light curves of supernovae: which kind is it, or how far? Observations are tokens, and their times coordinates."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from vitreous.gallery.entry import Entry

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from vitreous.prediction import Prediction
    from vitreous.sim.curves import Curves
    from vitreous.train.answers import Answers
    from vitreous.train.predictor import Predictor

_COLOURS = {"g": "C2", "r": "C3", "i": "C1", "z": "0.35"}
_CURVES = 400  # over which attention is averaged
_SPANS = 16  # of time, in which it is
_PLAIN = 12  # observations in the mean of a span that make it worth showing


def draw(run: Path) -> list[Path]:
    """`curves.png`: a curve of each kind and the model's answers. `answers.png`: how good they are on the test part."""
    import torch

    from vitreous.insight.style import save
    from vitreous.sim.curves import Survey, observed
    from vitreous.train.answers import read_answers
    from vitreous.train.predictor import load

    with torch.random.fork_rng():
        predictor = load(run)
        torch.manual_seed(3)
        curves = observed(Survey(visits=predictor.model.config.input[1]), _CURVES)
    drawings = {"curves.png": _examples(predictor, curves)}
    answers = read_answers(run)
    if answers is not None:
        drawings["answers.png"] = _answers(predictor, answers, curves)
    for name, drawing in drawings.items():
        save(drawing, run / name)
    return [run / name for name in drawings]


def _examples(predictor: "Predictor", curves: "Curves") -> Any:
    """A curve of each kind in all bands, what the model says of it and where it looks."""
    from vitreous.gallery.panels import coverage, looks_at
    from vitreous.insight.style import figure
    from vitreous.sim.supernovae import CLASSES

    samples = curves.x[: len(CLASSES)].numpy()  # kinds come in turn
    said, looks = _words(predictor(samples, coverage(predictor))), looks_at(predictor, samples)
    with figure(9, 7 if looks is not None else 5.5) as drawing:
        whole = drawing.add_gridspec(2, 2)
        for number, name in enumerate(CLASSES):
            inner = whole[divmod(number, 2)].subgridspec(4, 1)
            upper = lower = drawing.add_subplot(inner[:3] if looks is not None else inner[:])
            _curve(upper, curves, number)
            upper.set_title(f"{name}, z = {float(curves.redshift[number]):.2f}. The model: {said[number]}", fontsize=9)
            upper.legend(fontsize=7, ncols=4)
            if looks is not None:
                lower = drawing.add_subplot(inner[3], sharex=upper)
                _stems(lower, samples[number], looks[number])
            lower.set_xlabel("days since the first detection")
    return drawing


def _curve(axes: Any, curves: "Curves", number: int) -> None:
    """Observations of one supernova in all bands, and what it really did."""
    import torch

    from vitreous.sim.curves import unscaled
    from vitreous.sim.supernovae import BANDS, Supernovae, flux

    one = slice(number, number + 1)
    x, own = curves.x[number].double(), Supernovae(*(part[one] for part in curves.supernovae))
    x = x[:, (x != 0).any(0)]
    fine = torch.linspace(float(x[-1].min()), float(x[-1].max()), 300)[None]
    for row, (band, wavelength) in enumerate(BANDS.items()):
        bright, error, *_, days = x[:, x[2 + row] > 0]
        style = {"color": _COLOURS[band], "label": band}
        axes.errorbar(days, unscaled(bright), unscaled(error), fmt="o", ms=2.5, lw=0.8, **style)
        truth = flux(own, curves.redshift[one], fine - curves.rise[number], torch.full_like(fine, wavelength))
        axes.plot(fine[0], truth[0], lw=0.7, alpha=0.6, color=_COLOURS[band])
    axes.set_ylabel("flux (μJy)")


def _stems(axes: Any, sample: "NDArray[Any]", looks: "NDArray[Any]") -> None:
    """The attention on each observation of a curve `(rows, visits)`, in the colour of its band."""
    from vitreous.sim.supernovae import BANDS

    there = (sample != 0).any(0)
    bands = sample[2 : 2 + len(BANDS), there].argmax(0)
    axes.vlines(sample[-1, there], 0, looks[there], colors=[list(_COLOURS.values())[band] for band in bands], lw=1.5)
    axes.axhline(1, color="0.6", lw=0.6, ls=":")
    axes.set_ylabel("attention", fontsize=8)


def _words(answer: "Prediction") -> list[str]:
    """What the model says of each curve, in words."""
    if answer.probabilities is not None:
        return [
            f"{name} ({100 * row.max():.0f} %)" for name, row in zip(answer.labels, answer.probabilities, strict=True)
        ]
    assert answer.values is not None
    said = [f"z = {value:.2f}" for value in answer.values[:, 0]]
    if answer.lower is not None and answer.upper is not None:
        ends = zip(said, answer.lower[:, 0], answer.upper[:, 0], strict=True)
        said = [f"{text} ({low:.2f} to {high:.2f})" for text, low, high in ends]
    return said


def _answers(predictor: "Predictor", answers: "Answers", curves: "Curves") -> Any:
    """Confusion matrix, or redshifts against their truth, and when the model looks."""
    from vitreous.gallery.panels import answered, looks_at, parity
    from vitreous.insight.behaviour import confusion, draw_confusion
    from vitreous.insight.style import figure

    looks = looks_at(predictor, curves.x.numpy())
    with figure(9 if looks is not None else 4.6, 4) as drawing:
        panels = drawing.subplots(1, 2 if looks is not None else 1, squeeze=False)[0]
        if predictor.classes:
            matrix = confusion(answers.out.argmax(1), answers.y, len(predictor.classes))
            draw_confusion(panels[0], matrix, predictor.classes)
        else:
            parity(panels[0], answered(predictor, answers), answers.y, 0)
        if looks is not None:
            _attention(panels[1], looks, curves)
    return drawing


def _attention(axes: Any, looks: "NDArray[Any]", curves: "Curves") -> None:
    """The mean attention on observations of each kind, against when they were made."""
    import numpy as np

    from vitreous.sim.supernovae import CLASSES

    days, there = curves.x[:, -1].numpy(), (curves.x != 0).any(1).numpy()
    edges = np.linspace(days[there].min(), days[there].max(), _SPANS + 1)
    for number, name in enumerate(CLASSES):
        chosen = there & (curves.kind.numpy() == number)[:, None]
        count, _ = np.histogram(days[chosen], edges)
        total, _ = np.histogram(days[chosen], edges, weights=looks[chosen])
        enough = count >= _PLAIN
        axes.plot(((edges[1:] + edges[:-1]) / 2)[enough], (total / count.clip(1))[enough], marker=".", label=name)
    axes.axhline(1, color="0.6", lw=0.6, ls=":")
    axes.axvline(0, color="0.8", lw=0.6)
    axes.set(xlabel="days since the first detection", ylabel="attention on an observation (1: even)")
    axes.legend(fontsize=7)


ENTRY = Entry(
    "light-curves",
    "light curves of supernovae",
    "Which kind of supernova is it, or how far? Beside boosted trees on hand-made features.",
    ("vit", "deep-sets"),
    draw,
    ("class", "redshift"),
)
