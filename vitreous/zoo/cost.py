"""Cost of a model: parameters, tokens and floating-point operations per sample, counted without running it."""

from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from vitreous.nn import ViT, ViTConfig
from vitreous.nn.models import Config, build


@dataclass(frozen=True)
class Cost:
    """Cost of one forward pass of one sample; a multiply-add counts as two operations."""

    parameters: int
    tokens: int
    flops: int


def model_cost(config: ViTConfig) -> Cost:
    """Count parameters, tokens and operations without allocating weights.

    >>> model_cost(ViTConfig(input=(3, 224, 224), patch=(16,), out=1000, dim=768, depth=12, heads=12)).parameters
    86567656
    """
    with torch.device("meta"):
        model = ViT(config)
    parameters = sum(parameter.numel() for parameter in model.parameters())
    return Cost(parameters, config.prefix + model.tokenizer.most, count_flops(config))


def count_flops(config: Config, train: bool = False) -> int:
    """Operations of a forward pass of one sample, or with `train` of forward and backward.

    They are counted on the meta device; models that search for peaks or lines in their input run on the CPU instead.
    Operations that learned thresholds would skip are counted.
    """
    if isinstance(config, ViTConfig):
        config = replace(config, thresholds=False)
    device = "cpu" if isinstance(config, ViTConfig) and config.tokens in ("peaks", "lines") else "meta"
    with torch.device(device):
        model = build(config).train(train)
        inputs = example_inputs(config, 1)
    counter = FlopCounterMode(display=False)
    # the counter does not know every fused kernel
    with counter, sdpa_kernel(SDPBackend.MATH), torch.set_grad_enabled(train):
        out = model(*inputs)
        if train:
            out.sum().backward()
    return int(counter.get_total_flops())


def example_inputs(config: Config, batch: int, device: str | None = None) -> tuple[Tensor | None, ...]:
    """Random arguments of a model's forward: samples, and for sets also coordinates."""
    x = torch.rand(batch, *config.input, device=device)
    if not isinstance(config, ViTConfig) or config.tokens != "set":
        return (x,)
    return x, None, torch.rand(batch, config.input[1], config.axes, device=device)


def model_parts(config: ViTConfig) -> list[tuple[str, str, int]]:
    """Parts of the model in the order of the data flow: name, output shape for a batch B, parameters."""
    with torch.device("meta"):
        model = ViT(config)
    tokens = config.prefix + model.tokenizer.most
    count = {name: sum(parameter.numel() for parameter in child.parameters()) for name, child in model.named_children()}
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
    rows.append((f"pool, {config.pool}", f"(B, {model.features})", count["pool"]))
    if config.out:
        widths = " → ".join(str(n) for n in (model.features, *config.head, config.out))
        rows.append((f"head, {widths}", f"(B, {config.out})", count["head"]))
    return rows
