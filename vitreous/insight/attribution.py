"""Which parts of an input an answer rests on, and whether a map of them tells the truth about the model.

Integrated gradients (Sundararajan et al. 2017, through captum) work for every model; attention × gradient is that of
Chefer et al. 2021. The test takes units (cells of a grid, or tokens) away, or puts them back, in the order of a map
(Petsiuk et al. 2018): one that tells the truth changes the answer sooner than a random order.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from vitreous.data.extras import load_extra
from vitreous.errors import InputError
from vitreous.insight.attention import attends, attention_maps, readout, rollout_map, transformer
from vitreous.insight.style import figure
from vitreous.insight.units import array, cells, in_cells, model_input, places
from vitreous.nn.record import record
from vitreous.nn.tokens import Tokens
from vitreous.nn.vit import ViT
from vitreous.train.predictor import Predictor
from vitreous.train.task import Regression

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CHANCE = "random order"
GRADIENTS = "integrated gradients"
_BATCH = 32  # inputs that the model sees at once
_STEPS = 32  # of an integral from the baseline to the sample
_SHARES = np.linspace(0, 1, 10)  # of the units that are taken away or put back; ninths are never half a unit
_RARELY = 0.05  # probability that any of the maps seems to be better than chance
_HARDLY = 0.05  # of agreement, which no longer counts as a change


class Question:
    """Why this answer to this sample?

    Where a unit of a grid is taken away, the median of its channel takes its place: the background of a picture or of a
    pattern. Peaks, lines and elements of a set are masked.

    Args:
        predictor: of a run.
        sample: `(channels, *grid)` or `(*grid)`, raw.
        target: the class or quantity to explain; the predicted class or the first quantity if None.
    """

    def __init__(self, predictor: Predictor, sample: ArrayLike, target: str | None = None) -> None:
        self.predictor, self.model, self.task = predictor, predictor.model, predictor.task
        self.sample = predictor.check(np.asarray(sample)[None])[0]
        self.x = model_input(predictor, self.sample[None])  # (1, channels, *grid)
        self.baseline = self.x.flatten(2).median(-1).values.reshape(1, -1, *[1] * (self.x.dim() - 2)).expand_as(self.x)
        self.cells = cells(self.model.config)
        self.present = (
            places(predictor, self.sample)[1] if self.cells is None else np.ones(self.cells.max() + 1, bool)
        )  # (units,)
        with torch.no_grad():
            self.out: Tensor = self.model(self.x)
        names = [t.name for t in self.task.targets] if isinstance(self.task, Regression) else list(self.task.classes)
        if target is not None and target not in names:
            raise InputError(f"target: the run knows no {target!r}; it knows {', '.join(names)}")
        first = 0 if isinstance(self.task, Regression) else int(self.out.argmax())
        self.target = first if target is None else names.index(target)

    @property
    def answer(self) -> str:
        """What the model answers, in words."""
        found = self.predictor.answer(self.out.cpu())
        if found.probabilities is not None:
            name, (likeliest,) = found.classes[self.target], found.labels
            told = f"{name}, probability {found.probabilities[0, self.target]:.3g}"
            return told if name == likeliest else f"{told} (predicted: {likeliest})"
        assert found.values is not None
        target = found.targets[self.target]
        return f"{target.name} = {found.values[0, self.target]:.4g} {target.unit}".rstrip()

    def value(self, out: Tensor) -> Tensor:
        """The number to explain in raw outputs, `(B,)`: a class' logit, or a quantity in standard deviations."""
        return (self.task.point(out) if isinstance(self.task, Regression) else out)[:, self.target]

    def agreement(self, out: Tensor) -> Tensor:
        """How much of the answer is left in other outputs, `(B,)`, 0 to 1.

        The class' probability, or e to the minus of the quantity's change in standard deviations.
        """
        if isinstance(self.task, Regression):
            return torch.exp(-(self.value(out) - self.value(self.out)).abs())
        return out.softmax(-1)[:, self.target]

    def rank(self, values: NDArray[Any]) -> NDArray[np.intp]:
        """Units from the one that a map holds for the most important to the least.

        What speaks against a class counts as least important; a quantity may be moved either way.
        """
        values = in_cells(values, self.model.config)
        strength = np.abs(values) if isinstance(self.task, Regression) else values
        return np.flatnonzero(self.present)[np.argsort(-strength[self.present], kind="stable")]

    @torch.no_grad()
    def outputs(self, kept: NDArray[np.bool_]) -> Tensor:
        """Raw outputs for the sample with those units only that `kept` `(n, units)` says."""
        parts = [kept[start : start + _BATCH] for start in range(0, len(kept), _BATCH)]
        return torch.cat([self._masked(part) if self.cells is None else self._on_grid(part) for part in parts])

    def _on_grid(self, kept: NDArray[np.bool_]) -> Tensor:
        seen = torch.from_numpy(kept[:, None, self.cells]).to(self.x.device)  # (n, 1, *grid)
        out: Tensor = self.model(torch.where(seen, self.x, self.baseline))
        return out

    def _masked(self, kept: NDArray[np.bool_]) -> Tensor:
        assert isinstance(self.model, ViT)
        stays = torch.from_numpy(kept & self.present).to(self.x.device)
        handle = self.model.tokenizer.register_forward_hook(
            lambda _, __, found: Tokens(found.values, stays, found.coords)
        )
        try:
            out: Tensor = self.model(self.x.expand(len(kept), *self.x.shape[1:]))
        finally:
            handle.remove()
        return out


def integrated_gradients(question: Question, steps: int = _STEPS) -> NDArray[np.float64]:
    """Shares of the answer's difference from the baseline, `(*grid)`, or of tokens that are no part of a grid `(N,)`.

    They add up to that difference, in the unit of `Question.value`.
    """
    attr = load_extra("captum.attr", "insight")

    def value(x: Tensor) -> Tensor:
        return question.value(question.model(x))

    how = {"n_steps": steps, "internal_batch_size": _BATCH}
    if question.cells is not None:
        found = attr.IntegratedGradients(value).attribute(question.x, question.baseline, **how).sum(1)
    else:  # where peaks lie has no gradient: an empty input's tokens are the baseline
        assert isinstance(question.model, ViT)
        layer = attr.LayerIntegratedGradients(value, question.model.tokenizer.norm)
        found = layer.attribute(question.x, torch.zeros_like(question.x), **how).sum(-1)
    return array(found[0])


def attention_gradient(question: Question) -> NDArray[np.float64]:
    """Relevance `(N,)` of each token by `R ← R + mean over heads of (∇A ⊙ A)⁺ R`, layer by layer.

    Of a quantity, which may be moved either way, the magnitude takes the place of the positive part.
    """
    model = transformer(question.predictor)
    with torch.enable_grad(), record(model) as seen:
        value = question.value(model(question.x)).sum()
    weights = [seen[f"blocks.{layer}.weights"] for layer in seen.layers]
    read = readout(model, seen).detach()
    relevance = torch.eye(read.shape[1], device=question.x.device).unsqueeze(0)
    for layer, found, gradient in zip(seen.layers, weights, torch.autograd.grad(value, weights), strict=True):
        pull = found.detach() * gradient
        pull = pull.abs() if isinstance(question.task, Regression) else pull.clamp(min=0)
        relevance = relevance + seen.expanded(layer, pull).mean(1) @ relevance
    reached = torch.einsum("bn,bnm->bm", read, relevance)[0, model.config.prefix :]
    return array(reached * seen["mask"][0] if "mask" in seen else reached)


def _attention(question: Question) -> NDArray[np.float64]:
    (maps,) = attention_maps(transformer(question.predictor), question.x, layers=-1)  # (1, heads, N)
    return np.asarray(maps.mean((0, 1)))


def _rollout(question: Question) -> NDArray[np.float64]:
    (found,) = rollout_map(transformer(question.predictor), question.x)
    return np.asarray(found)


METHODS: dict[str, Callable[[Question], NDArray[np.float64]]] = {
    "attention": _attention,
    "rollout": _rollout,
    "attention × gradient": attention_gradient,
    GRADIENTS: integrated_gradients,
}


def all_maps(question: Question) -> dict[str, NDArray[np.float64]]:
    """Every map that the model and the installed packages allow; a CNN, say, has no attention."""
    if not attends(question.model):
        return {GRADIENTS: integrated_gradients(question)}
    return {name: make(question) for name, make in METHODS.items() if name != GRADIENTS or not left_out()}


def left_out() -> str:
    """Which map the installed packages do not allow, in one line; empty if they allow all."""
    try:
        load_extra("captum.attr", "insight")
    except InputError as fault:
        return f"{GRADIENTS} are left out: {fault}"
    return ""


@dataclass(frozen=True)
class Trial:
    """What is left of the answer as units are taken away, and put back, in the order of a map.

    Args:
        name: of the map.
        shares: of the units.
        deletion, insertion: agreement with the answer at each share.
        beaten: share of random orders that the map is better than.
        samples: over which all this is a mean.
        rivals: maps that were tried together; the more, the more often one of them is better by chance.
    """

    name: str
    shares: NDArray[np.float64]
    deletion: NDArray[np.float64]
    insertion: NDArray[np.float64]
    beaten: float = 0.5
    samples: int = 1
    rivals: int = 1

    @property
    def score(self) -> float:
        """Area under insertion less area under deletion: the larger, the more truth is in the map."""
        return float(np.trapezoid(self.insertion - self.deletion, self.shares))

    @property
    def better(self) -> bool:
        """Whether the map is better than chance, for which `beaten` is uniform in each sample."""
        rarely = _RARELY / self.rivals
        return self.beaten >= min(1 - rarely, NormalDist(0.5, 1 / math.sqrt(12 * self.samples)).inv_cdf(1 - rarely))

    @property
    def backwards(self) -> "Trial":
        """The trial of the reverse order, which puts back last what this one takes away first."""
        return replace(self, deletion=self.insertion[::-1], insertion=self.deletion[::-1])


def deletion_test(question: Question, maps: Mapping[str, NDArray[Any]], seed: int = 0) -> list[Trial]:
    """Try every map on one sample, and random orders, whose mean comes last.

    There are so many of these that one of the maps is better than all of them by chance in `_RARELY` of cases.
    """
    rng = np.random.default_rng(seed)
    units = np.flatnonzero(question.present)
    orders = [rng.permutation(units) for _ in range(round(len(maps) / (2 * _RARELY)) - 1)]
    random = [Trial(CHANCE, _SHARES, *_curves(question, order)) for order in orders]
    random += [trial.backwards for trial in random]
    trials = [Trial(name, _SHARES, *_curves(question, question.rank(values))) for name, values in maps.items()]
    beaten = [float(np.mean([trial.score > other.score for other in random])) for trial in trials]
    judged = [replace(trial, beaten=share, rivals=len(maps)) for trial, share in zip(trials, beaten, strict=True)]
    return [*judged, replace(_mean(random), samples=1)]


def faithfulness(predictor: Predictor, samples: ArrayLike, target: str | None = None) -> list[Trial]:
    """The mean trial of every map over several samples `(n, channels, *grid)`."""
    questions = [Question(predictor, sample, target) for sample in predictor.check(samples)]
    tried = [deletion_test(question, all_maps(question), seed) for seed, question in enumerate(questions)]
    return overall(tried)


def overall(tried: Iterable[Sequence[Trial]]) -> list[Trial]:
    """The mean trial of every map over the trials of several samples."""
    return [_mean(same) for same in zip(*tried, strict=True)]


def _curves(question: Question, order: NDArray[np.intp]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Agreement with the first units of the order taken away, and with these alone, at each share."""
    place = np.full(len(question.present), len(order))
    place[order] = np.arange(len(order))
    first = place < np.round(_SHARES * len(order))[:, None]  # (shares, units)
    left = array(question.agreement(question.outputs(np.concatenate([~first, first]))))
    return left[: len(_SHARES)], left[len(_SHARES) :]


def _mean(trials: Sequence[Trial]) -> Trial:
    deletion, insertion = (np.mean([getattr(trial, name) for trial in trials], 0) for name in ("deletion", "insertion"))
    beaten = float(np.mean([trial.beaten for trial in trials]))
    return replace(trials[0], deletion=deletion, insertion=insertion, beaten=beaten, samples=len(trials))


def verdict(trials: Sequence[Trial]) -> str:
    """Which of the maps tells the truth about the model, in one line."""
    whole = trials[0].deletion[0]
    if max(np.abs(curve - whole).max() for trial in trials for curve in (trial.deletion, trial.insertion)) < _HARDLY:
        return "there is nothing to explain: the answer hardly changes, whatever is taken away"
    best = max((trial for trial in trials if trial.name != CHANCE), key=lambda trial: (trial.better, trial.score))
    told = f"insertion − deletion {best.score:.2f}, better than {best.beaten:.0%} of random orders".replace("%", " %")
    if not best.better:
        return f"no map is better than chance (best: {best.name}; {told})"
    return f"{best.name} tells most of the truth ({told})"


def trials_figure(trials: Sequence[Trial], title: str = "") -> "Figure":
    """Deletion and insertion curves of every map."""
    with figure(8, 3.2) as drawing:
        draw_trials(drawing.subplots(1, 2), trials)
        drawing.suptitle(title or verdict(trials), fontsize=9)
    return drawing


def draw_trials(panels: Sequence[Any], trials: Sequence[Trial]) -> None:
    """The same in two panels: deletion, then insertion."""
    for axes, name in zip(panels, ("deletion", "insertion"), strict=True):
        for place, trial in enumerate(trials):
            look = {"color": "0.5", "ls": "--"} if trial.name == CHANCE else {"color": f"C{place}"}
            axes.plot(trial.shares, getattr(trial, name), lw=1.2, label=f"{trial.name}: {trial.score:.2f}", **look)
        axes.set(
            xlabel=f"share {'taken away' if name == 'deletion' else 'put back'}", ylabel="agreement", ylim=(0, 1.02)
        )
        axes.set_title(name, loc="left", fontsize=8)
    panels[-1].legend(
        frameon=False, fontsize=7, loc="upper left", bbox_to_anchor=(1, 1), title="area between", title_fontsize=7
    )
