"""Entries that a pattern may contain: by embedding and by lines."""

import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from vitreous.core.errors import InputError
from vitreous.data.scale import Scaling
from vitreous.nn import ViTConfig
from vitreous.nn.models import build
from vitreous.powder.grid import POINTS, Q_AXIS
from vitreous.powder.identify import retrieval
from vitreous.powder.identify.database import Database
from vitreous.powder.identify.database_file import entry_arrays
from vitreous.powder.identify.entry import Entry, EntryLines
from vitreous.powder.identify.line_match import match_lines
from vitreous.powder.pattern import Pattern
from vitreous.powder.peaks import Peaks
from vitreous.powder.radiation import CU_KALPHA1, CU_KALPHA2
from vitreous.powder.sim.crystals import Crystals, Lines
from vitreous.powder.sim.effects import Effects
from vitreous.powder.sim.embedding_source import REFERENCE
from vitreous.powder.sim.measurement import measure
from vitreous.powder.sim.source import to_q
from vitreous.powder.sim.symmetry_source import crystals_of_atoms
from vitreous.run.embedding import Embedding
from vitreous.run.predictor import Predictor

CLEAN_LABORATORY = Effects(start=(5.0, 5.0), texture=(1.0, 1.0), impurity=(0.0, 0.0), counts=(1e4, 1e4))


@pytest.fixture(scope="module")
def crystals() -> Crystals:
    torch.manual_seed(5)
    return crystals_of_atoms("orthorhombic", 40, 0.9, "cpu")


@pytest.fixture(scope="module")
def model() -> Predictor:
    """A model with random weights: equal patterns still have equal vectors."""
    torch.manual_seed(0)
    config = ViTConfig(
        input=(1, POINTS), patch=(60,), out=16, dim=24, depth=1, heads=2, position="none", pool="flatten", cls=False
    )
    vit = build(config)
    with torch.no_grad():
        for values in vit.tokenizer.parameters():
            values.normal_()
    return Predictor(vit, Embedding(16), Scaling("root"), (Q_AXIS,), ("intensity",))


def entry_lines(lines: Lines, owner: int) -> EntryLines:
    """The strongest lines of one crystal of a batch."""
    own = lines.owner == owner
    order = torch.argsort(lines.s[own])
    s, intensity = lines.s[own][order].numpy(), lines.intensity[own][order].numpy()
    return EntryLines(np.zeros((len(s), 3), np.int16), s, intensity)


def database(crystals: Crystals, embedding: np.ndarray | None = None) -> Database:
    entries = [
        Entry(f"crystal {i}", "", "", "", 0, "orthorhombic", (5.0, 6.0, 7.0, 90.0, 90.0, 90.0),
              (5.0, 6.0, 7.0, 90.0, 90.0, 90.0), 0.0, frozenset(), entry_lines(crystals.lines, i))
        for i in range(crystals.lines.count)
    ]  # fmt: skip
    return Database("crystals.db", entry_arrays(entries, embedding), {})


def measured(lines: Lines, owners: list[int], effects: Effects = CLEAN_LABORATORY) -> Pattern:
    """A pattern of some crystals, equally strong."""
    intensity = measure(lines, replace(effects, counts=(0.0, 0.0)))[owners].sum(0)
    noisy = torch.poisson(intensity * 1e4).double().numpy()
    angles = effects.angles().numpy()
    part = (angles >= 5) & (angles <= 70)
    return Pattern(angles[part], noisy[part], None, CU_KALPHA1, "mixture", CU_KALPHA2, 0.25)


def peaks_at(angles: list[float], intensity: list[float]) -> Peaks:
    x = np.array(angles)
    return Peaks(x, np.full(len(x), 0.01), np.array(intensity), np.full(len(x), 0.1), np.full(len(x), 50.0))


def lines_at(*angles: float) -> np.ndarray:
    """1/d of lines at these angles of copper radiation, `(1, 8)`."""
    s = 2 * np.sin(np.radians(np.array(angles)) / 2) / CU_KALPHA1
    return np.pad(s, (0, 8 - len(s)))[None].astype(np.float32)


def test_the_phases_of_a_mixture_are_first_by_lines(crystals: Crystals) -> None:
    torch.manual_seed(1)
    scores = retrieval.line_scores(database(crystals), measured(crystals.lines, [3, 17]))
    assert set(np.argsort(-scores)[:4]) >= {3, 17}
    assert scores[[3, 17]].min() > 5


def test_texture_shift_and_another_cell_are_tolerated(crystals: Crystals) -> None:
    torch.manual_seed(2)
    effects = replace(CLEAN_LABORATORY, texture=(0.6, 0.6), zero=(0.08, 0.08), displacement=(0.05, 0.05))
    swollen = replace(crystals.lines, s=crystals.lines.s / 1.008)
    scores = retrieval.line_scores(database(crystals), measured(swollen, [9], effects))
    assert 9 in np.argsort(-scores)[:3]


OBSERVED = peaks_at([20.0, 26.6, 35.0, 40.0, 50.0, 60.0], [1.0, 0.8, 0.5, 0.4, 0.3, 0.3])


def match(lines: np.ndarray, peaks: Peaks = OBSERVED, last: float = 70.0) -> float:
    return float(match_lines(lines, peaks, (5.0, last), CU_KALPHA1)[0])


def test_lines_that_are_seen_speak_for_an_entry_and_missing_ones_against_it() -> None:
    assert match(lines_at(20.0, 26.6, 35.0)) > match(lines_at(20.0, 26.6)) > 0
    assert match(lines_at(20.0, 26.6)) > match(lines_at(20.0, 26.6, 30.0))
    assert match(lines_at(22.0, 30.0, 45.0)) < 0


def test_lines_outside_the_measured_range_do_not_count() -> None:
    assert match(lines_at(20.0, 26.6, 80.0)) == pytest.approx(match(lines_at(20.0, 26.6)), abs=1e-4)
    assert match(lines_at(80.0, 85.0)) == 0.0
    assert match(np.zeros((1, 8), np.float32)) == 0.0


def test_foreign_lines_change_little() -> None:
    foreign = peaks_at([20.0, 26.6, 29.0, 31.0, 35.0, 40.0, 43.0, 50.0], [0.5, 0.4, 1.0, 1.0, 0.3, 0.2, 0.9, 0.2])
    assert match(lines_at(20.0, 26.6, 35.0), foreign) > 0.5 * match(lines_at(20.0, 26.6, 35.0))


def test_a_pattern_without_lines_says_nothing() -> None:
    assert match(lines_at(20.0), peaks_at([], [])) == 0.0
    assert match_lines(np.zeros((0, 8), np.float32), OBSERVED, (5.0, 70.0), CU_KALPHA1).shape == (0,)


def test_a_hundred_thousand_entries_take_a_second() -> None:
    s = np.random.default_rng(0).uniform(0.1, 0.8, (100_000, 8)).astype(np.float32)
    started = time.process_time()
    match_lines(s, OBSERVED, (5.0, 70.0), CU_KALPHA1)
    assert time.process_time() - started < 3  # on a busy machine


def test_vectors_of_entries_are_those_of_their_clean_patterns(crystals: Crystals, model: Predictor) -> None:
    lines = crystals.lines
    vectors = retrieval.embed_lines([entry_lines(lines, i) for i in range(3)], model)
    expected = model(to_q(measure(lines, REFERENCE), REFERENCE)[:3].numpy()).values
    assert vectors.dtype == np.float16
    np.testing.assert_allclose(vectors, expected, atol=2e-3)
    assert retrieval.embed_lines([], model).shape == (0, 16)


def test_a_clean_pattern_is_most_similar_to_its_entry(crystals: Crystals, model: Predictor) -> None:
    entries = [entry_lines(crystals.lines, i) for i in range(40)]
    clean = measure(crystals.lines, REFERENCE)[7].double().numpy()
    angles = REFERENCE.angles().numpy()
    pattern = Pattern(angles, clean, None, CU_KALPHA1)
    scores = retrieval.similarities(database(crystals, retrieval.embed_lines(entries, model)), pattern, model)
    assert scores.argmax() == 7
    assert scores[7] == pytest.approx(1.0, abs=5e-3)
    assert np.linalg.norm(retrieval.embed_pattern(pattern, model)) == pytest.approx(1.0, abs=1e-5)


def test_a_pattern_of_another_wavelength_has_nearly_the_same_vector(crystals: Crystals, model: Predictor) -> None:
    short = replace(REFERENCE, wavelength=0.8, two_theta=(2.0, 45.0), points=8000, width=(0.04, 0.04), start=(2.6, 2.6))
    vectors = []
    for effects in (REFERENCE, short):
        intensity = measure(crystals.lines, effects)[4].double().numpy()
        pattern = Pattern(effects.angles().numpy(), intensity, None, effects.wavelength)
        vectors.append(retrieval.embed_pattern(pattern, model))
    assert vectors[0] @ vectors[1] > 0.9


def test_a_database_without_embeddings_is_refused(crystals: Crystals, model: Predictor) -> None:
    with pytest.raises(InputError, match=r"^crystals\.db: was built without embeddings"):
        retrieval.similarities(database(crystals), measured(crystals.lines, [0]), model)


def test_embeddings_of_another_size_are_refused(crystals: Crystals, model: Predictor) -> None:
    with pytest.raises(InputError, match="found embeddings of 8 numbers, expected 16"):
        retrieval.similarities(database(crystals, np.ones((40, 8), np.float16)), measured(crystals.lines, [0]), model)


def test_a_package_without_the_model_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(retrieval, "files", lambda package: tmp_path)
    retrieval.embedding_model.cache_clear()
    with pytest.raises(InputError, match="found no model, expected a run of the recipe powder-embed"):
        retrieval.embed_lines([])
    retrieval.embedding_model.cache_clear()


def test_a_pattern_of_unknown_wavelength_is_refused(crystals: Crystals, model: Predictor) -> None:
    pattern = replace(measured(crystals.lines, [0]), wavelength=None)
    message = "does not state its wavelength"
    with pytest.raises(InputError, match=message):
        retrieval.embed_pattern(pattern, model)
    with pytest.raises(InputError, match=message):
        retrieval.line_scores(database(crystals), pattern)
