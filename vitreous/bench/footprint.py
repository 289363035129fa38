"""The memory that a step of a model takes at once, weights included, and the batch that still fits."""

from collections.abc import Sequence
from dataclasses import replace

from torch import nn

from vitreous.bench.memory import Peak, allow, ran_out
from vitreous.bench.peers import OURS, build
from vitreous.bench.race import Setting, make_step
from vitreous.nn import ViTConfig
from vitreous.nn.models import Config
from vitreous.zoo.cost import example

Footprints = dict[str, list[int | None]]
_CLEAR = 1 << 26  # bytes by which memory must grow with the batch to be no noise of the allocator


def footprints(
    libraries: Sequence[str], config: Config, batches: Sequence[int], setting: Setting, more: int
) -> Footprints:
    """Peak bytes of each library for each batch, ascending; None from where `more` bytes are too few.

    Where ours does not fit, the others are left out; so is one that cannot be built. On a CPU this belongs into a
    process of its own, which it forbids to take more.
    """
    found: Footprints = {}
    for library in libraries:
        try:
            found[library] = _peaks(library, config, batches, setting, more)
        except Exception:
            if library == OURS:
                raise
        if None in found.get(OURS, ()):
            break
    return found


def _peaks(library: str, config: Config, batches: Sequence[int], setting: Setting, more: int) -> list[int | None]:
    """Of one library; when this is over nothing of its model is left."""
    meter = _Meter(library, config, setting, more)
    found: list[int | None] = []
    for batch in batches:
        found.append(None if None in found else meter.peak(batch))
    return found


def largest_batch(config: Config, below: int, setting: Setting, more: int) -> int:
    """About the largest power of two below a batch that fits into `more` bytes; 0 if not even one sample does.

    Memory grows as a straight line with the batch, so that small batches tell of large ones.
    """
    meter = _Meter(OURS, config, setting, more)
    last, batch = meter.peak(1), 1
    if last is None:
        return 0
    while 2 * batch < below:
        here = meter.peak(2 * batch)
        if here is None:
            return batch
        grown, last, batch = here - last, here, 2 * batch
        if grown > _CLEAR:
            most = min(below - 1, batch + max(0, (more - last) * (batch // 2) // grown))
            return 1 << (most.bit_length() - 1)
    return batch


class _Meter:
    """Peak memory of one model for batches that only grow, so that what one leaves behind the next needs anyway."""

    def __init__(self, library: str, config: Config, setting: Setting, more: int) -> None:
        self.library, self.config, self.setting = library, config, setting
        self.model: nn.Module | None = None
        # One block loads libraries and buffers of their kernels, which any process that lasts has.
        small = replace(config, depth=1) if isinstance(config, ViTConfig) else config
        eager = replace(setting, compile=False)
        _run(build(library, small), small, 1, eager)
        if setting.device == "cpu":
            self.setting = eager  # a compiler works in this process, and would be measured
            allow(more)
        self.base = Peak(setting.device)

    def peak(self, batch: int) -> int | None:
        """Bytes, weights included, or None where they are too many."""
        try:
            self.model = self.model or build(self.library, self.config)
            _run(self.model, self.config, batch, self.setting)
        except (RuntimeError, MemoryError) as fault:
            if ran_out(fault):
                return None
            raise
        return self.base.bytes()


def _run(model: nn.Module, config: Config, batch: int, setting: Setting) -> None:
    step = make_step(model, example(config, batch, setting.device), config.out, setting)
    step()
    if setting.train:
        step()  # the optimiser's moments stand beside the gradients from the second step on
