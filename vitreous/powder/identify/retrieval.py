"""Which entries of a database a pattern may contain: by a transformer's embedding of both, and by strong lines.

The folder `model/` beside this module is a run of the recipe `powder-embed`. Its references are the clean patterns of
entries and its measurements are patterns; both become unit vectors whose cosine says how alike they are.
"""

import hashlib
from collections.abc import Sequence
from functools import lru_cache
from importlib.resources import as_file, files

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from vitreous.core.errors import InputError
from vitreous.powder.bragg import two_theta_from_q
from vitreous.powder.identify.database import Database
from vitreous.powder.identify.entry import EntryLines
from vitreous.powder.identify.line_match import MATCH_TUNING, MatchTuning, match_lines
from vitreous.powder.pattern import Floats, Pattern, require_wavelength, to_grid
from vitreous.powder.peaks import Peaks, find_peaks
from vitreous.powder.radiation import CU_KALPHA1
from vitreous.powder.sim.crystals import Lines
from vitreous.powder.sim.embedding_source import REFERENCE
from vitreous.powder.sim.measurement import lorentz_polarisation, measure
from vitreous.powder.sim.source import q_grid, to_q
from vitreous.run.predictor import Predictor, load

MODEL = "model"
_ENTRIES = 64  # embedded at once
_MOST_PEAKS = 150


@lru_cache(maxsize=1)
def embedding_model() -> Predictor:
    """The trained model of the package."""
    with as_file(files(__package__) / MODEL) as folder:
        if not (folder / "model.safetensors").is_file():
            raise InputError(f"{folder}: found no model, expected a run of the recipe powder-embed")
        return load(folder)


@lru_cache(maxsize=1)
def model_digest() -> str:
    """SHA-256 of the weights of the package's model; embeddings of different models cannot be compared."""
    embedding_model()
    return hashlib.sha256((files(__package__) / MODEL / "model.safetensors").read_bytes()).hexdigest()


def embed_lines(lines: Sequence[EntryLines], model: Predictor | None = None) -> NDArray[np.float16]:
    """Unit vectors `(n, d)` of the lines of entries; `model` is that of the package by default."""
    model = model or embedding_model()
    parts = [_vectors(model, _references(lines[i : i + _ENTRIES])) for i in range(0, len(lines), _ENTRIES)]
    return torch.cat([torch.zeros(0, model.task.outputs), *parts]).half().numpy()


def embed_pattern(pattern: Pattern, model: Predictor | None = None) -> NDArray[np.float32]:
    """The unit vector `(d,)` of a pattern of known wavelength."""
    model = model or embedding_model()
    vector: NDArray[np.float32] = _vectors(model, _as_measured_with_copper(pattern))[0].numpy()
    return vector


def similarities(database: Database, pattern: Pattern, model: Predictor | None = None) -> NDArray[np.float32]:
    """Cosines `(n,)` of the vectors of the entries and of a pattern.

    `model` is the one that made the vectors of the database, by default that of the package.
    """
    if not database.embedding.shape[1]:
        raise InputError(f"{database.path}: was built without embeddings; build it again with vitreous powder database")
    if model is None and database.model != model_digest():
        raise InputError(
            f"{database.path}: has embeddings of another model; build it again with vitreous powder database"
        )
    vector = embed_pattern(pattern, model)
    if len(vector) != database.embedding.shape[1]:
        size = database.embedding.shape[1]
        raise InputError(f"{database.path}: found embeddings of {size} numbers, expected {len(vector)}")
    return np.asarray(database.embedding.astype(np.float32) @ vector)


def line_scores(
    database: Database, pattern: Pattern, peaks: Peaks | None = None, tuning: MatchTuning = MATCH_TUNING
) -> NDArray[np.float32]:
    """How much the strong lines of each entry speak for its presence, `(n,)`: log-likelihood ratios.

    `peaks` are the lines of the pattern, found by default.
    """
    wavelength = require_wavelength(pattern)
    peaks = pattern_peaks(pattern) if peaks is None else peaks
    measured = float(pattern.two_theta[0]), float(pattern.two_theta[-1])
    return match_lines(database.strongest, peaks, measured, wavelength, tuning)


def pattern_peaks(pattern: Pattern) -> Peaks:
    """The lines of a pattern, for `line_scores`."""
    ratio = pattern.ratio if pattern.wavelength2 else None
    return find_peaks(
        pattern.two_theta, pattern.intensity, pattern.sigma, pattern.wavelength, pattern.wavelength2, ratio, _MOST_PEAKS
    )


def _references(lines: Sequence[EntryLines]) -> Tensor:
    """Clean patterns `(n, 1, POINTS)` of entries, as in the training."""
    s, intensity = (
        torch.from_numpy(np.concatenate([getattr(each, name) for each in lines])).float() for name in ("s", "intensity")
    )
    owner = torch.arange(len(lines)).repeat_interleave(torch.tensor([len(each.s) for each in lines]))
    batch = Lines(s, intensity, owner, torch.zeros(len(s), 3), torch.zeros(1, 3), len(lines))
    return to_q(measure(batch, REFERENCE), REFERENCE)


def _as_measured_with_copper(pattern: Pattern) -> Tensor:
    """The pattern on the model's grid `(1, 1, POINTS)`, with the Lorentz-polarisation factor of copper radiation."""
    wavelength = require_wavelength(pattern)
    q = q_grid().numpy()
    y = to_grid(pattern, q)
    used = np.flatnonzero(y)
    y[used] *= _polarisation(q[used], CU_KALPHA1) / _polarisation(q[used], wavelength)
    return torch.from_numpy(y).float()[None, None]


def _polarisation(q: Floats, wavelength: float) -> Floats:
    """The Lorentz-polarisation factor at q (1/Å)."""
    return lorentz_polarisation(two_theta_from_q(torch.from_numpy(q), wavelength)).numpy()


def _vectors(model: Predictor, x: Tensor) -> Tensor:
    """`(n, 1, POINTS) -> (n, d)`, of length 1."""
    return F.normalize(model.outputs(x.numpy()), dim=1)
