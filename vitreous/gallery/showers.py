"""Showers of cosmic rays (S2.8): which nucleus came in, and how deep the maximum was."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from vitreous.gallery.entry import Entry

if TYPE_CHECKING:
    from vitreous.train.answers import Answers
    from vitreous.train.predictor import Predictor


def scores(_: "Predictor", answers: "Answers") -> dict[str, float]:
    """The merit factor of the estimate of ln A, protons against iron; `out` are raw outputs, which rise with it."""
    from vitreous.sim.shower_source import merit

    return {"merit factor": merit(answers.out[:, 0], answers.y[:, 0])}


def draw(run: Path) -> list[Path]:
    """`shower.png`: what the stations saw of one shower; `nuclei.png`: answers for all."""
    from vitreous.gallery.panels import opened

    predictor, answers = opened(run)
    return [_draw_shower(run / "shower.png", predictor, answers), _draw_nuclei(run / "nuclei.png", predictor, answers)]


def _stations(sample: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Of the stations that are read, in either layout: places `(n, 2)` in spacings, starts and ln signals `(n,)`."""
    from vitreous.sim.showers import Array

    array = Array()
    places = (array.places() / array.spacing).numpy()
    if sample.ndim == 3:  # a map
        q, r = (array.axial() + array.rings).numpy().T
        sample = sample[:, q, r]
    read = (sample != 0).any(0)
    start, signal = sample[-2:]
    hottest = np.where(read, signal, -np.inf).argmax()
    return (places - places[hottest])[read], start[read], signal[read]


def _draw_shower(path: Path, predictor: "Predictor", answers: "Answers") -> Path:
    """The footprint, its areas the signals and its colours the times, then the attention; and its largest traces."""
    from vitreous.gallery.panels import looks_at
    from vitreous.insight.style import figure, save
    from vitreous.sim.showers import SAMPLES, STEP

    row = answers.drawn.start
    sample = answers.samples[row].astype(np.float32)
    places, start, signal = _stations(sample)
    flat = sample.reshape(len(sample), -1)
    traces = flat[:SAMPLES, (flat != 0).any(0)]
    order = np.argsort(-traces.sum(0))[:4]
    value = predictor(sample[None]).values
    assert value is not None
    mass, depth = answers.y[answers.shown[row]]
    colours = {"start of the trace (µs)": start}
    if (shares := looks_at(predictor, sample[None], [-1])) is not None:
        colours["attention of the last layer (1: as to all alike)"] = shares[0, (sample != 0).any(0)]
    with figure(4.7 + 3.8 * len(colours), 3.6) as drawing:
        *maps, right = drawing.subplots(1, len(colours) + 1, width_ratios=(*(1 for _ in colours), 1.3))
        for axes, (label, colour) in zip(maps, colours.items(), strict=True):
            shown = axes.scatter(*places.T, 12 * np.maximum(signal, 0.5), c=colour, cmap="viridis", lw=0)
            axes.set(xlabel="x (spacings)", ylabel="y (spacings)", aspect="equal")
            drawing.colorbar(shown, ax=axes, label=label)
        maps[0].set_title(f"A = {np.exp(mass):.0f}, X_max = {depth:.0f} g/cm²", loc="left", fontsize=8)
        time = (np.arange(SAMPLES) + 0.5) * STEP / 1000
        for column in order:
            right.step(time, np.expm1(2 * traces[:, column]) / 10, lw=0.8, where="mid")
        right.set(xlabel="time (µs)", ylabel="signal of a sample (VEM)", xlim=(0, 3), yscale="log")
        right.set_ylim(bottom=0.05)
        right.yaxis.set_major_formatter("{x:g}")
        told = f"answer: ln A = {value[0, 0]:.2f} (true {mass:.2f}), X_max = {value[0, 1]:.0f} g/cm²"
        right.set_title(told, loc="left", fontsize=8)
        save(drawing, path)
    return path


def _draw_nuclei(path: Path, predictor: "Predictor", answers: "Answers") -> Path:
    """Estimates of ln A by nucleus, and of X_max against the truth."""
    from vitreous.gallery.panels import answered, parity
    from vitreous.insight.style import figure, save
    from vitreous.sim.shower_source import merit
    from vitreous.sim.showers import NUCLEI

    answer = answered(predictor, answers)
    assert answer.values is not None
    with figure(8, 3.6) as drawing:
        left, right = drawing.subplots(1, 2)
        bins = np.linspace(-1.5, np.log(56) + 1.5, 40)
        for name, nucleons in NUCLEI.items():
            here = np.isclose(answers.y[:, 0], np.log(nucleons), atol=1e-2)
            left.hist(answer.values[here, 0].clip(bins[0], bins[-1]), bins, histtype="step", lw=1.2, label=name)
        factor = merit(answer.values[:, 0], answers.y[:, 0])
        left.set_title(f"merit factor, protons and iron: {factor:.2f}", loc="left", fontsize=8)
        left.set(xlabel="estimate of ln A", ylabel="showers")
        left.legend(frameon=False, fontsize=7)
        parity(right, answer, answers.y, 1)
        save(drawing, path)
    return path


ENTRY = Entry("showers", "Cosmic-ray showers", "which nucleus, how deep?", ("vit", "hexagonal"), draw)
