"""The fingerprint of a training: what must be the same when it is resumed, as values by name, beside its settings."""

import hashlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vitreous.core.errors import InputError
from vitreous.data import Source
from vitreous.train.finetune import Start

Fingerprint = Mapping[str, Any]
_DIGEST = "sha256:"
_CHUNK_BYTES = 1 << 24
MAX_BYTES = 8 << 30
"""Of the samples that are read; of larger data an evenly spread part is, of this size. Labels are read whole."""
_MAX_CHARACTERS = 100  # of a value in a message


def check_same(folder: Path, before: Fingerprint, now: Fingerprint, ignored: Iterable[str] = ()) -> None:
    """Raise `InputError` with the first value that differs from the one that the run was begun with.

    A value that only one of them has is ignored: versions may differ.
    """
    now = json.loads(json.dumps(now))
    for name, value in before.items():
        if name in now and value != now[name] and name not in ignored:
            if str(value).startswith(_DIGEST):
                raise InputError(f"{folder}: the {name} differ from those that the run was begun with")
            old, new = (repr(each)[:_MAX_CHARACTERS] for each in (value, now[name]))
            raise InputError(f"{folder}: was begun with {name} = {old}, not {new}")


def flatten(name: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """Values of a part, each under its own name, such as `augment.noise`."""
    return {f"{name}.{key}": value for key, value in values.items()}


def describe_source(source: Source) -> dict[str, Any]:
    """Names and units of labels and axes, then the content of samples, labels and predefined parts.

    Simulated samples are known by recipe and number alone: their last digits depend on the machine and its threads.
    """
    targets = [f"log {target.label}" if target.log else target.label for target in source.targets]
    axes = [f"{axis.label} from {axis.origin!r} by {axis.spacing!r}" for axis in source.axes]
    names = {"targets": targets, "classes": source.classes, "axes": axes, "channels": source.channels}
    if source.fresh is not None:
        return names | {"samples": f"simulated {source.x.dtype} {source.x.shape}"}
    labels = {} if source.y is None else {"labels": digest_arrays(source.y, max_bytes=source.y.nbytes)}
    parts = digest_arrays(*(rows for _, rows in sorted(source.parts.items())), text=str(sorted(source.parts)))
    return names | {"samples": digest_arrays(source.x)} | labels | {"parts of the samples": parts}


def digest_start(start: Start | None) -> str:
    """The digest of the weights that a training begins with; empty if they are random."""
    if start is None:
        return ""
    weights = (value.detach().float().cpu().reshape(-1).numpy() for value in start.model.state_dict().values())
    return digest_arrays(*weights, text=str(start.scaling))


def digest_arrays(*arrays: NDArray[Any], max_bytes: int = MAX_BYTES, text: str = "") -> str:
    """The digest of the content of arrays, which may be memory-mapped, and of a text; see `MAX_BYTES`."""
    digest, most = hashlib.sha256(text.encode()), max(1, max_bytes // _CHUNK_BYTES)
    for array in arrays:
        digest.update(f"{array.dtype.str} {array.shape}".encode())
        rows = max(1, _CHUNK_BYTES * len(array) // max(1, array.nbytes))
        starts = np.arange(0, len(array), rows)
        for start in starts if len(starts) <= most else starts[np.linspace(0, len(starts) - 1, most).astype(np.intp)]:
            digest.update(np.ascontiguousarray(array[start : start + rows]).tobytes())
    return f"{_DIGEST}{digest.hexdigest()}"
