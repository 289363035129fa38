"""What a model costs: parameters, tokens and floating-point operations of one forward, counted on the meta device."""

from dataclasses import dataclass

import torch
from torch.utils.flop_counter import FlopCounterMode

from vitreous.nn import ViT, ViTConfig


@dataclass(frozen=True)
class Cost:
    """Of one forward of one sample; a multiply-add counts as two operations."""

    parameters: int
    tokens: int
    flops: int


def cost(config: ViTConfig) -> Cost:
    """Count without allocating any weight.

    >>> cost(ViTConfig(input=(3, 224, 224), patch=(16,), out=1000, dim=768, depth=12, heads=12)).parameters
    86567656
    """
    with torch.device("meta"):
        model = ViT(config).eval()
        x = torch.empty(1, *config.input)
        coords = torch.empty(1, config.input[1], config.axes) if config.tokens == "set" else None
    parameters = sum(p.numel() for p in model.parameters())
    model.thresholds = None  # what they leave out depends on the sample
    counter = FlopCounterMode(display=False)
    with counter, torch.no_grad():
        model(x, coords=coords)
    return Cost(parameters, config.prefix + model.tokenizer.most, counter.get_total_flops())


def parts(config: ViTConfig) -> list[tuple[str, str, int]]:
    """The model's parts in the order the data passes them: name, output shape for a batch B, parameters."""
    with torch.device("meta"):
        model = ViT(config)
    tokens = config.prefix + model.tokenizer.most
    count = {name: sum(p.numel() for p in child.parameters()) for name, child in model.named_children()}
    count["prefix"] = 0 if model.prefix is None else model.prefix.numel()
    grid = f"(B, {tokens}, {config.dim})"
    rows = [("tokenizer", f"(B, {model.tokenizer.most}, {config.dim})", count["tokenizer"])]
    if config.prefix:
        rows.append(("prefix tokens", grid, count["prefix"]))
    if config.position != "none":
        rows.append((f"position, {config.position}", grid, count["position"]))
    if config.bias != "none":
        rows.append((f"bias, {config.bias}", f"({config.heads}, {tokens}, {tokens})", count["bias"]))
    rows.append((f"blocks, {config.depth}, {config.norm}-norm", grid, count["blocks"]))
    if config.thresholds:
        rows.append(("thresholds, merge and prune", "(B, fewer tokens)", count["thresholds"]))
    rows.append(("norm", grid, count["norm"]))
    flat = config.dim * (model.tokenizer.most if config.pool == "flatten" else 1)
    rows.append((f"pool, {config.pool}", f"(B, {flat})", count["pool"]))
    if config.out:
        widths = " → ".join(str(n) for n in (flat, *config.head, config.out))
        rows.append((f"head, {widths}", f"(B, {config.out})", count["head"]))
    return rows
