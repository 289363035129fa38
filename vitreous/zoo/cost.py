"""Cost of a model: parameters, tokens and floating-point operations per sample, counted without running it."""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

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
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from torch.utils.flop_counter import FlopCounterMode  # takes long to import where Triton is installed

    if isinstance(config, ViTConfig):
        config = replace(config, thresholds=False)
    device = "cpu" if config.tokenizer is not None and config.tokenizer.searches else "meta"
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
    most, c = model.tokenizer.most, config
    count = {name: sum(parameter.numel() for parameter in child.parameters()) for name, child in model.named_children()}
    count["prefix"] = 0 if model.prefix is None else model.prefix.numel()
    tokens, shape = c.prefix + most, f"(B, {c.prefix + most}, {c.dim})"
    batch, bias = ("", "bias") if model.pair_bias is None else ("B, ", "pair_bias")
    widths = " → ".join(str(n) for n in (model.features, *c.head, c.out))
    parts = [  # whether the model has it, name, output shape, key of the count
        (True, "tokenizer", f"(B, {most}, {c.dim})", "tokenizer"),
        (c.prefix > 0, "prefix tokens", shape, "prefix"),
        (c.position != "none", f"position, {c.position}", shape, "position"),
        (c.bias != "none", f"bias, {c.bias}", f"({batch}{c.heads}, {tokens}, {tokens})", bias),
        (True, f"blocks, {c.depth}, {c.norm}-norm", shape, "blocks"),
        (c.thresholds, "thresholds, merge and prune", "(B, fewer tokens)", "thresholds"),
        (True, "norm", shape, "norm"),
        (True, f"pool, {c.pool}", f"(B, {model.features})", "pool"),
        (c.out > 0, f"head, {widths}", f"(B, {c.out})", "head"),
    ]
    return [(name, shape, count[key]) for present, name, shape, key in parts if present]
