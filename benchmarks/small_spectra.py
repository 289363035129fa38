"""Small sets of real near-infrared spectra: the ViT, pre-trained or not, beside the CNN and what chemists use.

    python -m benchmarks.small_spectra --out small_spectra.json
    python -m benchmarks.small_spectra --datasets tecator --seeds 1 --steps 20        # a short trial

The spectra lie in `$VITREOUS_DATA/spectra`: tablets (400 to train on, 212 to test on, assay in mg), Tecator (172 + 43,
fat in %) and mayonnaise (120 + 42, six oils). How spectra are prepared, the components of PLS, the strength of the
logistic regression, the dropout of the ViT and the pooling of the CNN are chosen by cross-validation on the training
part; the test part is scored once at the end.
Networks are given for the median seed and, in brackets, for the mean of the answers of all seeds.
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

import vitreous as vt
from vitreous.atomic import write_atomically
from vitreous.data import Source
from vitreous.data.augment import Augment
from vitreous.data.builtin import data_folder
from vitreous.data.source import Axis, Target
from vitreous.nn import CNNConfig, ViTConfig
from vitreous.nn.models import Config
from vitreous.nn.pretraining import PretrainConfig
from vitreous.sim.spectra import Mixtures, mixed
from vitreous.train import Experiment, PretrainExperiment, Start, TrainConfig, pretrain, read_start, train

Array = NDArray[np.float64]


def snv(x: Array) -> Array:
    """Standard normal variate: each spectrum with mean 0 and deviation 1."""
    return (x - x.mean(1, keepdims=True)) / x.std(1, keepdims=True)


def derivative(x: Array, order: int) -> Array:
    """By Savitzky and Golay, over 11 points, of second degree."""
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
    """A set of spectra: its patch for the ViT, its classes if it has any, and the figure to reach."""

    patch: int
    target: float
    unit: str = ""
    classes: tuple[str, ...] = ()

    def score(self, answer: Array, y: Array) -> float:
        """Root mean squared error of prediction, or accuracy of probabilities."""
        if self.classes:
            return float((answer.argmax(1) == y).mean())
        return float(np.sqrt(np.mean((answer - y) ** 2)))

    def loss(self, answer: Array, y: Array) -> float:
        """What cross-validation makes as small as it can: squared error, or the negative log-likelihood."""
        if self.classes:
            return float(-np.log(np.clip(answer[np.arange(len(y)), y.astype(int)], 1e-6, 1)).mean())
        return float(np.mean((answer - y) ** 2))

    def folds(self, x: Array, y: Array, count: int) -> list[tuple[NDArray[np.intp], NDArray[np.intp]]]:
        """Rows to train on and to look at, `count` times."""
        kind = StratifiedKFold if self.classes else KFold
        return list(kind(count, shuffle=True, random_state=0).split(x, y))


SETS = {
    "tablets": Set(15, 2.31, "mg"),
    "tecator": Set(5, 1.5, "%"),
    "mayonnaise": Set(9, 0.93, "", tuple(f"oil {k}" for k in range(1, 7))),
}


def read(name: str) -> tuple[Array, Array, Array, Array]:
    """Training spectra and labels, test spectra and labels; classes from 0."""
    with np.load(data_folder() / "spectra" / f"{name}.npz", allow_pickle=False) as file:
        parts = [np.asarray(file[key], np.float64) for key in ("train_x", "train_y", "test_x", "test_y")]
    if SETS[name].classes:
        parts[1], parts[3] = parts[1] - 1, parts[3] - 1
    return parts[0], parts[1], parts[2], parts[3]


def linear(kind: Set, strength: float) -> Callable[[Array, Array, Array], Array]:
    """PLS with so many components, or logistic regression with that inverse strength of regularisation."""

    def answer(x: Array, y: Array, new: Array) -> Array:
        if kind.classes:
            model = make_pipeline(StandardScaler(), LogisticRegression(C=strength, max_iter=1000))
            return np.asarray(model.fit(x, y.astype(int)).predict_proba(new))
        return np.asarray(PLSRegression(int(strength), scale=False).fit(x, y).predict(new)).ravel()

    return answer


def best_linear(kind: Set, x: Array, y: Array) -> tuple[str, float]:
    """The preparation and the strength with the smallest loss in ten-fold (classes: five-fold) cross-validation."""
    strengths = (0.1, 1.0, 10.0, 100.0) if kind.classes else range(1, 21)
    found = {
        (name, strength): np.mean([
            kind.loss(linear(kind, strength)(made[a], y[a], made[b]), y[b])
            for a, b in kind.folds(x, y, 5 if kind.classes else 10)
        ])
        for name, prepare in PREPARED.items() for made in [prepare(x)] for strength in strengths
    }  # fmt: skip
    return min(found, key=lambda choice: found[choice])


def standardised(x: Array, *others: Array) -> list[NDArray[np.float32]]:
    """Every point with mean 0 and deviation 1 in the first array."""
    mean, deviation = x.mean(0), x.std(0)
    deviation = np.maximum(deviation, 1e-3 * deviation.max())
    return [((each - mean) / deviation).astype(np.float32) for each in (x, *others)]


def source(kind: Set, x: NDArray[np.float32], y: Array | None) -> Source:
    """Spectra that are ready for a network."""
    labels = None if y is None else y.astype(np.int64) if kind.classes else y[:, None]
    targets = () if kind.classes or y is None else (Target("y", kind.unit),)
    classes = kind.classes if y is not None else ()
    rows = {"train": np.arange(len(x))}
    return Source("spectra", x[:, None], labels, (Axis(),), ("absorbance",), classes, targets, rows)


def vit(kind: Set, points: int, dropout: float = 0.0) -> ViTConfig:
    """A small one, whose tokens stay apart to the end: in spectra of one instrument a place is a wavelength."""
    return ViTConfig(
        input=(1, points), patch=(kind.patch,), dim=48, depth=3, heads=4, mlp=(2.0,), cls=False, pool="flatten",
        dropout=dropout,
    )  # fmt: skip


def cnn(kind: Set, points: int, pool: str) -> CNNConfig:
    """The residual CNN of the template for one's own data, narrower."""
    return CNNConfig(input=(1, points), widths=(16, 32, 64), pool=pool)


def settings(steps: int, seed: int, lr: float, optimiser: str, layer_decay: float = 1.0) -> TrainConfig:
    """The end of a training is kept: there are no spectra to spare for choosing another."""
    return TrainConfig(
        steps=steps, batch=32, lr=lr, optimiser=optimiser, ema=0.99, evaluate_every=steps, keep="last", seed=seed,
        layer_decay=layer_decay,
    )  # fmt: skip


@dataclass(frozen=True)
class Network:
    """A model and how it is trained on prepared spectra."""

    make: Callable[[Set, int], Config]
    lr: float
    optimiser: str
    start: Start | None = None

    def answer(self, kind: Set, x: Array, y: Array, new: Array, steps: int, seed: int) -> Array:
        """What it says of new spectra."""
        known, asked = standardised(x, new)
        decay = 1.0 if self.start is None else 0.8
        made = Experiment(
            source(kind, known, y), self.make(kind, x.shape[1]),
            settings(steps, seed, self.lr, self.optimiser, decay), Augment(shift=0.5, noise=0.02),
            scale="none", label_smoothing=0.1 if kind.classes else 0.0, validation=0.0, test=0.0, start=self.start,
        )  # fmt: skip
        with tempfile.TemporaryDirectory() as folder:
            train(made, Path(folder) / "run", device="cpu", bar=False)
            found = vt.load(Path(folder) / "run")(asked[:, None])
        return np.asarray(found.probabilities if kind.classes else found.values[:, 0])  # type: ignore[index]


VITS = {f"dropout {rate:g}": Network(partial(vit, dropout=rate), 1e-3, "muon") for rate in (0.05, 0.2)}
CNNS = {pool: Network(partial(cnn, pool=pool), 3e-3, "adamw") for pool in ("mean", "flatten")}


def best_network(kind: Set, networks: dict[str, Network], x: Array, y: Array, steps: int) -> tuple[str, str]:
    """The preparation and the network with the smallest loss in three-fold cross-validation."""
    losses = {}
    for preparation in FOR_NETWORKS:
        made = PREPARED[preparation](x)
        for name, network in networks.items():
            each = [(network.answer(kind, made[a], y[a], made[b], steps, 0), b) for a, b in kind.folds(x, y, 3)]
            losses[preparation, name] = np.mean([kind.loss(answer, y[b]) for answer, b in each])
    return min(losses, key=lambda choice: losses[choice])


def pretrained(kind: Set, network: Network, x: Array, steps: int) -> Network:
    """The ViT after masked pre-training on prepared spectra, without labels."""
    (known,) = standardised(x)
    method = PretrainConfig("masked", ratio=0.5, normalise=False, dim=48)
    made = PretrainExperiment(
        source(kind, known, None), vit(kind, x.shape[1]), method, settings(steps, 0, 1e-3, "muon"),
        Augment(shift=0.5, noise=0.02), scale="none", validation=0.0, test=0.0,
    )  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        pretrain(made, Path(folder) / "run", device="cpu", bar=False)
        return replace(network, start=read_start(Path(folder) / "run"))


def simulated(points: int, count: int = 4000) -> Array:
    """Spectra of random mixtures, as measured."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        x, _ = mixed(Mixtures(points=points), count)
    return x[:, 0].double().numpy()


def compared(name: str, seeds: int, steps: int) -> dict[str, Any]:
    """Scores of every way on one set, and what cross-validation chose."""
    kind, (x, y, new, truth) = SETS[name], read(name)
    preparation, strength = best_linear(kind, x, y)
    prepare = PREPARED[preparation]
    plain = linear(kind, strength)(prepare(x), y, prepare(new))
    usual = "logistic regression" if kind.classes else "PLS"
    found: dict[str, Any] = {usual: told(kind, [plain], truth, f"{preparation}; {strength:g}")}
    of_vit, of_cnn = (best_network(kind, networks, x, y, steps) for networks in (VITS, CNNS))
    prepare, plain_vit = PREPARED[of_vit[0]], VITS[of_vit[1]]
    ways: dict[str, tuple[Network, tuple[str, str]]] = {
        "ViT from scratch": (plain_vit, of_vit),
        "ViT, its own spectra first": (pretrained(kind, plain_vit, prepare(x), steps), of_vit),
        "ViT, simulated spectra first": (pretrained(kind, plain_vit, prepare(simulated(x.shape[1])), steps), of_vit),
        "CNN": (CNNS[of_cnn[1]], of_cnn),
    }
    for way, (network, choice) in ways.items():
        prepare = PREPARED[choice[0]]
        answers = [network.answer(kind, prepare(x), y, prepare(new), steps, seed) for seed in range(seeds)]
        found[way] = told(kind, answers, truth, "; ".join(choice))
        print(f"{name}: {way}: {found[way]}", flush=True)
        if way == "ViT from scratch":
            both = [(answer + plain) / 2 for answer in answers]
            found[f"mean of ViT and {usual}"] = told(kind, both, truth, "both")
    return found


def told(kind: Set, answers: Sequence[Array], truth: Array, choice: str) -> dict[str, Any]:
    """The median of the seeds' scores, that of their mean answer, and each."""
    each = [kind.score(answer, truth) for answer in answers]
    return {
        "median": median(each),
        "together": kind.score(np.mean(answers, axis=0), truth),
        "seeds": each,
        "by": choice,
    }


def main(datasets: tuple[str, ...] = tuple(SETS), seeds: int = 5, steps: int = 400, out: Path | None = None) -> None:
    """Compare all ways on each set, print one table and write it as JSON.

    Args:
        datasets: tablets, tecator and mayonnaise, or some of them.
        seeds: of the networks.
        steps: of each training of a network.
        out: JSON file of the results; sets that it holds already are not computed again.
    """
    found: dict[str, Any] = json.loads(out.read_text()) if out is not None and out.is_file() else {}
    for name in datasets:
        if name not in found:
            found[name] = compared(name, seeds, steps)
            if out is not None:
                write_atomically(out, (json.dumps(found, indent=1) + "\n").encode())
    table = Table(title=f"Test parts: RMSEP, or accuracy; median of {seeds} seeds (and of their mean answer)")
    for heading in ("set", "to reach", "way", "score", "chosen by cross-validation"):
        table.add_column(heading, justify="right" if heading == "score" else "left")
    for name in datasets:
        for way, score in found[name].items():
            sign, kind = ("≥" if SETS[name].classes else "≤"), SETS[name]
            alone = len(score["seeds"]) == 1
            value = f"{score['median']:.3f}" + ("" if alone else f" ({score['together']:.3f})")
            table.add_row(name, f"{sign} {kind.target:g} {kind.unit}", way, value, score["by"])
    Console(width=130).print(table)


if __name__ == "__main__":
    tyro.cli(main)
