"""Optimisers and learning rate: AdamW, or Muon for matrices; weight decay; layer-wise decay; warm-up and cosine."""

import math
import re
from collections import defaultdict
from typing import Any

import torch
from torch import nn

from vitreous.core.errors import check_choice
from vitreous.train.muon import Muon

OPTIMISERS = ("adamw", "muon")
FACTOR = "factor"
"""Key of a parameter group: the factor of its learning rate."""
_BLOCK = re.compile(r"(?:^|\.)(?:blocks|stages)\.(\d+)\.")
_LAST = ("head", "pool", "norm")
_NO_DECAY = ("norm", "bias", "position", "prefix", "query", "scale", "table", "latents")


def decays(name: str, parameter: nn.Parameter) -> bool:
    """Weight decay acts on matrices and kernels, not on norms, biases, positions and learned tokens."""
    return parameter.dim() > 1 and not any(word in name.split(".")[-1] or f"{word}." in name for word in _NO_DECAY)


def create_optimisers(
    model: nn.Module, kind: str, lr: float, weight_decay: float, layer_decay: float = 1.0
) -> list[torch.optim.Optimizer]:
    """AdamW over all parameters, or Muon over the matrices inside the model and AdamW over the rest.

    Muon's updates are scaled to the root mean square of AdamW's, so both take the same learning rate. Each group has a
    `FACTOR` for its learning rate: `layer_decay` to the power of the number of layers above it.
    """
    check_choice("optimiser", kind, OPTIMISERS)
    named = [(name, p) for name, p in model.named_parameters() if p.requires_grad]
    above = layers_above([name for name, _ in model.named_parameters()])
    matrices: dict[float, list[nn.Parameter]] = defaultdict(list)
    rest: dict[tuple[float, float], list[nn.Parameter]] = defaultdict(list)
    for name, p in named:
        factor = layer_decay ** above[name]
        if kind == "muon" and p.dim() == 2 and _hidden(name) and decays(name, p):
            matrices[factor].append(p)
        else:
            rest[factor, weight_decay if decays(name, p) else 0.0].append(p)
    fused = all(p.device.type in ("cuda", "cpu") for _, p in named)
    groups: list[dict[str, Any]] = [
        {"params": params, "weight_decay": decay, FACTOR: factor} for (factor, decay), params in rest.items()
    ]
    adamw = torch.optim.AdamW(groups, lr=lr, betas=(0.9, 0.98), fused=fused)
    if not matrices:
        return [adamw]
    groups = [{"params": params, FACTOR: factor} for factor, params in matrices.items()]
    return [Muon(groups, lr=lr, weight_decay=weight_decay, adjust_lr_fn="match_rms_adamw"), adamw]


def layers_above(names: list[str]) -> dict[str, int]:
    """Number of layers above each parameter: 0 for head, pool and last norm; the tokenizer is below all blocks."""
    matches = {name: _BLOCK.search(name) for name in names}
    depth = 1 + max((int(match[1]) for match in matches.values() if match), default=-1)
    return {
        name: depth - int(match[1]) if match else 0 if name.split(".")[0] in _LAST else depth + 1
        for name, match in matches.items()
    }


def _hidden(name: str) -> bool:
    """Muon is for matrices between hidden layers; AdamW updates the first and the last."""
    return not any(part in ("tokenizer", "head", "show") for part in name.split("."))


def learning_rate_factor(step: float, steps: int, warmup: float, final: float = 0.01) -> float:
    """Factor of the learning rate at a step: a linear warm-up over a share of the steps, then a cosine to `final`."""
    rise = max(1, round(warmup * steps))
    if step < rise:
        return (step + 1) / rise
    done = (step - rise) / max(1, steps - rise)
    return final + (1 - final) * 0.5 * (1 + math.cos(math.pi * min(1.0, done)))
