"""Unit cells from powder patterns: the rivals of the source document (S0), and the model that beats them."""

from vitreous.errors import check_choice
from vitreous.nn import CNNConfig, ViTConfig
from vitreous.nn.models import Config
from vitreous.sim.grid import POINTS, Q_AXIS
from vitreous.sim.lists import LINES, ROWS, list_source
from vitreous.sim.powder import Effects
from vitreous.sim.source import powder_source
from vitreous.train.config import TrainConfig
from vitreous.train.run import Experiment

_INPUT = (1, POINTS)


def powder_vit(model: str = "vit", system: str = "triclinic") -> Experiment:
    """S0 exactly: 450 patches of 10 points, learned positions, cls, four layers, 64 → the cell.

    `vitreous train powder-vit --system triclinic --out RUN`. On an H200: triclinic test MAPE 7.46 % (noisy).
    """
    check_choice("model", model, ("vit",))
    config = ViTConfig(input=_INPUT, patch=(10,), dim=64, depth=4, heads=4, head=(64,))
    return _experiment(system, config, TrainConfig(steps=8000, batch=256, lr=1e-3, evaluate_every=1000, keep="last"))


def powder_cnn(model: str = "cnn", system: str = "triclinic") -> Experiment:
    """S0.7: a residual CNN with a non-local block.

    `vitreous train powder-cnn --system triclinic --out RUN`. On an H200: triclinic test MAPE 7.25 % (noisy).
    """
    check_choice("model", model, ("cnn",))
    config = CNNConfig(
        input=_INPUT, widths=(32, 64, 128, 256), kernel=5, stem="large", nonlocal_after=(2,), pool="flatten", head=(64,)
    )
    return _experiment(system, config, TrainConfig(steps=8000, batch=256, lr=1e-3, evaluate_every=1000, keep="last"))


def powder_best(model: str = "vit", system: str = "triclinic") -> Experiment:
    """A transformer whose tokens are the first 31 peaks, with several hypotheses.

    `vitreous train powder-best --system triclinic --minutes 8.7 --out RUN`. On an H200, 9,803 steps in 522 s: triclinic
    test MAPE 3.52 % (noisy) and 1.94 % (clean); docs/powder.md has the table.
    """
    check_choice("model", model, ("vit",))
    config = ViTConfig(
        input=_INPUT, tokens="peaks", peaks=31, position="none", spacing=(Q_AXIS.spacing,), dim=384, depth=10, heads=6,
        head=(256,),
    )  # fmt: skip
    settings = TrainConfig(
        steps=10_000, batch=2048, lr=2e-3, optimiser="muon", ema=0.999, evaluate_every=1000, keep="last"
    )
    return _experiment(system, config, settings, hypotheses=4)


def powder_index(model: str = "vit") -> Experiment:
    """Lattices of every system from lists of lines: the proposals with which `vitreous index` begins.

    `vitreous train powder-index --minutes 8.2 --out RUN`, and `--resume` to go on after a stop. The weights in
    `vitreous/powder/proposer/` (half precision) had 11,265 steps in 492 s on an H200.
    """
    check_choice("model", model, ("vit",))
    config = ViTConfig(
        input=(len(ROWS), LINES), tokens="lines", position="none", dim=320, depth=9, heads=5, head=(256,)
    )  # fmt: skip
    settings = TrainConfig(
        steps=16_000, batch=2048, lr=2e-3, optimiser="muon", ema=0.999, evaluate_every=1000, keep="last"
    )
    return Experiment(list_source(), config, settings, scale="none", loss="l1", hypotheses=8)


def _experiment(system: str, config: Config, settings: TrainConfig, hypotheses: int = 0) -> Experiment:
    source = powder_source(system, Effects())
    return Experiment(source, config, settings, scale="root", loss="l1", hypotheses=hypotheses)
