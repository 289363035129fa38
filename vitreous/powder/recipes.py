"""Unit cells from powder patterns: the rivals of the source document (S0), and the model that beats them."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from vitreous.data import Source
from vitreous.nn import CNNConfig, ViTConfig
from vitreous.powder.cell import FORMS
from vitreous.powder.grid import POINTS, Q_AXIS
from vitreous.powder.sim.effects import Effects
from vitreous.powder.sim.embedding_source import embedding_source
from vitreous.powder.sim.line_lists import MAX_LINES, ROWS, list_source
from vitreous.powder.sim.source import ALL, powder_source
from vitreous.powder.sim.symmetry_source import symmetry_source
from vitreous.run.embedding import Embedding
from vitreous.train.config import TrainConfig
from vitreous.train.embed import EmbedJob
from vitreous.train.recipe import Recipe
from vitreous.train.supervised import SupervisedJob

_INPUT = (1, POINTS)
_SYSTEMS = tuple(FORMS)
_S0_SETTINGS = TrainConfig(steps=8000, batch=256, lr=1e-3, evaluate_every=1000, keep="last")
_MUON_SETTINGS = replace(_S0_SETTINGS, steps=10_000, batch=2048, lr=2e-3, optimiser="muon", ema=0.999)


def powder_vit(source: Source, model: str, system: str) -> SupervisedJob:
    """S0 exactly: 450 patches of 10 points, learned positions, cls, four layers, 64 → the cell.

    `vitreous train powder-vit --system triclinic --out RUN`. On an H200: triclinic test MAPE 7.46 % (noisy).
    """
    config = ViTConfig(input=_INPUT, patch=(10,), dim=64, depth=4, heads=4, head=(64,))
    return SupervisedJob(source, config, _S0_SETTINGS, scale="root", loss_name="l1")


def powder_cnn(source: Source, model: str, system: str) -> SupervisedJob:
    """S0.7: a residual CNN with a non-local block.

    `vitreous train powder-cnn --system triclinic --out RUN`. On an H200: triclinic test MAPE 7.25 % (noisy).
    """
    config = CNNConfig(
        input=_INPUT, widths=(32, 64, 128, 256), kernel=5, stem="large", nonlocal_after=(2,), pool="flatten", head=(64,)
    )
    return SupervisedJob(source, config, _S0_SETTINGS, scale="root", loss_name="l1")


def powder_best(source: Source, model: str, system: str) -> SupervisedJob:
    """A transformer whose tokens are the first 31 peaks, with several hypotheses.

    `vitreous train powder-best --system triclinic --minutes 8.7 --out RUN`. On an H200, 9,803 steps in 522 s: triclinic
    test MAPE 3.52 % (noisy) and 1.94 % (clean); docs/powder.md has the table.
    """
    config = ViTConfig(
        input=_INPUT, tokens="peaks", peaks=31, position="none", spacing=(Q_AXIS.spacing,), dim=384, depth=10, heads=6,
        head=(256,),
    )  # fmt: skip
    return SupervisedJob(source, config, _MUON_SETTINGS, scale="root", hypotheses=8 if system == ALL else 4)


def powder_index(source: Source, model: str, system: str) -> SupervisedJob:
    """Lattices of every system from lists of lines: the proposals with which `vitreous index` begins.

    `vitreous train powder-index --minutes 8.2 --out RUN`, and `--resume` to go on after a stop. The weights in
    `vitreous/powder/proposer/` (half precision) had 11,265 steps in 492 s on an H200.
    """
    shape = (len(ROWS), MAX_LINES)
    config = ViTConfig(input=shape, tokens="lines", position="none", dim=320, depth=9, heads=5, head=(256,))
    settings = replace(_MUON_SETTINGS, steps=16_000, lr=1.5e-3)
    return SupervisedJob(source, config, settings, scale="none", hypotheses=16)


def powder_symmetry(source: Source, model: str, system: str) -> SupervisedJob:
    """Crystal system and extinction group from the raw profile of good and of poor measurements.

    `vitreous train powder-symmetry --minutes 9 --out RUN`; `--model patches`, `peaks` and `cnn` are its rivals. On an
    H200, 7,571 steps in 486 s: 79 % of minerals in the right crystal system with 1,000 counts, 48 to 51 % with 50.
    """
    shared: dict[str, Any] = {"input": _INPUT, "dim": 256, "depth": 8, "heads": 4, "head": (256,)}
    spacing = (Q_AXIS.spacing,)
    patches: dict[str, Any] = {"patch": (60,), "stride": (40,), "stem": (32, 64)}
    configs: dict[str, Callable[[], ViTConfig | CNNConfig]] = {
        "vit": lambda: ViTConfig(tokens="profile", peaks=40, position="none", spacing=spacing, **patches, **shared),
        "patches": lambda: ViTConfig(position="learned", **patches, **shared),
        "peaks": lambda: ViTConfig(tokens="peaks", peaks=40, position="none", spacing=spacing, **shared),
        "cnn": lambda: CNNConfig(
            input=_INPUT, widths=(32, 64, 128, 256, 384), kernel=5, blocks=(2,), stem="large", nonlocal_after=(3,),
            head=(256,),
        ),
    }  # fmt: skip
    settings = replace(_MUON_SETTINGS, steps=12_000, batch=1024)
    if model == "cnn":
        settings = replace(settings, optimiser="adamw", lr=1e-3)
    return SupervisedJob(source, configs[model](), settings, scale="root")


def powder_embed(source: Source, model: str, system: str) -> EmbedJob:
    """Unit vectors for patterns: a measurement lies near the references of its crystals.

    `vitreous train powder-embed --minutes 9 --out RUN`, and `--resume` to go on after a stop. On an H200, 4,080 steps
    in 377 s: the strongest crystal of a measurement is among the first 10 of 1,024 references in 96.9 %.
    """
    config = ViTConfig(
        input=_INPUT, tokens="profile", peaks=40, position="none", spacing=(Q_AXIS.spacing,), patch=(60,), stride=(40,),
        stem=(32, 64), dim=256, depth=6, heads=4, head=(256,),
    )  # fmt: skip
    settings = replace(_MUON_SETTINGS, steps=20_000)
    return EmbedJob(source, config, Embedding(128), settings, scale="root")


def _patterns(model: str, system: str, **samples: int) -> Source:
    return powder_source(system, Effects(), **samples)


_TITLE, _QUESTION = "Simulated powder patterns", "the unit cell of a crystal system"
VIT = Recipe("powder-vit", _TITLE, _QUESTION, _patterns, powder_vit, ("vit",), _SYSTEMS)
CNN = Recipe("powder-cnn", _TITLE, _QUESTION, _patterns, powder_cnn, ("cnn",), (*_SYSTEMS, ALL))
BEST = Recipe("powder-best", _TITLE, _QUESTION, _patterns, powder_best, ("vit",), (*_SYSTEMS, ALL))
INDEX = Recipe(
    "powder-index", "Simulated lists of lines", "lattices of every system, for the search of vitreous index",
    lambda model, system, **samples: list_source(**samples), powder_index, ("vit",),
)  # fmt: skip
SYMMETRY = Recipe(
    "powder-symmetry", "Simulated powder patterns", "crystal system and extinction group from the raw profile",
    lambda model, system, **samples: symmetry_source(**samples), powder_symmetry, ("vit", "patches", "peaks", "cnn"),
)  # fmt: skip
EMBED = Recipe(
    "powder-embed", "Simulated powder patterns", "which crystals of a database a pattern may hold",
    lambda model, system, **samples: embedding_source(**samples), powder_embed, ("vit",),
)  # fmt: skip
