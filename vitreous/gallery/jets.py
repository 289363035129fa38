"""Jets (S2.10): which particle a jet came from, and what the model looks at in it."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from vitreous.gallery.entry import Entry

if TYPE_CHECKING:
    from vitreous.train.answers import Answers
    from vitreous.train.predictor import Predictor

_SIGNAL = "top"
_EFFICIENCY = 0.5


def separation(out: NDArray[Any], y: NDArray[Any], signal: int) -> tuple[NDArray[Any], NDArray[Any]]:
    """Shares of the signal and of all else that pass each cut on the signal's probability, both rising from 0 to 1.

    Args:
        out: logits `(n, classes)`.
        y: class numbers `(n,)`.
    """
    from sklearn.metrics import roc_curve  # type: ignore[import-untyped]

    odds = out - out.max(1, keepdims=True)
    score = odds[:, signal] - np.log(np.exp(odds).sum(1))
    background, efficiency, _ = roc_curve(y == signal, score, drop_intermediate=False)
    return efficiency, background


def area(efficiency: NDArray[Any], background: NDArray[Any]) -> float:
    """Under the curve of efficiency against background: 1 is perfect, 0.5 is chance."""
    return float(np.trapezoid(efficiency, background))


def rejection(efficiency: NDArray[Any], background: NDArray[Any], at: float = _EFFICIENCY) -> float:
    """1 / the share of the background that passes where this share of the signal does; infinite where none passes."""
    passed = float(background[np.searchsorted(efficiency, at)])
    return 1 / passed if passed else float("inf")


def scores(predictor: "Predictor", answers: "Answers") -> dict[str, float]:
    """Area and rejection at half the signal, of tops against all else."""
    curve = separation(answers.out, answers.y, predictor.classes.index(_SIGNAL))
    return {f"AUC of {_SIGNAL}": area(*curve), f"1/ε_B at ε_S = {_EFFICIENCY:g}": rejection(*curve)}


def draw(run: Path) -> list[Path]:
    """`jets.png`: a jet of each origin, particle by particle; `origins.png`: how well they are told apart."""
    from vitreous.gallery.panels import opened

    predictor, answers = opened(run)
    return [
        _draw_jets(run / "jets.png", predictor, answers),
        _draw_origins(run / "origins.png", predictor.classes, answers),
    ]


def _draw_jets(path: Path, predictor: "Predictor", answers: "Answers") -> Path:
    """Particles in the plane of angles: their area the transverse momentum, their colour the attention they get."""
    from vitreous.gallery.panels import looks_at
    from vitreous.insight.style import figure, save
    from vitreous.sim.jet_source import COORDINATES, FEATURES
    from vitreous.sim.jets import RADIUS

    truth = answers.y[answers.shown]
    rows = [row for k in range(len(predictor.classes)) for row in np.flatnonzero(truth == k)[-1:]]
    probability = predictor(answers.samples[rows]).probabilities
    assert probability is not None
    shares = looks_at(predictor, answers.samples[rows], [-1])
    colours = answers.samples[rows][:, FEATURES.index("charge")] if shares is None else shares
    scale: dict[str, Any] = {"cmap": "viridis", "vmin": 0, "vmax": colours.max()}
    if shares is None:
        scale = {"cmap": "coolwarm", "vmin": -1, "vmax": 1}
    with figure(2.7 * len(rows) + 0.8, 3.1) as drawing:
        panels = np.atleast_1d(drawing.subplots(1, len(rows), sharex=True, sharey=True))
        for i, (axes, row) in enumerate(zip(panels, rows, strict=True)):
            x = answers.samples[row]
            there = (x != 0).any(0)
            (eta, phi), log_pt = RADIUS / 2 * x[:2, there], x[len(FEATURES) + COORDINATES.index("ln pT"), there]
            shown = axes.scatter(eta, phi, np.exp(log_pt), c=colours[i, there], alpha=0.7, lw=0, **scale)
            name = predictor.classes[truth[row]]
            title = f"{name}: {there.sum()} particles, {_mass(x[len(FEATURES) :, there]):.0f} GeV\np({name}) = "
            axes.set_title(f"{title}{probability[i, truth[row]]:.2f}", loc="left", fontsize=8)
            axes.set(xlabel="Δη", xlim=(-0.9, 0.9), ylim=(-0.9, 0.9), aspect="equal")
        panels[0].set_ylabel("Δφ")
        drawing.colorbar(
            shown, ax=panels, label="charge" if shares is None else "attention of the last layer (1: as to all alike)"
        )
        save(drawing, path)
    return path


def _mass(coords: NDArray[Any]) -> float:
    """Of particles together, in GeV, from their rapidities, azimuths, ln p_T and ln E `(4, n)`."""
    y, phi, log_pt, log_e = coords.astype(np.float64)
    pt, e = np.exp(log_pt), np.exp(log_e)
    total = e.sum(), (pt * np.cos(phi)).sum(), (pt * np.sin(phi)).sum(), (e * np.tanh(y)).sum()
    return float(np.sqrt(max(0.0, total[0] ** 2 - total[1] ** 2 - total[2] ** 2 - total[3] ** 2)))


def _draw_origins(path: Path, classes: tuple[str, ...], answers: "Answers") -> Path:
    from vitreous.insight.behaviour import confusion, draw_confusion
    from vitreous.insight.style import figure, save

    with figure(8, 3.6) as drawing:
        left, right = drawing.subplots(1, 2)
        draw_confusion(left, confusion(answers.out.argmax(1), answers.y, len(classes)), list(classes))
        for k, name in enumerate(classes):
            if not 0 < (answers.y == k).sum() < len(answers.y):
                continue
            efficiency, background = separation(answers.out, answers.y, k)
            seen = (background > 0) & (efficiency > 0)
            label = f"{name}: area {area(efficiency, background):.3f}"
            right.plot(efficiency[seen], 1 / background[seen], lw=1.2, label=label)
        right.axvline(_EFFICIENCY, color="0.6", lw=0.8, ls=":")
        right.set(xlabel="share of the jets that pass", ylabel="1 / share of all others that pass", yscale="log")
        right.yaxis.set_major_formatter("{x:g}")
        right.legend(frameon=False, fontsize=7)
        save(drawing, path)
    return path


ENTRY = Entry(
    "jets", "Jets at a collider", "quark, gluon, W or top?", ("vit", "plain", "deep-sets"), draw, needs="jets"
)
