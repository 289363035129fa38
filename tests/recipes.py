"""Recipes made small enough to run in a test."""

import inspect
from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from tests.jets import toy_jets
from vitreous.errors import InputError
from vitreous.gallery import ENTRIES
from vitreous.nn import CNNConfig
from vitreous.sim.chirps import chirps_source
from vitreous.sim.curves import curves_source
from vitreous.sim.lenses import lens_source
from vitreous.sim.lists import list_source
from vitreous.sim.shower_source import shower_source
from vitreous.sim.source import powder_source
from vitreous.sim.temperatures import ising_source, temperature_source
from vitreous.train import RECIPES, Experiment


def choices(name: str) -> list[dict[str, str]]:
    """Ways to ask for a recipe."""
    if name in ENTRIES:
        models = [{"model": model} for model in ENTRIES[name].models]
        return models + [{"system": system} for system in ENTRIES[name].systems[1:]]
    if "system" in inspect.signature(RECIPES[name]).parameters:
        return [{"system": system} for system in ("triclinic", "monoclinic", "cubic")]
    return [{"model": model} for model in (("vit",) if name == "powder-index" else ("vit", "cnn"))]


def two_steps(name: str, choice: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> Experiment:
    """A recipe with few samples and two steps; skips where its data are not here."""
    monkeypatch.setattr(
        "vitreous.train.recipes.powder.powder_source", partial(powder_source, train=24, validation=100, test=100)
    )
    monkeypatch.setattr("vitreous.train.recipes.powder.list_source", partial(list_source, 200, 100, 100))
    few_samples(monkeypatch)
    try:
        made = RECIPES[name](**choice)
    except InputError as fault:
        if "mnist" in name:
            pytest.skip(f"the data are not here: {fault}")
        raise
    keep = np.arange(0, len(made.source), max(1, len(made.source) // 200))
    source = replace(made.source, x=made.source.x[keep], y=made.source.y[keep], parts={})  # type: ignore[index]
    return replace(made, source=source, train=replace(made.train, steps=2, batch=8, evaluate_every=2))


def few_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the sources of the gallery be simulated for a moment only."""
    monkeypatch.setattr(
        "vitreous.train.recipes.lenses.lens_source", partial(lens_source, train=24, validation=40, test=40)
    )
    few = {"ising_source": (ising_source, (4, 2, 4)), "temperature_source": (temperature_source, (40, 20, 40))}
    for name, (source, counts) in few.items():
        small = dict(zip(("train", "validation", "test"), counts, strict=True))
        monkeypatch.setattr(f"vitreous.train.recipes.spins.{name}", partial(source, **small, sweeps=2))
    for name, series in {"chirps_source": chirps_source, "curves_source": curves_source}.items():
        small = {"train": 40, "validation": 40, "test": 40}
        monkeypatch.setattr(f"vitreous.train.recipes.series.{name}", partial(series, **small))
    small = {"train": 20, "validation": 60, "test": 60}
    monkeypatch.setattr("vitreous.train.recipes.particles.shower_source", partial(shower_source, **small))
    monkeypatch.setattr("vitreous.sim.jet_source.made_jets", lambda *_: toy_jets())
    monkeypatch.setattr("vitreous.gallery.chirps._SEGMENTS", {"cpu": (100, 3)})
    monkeypatch.setattr("vitreous.gallery.light_curves._CURVES", 40)


def narrow(made: Experiment) -> Experiment:
    """The same with a model that is fast to look into."""
    model = made.model
    if isinstance(model, CNNConfig):
        return replace(made, model=replace(model, widths=tuple(max(4, width // 16) for width in model.widths)))
    coarse = {"patch": (16,), "stride": (16,)} if model.grid == (64, 64) else {}
    return replace(made, model=replace(model, dim=32, depth=2, heads=2, head=model.head and (16,), **coarse))
