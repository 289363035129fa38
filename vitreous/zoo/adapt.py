"""Fit a checkpoint to a model of another resolution, class count, channel count or patch (S1.6)."""

import math
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from vitreous.errors import InputError
from vitreous.nn import PatchTokenizer, RelativeBias, ViT, resample
from vitreous.nn.resample import resize
from vitreous.zoo.layouts import KERNEL, POSITION, Checkpoint, State

_STEM, _BIAS = "tokenizer.stem.0.weight", "bias.table"


def fit(checkpoint: Checkpoint, model: ViT) -> tuple[State, list[str]]:
    """The model's complete state from a checkpoint, and a line for everything that had to be adapted.

    Positions are resampled, the patch projection is adapted in channels and patch, and a head of another shape is
    replaced by the model's own. Anything else that is unexpected, missing or of another shape is an error.
    """
    own = model.state_dict()
    state, notes = dict(checkpoint.state), list(checkpoint.notes)
    tokenizer = model.tokenizer
    if isinstance(tokenizer, PatchTokenizer):
        if _STEM in state and _STEM in own:
            state[_STEM] = _fit_channels(state[_STEM], own[_STEM].shape[1], notes)
        if KERNEL in state:
            state[KERNEL] = fit_kernel(state[KERNEL], tokenizer.kernel, notes).flatten(1)
        if POSITION in state and POSITION in own:
            state[POSITION] = _fit_positions(
                state[POSITION], checkpoint.grid, tokenizer.shape, model.config.prefix, notes
            )
        if _BIAS in state and _BIAS in own and checkpoint.grid and checkpoint.grid != tokenizer.shape:
            state[_BIAS] = RelativeBias.resample(state[_BIAS], checkpoint.grid, tokenizer.shape)
            notes.append(f"relative bias: grid {by(checkpoint.grid)} -> {by(tokenizer.shape)}")
    _fit_head(state, own, notes)
    check_fit(state, own)
    if checkpoint.eps not in (None, model.config.eps):
        notes.append(f"layer norms: trained with eps={checkpoint.eps:g}, this model has {model.config.eps:g}")
    return state, notes


def fit_kernel(kernel: Tensor, shape: Sequence[int], notes: list[str]) -> Tensor:
    """A patch kernel `(D, channels, *patch)` carried to another channel count and patch."""
    if kernel.dim() != len(shape):
        raise InputError(f"checkpoint: patches of shape {tuple(kernel.shape)[2:]} cannot become {tuple(shape)[2:]}")
    kernel, patch = _fit_channels(kernel, shape[1], notes), tuple(shape[2:])
    if tuple(kernel.shape[2:]) != patch:
        notes.append(f"first layer: patch {by(kernel.shape[2:])} -> {by(patch)}")
        kernel = _fit_patch(kernel, patch)
    return kernel


def _fit_channels(kernel: Tensor, channels: int, notes: list[str]) -> Tensor:
    """One channel sees the sum over all; more are repeats, scaled to keep the response to a grey input."""
    found = kernel.shape[1]
    if channels == found:
        return kernel
    notes.append(f"first layer: {found} channels -> {channels}")
    if channels == 1:
        return kernel.sum(dim=1, keepdim=True)
    repeats = [1, math.ceil(channels / found)] + [1] * (kernel.dim() - 2)
    return kernel.repeat(repeats)[:, :channels] * (found / channels)


def _fit_patch(kernel: Tensor, patch: Sequence[int]) -> Tensor:
    """The kernel that answers to a resized patch as the old one does to the patch itself (FlexiViT, arXiv 2212.08013).

    Resizing is linear, `r(x) = B x`, so the kernel w becomes the least-squares solution of `wᵀ x = ŵᵀ B x`.
    """
    old = tuple(kernel.shape[2:])
    basis = torch.eye(math.prod(old)).reshape(-1, 1, *old)  # every pixel once
    inverse: Tensor = torch.linalg.pinv(resize(basis, patch).flatten(1))  # (new, old)
    fitted = kernel.float().flatten(2) @ inverse.mT  # (D, C, old) -> (D, C, new)
    return fitted.reshape(*kernel.shape[:2], *patch).to(kernel.dtype)


def _fit_positions(
    table: Tensor, grid: tuple[int, ...] | None, new: tuple[int, ...], prefix: int, notes: list[str]
) -> Tensor:
    if grid is None:
        grid, bare = _infer_grid(table.shape[1], prefix, new)
        if bare:  # positions of the patches alone: the prefix has none
            table = F.pad(table, (0, 0, prefix, 0))
    if grid != new:
        notes.append(f"positions: grid {by(grid)} -> {by(new)}")
    return resample(table, grid, new, prefix)


def _infer_grid(count: int, prefix: int, new: tuple[int, ...]) -> tuple[tuple[int, ...], bool]:
    """The token grid of a table of `count` rows, and whether it leaves the prefix tokens out.

    Other libraries train on grids with as many tokens along each axis; failing that, it is the model's own grid.
    """
    known = [(rows, bare) for rows, bare in ((count - prefix, False), (count, prefix > 0)) if rows > 0]
    grids: list[tuple[tuple[int, ...], int, bool]] = [
        ((round(rows ** (1 / len(new))),) * len(new), rows, bare) for rows, bare in known
    ]
    regular = [(grid, bare) for grid, rows, bare in grids if math.prod(grid) == rows]
    same = [(new, bare) for rows, bare in known if rows == math.prod(new)]
    for found in [g for g in regular if g in same] + regular + same:
        return found
    raise InputError(f"checkpoint: {count} positions are no grid of {len(new)} equal axes with {prefix} prefix tokens")


def _fit_head(state: State, own: State, notes: list[str]) -> None:
    """Keep the checkpoint's head only where it is the model's, shape for shape."""
    found = {key: value for key, value in state.items() if key.startswith("head.")}
    wanted = {key: value for key, value in own.items() if key.startswith("head.")}
    if {k: v.shape for k, v in found.items()} == {k: v.shape for k, v in wanted.items()}:
        return
    for key in found:
        del state[key]
    state.update(wanted)
    notes.append(f"head: {_widths(found)} -> {_widths(wanted)}" + (", newly initialised" if wanted else ""))


def _widths(head: State) -> str:
    weights = [tuple(value.shape) for key, value in sorted(head.items()) if key.endswith("weight")]
    widths = [weights[0][-1], *(shape[0] for shape in weights)] if weights else []
    return " → ".join(str(n) for n in widths) if widths else "none"


def check_fit(state: State, own: State) -> None:
    """Raise `InputError` naming the weights that are missing, unexpected or of another shape."""
    missing = [key for key in own if key not in state]
    unexpected = [key for key in state if key not in own]
    differing = [
        f"{key} {tuple(state[key].shape)} instead of {tuple(own[key].shape)}"
        for key in own
        if key in state and state[key].shape != own[key].shape
    ]
    faults = [
        f"{what} {_list(keys)}"
        for what, keys in (("missing", missing), ("unexpected", unexpected), ("of another shape", differing))
        if keys
    ]
    if faults:
        raise InputError(f"checkpoint does not fit the model: {'; '.join(faults)}")


def _list(items: Sequence[str], most: int = 6) -> str:
    more = f" and {len(items) - most} more" if len(items) > most else ""
    return ", ".join(items[:most]) + more


def by(shape: Sequence[float]) -> str:
    """A shape for people, e.g. 3×224×224."""
    return "×".join(f"{n:g}" for n in shape)
