"""Series of the physics gallery (S2.11): chirps in the noise of an interferometer, light curves of supernovae."""

from vitreous.errors import check_choice
from vitreous.nn import CNNConfig, ViTConfig
from vitreous.sim.chirps import chirps_source
from vitreous.sim.curves import curves_source
from vitreous.train.config import TrainConfig
from vitreous.train.run import Experiment


def chirps(model: str = "vit") -> Experiment:
    """Is there a chirp in a second of whitened strain? Half of the segments hold one, of signal-to-noise ratio 4 to 16.

    `vitreous train chirps --out RUN [--model cnn]`: under four minutes of an H200 (CNN: 87 s). At 1 % false alarms and
    ratios of 5, 6 and 7 it finds 97, 97 and 99 % of what the matched filter does (CNN: 77, 86, 94).

    Patches are 62 ms long and begin every 8 ms, so that their projection can learn what matched filters are: pieces of
    a wave of several oscillations. In trials on a CPU (500 steps of 64 segments, width 96, a patch every 16 ms) the
    loss ended at 0.31 with a convolutional stem and patches of 16 ms, 0.25 with those of 62 ms, 0.23 with a relative
    bias too, and 0.28, 0.31 and 0.33 with patches of 125, 250 and 500 ms and two blocks rather than three. That of the
    averaged likelihood ratio is about 0.10.
    """
    check_choice("model", model, ("vit", "cnn"))
    source = chirps_source()
    if model == "cnn":
        settings = TrainConfig(steps=6000, batch=256, lr=1e-3, evaluate_every=500, compile="graph")
        config = CNNConfig(input=source.input, widths=(32, 64, 128, 128, 128), kernel=15)
        return Experiment(source, config, settings, scale="none")
    return Experiment(
        source,
        ViTConfig(
            input=source.input,
            patch=(128,),
            stride=(16,),
            bias="relative",
            dim=192,
            depth=5,
            heads=6,
            pool="mean",
            cls=False,
        ),
        TrainConfig(steps=24_000, batch=512, lr=2e-3, optimiser="muon", ema=0.999, evaluate_every=3000),
        scale="none",
    )


def light_curves(model: str = "vit", system: str = "class") -> Experiment:
    """Which kind of supernova is it, or how far? An observation is a token, and its time a coordinate.

    `vitreous train light-curves --out RUN [--model deep-sets] [--system redshift]`: 80 s of an H200. Right, 3 seeds:
    0.969 (Deep Sets 0.935, boosted trees 0.908); redshifts to 0.036 in the mean (0.053, 0.059).

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
