"""Commands that show what there is: models, the gallery, how fast a model is here, a first training."""

from pathlib import Path
from typing import Annotated, Literal

from tyro.conf import Positional, arg


def models(pattern: Annotated[str, Positional, arg(metavar="[PATTERN]")] = "*", *, json: bool = False) -> None:
    """List the named models with their size and cost.

    Args:
        pattern: show only names like this, e.g. 'vit_base*'.
        json: print JSON instead of a table.
    """
    from vitreous.zoo.show import print_models

    print_models(pattern, as_json=json)


def gallery() -> None:
    """List the physics gallery: spins, showers, jets, lenses, light curves and chirps, each with its simulator.

    vitreous train ising --out run

    trains an entry and ends with figures of the physics and of what the model found.
    """
    from vitreous.gallery.show import print_gallery

    print_gallery()


def summary(model: Annotated[str, Positional, arg(metavar="MODEL")]) -> None:
    """Show the parts of a model in the order the data passes them.

    Args:
        model: a name from 'vitreous models', or a folder with a config.json.
    """
    from vitreous.zoo.show import print_summary

    print_summary(model)


def bench(
    model: Annotated[str, Positional, arg(metavar="[RUN|MODEL]")] = "vit_spectrum_4500",
    *,
    batch: tuple[int, ...] = (),
    device: Literal["auto", "cpu", "cuda"] = "auto",
    precision: Literal["auto", "float32", "bfloat16"] = "auto",
    train: bool = False,
    compile: bool = False,
    json: bool = False,
) -> None:
    """Measure how fast a model is here, how much memory it takes and how near it comes to what the machine can do.

    vitreous bench vit_small_patch16_224 --batch 1 8 --train

    timm, transformers and vit-pytorch run the same model in the same rounds, where they are installed and have it. What
    the machine can do is measured first, by a large matrix product and a large copy: no step is shorter than its
    operations and its bytes take at those rates. A run is also timed as vitreous predict uses it.

    Latency is the median and p90 at batch 1. Peak memory is that of weights, inputs and all between: on a GPU that of
    torch's allocator, on a CPU that of a process of its own, not compiled.

    Args:
        model: folder of a run, or a name from 'vitreous models'.
        batch: samples of a step, one number or several; 1 is added for the latency.
        device: where to run.
        precision: auto is bfloat16 by autocast on a GPU that has it, float32 elsewhere.
        train: time forward, backward and optimiser instead of a forward.
        compile: with torch.compile, all libraries alike.
        json: print JSON (seconds, bytes, operations) instead of tables.
    """
    from vitreous.bench.show import print_bench

    print_bench(model, batch, device, precision, train, compile, as_json=json)


def demo(out: Path | None = None) -> None:
    """Train a transformer and a CNN on handwritten digits in about a minute, compare them, and draw how it went.

    Args:
        out: folder for the runs, the figure and the report; a temporary one if not given.
    """
    from vitreous.demo import run

    run(out)
