"""What a model costs: parameters, tokens and floating-point operations of one sample, counted without running it."""

from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from vitreous.nn import ViT, ViTConfig
from vitreous.nn.models import Config, build


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
        model = ViT(config)
    parameters = sum(p.numel() for p in model.parameters())
    return Cost(parameters, config.prefix + model.tokenizer.most, flops(config))


def flops(config: Config, train: bool = False) -> int:
    """Operations of a forward of one sample, or of a forward and its gradients.

    They are counted on the meta device. A model that looks at its input's values, for peaks or lines, must run for it.
    What learned thresholds leave out depends on the sample and is counted.
    """
    if isinstance(config, ViTConfig):
        config = replace(config, thresholds=False)
    place = "cpu" if isinstance(config, ViTConfig) and config.tokens in ("peaks", "lines") else "meta"
    with torch.device(place):
        model = build(config).train(train)
        inputs = example(config, 1)
    counter = FlopCounterMode(display=False)
    # not every fused kernel is known to the counter; the open product is
    with counter, sdpa_kernel(SDPBackend.MATH), torch.set_grad_enabled(train):
        out = model(*inputs)
        if train:
            out.sum().backward()
    return int(counter.get_total_flops())


def example(config: Config, batch: int, device: str | None = None) -> tuple[Tensor | None, ...]:
    """Random arguments for a model's forward: the samples, and for sets their coordinates."""
    x = torch.rand(batch, *config.input, device=device)
    if not isinstance(config, ViTConfig) or config.tokens != "set":
        return (x,)
    return x, None, torch.rand(batch, config.input[1], config.axes, device=device)


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
        batch, part = ("", "bias") if model.pair_bias is None else ("B, ", "pair_bias")
        rows.append((f"bias, {config.bias}", f"({batch}{config.heads}, {tokens}, {tokens})", count[part]))
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
