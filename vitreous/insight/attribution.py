"""Attribution: which parts of an input a prediction depends on.

Integrated gradients (Sundararajan et al. 2017, through captum) work for every model; attention × gradient follows
Chefer et al. 2021. `vitreous.insight.explanation` tests the resulting maps.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from vitreous.core.batching import split_into_batches
from vitreous.core.errors import InputError
from vitreous.core.extras import load_extra
from vitreous.data.source import label_names
from vitreous.insight.attention import attention_maps, attention_model, pooling_weights, rollout_map
from vitreous.insight.regions import cell_numbers, model_input, to_array, token_positions, values_per_cell
from vitreous.nn.record import record
from vitreous.nn.tokens import Tokens
from vitreous.nn.vit import ViT
from vitreous.run.predictor import Predictor

INTEGRATED_GRADIENTS = "integrated gradients"
_BATCH = 32  # inputs of one forward pass


class ExplainedSample:
    """A sample, the model's prediction for it, and the class or quantity to explain.

    A removed region of a grid is replaced by the median of its channel, which is the background of an image or pattern.
    Removed peaks, lines and elements of a set are masked.

    Args:
        sample: raw, `(channels, *grid)` or `(*grid)`.
        target: the class or quantity to explain; the predicted class or the first quantity if None.
    """

    def __init__(self, predictor: Predictor, sample: ArrayLike, target: str | None = None) -> None:
        self.predictor, self.model, self.task = predictor, predictor.model, predictor.task
        self.sample = predictor.check(np.asarray(sample)[None])[0]
        self.x = model_input(predictor, self.sample[None])  # (1, channels, *grid)
        self.baseline = self.x.flatten(2).median(-1).values.reshape(1, -1, *[1] * (self.x.dim() - 2)).expand_as(self.x)
        self.cells = cell_numbers(self.model.config)
        self.present = (  # (regions,)
            token_positions(predictor, self.sample)[1] if self.cells is None else np.ones(self.cells.max() + 1, bool)
        )
        with torch.no_grad():
            self.out: Tensor = self.model(self.x)
        self.is_quantity = bool(predictor.targets)
        names = label_names(self.task)
        if target is not None and target not in names:
            raise InputError(f"target: found {target!r}, expected one of {', '.join(names)}")
        default = 0 if self.is_quantity else int(self.out.argmax())
        self.target = default if target is None else names.index(target)

    @property
    def answer(self) -> str:
        """The prediction in words."""
        prediction = self.predictor.answer(self.out.cpu())
        if prediction.probabilities is not None:
            name, (likeliest,) = prediction.classes[self.target], prediction.labels
            text = f"{name}, probability {prediction.probabilities[0, self.target]:.3g}"
            return text if name == likeliest else f"{text} (predicted: {likeliest})"
        assert prediction.values is not None
        target = prediction.targets[self.target]
        return f"{target.name} = {prediction.values[0, self.target]:.4g} {target.unit}".rstrip()

    def value(self, out: Tensor) -> Tensor:
        """The number to explain in raw outputs, `(B,)`: the logit of the class, or the standardised quantity."""
        return (self.task.point(out) if self.is_quantity else out)[:, self.target]

    def agreement(self, out: Tensor) -> Tensor:
        """How well other outputs agree with the prediction, `(B,)`, from 0 to 1.

        The probability of the class, or exp(-|change of the quantity in standard deviations|).
        """
        if self.is_quantity:
            return torch.exp(-(self.value(out) - self.value(self.out)).abs())
        return out.softmax(-1)[:, self.target]

    def rank(self, values: NDArray[Any]) -> NDArray[np.intp]:
        """Regions in the order of their importance in a map, the most important first.

        Evidence against a class is least important; a quantity may change in either direction.
        """
        values = values_per_cell(values, self.model.config)
        strength = np.abs(values) if self.is_quantity else values
        return np.flatnonzero(self.present)[np.argsort(-strength[self.present], kind="stable")]

    @torch.no_grad()
    def outputs(self, mask: NDArray[np.bool_]) -> Tensor:
        """Raw outputs for the sample with only the regions where `mask` `(n, regions)` is True."""
        return torch.cat([self._masked(part) for part in split_into_batches(mask, _BATCH)])

    def _masked(self, mask: NDArray[np.bool_]) -> Tensor:
        if self.cells is not None:
            visible = torch.from_numpy(mask[:, None, self.cells]).to(self.x.device)  # (n, 1, *grid)
            out: Tensor = self.model(torch.where(visible, self.x, self.baseline))
            return out
        assert isinstance(self.model, ViT)
        visible = torch.from_numpy(mask & self.present).to(self.x.device)
        handle = self.model.tokenizer.register_forward_hook(
            lambda _, __, tokens: Tokens(tokens.values, visible, tokens.coords)
        )
        try:
            out = self.model(self.x.expand(len(mask), *self.x.shape[1:]))
        finally:
            handle.remove()
        return out


def integrated_gradients(explained: ExplainedSample, steps: int = 32) -> NDArray[np.float64]:
    """Integrated gradients `(*grid)`, or `(N,)` for tokens that are not on a grid.

    They add up to the difference between the explained value of the sample and that of the baseline.
    """
    attr, x, model = load_extra("captum.attr", "insight"), explained.x, explained.model

    def value(x: Tensor) -> Tensor:
        return explained.value(model(x))

    options = {"n_steps": steps, "internal_batch_size": _BATCH}
    if explained.cells is not None:
        return to_array(attr.IntegratedGradients(value).attribute(x, explained.baseline, **options).sum(1)[0])
    assert isinstance(model, ViT)  # positions of peaks have no gradient: the tokens of an empty input are the baseline
    method = attr.LayerIntegratedGradients(value, model.tokenizer.norm)
    return to_array(method.attribute(x, torch.zeros_like(x), **options).sum(-1)[0])


def attention_gradient(explained: ExplainedSample) -> NDArray[np.float64]:
    """Attention × gradient: relevance `(N,)` by `R ← R + mean over heads of (∇A ⊙ A)⁺ R`, layer by layer.

    A quantity may change in either direction, so the magnitude replaces the positive part.
    """
    model = attention_model(explained.predictor)
    with torch.enable_grad(), record(model) as seen:
        value = explained.value(model(explained.x)).sum()
    weights = [seen[f"blocks.{layer}.weights"] for layer in seen.layers]
    pooled = pooling_weights(model, seen).detach()
    relevance = torch.eye(pooled.shape[1], device=explained.x.device).unsqueeze(0)
    for layer, attention, gradient in zip(seen.layers, weights, torch.autograd.grad(value, weights), strict=True):
        product = attention.detach() * gradient
        product = product.abs() if explained.is_quantity else product.clamp(min=0)
        relevance = relevance + seen.expanded(layer, product).mean(1) @ relevance
    tokens = torch.einsum("bn,bnm->bm", pooled, relevance)[0, model.config.prefix :]
    return to_array(tokens * seen["mask"][0] if "mask" in seen else tokens)


METHODS: dict[str, Callable[[ExplainedSample], NDArray[np.float64]]] = {
    "attention": lambda it: attention_maps(attention_model(it.predictor), it.x, -1)[0].mean((0, 1)),  # of all heads
    "rollout": lambda it: rollout_map(attention_model(it.predictor), it.x)[0],
    "attention × gradient": attention_gradient,
    INTEGRATED_GRADIENTS: integrated_gradients,
}
"""Functions that compute a map `(*grid)` or `(N,)`, by name."""


def compute_maps(explained: ExplainedSample) -> dict[str, NDArray[np.float64]]:
    """Every map that the model and the installed packages allow; models without attention have only one."""
    if not explained.model.attends:
        return {INTEGRATED_GRADIENTS: integrated_gradients(explained)}
    missing = missing_methods()
    return {name: method(explained) for name, method in METHODS.items() if name != INTEGRATED_GRADIENTS or not missing}


def missing_methods() -> str:
    """A sentence about the method whose package is not installed; empty if all are available."""
    try:
        load_extra("captum.attr", "insight")
    except InputError as fault:
        return f"{INTEGRATED_GRADIENTS} are left out: {fault}"
    return ""
