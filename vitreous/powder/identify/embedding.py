"""The embeddings of entries; those of a package without the trained model have no dimensions."""

from collections.abc import Sequence
from importlib.resources import files

import numpy as np
from numpy.typing import NDArray

from vitreous.powder.identify import retrieval
from vitreous.powder.identify.entry import EntryLines


def has_model() -> bool:
    """Whether the package has the model that embeds patterns."""
    return (files(__package__) / retrieval.MODEL / "model.safetensors").is_file()


def current_model() -> str:
    """Digest of the model; empty without one."""
    return retrieval.model_digest() if has_model() else ""


def embed_entries(lines: Sequence[EntryLines]) -> NDArray[np.float16]:
    """Embeddings `(n, d)`; d is 0 without the model."""
    return retrieval.embed_lines(lines) if has_model() else np.empty((len(lines), 0), dtype=np.float16)
