"""Light curves of supernovae: which kind is it, or how far? Observations are tokens, and their times coordinates."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from vitreous.gallery.entry import Entry

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from vitreous.prediction import Prediction
    from vitreous.sim.curves import Curves
    from vitreous.train.answers import Answers
    from vitreous.train.predictor import Predictor

_COLOURS = {"g": "C2", "r": "C3", "i": "C1", "z": "0.35"}
_COVERAGE = 0.9
_CURVES = 400  # over which attention is averaged
_SPANS = 16  # of time, in which it is
_POINTS = 300  # of a parity plot
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


def _looks(predictor: "Predictor", x: "NDArray[Any]") -> "NDArray[np.float64] | None":
    """The attention on each observation, `(n, visits)`, mean of all layers and heads: 1 where it is even on all.

    None for a model that has none.
    """
    from vitreous.insight.attention import attention_maps
    from vitreous.insight.units import model_input
    from vitreous.nn.vit import ViT

    model = predictor.model
    if not isinstance(model, ViT) or model.config.attention != "full":
        return None
    there = (x != 0).any(1)
    maps = attention_maps(model, model_input(predictor, x)).mean((1, 2)) * there
    relative: NDArray[np.float64] = maps * there.sum(1, keepdims=True) / maps.sum(1, keepdims=True)
    return relative


def _examples(predictor: "Predictor", curves: "Curves") -> Any:
    """A curve of each kind in all bands, what the model says of it and where it looks."""
    from vitreous.insight.style import figure
    from vitreous.sim.supernovae import CLASSES

    samples = curves.x[: len(CLASSES)].numpy()  # kinds come in turn
    said, looks = _words(predictor(samples, _coverage(predictor))), _looks(predictor, samples)
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


def _coverage(predictor: "Predictor") -> float | None:
    """What intervals are asked to cover, where there are some."""
    from vitreous.train.task import Regression

    task = predictor.task
    return _COVERAGE if isinstance(task, Regression) and task.bounds(_COVERAGE) else None


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
    import torch

    from vitreous.insight.style import figure
    from vitreous.train.task import Regression

    looks = _looks(predictor, curves.x.numpy())
    with figure(9 if looks is not None else 4.6, 4) as drawing:
        panels = drawing.subplots(1, 2 if looks is not None else 1, squeeze=False)[0]
        said = predictor.answer(torch.from_numpy(answers.out), _coverage(predictor))
        drawn = _parity if isinstance(predictor.task, Regression) else _confusion
        drawn(panels[0], said, answers.y)
        if looks is not None:
            _attention(panels[1], looks, curves)
    return drawing


def _confusion(axes: Any, said: "Prediction", truth: "NDArray[Any]") -> None:
    from vitreous.insight.behaviour import confusion

    assert said.probabilities is not None
    matrix = confusion(said.probabilities.argmax(1), truth, len(said.classes))
    shares = matrix / matrix.sum(1, keepdims=True).clip(1)
    axes.imshow(shares, cmap="Blues", vmin=0, vmax=1)
    for (i, j), share in [((i, j), shares[i, j]) for i in range(len(shares)) for j in range(len(shares))]:
        axes.text(j, i, f"{100 * share:.0f}", ha="center", va="center", color="w" if share > 0.5 else "k")
    axes.set_xticks(range(len(said.classes)), said.classes, fontsize=8)
    axes.set_yticks(range(len(said.classes)), said.classes, fontsize=8)
    right = matrix.trace() / max(1, matrix.sum())
    axes.set(xlabel="the model's answer", ylabel="truth")
    axes.set_title(f"% of each class; {100 * right:.1f} % of {matrix.sum():,} curves are right", fontsize=9)


def _parity(axes: Any, said: "Prediction", truth: "NDArray[Any]") -> None:
    import numpy as np

    from vitreous.train.answers import evenly

    assert said.values is not None
    value, true = said.values[:, 0], truth[:, 0]
    some = evenly(len(true), _POINTS)
    title = f"mean |error| {np.abs(value - true).mean():.3f}"
    if said.lower is not None and said.upper is not None:
        low, high = said.lower[:, 0], said.upper[:, 0]
        bars = np.stack([value - low, high - value])[:, some]
        axes.errorbar(true[some], value[some], bars, fmt="o", ms=2, lw=0.4, color="C0", ecolor="0.7")
        inside = ((true >= low) & (true <= high)).mean()
        title += f"; {100 * _COVERAGE:.0f} % intervals hold {100 * inside:.1f} % of {len(true):,}"
    else:
        axes.plot(true[some], value[some], "o", ms=2)
    ends = [0.0, float(true.max())]
    axes.plot(ends, ends, color="k", lw=0.7)
    axes.set(xlabel="true redshift", ylabel="the model's redshift")
    axes.set_title(title, fontsize=9)


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
