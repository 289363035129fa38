"""Recipes with few samples and steps, fast enough for a test."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from tests.gallery.jets.toy import toy_jets
from vitreous import recipes
from vitreous.core.errors import InputError
from vitreous.data import Source
from vitreous.gallery.ising.figures import draw as draw_spins
from vitreous.gallery.ising.source import ising_source, temperature_source
from vitreous.nn import CNNConfig
from vitreous.recipes import RECIPES, jobs, load_recipe
from vitreous.run.folder import read_provenance
from vitreous.train import Recipe, SupervisedJob

_PATTERNS = {"train": 24, "validation": 100, "test": 100}
_SERIES = {"train": 40, "validation": 40, "test": 40}
FEW: dict[str, dict[str, int]] = {
    "powder-vit": _PATTERNS,
    "powder-cnn": _PATTERNS,
    "powder-best": _PATTERNS,
    "powder-index": {"train": 200, "validation": 100, "test": 100},
    "powder-symmetry": {"train": 14, "validation": 28, "test": 28},
    "lensing": {"train": 24, "validation": 40, "test": 40},
    "ising": {"train": 4, "validation": 2, "test": 4, "sweeps": 2},
    "ising-temperature": {"train": 40, "validation": 20, "test": 40, "sweeps": 2},
    "chirps": _SERIES,
    "light-curves": _SERIES,
    "showers": {"train": 20, "validation": 60, "test": 60},
}
"""Numbers of samples, and of sweeps of the simulated spins."""
DRAWN: dict[str, dict[str, int]] = {"chirps": {"noise": 100, "signals": 3}, "light-curves": {"curves": 40}}
"""Numbers of samples in figures."""
SUPERVISED = [name for name in RECIPES if name not in ("translate-en-de", "powder-embed")]


def choices(name: str) -> list[dict[str, str]]:
    """Models and systems of a recipe, one at a time."""
    recipe = load_recipe(name)
    if name.startswith("powder") and recipe.systems:
        return [{"system": system} for system in ("triclinic", "monoclinic", "cubic")]
    return [{"model": model} for model in recipe.models] + [{"system": system} for system in recipe.systems[1:]]


def two_steps(name: str, choice: dict[str, str]) -> SupervisedJob:
    """The job of a recipe with few samples and two steps; skips if its data are not installed."""
    try:
        return shorten(small_recipe(name).create(**choice))
    except InputError as fault:
        if "mnist" in name:
            pytest.skip(f"the data are not installed: {fault}")
        raise


def shorten(job: SupervisedJob) -> SupervisedJob:
    """The same job with at most 200 samples and two steps."""
    assert job.source.y is not None
    keep = np.arange(0, len(job.source), max(1, len(job.source) // 200))
    source = replace(job.source, x=job.source.x[keep], y=job.source.y[keep], parts={})
    return replace(job, source=source, settings=replace(job.settings, steps=2, batch=8, evaluate_every=2))


def small_recipe(name: str) -> Recipe:
    """A recipe that simulates few samples and draws its figures from few of them."""
    recipe = load_recipe(name)
    source = partial(recipe.source, **FEW.get(name, {}))
    if name == "jets":
        source = partial(recipe.source, labelled=toy_jets())
    figures = recipe.figures
    if figures is not None and name in DRAWN:
        figures = partial(figures, **DRAWN[name])
    if name.startswith("ising"):
        figures = partial(draw_few_spins, ising_source if name == "ising" else temperature_source, FEW[name])
    return replace(recipe, source=source, figures=figures)


def draw_few_spins(source: Callable[..., Source], few: dict[str, int], run: Path) -> list[Path]:
    """The figures of a run of spins, from few microstates of its system."""
    return draw_spins(run, source(read_provenance(run).system, **few))


def few_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the commands use small recipes."""
    monkeypatch.setattr(recipes, "load_recipe", small_recipe)
    monkeypatch.setattr(jobs, "load_recipe", small_recipe)


def narrow(job: SupervisedJob) -> SupervisedJob:
    """The same with a model that is fast to look into."""
    model = job.config
    if isinstance(model, CNNConfig):
        return replace(job, config=replace(model, widths=tuple(max(4, width // 16) for width in model.widths)))
    coarse = {"patch": (16,), "stride": (16,)} if model.grid == (64, 64) else {}
    return replace(job, config=replace(model, dim=32, depth=2, heads=2, head=model.head and (16,), **coarse))
