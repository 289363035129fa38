"""Adapt a checkpoint to a model with another resolution, patch, number of channels or number of classes (S1.6)."""

import math
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from vitreous.core.errors import InputError
from vitreous.nn import PatchTokenizer, RelativeBias, ViT, resample
from vitreous.nn.resample import resize
from vitreous.zoo.layouts import KERNEL, POSITION, Checkpoint, State

_STEM, _BIAS = "tokenizer.stem.0.weight", "bias.table"


def adapt_checkpoint(checkpoint: Checkpoint, model: ViT) -> tuple[State, list[str]]:
    """Complete state of the model from a checkpoint, and a note for each adapted part.

    Positions are resampled, the patch projection is adapted to channels and patch, and a head of another shape is
    replaced by the model's own. Any other missing, unexpected or differently shaped weight is an error.
    """
    own = model.state_dict()
    state, notes = dict(checkpoint.state), list(checkpoint.notes)
    tokenizer = model.tokenizer
    if isinstance(tokenizer, PatchTokenizer):
        if _STEM in state and _STEM in own:
            state[_STEM] = _adapt_channels(state[_STEM], own[_STEM].shape[1], notes)
        if KERNEL in state:
            state[KERNEL] = adapt_kernel(state[KERNEL], tokenizer.kernel, notes).flatten(1)
        if POSITION in state and POSITION in own:
            grids = checkpoint.grid, tokenizer.shape
            state[POSITION] = _adapt_positions(state[POSITION], *grids, model.config.prefix, notes)
        if _BIAS in state and _BIAS in own and checkpoint.grid and checkpoint.grid != tokenizer.shape:
            state[_BIAS] = RelativeBias.resample(state[_BIAS], checkpoint.grid, tokenizer.shape)
            notes.append(f"relative bias: grid {format_shape(checkpoint.grid)} -> {format_shape(tokenizer.shape)}")
    _adapt_head(state, own, notes)
    check_state(state, own)
    if checkpoint.eps not in (None, model.config.eps):
        notes.append(f"layer norms: trained with eps={checkpoint.eps:g}, this model has {model.config.eps:g}")
    return state, notes


def adapt_kernel(kernel: Tensor, shape: Sequence[int], notes: list[str]) -> Tensor:
    """Adapt a patch kernel `(D, channels, *patch)` to another number of channels and another patch."""
    if kernel.dim() != len(shape):
        raise InputError(f"checkpoint: patches of shape {tuple(kernel.shape)[2:]} cannot become {tuple(shape)[2:]}")
    kernel, patch = _adapt_channels(kernel, shape[1], notes), tuple(shape[2:])
    if tuple(kernel.shape[2:]) != patch:
        notes.append(f"first layer: patch {format_shape(kernel.shape[2:])} -> {format_shape(patch)}")
        kernel = _adapt_patch(kernel, patch)
    return kernel


def _adapt_channels(kernel: Tensor, channels: int, notes: list[str]) -> Tensor:
    """Sum the kernel for one channel; else repeat its channels, scaled to keep the response to a grey input."""
    old = kernel.shape[1]
    if channels == old:
        return kernel
    notes.append(f"first layer: {old} channels -> {channels}")
    if channels == 1:
        return kernel.sum(dim=1, keepdim=True)
    repeats = [1, math.ceil(channels / old)] + [1] * (kernel.dim() - 2)
    return kernel.repeat(repeats)[:, :channels] * (old / channels)


def _adapt_patch(kernel: Tensor, patch: Sequence[int]) -> Tensor:
    """Resize a kernel so that its response to a resized patch stays the same (FlexiViT, arXiv 2212.08013).

    Resizing is linear, `r(x) = B x`, so the new kernel ŵ is the least-squares solution of `wᵀ x = ŵᵀ B x`.
    """
    old = tuple(kernel.shape[2:])
    basis = torch.eye(math.prod(old)).reshape(-1, 1, *old)  # one basis image per pixel
    inverse: Tensor = torch.linalg.pinv(resize(basis, patch).flatten(1))  # (new, old)
    fitted = kernel.float().flatten(2) @ inverse.mT  # (D, C, old) -> (D, C, new)
    return fitted.reshape(*kernel.shape[:2], *patch).to(kernel.dtype)


def _adapt_positions(
    table: Tensor, grid: tuple[int, ...] | None, new: tuple[int, ...], prefix: int, notes: list[str]
) -> Tensor:
    if grid is None:
        grid, bare = _infer_grid(table.shape[1], prefix, new)
        if bare:  # the table has no positions for the prefix tokens
            table = F.pad(table, (0, 0, prefix, 0))
    if grid != new:
        notes.append(f"positions: grid {format_shape(grid)} -> {format_shape(new)}")
    return resample(table, grid, new, prefix)


def _infer_grid(count: int, prefix: int, new: tuple[int, ...]) -> tuple[tuple[int, ...], bool]:
    """Token grid of a table of `count` rows, and whether the table omits the prefix tokens.

    Other libraries train on grids with equal axes; if that is impossible, it is the model's own grid.
    """
    axes = len(new)
    candidates = [(rows, bare) for rows, bare in ((count - prefix, False), (count, prefix > 0)) if rows > 0]
    cubes = [((round(math.pow(rows, 1 / axes)),) * axes, rows, bare) for rows, bare in candidates]
    regular = [(grid, bare) for grid, rows, bare in cubes if math.prod(grid) == rows]
    same = [(new, bare) for rows, bare in candidates if rows == math.prod(new)]
    for grid in [candidate for candidate in regular if candidate in same] + regular + same:
        return grid
    raise InputError(
        f"checkpoint: {count} positions do not form a grid of {axes} equal axes with {prefix} prefix tokens"
    )


def _adapt_head(state: State, own: State, notes: list[str]) -> None:
    """Use the checkpoint's head only if all its shapes are those of the model."""
    old, new = ({key: value for key, value in s.items() if key.startswith("head.")} for s in (state, own))
    if {key: value.shape for key, value in old.items()} == {key: value.shape for key, value in new.items()}:
        return
    for key in old:
        del state[key]
    state.update(new)
    notes.append(f"head: {_widths(old)} -> {_widths(new)}" + (", newly initialised" if new else ""))


def _widths(head: State) -> str:
    weights = [tuple(value.shape) for key, value in sorted(head.items()) if key.endswith("weight")]
    return " → ".join(str(n) for n in (weights[0][-1], *(shape[0] for shape in weights))) if weights else "none"


def check_state(state: State, own: State) -> None:
    """Raise `InputError` with the names of weights that are missing, unexpected or of another shape."""
    differing = [key for key in own if key in state and state[key].shape != own[key].shape]
    weights = {
        "missing": [key for key in own if key not in state],
        "unexpected": [key for key in state if key not in own],
        "of another shape": [f"{k} {tuple(state[k].shape)} instead of {tuple(own[k].shape)}" for k in differing],
    }
    problems = [f"{problem} {_join(keys)}" for problem, keys in weights.items() if keys]
    if problems:
        raise InputError(f"checkpoint does not fit the model: {'; '.join(problems)}")


def _join(items: Sequence[str]) -> str:
    """At most six of the items as text."""
    return ", ".join(items[:6]) + (f" and {len(items) - 6} more" if len(items) > 6 else "")


def format_shape(shape: Sequence[float]) -> str:
    """A shape as text, e.g. 3×224×224."""
    return "×".join(f"{n:g}" for n in shape)
