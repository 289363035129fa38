"""Figures and scores of cosmic-ray showers (S2.8): the stations of one shower, and the answers for all."""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vitreous.gallery.figures import Figure, attention_on_elements, draw_target, load_run, predict_test, save_figures
from vitreous.gallery.showers.simulate import NUCLEI, SAMPLES, STEP, Array, merit_factor
from vitreous.insight.style import figure
from vitreous.run.answers import Answers
from vitreous.run.predictor import Predictor


def scores(_: Predictor, answers: Answers) -> dict[str, float]:
    """The merit factor of the estimate of ln A; raw outputs do, because they are linear in the estimate."""
    return {"merit factor": merit_factor(answers.out[:, 0], answers.y[:, 0])}


def draw(run: Path) -> list[Path]:
    """Draw `shower.png`, the data of one shower, and `nuclei.png`, the answers for all."""
    loaded = load_run(run)
    return save_figures(run, {"shower.png": _shower_figure(*loaded), "nuclei.png": _nuclei_figure(*loaded)})


def _stations(sample: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Positions `(n, 2)` in spacings, starts `(n,)` and ln signals `(n,)` of the stations read, in either layout."""
    array = Array()
    positions = (array.positions() / array.spacing).numpy()
    if sample.ndim == 3:  # a map
        q, r = (array.axial() + array.rings).numpy().T
        sample = sample[:, q, r]
    read = (sample != 0).any(0)
    start, signal = sample[-2:]
    hottest = np.where(read, signal, -np.inf).argmax()
    return (positions - positions[hottest])[read], start[read], signal[read]


def _shower_figure(predictor: Predictor, answers: Answers) -> Figure:
    """Footprints with the signal as area, coloured by time and by attention, and the largest traces."""
    row = answers.drawn.start
    sample = answers.samples[row].astype(np.float32)
    positions, start, signal = _stations(sample)
    flat = sample.reshape(len(sample), -1)
    traces = flat[:SAMPLES, (flat != 0).any(0)]
    largest = np.argsort(-traces.sum(0))[:4]
    value = predictor(sample[None]).values
    assert value is not None
    mass, depth = answers.y[answers.shown[row]]
    colours = {"start of the trace (µs)": start}
    if (attention := attention_on_elements(predictor, sample[None], [-1])) is not None:
        colours["attention of the last layer (1: as to all alike)"] = attention[0, (sample != 0).any(0)]
    with figure(4.7 + 3.8 * len(colours), 3.6) as drawing:
        *maps, right = drawing.subplots(1, len(colours) + 1, width_ratios=(*(1 for _ in colours), 1.3))
        for axes, (label, colour) in zip(maps, colours.items(), strict=True):
            dots = axes.scatter(*positions.T, 12 * np.maximum(signal, 0.5), c=colour, cmap="viridis", lw=0)
            axes.set(xlabel="x (spacings)", ylabel="y (spacings)", aspect="equal")
            drawing.colorbar(dots, ax=axes, label=label)
        maps[0].set_title(f"A = {np.exp(mass):.0f}, X_max = {depth:.0f} g/cm²", loc="left", fontsize=8)
        time = (np.arange(SAMPLES) + 0.5) * STEP / 1000
        for column in largest:
            right.step(time, np.expm1(2 * traces[:, column]) / 10, lw=0.8, where="mid")
        right.set(xlabel="time (µs)", ylabel="signal of a sample (VEM)", xlim=(0, 3), yscale="log")
        right.set_ylim(bottom=0.05)
        right.yaxis.set_major_formatter("{x:g}")
        title = f"answer: ln A = {value[0, 0]:.2f} (true {mass:.2f}), X_max = {value[0, 1]:.0f} g/cm²"
        right.set_title(title, loc="left", fontsize=8)
    return drawing


def _nuclei_figure(predictor: Predictor, answers: Answers) -> Figure:
    """Histograms of the estimate of ln A by nucleus, and X_max against the truth."""
    prediction, values = predict_test(predictor, answers)
    with figure(8, 3.6) as drawing:
        left, right = drawing.subplots(1, 2)
        bins = np.linspace(-1.5, np.log(56) + 1.5, 40)
        for name, nucleons in NUCLEI.items():
            rows = np.isclose(answers.y[:, 0], np.log(nucleons), atol=1e-2)
            left.hist(values[rows, 0].clip(bins[0], bins[-1]), bins, histtype="step", lw=1.2, label=name)
        factor = merit_factor(values[:, 0], answers.y[:, 0])
        left.set_title(f"merit factor, protons and iron: {factor:.2f}", loc="left", fontsize=8)
        left.set(xlabel="estimate of ln A", ylabel="showers")
        left.legend(frameon=False, fontsize=7)
        draw_target(right, prediction, answers.y, 1)
    return drawing
