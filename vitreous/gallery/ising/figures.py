"""Figures and scores of Ising spins (S2.9): the temperature of a microstate, compared with the best possible answer."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from vitreous.data.source import Source
from vitreous.gallery.figures import Figure, draw_classes, draw_target, load_run, predict_test, save_figures
from vitreous.gallery.ising import exact
from vitreous.gallery.ising.simulate import energy, magnetisation
from vitreous.gallery.ising.source import SYSTEMS, TEMPERATURES, best_answers, ising_source, temperature_source
from vitreous.insight.attention import head_measures
from vitreous.insight.style import figure
from vitreous.run.answers import Answers
from vitreous.run.predictor import Predictor
from vitreous.run.task import Regression

_DOTS = 600  # microstates in the panels of energy and magnetisation
_ATTENTION_SAMPLES = 16  # microstates of each temperature over which attention is averaged
_BINS = 10  # of a continuous temperature
_INNER = (1.7, 3.2)  # |J|/k: where the ends of the temperature range have little influence


def scores(predictor: Predictor, answers: Answers) -> dict[str, float]:
    """For continuous temperatures, away from the ends of the range: RMSE and the least possible RMSE."""
    values, true = predict_test(predictor, answers)[1][:, 0], answers.y[:, 0]
    inner = (true >= _INNER[0]) & (true <= _INNER[1])
    least = np.array([_cramer_rao(t, predictor) for t in true[inner]])
    return {f"rmse, {_INNER[0]:g} to {_INNER[1]:g}": _rms((values - true)[inner]), "least possible": _rms(least)}


def _cramer_rao(temperature: float, predictor: Predictor) -> float:
    """The Cramér-Rao bound of the error, with the heat capacity of the infinite lattice."""
    spins = float(np.prod(predictor.model.config.input))
    return float(temperature / np.sqrt(spins * exact.heat_capacity(temperature)))


def draw(run: Path, source: Source | None = None) -> list[Path]:
    """Draw `spins.png`, the physics, and `temperatures.png`, the answers, the best possible ones and the attention.

    Args:
        run: folder of a finished training.
        source: microstates to draw; by default those of the recipe.
    """
    predictor, answers = load_run(run)
    system = predictor.data.split(", ")[1]
    source = source or (ising_source if predictor.classes else temperature_source)(system)
    answered = (_classes_figure if predictor.classes else _quantity_figure)(predictor, answers, source, system)
    return save_figures(run, {"spins.png": _spins_figure(source, system), "temperatures.png": answered})


def _temperatures(source: Source) -> NDArray[np.float64]:
    assert source.y is not None
    temperatures: NDArray[np.float64] = np.array(TEMPERATURES)[source.y] if source.classes else source.y[:, 0]
    return temperatures


def _spins_figure(source: Source, system: str) -> Figure:
    """A few microstates; energies and magnetisations compared with the exact solution."""
    temperature, rows = _temperatures(source), source.parts["test"]
    lattice = replace(SYSTEMS[system], size=source.input[-1])
    some = rows[np.linspace(0, len(rows) - 1, min(_DOTS, len(rows))).astype(int)]
    spins = torch.tensor(source.x[some, 0])
    examples = [int(np.abs(temperature[some] - at).argmin()) for at in (1.5, 2.1, exact.CRITICAL, 2.4, 3.5)]
    with figure(7.5, 4.6) as drawing:
        panels = drawing.subplot_mosaic([[*"aabbccddff"], [*"eeeeemmmmm"]], height_ratios=(1, 1.8))
        for axes, row in zip((panels[name] for name in "abcdf"), examples, strict=True):
            axes.imshow(spins[row].numpy(), cmap="gray", vmin=-1, vmax=1, interpolation="nearest")
            axes.set_title(f"T = {temperature[some[row]]:.2f}", fontsize=8)
            axes.set(xticks=(), yticks=())
            axes.spines[:].set_visible(True)  # cold spins are as white as the paper
        line = np.linspace(temperature.min(), temperature.max(), 400)
        for name, values, curve, label in (
            ("e", energy(spins, lattice), exact.onsager_energy, "energy per spin (|J|)"),
            ("m", magnetisation(spins, lattice).abs(), exact.onsager_magnetisation, "order parameter"),
        ):
            axes = panels[name]
            axes.plot(temperature[some], values.numpy(), ".", ms=3, alpha=0.4, label=f"{lattice.size}² spins, {system}")
            axes.plot(line, [curve(t) for t in line], "k-", lw=1, label="infinite lattice, exact")
            axes.axvline(exact.CRITICAL, color="0.6", lw=0.8, ls=":")
            axes.set(xlabel="temperature (|J|/k)", ylabel=label)
        panels["e"].legend(frameon=False, fontsize=7)
    return drawing


def _classes_figure(predictor: Predictor, answers: Answers, source: Source, system: str) -> Figure:
    """Confusion matrix, accuracy by temperature and attention distance."""
    assert source.y is not None
    rows = source.parts["test"]
    best = _class_accuracy(best_answers(source, system)[rows] == source.y[rows], source.y[rows])
    accuracy = _class_accuracy(answers.out.argmax(1) == answers.y, answers.y)
    with figure(11 if predictor.model.attends else 7.5, 3.6) as drawing:
        left, right, *rest = drawing.subplots(1, 3 if predictor.model.attends else 2)
        draw_classes(left, answers, [f"{t:g}" for t in TEMPERATURES])
        right.plot(TEMPERATURES, best, "k--", lw=1, label="best possible")
        right.plot(TEMPERATURES, accuracy, "o-", ms=4, label="model")
        lowest = min(0.8, np.nanmin(accuracy))
        right.set(xlabel="temperature (|J|/k)", ylabel="share that is right", ylim=(lowest, 1.01))
        right.legend(frameon=False)
        for axes in rest:
            groups = [rows[source.y[rows] == k] for k in range(len(TEMPERATURES))]
            _draw_attention_distance(axes, predictor, source, TEMPERATURES, groups)
    return drawing


def _class_accuracy(correct: NDArray[np.bool_], label: NDArray[Any]) -> NDArray[np.float64]:
    return np.array([correct[label == k].mean() if (label == k).any() else np.nan for k in range(len(TEMPERATURES))])


def _quantity_figure(predictor: Predictor, answers: Answers, source: Source, _: str) -> Figure:
    """Temperatures against the truth, errors by temperature and attention distance."""
    assert isinstance(predictor.task, Regression)
    prediction, values = predict_test(predictor, answers)
    true, error = answers.y[:, 0], values[:, 0] - answers.y[:, 0]
    uncertainty = predictor.task.uncertainty(torch.from_numpy(answers.out))[:, 0].numpy()
    edges = np.linspace(true.min(), true.max(), _BINS + 1)
    bins, middle = _bin_rows(true, edges), (edges[1:] + edges[:-1]) / 2
    with figure(11 if predictor.model.attends else 7.5, 3.6) as drawing:
        left, right, *rest = drawing.subplots(1, 3 if predictor.model.attends else 2)
        draw_target(left, prediction, answers.y, 0)
        right.plot(middle, [_rms(error[rows]) for rows in bins], "o-", ms=4, label="error")
        expected = [_rms(uncertainty[rows]) for rows in bins]
        right.plot(middle, expected, "-", lw=1, label="error that the model expects")
        right.plot(middle, [_cramer_rao(t, predictor) for t in middle], "k--", lw=1, label="least possible")
        title = "; ".join(f"{name}: {value:.4f}" for name, value in scores(predictor, answers).items())
        right.set_title(title, fontsize=8)
        right.set(xlabel="temperature (|J|/k)", ylabel="root mean square (|J|/k)", ylim=(0, None))
        right.legend(frameon=False, fontsize=7)
        for axes in rest:
            rows = source.parts["test"]
            groups = [rows[part] for part in _bin_rows(_temperatures(source)[rows], edges)]
            filled = [k for k, group in enumerate(groups) if len(group)]
            _draw_attention_distance(axes, predictor, source, middle[filled].tolist(), [groups[k] for k in filled])
    return drawing


def _bin_rows(values: NDArray[Any], edges: NDArray[Any]) -> list[NDArray[np.intp]]:
    return [np.flatnonzero((values >= low) & (values <= high)) for low, high in pairwise(edges)]


def _rms(values: NDArray[Any]) -> float:
    return float(np.sqrt(np.square(values).mean())) if len(values) else np.nan


def _draw_attention_distance(
    axes: Any, predictor: Predictor, source: Source, temperatures: Sequence[float], groups: list[NDArray[np.intp]]
) -> None:
    """Attention distance of each layer by temperature, with the standard error, and the correlation length.

    `groups` are rows of the source at each temperature. Distances are the shortest across periodic edges everywhere.
    """
    measures = [
        [head_measures(predictor, source.x[[row]], periodic=True)[0] for row in rows[:_ATTENTION_SAMPLES]]
        for rows in groups
    ]
    distances = [np.stack([measure.values.mean(1) for measure in group]) for group in measures]  # (samples, layers)
    for layer in range(distances[0].shape[1]):
        middle = [group[:, layer].mean() for group in distances]
        error = [group[:, layer].std() / np.sqrt(len(group)) for group in distances]
        axes.errorbar(temperatures, middle, error, fmt="o-", ms=4, label=f"layer {layer}")
    axes.axhline(measures[0][0].uniform, color="0.5", lw=0.8, ls="--", label="looks everywhere")
    axes.set(xlabel="temperature (|J|/k)", ylabel="attention distance (spins)")
    line = np.linspace(min(temperatures), max(temperatures), 400)
    lengths = [min(exact.correlation_length(t), source.input[1] / 2) for t in line]
    right_axes = axes.twinx()
    right_axes.plot(line, lengths, "k-", lw=0.8, alpha=0.5)
    right_axes.set_ylabel("correlation length (spins), black", fontsize=8)
    right_axes.axvline(exact.CRITICAL, color="0.6", lw=0.8, ls=":")
    axes.legend(frameon=False, fontsize=7, ncols=2, loc="lower center", bbox_to_anchor=(0.5, 1.0))
