"""Optimisers and the learning rate: AdamW, or Muon for matrices; decay where it belongs; warm-up and cosine."""

import math

import torch
from torch import nn

from vitreous.errors import check_choice
from vitreous.train.muon import Muon

OPTIMISERS = ("adamw", "muon")
_NO_DECAY = ("norm", "bias", "position", "prefix", "query", "scale", "table", "latents")


def decays(name: str, parameter: nn.Parameter) -> bool:
    """Weight decay acts on matrices and kernels, not on norms, biases, positions and learned tokens."""
    return parameter.dim() > 1 and not any(word in name.split(".")[-1] or f"{word}." in name for word in _NO_DECAY)


def optimisers(model: nn.Module, kind: str, lr: float, weight_decay: float) -> list[torch.optim.Optimizer]:
    """AdamW over all parameters, or Muon over the matrices inside the model and AdamW over the rest.

    Muon takes the learning rate in AdamW's measure: its updates are scaled to AdamW's root mean square.
    """
    check_choice("optimiser", kind, OPTIMISERS)
    named = [(name, p) for name, p in model.named_parameters() if p.requires_grad]
    matrices = [p for name, p in named if kind == "muon" and p.dim() == 2 and _hidden(name) and decays(name, p)]
    chosen = {id(p) for p in matrices}
    rest = [(name, p) for name, p in named if id(p) not in chosen]
    groups = [
        {"params": [p for name, p in rest if decays(name, p)], "weight_decay": weight_decay},
        {"params": [p for name, p in rest if not decays(name, p)], "weight_decay": 0.0},
    ]
    fused = all(p.device.type in ("cuda", "cpu") for _, p in named)
    adamw = torch.optim.AdamW([g for g in groups if g["params"]], lr=lr, betas=(0.9, 0.98), fused=fused)
    if not matrices:
        return [adamw]
    muon = Muon(matrices, lr=lr, weight_decay=weight_decay, adjust_lr_fn="match_rms_adamw")
    return [muon, adamw]


def _hidden(name: str) -> bool:
    """Muon is for matrices between hidden layers; the first and the last are AdamW's."""
    return not name.startswith(("tokenizer", "head"))


def rate(step: float, steps: int, warmup: float, final: float = 0.01) -> float:
    """The learning rate's factor at a step: a linear warm-up over a share of the steps, then a cosine to `final`."""
    rise = max(1, round(warmup * steps))
    if step < rise:
        return (step + 1) / rise
    done = (step - rise) / max(1, steps - rise)
    return final + (1 - final) * 0.5 * (1 + math.cos(math.pi * min(1.0, done)))
