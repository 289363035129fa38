"""Figures of light curves (S2.11): a supernova of each kind, the answers on the test part, and the attention."""

from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from vitreous.gallery import figures as shared
from vitreous.gallery.light_curves.simulate import BANDS, CLASSES, Supernovae, flux
from vitreous.gallery.light_curves.source import Curves, Survey, simulate_curves, unscale_flux
from vitreous.insight.style import figure
from vitreous.run.answers import Answers, read_answers
from vitreous.run.prediction import Prediction
from vitreous.run.predictor import Predictor, load

_COLOURS = {"g": "C2", "r": "C3", "i": "C1", "z": "0.35"}
_BINS = 16  # of time, in which attention is averaged
_FEWEST = 12  # observations in a bin that is drawn


def draw(run: Path, curves: int = 400) -> list[Path]:
    """Draw `curves.png`, a curve of each kind with the model's answer, and `answers.png`, if the run has test answers.

    Args:
        run: folder of a finished training.
        curves: simulated curves over which attention is averaged.
    """
    predictor, answers = load(run), read_answers(run)
    with torch.random.fork_rng():
        torch.manual_seed(3)
        simulated = simulate_curves(Survey(visits=predictor.model.config.input[1]), curves)
    figures = {"curves.png": _examples_figure(predictor, simulated)}
    if answers is not None:
        figures["answers.png"] = _answers_figure(predictor, answers, simulated)
    return shared.save_figures(run, figures)


def _examples_figure(predictor: Predictor, curves: Curves) -> shared.Figure:
    """A curve of each kind in all bands, the model's answer and its attention."""
    samples = curves.x[: len(CLASSES)].numpy()  # kinds come in turn
    texts = _answer_texts(predictor(samples, shared.interval_coverage(predictor)))
    attention = shared.attention_on_elements(predictor, samples)
    with figure(9, 7 if attention is not None else 5.5) as drawing:
        grid = drawing.add_gridspec(2, 2)
        for number, name in enumerate(CLASSES):
            inner = grid[divmod(number, 2)].subgridspec(4, 1)
            upper = lower = drawing.add_subplot(inner[:3] if attention is not None else inner[:])
            _draw_curve(upper, curves, number)
            upper.set_title(f"{name}, z = {float(curves.redshift[number]):.2f}. The model: {texts[number]}", fontsize=9)
            upper.legend(fontsize=7, ncols=4)
            if attention is not None:
                lower = drawing.add_subplot(inner[3], sharex=upper)
                _draw_attention(lower, samples[number], attention[number])
            lower.set_xlabel("days since the first detection")
    return drawing


def _draw_curve(axes: Any, curves: Curves, number: int) -> None:
    """Observations of one supernova in all bands, and its true flux."""
    one = slice(number, number + 1)
    x, supernova = curves.x[number].double(), Supernovae(*(part[one] for part in curves.supernovae))
    x = x[:, (x != 0).any(0)]
    fine = torch.linspace(float(x[-1].min()), float(x[-1].max()), 300)[None]
    for row, (band, wavelength) in enumerate(BANDS.items()):
        measured, error, *_, days = x[:, x[2 + row] > 0]
        axes.errorbar(
            days, unscale_flux(measured), unscale_flux(error), fmt="o", ms=2.5, lw=0.8, color=_COLOURS[band], label=band
        )
        truth = flux(supernova, curves.redshift[one], fine - curves.rise[number], torch.full_like(fine, wavelength))
        axes.plot(fine[0], truth[0], lw=0.7, alpha=0.6, color=_COLOURS[band])
    axes.set_ylabel("flux (μJy)")


def _draw_attention(axes: Any, sample: NDArray[Any], attention: NDArray[Any]) -> None:
    """The attention on each observation of a curve `(rows, visits)`, in the colour of its band."""
    present = (sample != 0).any(0)
    colours = [list(_COLOURS.values())[band] for band in sample[2 : 2 + len(BANDS), present].argmax(0)]
    axes.vlines(sample[-1, present], 0, attention[present], colors=colours, lw=1.5)
    axes.axhline(1, color="0.6", lw=0.6, ls=":")
    axes.set_ylabel("attention", fontsize=8)


def _answer_texts(prediction: Prediction) -> list[str]:
    if prediction.probabilities is not None:
        answers = zip(prediction.labels, prediction.probabilities, strict=True)
        return [f"{name} ({100 * row.max():.0f} %)" for name, row in answers]
    assert prediction.values is not None
    texts = [f"z = {value:.2f}" for value in prediction.values[:, 0]]
    if prediction.lower is not None and prediction.upper is not None:
        ends = zip(texts, prediction.lower[:, 0], prediction.upper[:, 0], strict=True)
        texts = [f"{text} ({low:.2f} to {high:.2f})" for text, low, high in ends]
    return texts


def _answers_figure(predictor: Predictor, answers: Answers, curves: Curves) -> shared.Figure:
    """Confusion matrix, or redshifts against the truth, and the attention by time."""
    attention = shared.attention_on_elements(predictor, curves.x.numpy())
    with figure(9 if attention is not None else 4.6, 4) as drawing:
        panels = drawing.subplots(1, 2 if attention is not None else 1, squeeze=False)[0]
        if predictor.classes:
            shared.draw_classes(panels[0], answers, predictor.classes)
        else:
            shared.draw_target(panels[0], shared.predict_test(predictor, answers)[0], answers.y, 0)
        if attention is not None:
            _draw_mean_attention(panels[1], attention, curves)
    return drawing


def _draw_mean_attention(axes: Any, attention: NDArray[Any], curves: Curves) -> None:
    days, present = curves.x[:, -1].numpy(), (curves.x != 0).any(1).numpy()
    edges = np.linspace(days[present].min(), days[present].max(), _BINS + 1)
    for number, name in enumerate(CLASSES):
        chosen = present & (curves.kind.numpy() == number)[:, None]
        count, _ = np.histogram(days[chosen], edges)
        total, _ = np.histogram(days[chosen], edges, weights=attention[chosen])
        enough = count >= _FEWEST
        axes.plot(((edges[1:] + edges[:-1]) / 2)[enough], (total / count.clip(1))[enough], marker=".", label=name)
    axes.axhline(1, color="0.6", lw=0.6, ls=":")
    axes.axvline(0, color="0.8", lw=0.6)
    axes.set(xlabel="days since the first detection", ylabel="attention on an observation (1: even)")
    axes.legend(fontsize=7)
