"""Figures and scores of jets (S2.10): the particles of a jet, and how well its origin is classified."""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import roc_curve  # type: ignore[import-untyped]

from vitreous.gallery.figures import Figure, attention_on_elements, draw_classes, load_run, save_figures
from vitreous.gallery.jets.simulate import RADIUS
from vitreous.gallery.jets.source import COORDINATES, FEATURES
from vitreous.insight.style import figure
from vitreous.run.answers import Answers
from vitreous.run.predictor import Predictor

_SIGNAL = "top"
_EFFICIENCY = 0.5


def efficiency_curve(out: NDArray[Any], y: NDArray[Any], signal: int) -> tuple[NDArray[Any], NDArray[Any]]:
    """Efficiencies of signal and background for each cut on the signal's probability, both rising from 0 to 1.

    `out` are logits `(n, classes)`, `y` class numbers `(n,)`; all classes but the `signal` are background.
    """
    shifted = out - out.max(1, keepdims=True)
    score = shifted[:, signal] - np.log(np.exp(shifted).sum(1))
    background, efficiency, _ = roc_curve(y == signal, score, drop_intermediate=False)
    return efficiency, background


def area(efficiency: NDArray[Any], background: NDArray[Any]) -> float:
    """Area under the ROC curve: 1 is perfect, 0.5 is chance."""
    return float(np.trapezoid(efficiency, background))


def rejection(efficiency: NDArray[Any], background: NDArray[Any], at: float = _EFFICIENCY) -> float:
    """1 / background efficiency at this signal efficiency; infinite if no background passes."""
    passed = float(background[np.searchsorted(efficiency, at)])
    return 1 / passed if passed else float("inf")


def scores(predictor: Predictor, answers: Answers) -> dict[str, float]:
    """Area under the ROC curve, and background rejection at a signal efficiency of 0.5, of tops against all others."""
    curve = efficiency_curve(answers.out, answers.y, predictor.classes.index(_SIGNAL))
    return {f"AUC of {_SIGNAL}": area(*curve), f"1/ε_B at ε_S = {_EFFICIENCY:g}": rejection(*curve)}


def draw(run: Path) -> list[Path]:
    """Draw `jets.png`, the particles of a jet of each origin, and `origins.png`, how well origins are classified."""
    predictor, answers = load_run(run)
    origins = _origins_figure(predictor.classes, answers)
    return save_figures(run, {"jets.png": _jets_figure(predictor, answers), "origins.png": origins})


def _jets_figure(predictor: Predictor, answers: Answers) -> Figure:
    """Particles in the plane of angles, with transverse momentum as area and attention (or charge) as colour."""
    truth = answers.y[answers.shown]
    rows = [row for k in range(len(predictor.classes)) for row in np.flatnonzero(truth == k)[-1:]]
    probability = predictor(answers.samples[rows]).probabilities
    assert probability is not None
    attention = attention_on_elements(predictor, answers.samples[rows], [-1])
    colours, label = answers.samples[rows][:, FEATURES.index("charge")], "charge"
    scale: dict[str, Any] = {"cmap": "coolwarm", "vmin": -1, "vmax": 1}
    if attention is not None:
        colours, label = attention, "attention of the last layer (1: as to all alike)"
        scale = {"cmap": "viridis", "vmin": 0, "vmax": attention.max()}
    with figure(2.7 * len(rows) + 0.8, 3.1) as drawing:
        panels = np.atleast_1d(drawing.subplots(1, len(rows), sharex=True, sharey=True))
        for i, (axes, row) in enumerate(zip(panels, rows, strict=True)):
            x = answers.samples[row]
            present = (x != 0).any(0)
            (eta, phi), log_pt = RADIUS / 2 * x[:2, present], x[len(FEATURES) + COORDINATES.index("ln pT"), present]
            dots = axes.scatter(eta, phi, np.exp(log_pt), c=colours[i, present], alpha=0.7, lw=0, **scale)
            name = predictor.classes[truth[row]]
            title = f"{name}: {present.sum()} particles, {_mass(x[len(FEATURES) :, present]):.0f} GeV\np({name}) = "
            axes.set_title(f"{title}{probability[i, truth[row]]:.2f}", loc="left", fontsize=8)
            axes.set(xlabel="Δη", xlim=(-0.9, 0.9), ylim=(-0.9, 0.9), aspect="equal")
        panels[0].set_ylabel("Δφ")
        drawing.colorbar(dots, ax=panels, label=label)
    return drawing


def _mass(coords: NDArray[Any]) -> float:
    """Invariant mass of all particles in GeV, from rapidity, azimuth, ln p_T and ln E `(4, n)`."""
    y, phi, log_pt, log_e = coords.astype(np.float64)
    pt, energy = np.exp(log_pt), np.exp(log_e)
    total = energy.sum(), (pt * np.cos(phi)).sum(), (pt * np.sin(phi)).sum(), (energy * np.tanh(y)).sum()
    return float(np.sqrt(max(0.0, total[0] ** 2 - total[1] ** 2 - total[2] ** 2 - total[3] ** 2)))


def _origins_figure(classes: tuple[str, ...], answers: Answers) -> Figure:
    """Confusion matrix, and background rejection by signal efficiency for each class."""
    with figure(8, 3.6) as drawing:
        left, right = drawing.subplots(1, 2)
        draw_classes(left, answers, classes)
        for k, name in enumerate(classes):
            if not 0 < (answers.y == k).sum() < len(answers.y):
                continue
            efficiency, background = efficiency_curve(answers.out, answers.y, k)
            positive = (background > 0) & (efficiency > 0)
            label = f"{name}: area {area(efficiency, background):.3f}"
            right.plot(efficiency[positive], 1 / background[positive], lw=1.2, label=label)
        right.axvline(_EFFICIENCY, color="0.6", lw=0.8, ls=":")
        right.set(xlabel="share of the jets that pass", ylabel="1 / share of all others that pass", yscale="log")
        right.yaxis.set_major_formatter("{x:g}")
        right.legend(frameon=False, fontsize=7)
    return drawing
