"""Series of the physics gallery (S2.11): chirps in the noise of an interferometer, light curves of supernovae."""

from vitreous.errors import check_choice
from vitreous.nn import CNNConfig, ViTConfig
from vitreous.sim.chirps import chirps_source
from vitreous.sim.curves import curves_source
from vitreous.train.config import TrainConfig
from vitreous.train.run import Experiment


def chirps(model: str = "vit") -> Experiment:
    """Is there a chirp in a second of whitened strain? Half of the segments hold one, of signal-to-noise ratio 4 to 16.

    `vitreous train chirps --out RUN [--model cnn]`. Not measured on a GPU yet.

    Patches are a quarter of a second long and begin every 8 ms, so that the projection can learn what a matched filter
    is: long templates. In a trial on a CPU with chirps of 0.17 s, at 1 % false alarms, short patches (16 samples) found
    58 % of the signals of ratio 5 after 600 steps, long ones (128 samples) 80 %, and the matched filter 90 %.
    """
    check_choice("model", model, ("vit", "cnn"))
    source = chirps_source()
    if model == "cnn":
        config = CNNConfig(input=source.input, widths=(32, 64, 128, 128, 128), kernel=15)
        return Experiment(source, config, TrainConfig(steps=6000, batch=256, lr=1e-3, evaluate_every=500), scale="none")
    return Experiment(
        source,
        ViTConfig(input=source.input, patch=(512,), stride=(16,), dim=192, depth=4, heads=6, pool="mean", cls=False),
        TrainConfig(steps=8000, batch=512, lr=2e-3, optimiser="muon", ema=0.999, evaluate_every=500),
        scale="none",
    )


def light_curves(model: str = "vit", system: str = "class") -> Experiment:
    """Which kind of supernova is it, or how far? An observation is a token, and its time a coordinate.

    `vitreous train light-curves --out RUN [--model deep-sets] [--system redshift]`. Not measured on a GPU yet.

    `deep-sets` is the same network without attention: observations meet in the mean alone. The redshift comes with its
    own uncertainty, and with intervals that the validation part calibrates.
    """
    check_choice("model", model, ("vit", "deep-sets"))
    source = curves_source(system)
    config = ViTConfig(
        input=source.input, tokens="packed", axes=1, spacing=(30.0,), dim=192, depth=5, heads=6,
        head=(192,), pool="mean", cls=False, attention={"vit": "full", "deep-sets": "none"}[model],
    )  # fmt: skip
    settings = TrainConfig(steps=6000, batch=1024, lr=2e-3, optimiser="muon", ema=0.999, evaluate_every=500)
    return Experiment(source, config, settings, scale="none", loss="gaussian" if system == "redshift" else "")
