"""Ising spins (S2.9): which temperature a microstate has, beside the best that can be known."""

from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from vitreous.gallery.entry import Entry

if TYPE_CHECKING:
    from vitreous.data.source import Source
    from vitreous.train.answers import Answers
    from vitreous.train.predictor import Predictor

_DOTS = 600  # microstates in the panels of the physics
_LOOKED = 16  # microstates of each temperature whose attention is averaged
_BINS = 10  # of a continuous temperature
_INNER = (1.7, 3.2)  # |J|/k: where it says little that no temperature lies beyond the ends


def scores(predictor: "Predictor", answers: "Answers") -> dict[str, float]:
    """Of a continuous temperature, away from the ends: the root mean square error, and the least possible."""
    from vitreous.gallery.panels import answered

    answer, true = answered(predictor, answers), answers.y[:, 0]
    assert answer.values is not None
    inner = (true >= _INNER[0]) & (true <= _INNER[1])
    least = [_least(t, predictor) for t in true[inner]]
    named = " to ".join(f"{end:g}" for end in _INNER)
    return {f"rmse, {named}": _rms((answer.values[:, 0] - true)[inner]), "least possible": _rms(np.array(least))}


def _least(temperature: float, predictor: "Predictor") -> float:
    """The error of Cramér and Rao, with the heat capacity of the infinite lattice."""
    from vitreous.sim.ising import heat_capacity

    spins = float(np.prod(predictor.model.config.input))
    return float(temperature / np.sqrt(spins * heat_capacity(temperature)))


def draw(run: Path) -> list[Path]:
    """`spins.png`: the physics; `temperatures.png`: the answers beside the best possible, and where attention looks."""
    from vitreous.gallery.panels import opened
    from vitreous.train.recipes import RECIPES
    from vitreous.train.task import Regression

    predictor, answers = opened(run)
    system = predictor.data.split(", ")[1]
    continuous = isinstance(predictor.task, Regression)
    source = RECIPES["ising-temperature" if continuous else "ising"](system=system).source
    spins = _draw_spins(run / "spins.png", source, system, _temperatures(source))
    path = run / "temperatures.png"
    if continuous:
        return [spins, _draw_quantity(path, predictor, answers, source)]
    return [spins, _draw_classes(path, predictor, answers, source, system)]


def _temperatures(source: "Source") -> NDArray[np.float64]:
    """Of each microstate, in |J| / k."""
    from vitreous.sim.temperatures import TEMPERATURES

    assert source.y is not None
    found: NDArray[np.float64] = np.array(TEMPERATURES)[source.y] if source.classes else source.y[:, 0]
    return found


def _draw_spins(path: Path, source: "Source", system: str, temperature: NDArray[np.float64]) -> Path:
    """A few microstates; energies and magnetisations beside Onsager's solution."""
    import torch

    from vitreous.insight.style import figure, save
    from vitreous.sim.ising import CRITICAL, energy, magnetisation, onsager_energy, onsager_magnetisation
    from vitreous.sim.temperatures import SYSTEMS

    lattice, rows = SYSTEMS[system], source.parts["test"]
    some = rows[np.linspace(0, len(rows) - 1, min(_DOTS, len(rows))).astype(int)]
    spins = torch.tensor(source.x[some, 0])
    shown = [int(np.abs(temperature[some] - at).argmin()) for at in (1.5, 2.1, CRITICAL, 2.4, 3.5)]
    with figure(7.5, 4.6) as drawing:
        panels = drawing.subplot_mosaic([[*"aabbccddff"], [*"eeeeemmmmm"]], height_ratios=(1, 1.8))
        for axes, row in zip((panels[name] for name in "abcdf"), shown, strict=True):
            axes.imshow(spins[row].numpy(), cmap="gray", vmin=-1, vmax=1, interpolation="nearest")
            axes.set_title(f"T = {temperature[some[row]]:.2f}", fontsize=8)
            axes.set(xticks=(), yticks=())
            axes.spines[:].set_visible(True)  # cold spins are as white as paper
        line = np.linspace(temperature.min(), temperature.max(), 400)
        for name, found, curve, label in (
            ("e", energy(spins, lattice), onsager_energy, "energy per spin (|J|)"),
            ("m", magnetisation(spins, lattice).abs(), onsager_magnetisation, "order parameter"),
        ):
            axes = panels[name]
            axes.plot(temperature[some], found.numpy(), ".", ms=3, alpha=0.4, label=f"{lattice.size}² spins, {system}")
            axes.plot(line, [curve(t) for t in line], "k-", lw=1, label="infinite lattice, exact")
            axes.axvline(CRITICAL, color="0.6", lw=0.8, ls=":")
            axes.set(xlabel="temperature (|J|/k)", ylabel=label)
        panels["e"].legend(frameon=False, fontsize=7)
        save(drawing, path)
    return path


def _draw_classes(path: Path, predictor: "Predictor", answers: "Answers", source: "Source", system: str) -> Path:
    from vitreous.insight.attention import attends
    from vitreous.insight.behaviour import confusion, draw_confusion
    from vitreous.insight.style import figure, save
    from vitreous.sim.temperatures import TEMPERATURES, best_answers

    rows = source.parts["test"]
    assert source.y is not None
    best = _shares(best_answers(source, system)[rows] == source.y[rows], source.y[rows])
    told = _shares(answers.out.argmax(1) == answers.y, answers.y)
    looks = attends(predictor.model)
    with figure(11 if looks else 7.5, 3.6) as drawing:
        panels = drawing.subplots(1, 3 if looks else 2)
        count = len(TEMPERATURES)
        draw_confusion(panels[0], confusion(answers.out.argmax(1), answers.y, count), [f"{t:g}" for t in TEMPERATURES])
        panels[1].plot(TEMPERATURES, best, "k--", lw=1, label="best possible")
        panels[1].plot(TEMPERATURES, told, "o-", ms=4, label="model")
        panels[1].set(
            xlabel="temperature (|J|/k)", ylabel="share that is right", ylim=(min(0.8, np.nanmin(told)), 1.01)
        )
        panels[1].legend(frameon=False)
        if looks:
            groups = [rows[source.y[rows] == k][:_LOOKED] for k in range(count)]
            _draw_range(panels[2], predictor, source, TEMPERATURES, groups)
        save(drawing, path)
    return path


def _shares(right: NDArray[np.bool_], label: NDArray[Any]) -> NDArray[np.float64]:
    """Of each class, the share that is right; nan where there is none of it."""
    from vitreous.sim.temperatures import TEMPERATURES

    return np.array([right[label == k].mean() if (label == k).any() else np.nan for k in range(len(TEMPERATURES))])


def _draw_quantity(path: Path, predictor: "Predictor", answers: "Answers", source: "Source") -> Path:
    import torch

    from vitreous.gallery.panels import answered, parity
    from vitreous.insight.attention import attends
    from vitreous.insight.style import figure, save
    from vitreous.train.task import Regression

    task = predictor.task
    assert isinstance(task, Regression)
    answer = answered(predictor, answers)
    assert answer.values is not None
    true, error = answers.y[:, 0], answer.values[:, 0] - answers.y[:, 0]
    own = task.uncertainty(torch.from_numpy(answers.out))[:, 0].numpy()
    edges = np.linspace(true.min(), true.max(), _BINS + 1)
    bins = _binned(true, edges)
    middle = (edges[1:] + edges[:-1]) / 2
    looks = attends(predictor.model)
    with figure(11 if looks else 7.5, 3.6) as drawing:
        panels = drawing.subplots(1, 3 if looks else 2)
        parity(panels[0], answer, answers.y, 0)
        panels[1].plot(middle, [_rms(error[rows]) for rows in bins], "o-", ms=4, label="error")
        panels[1].plot(middle, [_rms(own[rows]) for rows in bins], "-", lw=1, label="error that the model expects")
        panels[1].plot(middle, [_least(t, predictor) for t in middle], "k--", lw=1, label="least possible")
        panels[1].set_title(
            "; ".join(f"{name}: {value:.4f}" for name, value in scores(predictor, answers).items()), fontsize=8
        )
        panels[1].set(xlabel="temperature (|J|/k)", ylabel="root mean square (|J|/k)", ylim=(0, None))
        panels[1].legend(frameon=False, fontsize=7)
        if looks:
            known, rows = _temperatures(source), source.parts["test"]
            groups = [rows[group] for group in _binned(known[rows], edges)]
            kept = [k for k, group in enumerate(groups) if len(group)]
            _draw_range(panels[2], predictor, source, middle[kept], [groups[k][:_LOOKED] for k in kept])
        save(drawing, path)
    return path


def _binned(values: NDArray[Any], edges: NDArray[Any]) -> list[NDArray[np.intp]]:
    return [np.flatnonzero((values >= low) & (values <= high)) for low, high in pairwise(edges)]


def _rms(values: NDArray[Any]) -> float:
    return float(np.sqrt(np.square(values).mean())) if len(values) else np.nan


def _draw_range(axes: Any, predictor: "Predictor", source: "Source", at: Any, groups: list[NDArray[np.intp]]) -> None:
    """How far each layer looks at each temperature, with the error of the mean, and how far spins are correlated.

    Distances are those over the edges where that is shorter, in all systems.
    """
    from vitreous.insight.attention import head_measures
    from vitreous.sim.ising import CRITICAL, correlation_length

    measures = [[head_measures(predictor, source.x[[row]], periodic=True)[0] for row in rows] for rows in groups]
    each = [np.stack([measure.values.mean(1) for measure in group]) for group in measures]  # (microstates, layers)
    for layer in range(each[0].shape[1]):
        middle = [group[:, layer].mean() for group in each]
        error = [group[:, layer].std() / np.sqrt(len(group)) for group in each]
        axes.errorbar(at, middle, error, fmt="o-", ms=4, label=f"layer {layer}")
    axes.axhline(measures[0][0].uniform, color="0.5", lw=0.8, ls="--", label="looks everywhere")
    axes.set(xlabel="temperature (|J|/k)", ylabel="attention distance (spins)")
    line = np.linspace(min(at), max(at), 400)
    beside = axes.twinx()
    beside.plot(line, [min(correlation_length(t), source.input[1] / 2) for t in line], "k-", lw=0.8, alpha=0.5)
    beside.set_ylabel("correlation length (spins), black", fontsize=8)
    beside.axvline(CRITICAL, color="0.6", lw=0.8, ls=":")
    axes.legend(frameon=False, fontsize=7, ncols=2, loc="lower center", bbox_to_anchor=(0.5, 1.0))


_SYSTEMS = ("periodic", "antiferromagnetic", "skewed", "antiperiodic")
_MODELS = ("vit", "resnet-18", "resnet-50")
ENTRY = Entry(
    "ising", "Ising spins", "which of ten temperatures, from few microstates?", _MODELS, draw, systems=_SYSTEMS
)
TEMPERATURE = Entry(
    "ising-temperature", "Ising spins", "which temperature, and how sure?", _MODELS, draw, systems=_SYSTEMS
)
