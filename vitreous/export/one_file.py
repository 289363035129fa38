"""A run in one safetensors file: weights, model and task. Loading it never executes code.

torch's own format for programs (.pt2) is not read here: `torch.export.load` unpickles whatever such a file holds.
"""

from pathlib import Path

import torch

from vitreous.errors import InputError
from vitreous.nn.models import config_from
from vitreous.train.about import understand
from vitreous.train.predictor import Predictor
from vitreous.zoo.weights import read_about, to_safetensors, with_weights


def to_file(predictor: Predictor) -> bytes:
    """The predictor as the content of a `.safetensors` file."""
    return to_safetensors(predictor.model, more=predictor.about())


def load_file(path: Path, device: str = "cpu") -> Predictor:
    """The predictor of such a file."""
    try:
        about = read_about(path)
        if "task" not in about:
            raise InputError("holds weights alone; expected the file of an exported run, or the run folder itself")
        known, config = understand(about), config_from(about["config"])
    except InputError as fault:
        raise InputError(f"{path}: {fault}") from None
    except (KeyError, TypeError) as fault:
        raise InputError(f"{path}: what it says of its model is damaged ({fault})") from None
    return Predictor(with_weights(config, path).to(torch.device(device)), *known)
