"""A run in one safetensors file: weights, model and task. Loading it never executes code.

torch's own format for programs (.pt2) is not read here: `torch.export.load` unpickles whatever such a file holds.
"""

from pathlib import Path

import torch

from vitreous.core.errors import InputError
from vitreous.nn.models import config_from
from vitreous.run.predictor import Predictor
from vitreous.run.task_file import parse_task
from vitreous.zoo.weights import build_with_weights, read_metadata, to_safetensors


def to_file(predictor: Predictor) -> bytes:
    """The predictor as the content of a `.safetensors` file."""
    return to_safetensors(predictor.model, more=predictor.about())


def load_file(path: Path, device: str = "cpu") -> Predictor:
    """The predictor of such a file."""
    try:
        about = read_metadata(path)
        if "task" not in about:
            raise InputError("holds only weights; expected an exported run or a run folder")
        description, config = parse_task(about), config_from(about["config"])
    except InputError as fault:
        raise InputError(f"{path}: {fault}") from None
    except (KeyError, TypeError) as fault:
        raise InputError(f"{path}: the description of its model is damaged ({fault})") from None
    return Predictor(build_with_weights(config, path).to(torch.device(device)), *description)
