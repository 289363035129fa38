"""Small sets of real near-infrared spectra: the ViT, with and without pre-training, the CNN, and linear models.

    python -m benchmarks.small_spectra --out small_spectra.json
    python -m benchmarks.small_spectra --datasets tecator --seeds 1 --steps 20        # short test

The spectra are in `$VITREOUS_DATA/spectra`: tablets (400 for training, 212 for test, assay in mg), Tecator (172 + 43,
fat in %) and mayonnaise (120 + 42, six oils). Cross-validation on the training part chooses the preprocessing, the
components of PLS, the regularisation of the logistic regression, the dropout of the ViT and the pooling of the CNN. The
test part is scored once at the end. The score of a network is the median over seeds and, in brackets, that of the mean
prediction of all seeds.
"""

import json
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch
import tyro
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table
from scipy.signal import savgol_filter
from sklearn.cross_decomposition import PLSRegression
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import KFold, StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from torch import Tensor

import vitreous as vt
from vitreous.core.atomic import write_atomically
from vitreous.data import Source
from vitreous.data.augment import Augment
from vitreous.data.builtin import data_folder
from vitreous.data.source import Axis, Target
from vitreous.data.transforms import chebyshev
from vitreous.nn import CNNConfig, ViTConfig
from vitreous.nn.models import Config
from vitreous.nn.pretraining import PretrainConfig
from vitreous.train import PretrainJob, Start, SupervisedJob, TrainConfig, read_start, train

Array = NDArray[np.float64]


def snv(x: Array) -> Array:
    """Standard normal variate: scale each spectrum to mean 0 and deviation 1."""
    return (x - x.mean(1, keepdims=True)) / x.std(1, keepdims=True)


def derivative(x: Array, order: int) -> Array:
    """Savitzky-Golay derivative with 11 points and degree 2."""
    return np.asarray(savgol_filter(x, 11, 2, order))


PREPARED: dict[str, Callable[[Array], Array]] = {
    "as measured": lambda x: x,
    "1st derivative": lambda x: derivative(x, 1),
    "2nd derivative": lambda x: derivative(x, 2),
    "SNV": snv,
    "SNV, 1st derivative": lambda x: derivative(snv(x), 1),
    "SNV, 2nd derivative": lambda x: derivative(snv(x), 2),
    "1st derivative, SNV": lambda x: snv(derivative(x, 1)),
    "2nd derivative, SNV": lambda x: snv(derivative(x, 2)),
}
FOR_NETWORKS = ("SNV", "1st derivative, SNV", "2nd derivative, SNV")


@dataclass(frozen=True)
class Set:
    """A data set: patch of the ViT, score to reach, unit, and class names for classification."""

    patch: int
    target: float
    unit: str = ""
    classes: tuple[str, ...] = ()

    def score(self, prediction: Array, y: Array) -> float:
        """Root mean squared error of prediction, or accuracy of probabilities."""
        if self.classes:
            return float((prediction.argmax(1) == y).mean())
        return float(np.sqrt(np.mean((prediction - y) ** 2)))

    def loss(self, prediction: Array, y: Array) -> float:
        """Loss of the cross-validation: mean squared error, or negative log-likelihood."""
        if self.classes:
            return float(-np.log(np.clip(prediction[np.arange(len(y)), y.astype(int)], 1e-6, 1)).mean())
        return float(np.mean((prediction - y) ** 2))

    def folds(self, x: Array, y: Array, count: int) -> list[tuple[NDArray[np.intp], NDArray[np.intp]]]:
        """Rows for training and validation of each fold."""
        kind = StratifiedKFold if self.classes else KFold
        return list(kind(count, shuffle=True, random_state=0).split(x, y))


SETS = {
    "tablets": Set(15, 2.31, "mg"),
    "tecator": Set(5, 1.5, "%"),
    "mayonnaise": Set(9, 0.93, "", tuple(f"oil {k}" for k in range(1, 7))),
}


def read(name: str) -> tuple[Array, Array, Array, Array]:
    """Training spectra and labels, test spectra and labels; class numbers start at 0."""
    with np.load(data_folder() / "spectra" / f"{name}.npz", allow_pickle=False) as file:
        parts = [np.asarray(file[key], np.float64) for key in ("train_x", "train_y", "test_x", "test_y")]
    if SETS[name].classes:
        parts[1], parts[3] = parts[1] - 1, parts[3] - 1
    return parts[0], parts[1], parts[2], parts[3]


def linear(kind: Set, strength: float) -> Callable[[Array, Array, Array], Array]:
    """PLS with `strength` components, or logistic regression with `C=strength`."""

    def predict(x: Array, y: Array, new: Array) -> Array:
        if kind.classes:
            model = make_pipeline(StandardScaler(), LogisticRegression(C=strength, max_iter=1000))
            return np.asarray(model.fit(x, y.astype(int)).predict_proba(new))
        return np.asarray(PLSRegression(int(strength), scale=False).fit(x, y).predict(new)).ravel()

    return predict


def best_linear(kind: Set, x: Array, y: Array) -> tuple[str, float]:
    """Preprocessing and strength with the smallest loss in ten-fold (classes: five-fold) cross-validation."""
    strengths = (0.1, 1.0, 10.0, 100.0) if kind.classes else range(1, 21)
    losses = {
        (name, strength): np.mean([
            kind.loss(linear(kind, strength)(spectra[a], y[a], spectra[b]), y[b])
            for a, b in kind.folds(x, y, 5 if kind.classes else 10)
        ])
        for name, prepare in PREPARED.items() for spectra in [prepare(x)] for strength in strengths
    }  # fmt: skip
    return min(losses, key=lambda choice: losses[choice])


def standardise(x: Array, *others: Array) -> list[NDArray[np.float32]]:
    """Scale every point to mean 0 and deviation 1 in the first array."""
    mean, deviation = x.mean(0), x.std(0)
    deviation = np.maximum(deviation, 1e-3 * deviation.max())
    return [((each - mean) / deviation).astype(np.float32) for each in (x, *others)]


def source(kind: Set, x: NDArray[np.float32], y: Array | None) -> Source:
    """Source of preprocessed spectra."""
    labels = None if y is None else y.astype(np.int64) if kind.classes else y[:, None]
    targets = () if kind.classes or y is None else (Target("y", kind.unit),)
    classes = kind.classes if y is not None else ()
    rows = {"train": np.arange(len(x))}
    return Source("spectra", x[:, None], labels, (Axis(),), ("absorbance",), classes, targets, rows)


def vit(kind: Set, points: int, dropout: float = 0.0) -> ViTConfig:
    """A small ViT whose head takes all tokens, because each position is a fixed wavelength."""
    return ViTConfig(
        input=(1, points), patch=(kind.patch,), dim=48, depth=3, heads=4, mlp=(2.0,), cls=False, pool="flatten",
        dropout=dropout,
    )  # fmt: skip


def cnn(kind: Set, points: int, pool: str) -> CNNConfig:
    """A narrow residual CNN."""
    return CNNConfig(input=(1, points), widths=(16, 32, 64), pool=pool)


def settings(steps: int, seed: int, lr: float, optimiser: str, layer_decay: float = 1.0) -> TrainConfig:
    """Training settings without validation; the last weights are used."""
    return TrainConfig(
        steps=steps, batch=32, lr=lr, optimiser=optimiser, ema=0.99, evaluate_every=steps, keep="last", seed=seed,
        layer_decay=layer_decay,
    )  # fmt: skip


@dataclass(frozen=True)
class Network:
    """A model and its training on preprocessed spectra."""

    make: Callable[[Set, int], Config]
    lr: float
    optimiser: str
    start: Start | None = None

    def predict(self, kind: Set, x: Array, y: Array, new: Array, steps: int, seed: int) -> Array:
        """Train on `x` and `y` and predict new spectra."""
        inputs, new_inputs = standardise(x, new)
        decay = 1.0 if self.start is None else 0.8
        experiment = SupervisedJob(
            source(kind, inputs, y), self.make(kind, x.shape[1]),
            settings(steps, seed, self.lr, self.optimiser, decay), Augment(shift=0.5, noise=0.02),
            scale="none", label_smoothing=0.1 if kind.classes else 0.0, validation=0.0, test=0.0, start=self.start,
        )  # fmt: skip
        with tempfile.TemporaryDirectory() as folder:
            train(experiment, Path(folder) / "run", device="cpu", bar=False)
            prediction = vt.load(Path(folder) / "run")(new_inputs[:, None])
        return np.asarray(prediction.probabilities if kind.classes else prediction.values[:, 0])  # type: ignore[index]


VITS = {f"dropout {rate:g}": Network(partial(vit, dropout=rate), 1e-3, "muon") for rate in (0.05, 0.2)}
CNNS = {pool: Network(partial(cnn, pool=pool), 3e-3, "adamw") for pool in ("mean", "flatten")}


def best_network(kind: Set, networks: dict[str, Network], x: Array, y: Array, steps: int) -> tuple[str, str]:
    """Preprocessing and network with the smallest loss in three-fold cross-validation."""
    losses = {}
    for preparation in FOR_NETWORKS:
        spectra = PREPARED[preparation](x)
        for name, network in networks.items():
            folds = [(network.predict(kind, spectra[a], y[a], spectra[b], steps, 0), b) for a, b in kind.folds(x, y, 3)]
            losses[preparation, name] = np.mean([kind.loss(prediction, y[b]) for prediction, b in folds])
    return min(losses, key=lambda choice: losses[choice])


def pretrained(kind: Set, network: Network, x: Array, steps: int) -> Network:
    """The ViT after masked pre-training on preprocessed spectra without labels."""
    (inputs,) = standardise(x)
    method = PretrainConfig("masked", ratio=0.5, normalise=False, dim=48)
    experiment = PretrainJob(
        source(kind, inputs, None), vit(kind, x.shape[1]), method, settings(steps, 0, 1e-3, "muon"),
        Augment(shift=0.5, noise=0.02), scale="none", validation=0.0, test=0.0,
    )  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        train(experiment, Path(folder) / "run", device="cpu", bar=False)
        return replace(network, start=read_start(Path(folder) / "run"))


@dataclass(frozen=True)
class Mixtures:
    """Random mixtures and the spectrometer that measures them; every sample has its own substances."""

    points: int
    substances: int = 4
    bands: int = 6  # of each substance
    widths: tuple[float, float] = (0.01, 0.08)  # standard deviations of the bands, as fractions of the axis
    scatter: float = 0.2  # relative variation of the path length
    baseline: float = 0.2  # coefficients of a cubic baseline, in standard deviations of the spectrum
    noise: float = 0.003  # in standard deviations of the spectrum


def absorptivities(mixtures: Mixtures, count: int) -> Tensor:
    """Random spectra of pure substances `(count, substances, points)`: Gaussian bands, scaled to a maximum of 1."""
    shape = count, mixtures.substances, mixtures.bands, 1
    centre, mix, height = (torch.rand(shape) for _ in range(3))
    narrowest, widest = mixtures.widths
    width = narrowest * (widest / narrowest) ** mix
    axis = torch.linspace(0, 1, mixtures.points)
    total = (height * torch.exp(-0.5 * ((axis - centre) / width).square())).sum(2)
    return total / total.amax(-1, keepdim=True).clamp(min=1e-6)


def absorbance(concentrations: Tensor, pure: Tensor, path: float = 1.0) -> Tensor:
    """Beer-Lambert law, `(B, substances)` and `(B, substances, points) -> (B, points)`: `A = path · Σ_k c_k ε_k`."""
    return path * (concentrations.unsqueeze(-1) * pure).sum(1)


def measure(spectra: Tensor, mixtures: Mixtures) -> Tensor:
    """Add scatter, baseline and noise to absorbances `(B, points)`."""
    deviation = spectra.std(1, correction=0, keepdim=True)
    path = 1 + mixtures.scatter * (2 * torch.rand(len(spectra), 1) - 1)
    weights = mixtures.baseline * (2 * torch.rand(len(spectra), 4) - 1)
    base = chebyshev(weights, spectra.shape[1])[:, 0]
    return path * spectra + deviation * (base + mixtures.noise * torch.randn_like(spectra))


def simulate_spectra(mixtures: Mixtures, count: int) -> tuple[Tensor, Tensor]:
    """Measured spectra `(count, points)` and their concentrations `(count, substances)`, which sum to 1."""
    pure = absorptivities(mixtures, count)
    shares = torch.empty(count, mixtures.substances).exponential_()
    shares = shares / shares.sum(1, keepdim=True)
    return measure(absorbance(shares, pure), mixtures), shares


def simulated(points: int, count: int = 4000) -> Array:
    """Simulated spectra of random mixtures."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        x, _ = simulate_spectra(Mixtures(points), count)
    return x.double().numpy()


def compare(name: str, seeds: int, steps: int) -> dict[str, Any]:
    """Scores of every method on one data set, with the choices of the cross-validation."""
    kind, (x, y, new, truth) = SETS[name], read(name)
    preparation, strength = best_linear(kind, x, y)
    prepare = PREPARED[preparation]
    linear_prediction = linear(kind, strength)(prepare(x), y, prepare(new))
    linear_name = "logistic regression" if kind.classes else "PLS"
    scores: dict[str, Any] = {linear_name: summarise(kind, [linear_prediction], truth, f"{preparation}; {strength:g}")}
    of_vit, of_cnn = (best_network(kind, networks, x, y, steps) for networks in (VITS, CNNS))
    prepare, plain_vit = PREPARED[of_vit[0]], VITS[of_vit[1]]
    methods: dict[str, tuple[Network, tuple[str, str]]] = {
        "ViT from scratch": (plain_vit, of_vit),
        "ViT, its own spectra first": (pretrained(kind, plain_vit, prepare(x), steps), of_vit),
        "ViT, simulated spectra first": (pretrained(kind, plain_vit, prepare(simulated(x.shape[1])), steps), of_vit),
        "CNN": (CNNS[of_cnn[1]], of_cnn),
    }
    for method, (network, choice) in methods.items():
        prepare = PREPARED[choice[0]]
        predictions = [network.predict(kind, prepare(x), y, prepare(new), steps, seed) for seed in range(seeds)]
        scores[method] = summarise(kind, predictions, truth, "; ".join(choice))
        print(f"{name}: {method}: {scores[method]}", flush=True)
        if method == "ViT from scratch":
            means = [(prediction + linear_prediction) / 2 for prediction in predictions]
            scores[f"mean of ViT and {linear_name}"] = summarise(kind, means, truth, "both")
    return scores


def summarise(kind: Set, predictions: Sequence[Array], truth: Array, choice: str) -> dict[str, Any]:
    """Median score over seeds, score of the mean prediction, and the score of each seed."""
    scores = [kind.score(prediction, truth) for prediction in predictions]
    return {
        "median": median(scores),
        "together": kind.score(np.mean(predictions, axis=0), truth),
        "seeds": scores,
        "by": choice,
    }


def main(datasets: tuple[str, ...] = tuple(SETS), seeds: int = 5, steps: int = 400, out: Path | None = None) -> None:
    """Compare all methods on each data set, print one table and write it as JSON.

    Args:
        datasets: some of tablets, tecator and mayonnaise.
        seeds: number of seeds of the networks.
        steps: steps of each training.
        out: JSON file of the results; data sets that it already holds are not computed again.
    """
    results: dict[str, Any] = json.loads(out.read_text()) if out is not None and out.is_file() else {}
    for name in datasets:
        if name not in results:
            results[name] = compare(name, seeds, steps)
            if out is not None:
                write_atomically(out, (json.dumps(results, indent=1) + "\n").encode())
    table = Table(title=f"Test parts: RMSEP, or accuracy; median of {seeds} seeds (and of their mean prediction)")
    for heading in ("data set", "to reach", "method", "score", "chosen by cross-validation"):
        table.add_column(heading, justify="right" if heading == "score" else "left")
    for name in datasets:
        for method, score in results[name].items():
            sign, kind = ("≥" if SETS[name].classes else "≤"), SETS[name]
            single = len(score["seeds"]) == 1
            value = f"{score['median']:.3f}" + ("" if single else f" ({score['together']:.3f})")
            table.add_row(name, f"{sign} {kind.target:g} {kind.unit}", method, value, score["by"])
    Console(width=130).print(table)


if __name__ == "__main__":
    tyro.cli(main)
