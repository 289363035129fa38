"""`vitreous bench`: speed and memory of a model."""

from typing import Annotated, Literal

from tyro.conf import Positional, arg


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
    from vitreous.bench.tables import print_bench

    print_bench(model, batch, device, precision, train, compile, as_json=json)
