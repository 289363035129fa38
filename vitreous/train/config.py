"""`TrainConfig`: how long, how fast and how carefully to train."""

from dataclasses import dataclass

from vitreous.errors import InputError, check_choice
from vitreous.settings import Settings
from vitreous.train.device import PRECISIONS
from vitreous.train.optim import OPTIMISERS

SWITCHES = ("auto", "on", "off", "graph")


@dataclass(frozen=True)
class TrainConfig(Settings):
    """Settings of the loop; those of a recipe are made for its data."""

    steps: int = 1000
    """Optimiser steps."""
    minutes: float = 0.0
    """Time that the training may take, over all its parts; 0 for any. The learning rate then falls with the time where
    that runs out before the steps, so that a job with a limit ends with a finished model."""
    batch: int = 128
    """Samples of a step, over all processes."""
    lr: float = 1e-3
    """Highest learning rate; it warms up linearly and falls as a cosine."""
    warmup: float = 0.1
    """Share of the steps that the learning rate rises."""
    optimiser: str = "adamw"
    """adamw | muon: Muon for the matrices inside the model, AdamW for the rest."""
    weight_decay: float = 0.05
    """Decay of matrices and kernels; norms, biases and positions have none."""
    layer_decay: float = 1.0
    """Factor of the learning rate from each layer to the one below it, for weights that a run brings along; the head
    has the highest."""
    freeze: bool = False
    """Train the head alone, on the features of the run that the training begins from."""
    clip: float = 1.0
    """Longest gradient; 0 for any."""
    accumulate: int = 1
    """Parts into which each batch is cut to save memory; the gradient is the same."""
    ema: float = 0.0
    """Decay of a running average of the weights, which is then what is evaluated and kept; 0 for none."""
    evaluate_every: int = 100
    """Steps between evaluations on the validation part."""
    patience: int = 0
    """Evaluations without improvement after which training stops; 0 to go on to the end."""
    keep: str = "best"
    """best: the weights of the best evaluation | last: those at the end."""
    precision: str = "auto"
    """auto | float32 | bfloat16 | float8: auto is bfloat16 on a GPU that has it, float32 elsewhere. float8 is bfloat16
    with products of eight bits in the blocks of a ViT."""
    stream: str = "float32"
    """float32 | bfloat16: what tokens are kept in between the blocks of a ViT that trains in bfloat16. The latter is
    faster, and fine where three digits are."""
    compile: str = "auto"
    """auto | on | off: torch.compile; auto is on for a GPU | graph: record the steps on a GPU and replay them as they
    are, without compiling: ready at once, for short trainings and batches of several shapes."""
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
