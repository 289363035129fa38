"""`TrainConfig`: how long, how fast and how carefully to train."""

from dataclasses import dataclass, replace

from vitreous.core.errors import InputError, check_choice
from vitreous.core.settings import Settings
from vitreous.train.device import PRECISIONS
from vitreous.train.optimiser import OPTIMISERS

SWITCHES = ("auto", "on", "off", "graph")


@dataclass(frozen=True)
class TrainConfig(Settings):
    """Settings of the training loop."""

    steps: int = 1000
    """Optimiser steps."""
    minutes: float = 0.0
    """Time limit over all parts of a resumed training; 0 for none. The learning rate falls with the time if that runs
    out before the steps, so that a training with a limit ends with a finished model."""
    batch: int = 128
    """Samples of a step, over all processes."""
    lr: float = 1e-3
    """Highest learning rate; it warms up linearly and falls as a cosine."""
    warmup: float = 0.1
    """Share of the steps in which the learning rate rises."""
    optimiser: str = "adamw"
    """adamw | muon: Muon for the matrices inside the model, AdamW for the rest."""
    weight_decay: float = 0.05
    """Decay of matrices and kernels; norms, biases and positions have none."""
    layer_decay: float = 1.0
    """Factor of the learning rate from each layer to the one below it, for fine-tuning; the head has the highest."""
    freeze: bool = False
    """Train only the head, on the features of the run that the training begins with."""
    clip: float = 1.0
    """Largest norm of the gradient; 0 for no limit."""
    accumulate: int = 1
    """Parts into which each batch is cut to save memory; the gradient is the same."""
    ema: float = 0.0
    """Decay of a running average of the weights, which is then evaluated and saved; 0 for none."""
    evaluate_every: int = 100
    """Steps between evaluations on the validation part."""
    patience: int = 0
    """Evaluations without improvement after which training stops; 0 to go on to the end."""
    keep: str = "best"
    """best: the weights of the best evaluation | last: those at the end."""
    precision: str = "auto"
    """auto | float32 | bfloat16 | float8: auto is bfloat16 on a GPU that has it, float32 elsewhere. float8 is bfloat16
    with FP8 matrix multiplication in the blocks of a ViT."""
    stream: str = "float32"
    """float32 | bfloat16: type of the tokens between the blocks of a ViT that trains in bfloat16. bfloat16 is faster
    and keeps three digits."""
    compile: str = "auto"
    """auto | on | off: torch.compile; auto is on for a GPU | graph: record the steps on a GPU and replay them without
    compiling, for short trainings and batches of several shapes."""
    shard: bool = False
    """Share weights, gradients and optimiser states among the processes of a torchrun (FSDP): for large models."""
    checkpointing: bool = False
    """Compute each block twice instead of storing what its gradient needs."""
    seed: int = 0
    """Of shuffling, augmentation, dropout and initialisation."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("optimiser", self.optimiser, OPTIMISERS)
        check_choice("keep", self.keep, ("best", "last"))
        check_choice("precision", self.precision, PRECISIONS)
        check_choice("compile", self.compile, SWITCHES)
        check_choice("stream", self.stream, ("float32", "bfloat16"))
        self._at_least(1, "steps", "batch", "accumulate", "evaluate_every")
        self._at_least(0, "minutes", "lr", "weight_decay", "clip", "patience", "seed")
        self._probability("warmup", "ema")
        if not 0 < self.layer_decay <= 1:
            raise InputError(f"layer_decay: found {self.layer_decay:g}, expected a factor above 0 and up to 1")

    def with_steps(self, steps: int) -> "TrainConfig":
        """The same settings for another number of steps, evaluated at least ten times."""
        return replace(self, steps=steps, evaluate_every=max(1, min(self.evaluate_every, steps // 10)))
