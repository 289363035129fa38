"""The commands. Each is a function; its signature and docstring are its flags and help."""

import contextlib
import functools
import io
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, NoReturn, Union

import tyro
from tyro.conf import Positional, arg, subcommand

from vitreous import __version__, powder_cli
from vitreous.errors import InputError


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


def train(
    data: Annotated[str, Positional, arg(metavar="RECIPE_OR_DATA")],
    out: Path,
    *,
    target: tuple[str, ...] = (),
    model: str | None = None,
    system: str | None = None,
    start: Annotated[Path | None, arg(name="from", metavar="RUN")] = None,
    freeze: bool = False,
    layer_decay: float | None = None,
    resume: bool = False,
    epochs: float | None = None,
    steps: int | None = None,
    minutes: float | None = None,
    batch: int | None = None,
    lr: float | None = None,
    optimiser: Literal["adamw", "muon"] | None = None,
    accumulate: int | None = None,
    shard: bool = False,
    precision: Literal["auto", "float32", "bfloat16", "float8"] | None = None,
    stream: Literal["float32", "bfloat16"] | None = None,
    seed: int | None = None,
    device: Literal["auto", "cpu", "cuda"] = "auto",
    tensorboard: bool = False,
) -> None:
    """Train a model on a recipe's data or on your own, and leave a run folder.

    Recipes: digits, mnist, mnist-cpu; powder-best, powder-vit, powder-cnn, whose powder patterns are simulated as the
    training goes on; translate-en-de; those of 'vitreous gallery'. Your own data: a folder with one folder of images
    for each class, or a file of spectra (.csv, .parquet, .npz, .npy, .h5), one a row. Settings that are not given are
    the recipe's.

    Args:
        data: a recipe, a folder of images or a file of spectra.
        out: folder of the run.
        target: columns to predict, with units if they have any, e.g. 'assay:mg'.
        model: vit or cnn, Vision Transformer or residual CNN; for texts transformer or gru-SCORE, recurrent with one of
            the scores of attention, e.g. gru-additive; of the gallery, what it lists; the recipe's own if not given.
        system: which of a recipe's systems: crystal system of the powder recipes, e.g. monoclinic; those of the physics
            gallery are listed by 'vitreous gallery'.
        start: begin with the encoder of a finished run, of vitreous pretrain or of other labels; the head is new.
        freeze: with --from: train the head alone.
        layer_decay: with --from: factor of the learning rate from each layer to the one below, e.g. 0.75.
        resume: go on with a run that was stopped, or begin it.
        epochs: times that every sample is seen.
        steps: optimiser steps, instead of epochs.
        minutes: time that the training may take; the learning rate then falls with the time.
        batch: samples of a step; of texts, tokens.
        lr: highest learning rate.
        optimiser: AdamW, or Muon for the matrices.
        accumulate: parts into which each batch is cut to save memory.
        shard: share the model among the processes of a torchrun (FSDP) instead of giving each its own.
        precision: auto is bfloat16 on a GPU that has it, float32 elsewhere; float8 has products of eight bits.
        stream: what tokens are kept in between the blocks; bfloat16 is faster, and fine where three digits are.
        seed: of everything that is random.
        device: where to train.
        tensorboard: write curves for TensorBoard too.
    """
    from vitreous import commands
    from vitreous.train.recipes import TEXTS

    changes = {
        "epochs": epochs, "steps": steps, "minutes": minutes, "batch": batch, "lr": lr, "optimiser": optimiser,
        "accumulate": accumulate, "shard": shard or None, "precision": precision, "stream": stream, "seed": seed,
        "layer_decay": layer_decay, "freeze": freeze or None,
    }  # fmt: skip
    make = commands.text_experiment if data in TEXTS else commands.experiment
    made = make(data, target, model, changes, system, start)
    commands.run_training(made, out, resume, device, tensorboard)


def pretrain(
    data: Annotated[str, Positional, arg(metavar="RECIPE_OR_DATA")],
    out: Path,
    *,
    method: Literal["masked", "denoise", "contrast"] = "masked",
    ratio: float | None = None,
    target: tuple[str, ...] = (),
    system: str | None = None,
    resume: bool = False,
    epochs: float | None = None,
    steps: int | None = None,
    minutes: float | None = None,
    batch: int | None = None,
    lr: float | None = None,
    optimiser: Literal["adamw", "muon"] | None = None,
    precision: Literal["auto", "float32", "bfloat16", "float8"] | None = None,
    seed: int | None = None,
    device: Literal["auto", "cpu", "cuda"] = "auto",
    tensorboard: bool = False,
) -> None:
    """Train an encoder without labels, and leave a run folder for vitreous train ... --from.

    masked: hide most tokens and predict what they hold. denoise: restore damaged samples. contrast: recognise two views
    of one sample among those of others; views differ by what the recipe's augmentation does.

    vitreous pretrain spectra.csv --target assay:mg --out before

    vitreous train spectra.csv --target assay:mg --from before --layer-decay 0.75 --out run

    Args:
        data: a recipe, a folder of images or a file of spectra.
        out: folder of the run.
        method: how to learn without labels.
        ratio: with masked: share of the tokens that is hidden.
        target: columns that are labels; they are left out.
        system: crystal system of the powder recipes, e.g. monoclinic.
        resume: go on with a run that was stopped, or begin it.
        epochs: times that every sample is seen.
        steps: optimiser steps, instead of epochs.
        minutes: time that the training may take; the learning rate then falls with the time.
        batch: samples of a step; contrast wants large ones.
        lr: highest learning rate.
        optimiser: AdamW, or Muon for the matrices.
        precision: auto is bfloat16 on a GPU that has it, float32 elsewhere; float8 has products of eight bits.
        seed: of everything that is random.
        device: where to train.
        tensorboard: write curves for TensorBoard too.
    """
    from vitreous import commands

    changes = {
        "epochs": epochs, "steps": steps, "minutes": minutes, "batch": batch, "lr": lr, "optimiser": optimiser,
        "precision": precision, "seed": seed,
    }  # fmt: skip
    made = commands.pretraining(data, target, {"method": method, "ratio": ratio}, changes, system)
    commands.run_pretraining(made, out, resume, device, tensorboard)


def prune(
    run: Annotated[Path, Positional, arg(metavar="RUN")],
    out: Path,
    *,
    budget: float = 0.5,
    data: str | None = None,
    target: tuple[str, ...] = (),
    resume: bool = False,
    steps: int | None = None,
    batch: int | None = None,
    lr: float | None = None,
    device: Literal["auto", "cpu", "cuda"] = "auto",
) -> None:
    """Make a run faster: teach its blocks which tokens to merge and which to drop, and leave a new run folder.

    Each block learns two thresholds: how alike tokens must be to be merged, and how much attention a token must receive
    to stay. The weights do not change, so that it takes a small part of the time that the training took. The new run is
    used like any other. Without any training: vitreous predict RUN ... --merge 8

    Args:
        run: folder of a finished run of a Vision Transformer.
        out: folder of the new run.
        budget: share of its blocks' operations that the new run may spend, up to 1.
        data: where the run's data lie now, if not where they were; or other data with the same labels.
        target: the label columns, if the run does not know them.
        resume: go on where it was stopped, or begin.
        steps: optimiser steps.
        batch: samples of a step; the recipe's own if not given.
        lr: highest learning rate of the thresholds.
        device: where to train.
    """
    from vitreous import commands

    made = commands.pruning(run, budget, data, target, {"steps": steps, "batch": batch, "lr": lr})
    commands.run_training(made, out, resume, device, tensorboard=False)


def evaluate(
    run: Annotated[Path, Positional, arg(metavar="RUN")],
    data: Annotated[str | None, Positional, arg(metavar="[DATA]")] = None,
    *,
    target: tuple[str, ...] = (),
    part: Literal["all", "train", "validation", "test"] = "test",
    merge: tuple[int, ...] = (),
) -> None:
    """Score a run on labelled data.

    Args:
        run: folder of the run.
        data: digits, mnist, a folder of images or a file of spectra; to a run that translates a file with a source, a
            tab and a target in each line, or nothing for the data that it was trained on.
        target: the label columns, as in train.
        part: which part of the data; 'all' for data that the run has not seen.
        merge: tokens that every block merges into others, the most alike first, e.g. 8, up to half of them: faster.
            Several numbers are for the first blocks, one each, and those after merge none, e.g. 40 20.
    """
    from vitreous import commands

    for name, value in commands.evaluate(run, data, target, part, merge).items():
        print(f"{name:12s} {value:.6g}")


def predict(
    run: Annotated[Path, Positional, arg(metavar="RUN")],
    files: Annotated[tuple[str, ...], Positional, arg(metavar="FILE...")],
    *,
    interval: float | None = None,
    anode: str | None = None,
    wavelength: float | None = None,
    merge: tuple[int, ...] = (),
    format: Literal["csv", "json"] = "csv",
    out: Path | None = None,
) -> None:
    """Predict files of spectra or images: physical quantities with units and intervals, or class probabilities.

    A run of a powder recipe takes measured patterns of any usual format and wavelength, one a file. A run that
    translates takes texts, or .txt files of them, one a line.

    Args:
        run: folder of the run, or a file that vitreous export has made of it.
        files: spectra (every row is predicted), images or powder patterns; or texts.
        interval: coverage of an interval around each value, e.g. 0.9.
        anode: for powder patterns: of the X-ray tube, e.g. Cu, in place of what the files say.
        wavelength: for powder patterns: ångström, in place of what the files say.
        merge: tokens that every block merges into others, the most alike first, e.g. 8, up to half of them: faster.
            Several numbers are for the first blocks, one each, and those after merge none, e.g. 40 20.
        format: csv or json.
        out: write here instead of printing.
    """
    from vitreous.atomic import write_atomically
    from vitreous.predict import as_text
    from vitreous.predict import predict as predict_files

    text = as_text(predict_files(run, files, interval, anode, wavelength, merge), format)
    if out is None:
        print(text, end="")
    else:
        write_atomically(out, text.encode())


def explain(
    run: Annotated[Path, Positional, arg(metavar="RUN")],
    input: Annotated[str, Positional, arg(metavar="INPUT")],
    out: Path,
    *,
    row: int = 0,
    target: str | None = None,
    heads: bool = False,
    layer: tuple[int, ...] = (),
    anode: str | None = None,
    wavelength: float | None = None,
    merge: tuple[int, ...] = (),
) -> None:
    """Draw what an answer rests on: attention, rollout, attention × gradient and integrated gradients over the input.

    A test takes parts of the input away in the order of each map, and says which map tells the truth about this model.
    A CNN has no attention; it gets integrated gradients alone. Of a text and its translation, the alignment is drawn.

    Args:
        run: folder of the run.
        input: a file as for predict, or digits or mnist; or a text.
        out: the figure: .png, .pdf or .svg.
        row: which sample of the file, counted from 0.
        target: the class or quantity to explain; the predicted class or the first quantity if not given.
        heads: draw instead where every head of every layer looks.
        layer: the same for these layers alone, counted from 0, or from the end with -1.
        anode: for powder patterns: of the X-ray tube, e.g. Cu, in place of what the file says.
        wavelength: for powder patterns: ångström, in place of what the file says.
        merge: tokens that every block merges into others, the most alike first, e.g. 8, up to half of them: faster.
            Several numbers are for the first blocks, one each, and those after merge none, e.g. 40 20.
    """
    from vitreous import commands

    for line in commands.explain(run, input, out, row, target, layer, heads, anode, wavelength, merge):
        print(line)
    print(f"The figure is in {out}")


def sweep(
    data: Annotated[str, Positional, arg(metavar="RECIPE_OR_DATA")],
    out: Path,
    *,
    target: tuple[str, ...] = (),
    dim: tuple[int, ...] = (32, 64, 128),
    patch: tuple[int, ...] = (2, 4, 7),
    depth: tuple[int, ...] = (1, 3, 6),
    steps: int | None = None,
    epochs: float | None = None,
    seed: int | None = None,
    device: Literal["auto", "cpu", "cuda"] = "auto",
) -> None:
    """Train every combination of width, patch and depth, and draw what each does to the score.

    It goes on where it stopped; start it again on the same folder, also beside itself, to share the work.

    Args:
        data: a recipe, a folder of images or a file of spectra.
        out: folder of the study.
        target: columns to predict, as in train.
        dim: widths to try.
        patch: patches to try, in samples.
        depth: numbers of blocks to try.
        steps: optimiser steps of each training.
        epochs: times that every sample is seen in each training.
        seed: of everything that is random.
        device: where to train.
    """
    from vitreous import commands

    made = commands.experiment(data, target, "vit", {"steps": steps, "epochs": epochs, "seed": seed})
    commands.run_sweep(made, out, {"dim": dim, "patch": patch, "depth": depth}, device)


def compare(runs: Annotated[tuple[Path, ...], Positional, arg(metavar="RUN...")]) -> None:
    """Print one table of several runs: size, time and scores on their test parts.

    Args:
        runs: folders of finished runs.
    """
    from vitreous import commands

    commands.print_results(runs)


def report(
    run: Annotated[Path, Positional, arg(metavar="RUN")],
    *,
    out: Path | None = None,
    data: str | None = None,
    target: tuple[str, ...] = (),
    part: Literal["all", "train", "validation", "test"] = "test",
    against: tuple[str, ...] = (),
) -> None:
    """Write one HTML file with all that a run tells: curves, mistakes, calibration, settings. It needs no network.

    The answers on the test part are in the run folder; name data to look at others, or at what the errors depend on:
    vitreous report RUN --data spectra.csv --target assay --against temperature operator

    Args:
        run: folder of the run.
        out: the HTML file; report.html in the run folder if not given.
        data: digits, mnist, a recipe, a folder of images or a file of spectra, labelled.
        target: the label columns, as in train.
        part: which part of the data; 'all' for data that the run has not seen.
        against: further columns of the data, to draw the errors against.
    """
    from vitreous import commands

    print(f"The report is in {commands.report(run, out, data, target, part, against)}")


def export(
    run: Annotated[Path, Positional, arg(metavar="RUN")],
    out: Path,
    *,
    format: Literal["onnx", "torch"] = "onnx",
    int8: bool = False,
    data: str | None = None,
    target: tuple[str, ...] = (),
) -> None:
    """Write a run's model to one file that vitreous predict takes in its place; ONNX does without torch.

    The file takes raw samples and gives physical quantities, as the run does; how far the two are apart is printed.

    Args:
        run: folder of the run.
        out: the file: .onnx, or .safetensors for --format torch.
        format: onnx, for onnxruntime anywhere, or torch: weights, model and task in one file.
        int8: eight-bit weights and products in the ONNX file, faster on a CPU; what it costs is measured and printed.
        data: for --int8: labelled data to measure on; those that the run was trained on if not given.
        target: for --int8: the label columns of these data, as in train.
    """
    from vitreous import commands

    commands.export(run, out, format, int8, data, target)


def serve(
    runs: Annotated[tuple[Path, ...], Positional, arg(metavar="[RUN...]")] = (),
    *,
    powder: bool = False,
    host: str = "127.0.0.1",
    port: int = 8000,
    name: tuple[str, ...] = (),
    token_file: Path | None = None,
    device: Literal["cpu", "cuda"] = "cpu",
    batch: int | None = None,
    wait: float | None = None,
    queue: int | None = None,
    requests: int | None = None,
    body: int | None = None,
    points: int | None = None,
    pixels: int | None = None,
    rows: int | None = None,
    seconds: float | None = None,
    searches: int | None = None,
    search_queue: int | None = None,
    search_seconds: float | None = None,
    memory: int | None = None,
) -> None:
    """Answer over HTTP, with a page to try it on: predictions, what they rest on, and unit cells of powder patterns.

    vitreous serve runs/mnist assay.onnx --powder

    Then open http://127.0.0.1:8000. It listens on this machine alone unless told. Limits that are not given: see
    docs/serve.md, or /v1/models of a service that runs.

    Args:
        runs: folders of runs, and files that vitreous export has made.
        powder: find unit cells, too.
        host: address to listen at.
        port: to listen at; 0 for any that is free.
        name: other names of this machine under which it may be called, e.g. by a proxy before it.
        token_file: a file with the token that clients must send; VITREOUS_TOKEN is one, too.
        device: where runs compute.
        batch: samples that a model computes together.
        wait: milliseconds that a sample waits for others.
        queue: samples that may wait for a model.
        requests: requests that are worked on at a time.
        body: bytes of a request.
        points: of a pattern or a spectrum.
        pixels: of an image.
        rows: samples of a request.
        seconds: that an answer may take.
        searches: processes that search for cells.
        search_queue: searches that may wait.
        search_seconds: that a search may take.
        memory: megabytes of a process that searches or reads files.
    """
    from vitreous.data.extras import load_extra

    for module in ("fastapi", "uvicorn", "python_multipart", "prometheus_client"):
        load_extra(module, "serve")
    from vitreous.serve.command import serve as start
    from vitreous.serve.limits import Limits

    given = {
        "batch": batch, "wait": wait, "queue": queue, "requests": requests, "body": body, "points": points,
        "pixels": pixels, "rows": rows, "seconds": seconds, "searches": searches, "search_queue": search_queue,
        "search_seconds": search_seconds, "memory": memory,
    }  # fmt: skip
    limits = Limits(**{name: value for name, value in given.items() if value is not None})  # type: ignore[arg-type]
    start(runs, powder, host, port, name, token_file, device, limits)


def demo(out: Path | None = None) -> None:
    """Train a transformer and a CNN on handwritten digits in about a minute, compare them, and draw how it went.

    Args:
        out: folder for the runs, the figure and the report; a temporary one if not given.
    """
    from vitreous.demo import run

    run(out)


def powder(command: Callable[[], None]) -> None:
    """Powder diffraction: simulate the pattern of a crystal, draw measured ones.

    vitreous powder simulate quartz.cif --out quartz.xy --figure quartz.png

    vitreous powder plot measured.xrdml quartz.xy --out both.png

    To find unit cells: vitreous index measured.xrdml
    """
    command()


COMMANDS: dict[str, Callable[..., None]] = {
    "train": train,
    "pretrain": pretrain,
    "prune": prune,
    "eval": evaluate,
    "predict": predict,
    "explain": explain,
    "compare": compare,
    "report": report,
    "export": export,
    "serve": serve,
    "sweep": sweep,
    "gallery": gallery,
    "models": models,
    "summary": summary,
    "bench": bench,
    "index": powder_cli.index,
    "powder": powder,
    "demo": demo,
}
GROUPS: dict[str, dict[str, Callable[..., None]]] = {
    "powder": {"simulate": powder_cli.simulate, "plot": powder_cli.plot, "example": powder_cli.example},
}


def main(args: Sequence[str] | None = None) -> None:
    """Run one command; a user's mistake is one line and exit code 2."""
    args = list(sys.argv[1:] if args is None else args) or ["--help"]
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a table must not fail on a terminal that lacks its signs
            stream.reconfigure(errors="replace")
    if len(args) == 1 and args[0] in GROUPS:
        args.append("--help")
    if args == ["--version"]:
        print(f"vitreous {__version__}")
        return
    try:
        _parse(args)()
    except InputError as fault:
        _stop(str(fault))
    except ModuleNotFoundError as fault:
        if fault.name != "torch":
            raise
        _stop("this needs torch, which is not installed; vitreous predict MODEL.onnx does without it")
    except KeyboardInterrupt as stop:
        if str(stop):
            print(f"vitreous: {stop}", file=sys.stderr)
        sys.exit(130)
    except BrokenPipeError:  # whoever read our output, such as `head`, has left
        sys.stderr.close()
        sys.exit(141)


def _parse(args: Sequence[str]) -> Callable[[], None]:
    """The command to run, its arguments bound."""
    told = io.StringIO()
    try:
        with contextlib.redirect_stderr(told):
            command: Callable[[], None] = tyro.extras.subcommand_cli_from_dict(
                {
                    name: _grouped(function, GROUPS[name]) if name in GROUPS else _deferred(function)
                    for name, function in COMMANDS.items()
                },
                prog="vitreous",
                description=f"Vision Transformers for scientific data (version {__version__}).",
                args=args,
            )
            return command
    except SystemExit as end:
        if end.code:
            _stop(_one_line(told.getvalue()))
        raise


def _deferred(function: Callable[..., None]) -> Callable[..., Callable[[], None]]:
    """The same signature, but the call is only bound: parsing must end before the command's own output starts."""

    @functools.wraps(function)
    def bind(*args: Any, **kwargs: Any) -> Callable[[], None]:
        return functools.partial(function, *args, **kwargs)

    bind.__annotations__ = {**function.__annotations__, "return": Callable[[], None]}
    return bind


def _grouped(function: Callable[..., None], below: dict[str, Callable[..., None]]) -> Callable[..., Callable[[], None]]:
    """The same for a function whose only argument is one of the commands `below` it."""

    def bind(command: Callable[[], None]) -> Callable[[], None]:
        return functools.partial(function, command)

    kinds = [Annotated[Any, subcommand(name, constructor=_deferred(each))] for name, each in below.items()]
    bind.__annotations__["command"] = Annotated[Union[tuple(kinds)], arg(name="")]  # noqa: UP007
    bind.__doc__ = function.__doc__
    return bind


def _one_line(box: str) -> str:
    """tyro's message, drawn as a box of rules and bars, without its title and its pointer to --help."""
    _, *sections = [part for part in re.split(r"[╭╮╰╯─]+|-{5,}", box.replace("│", " ")) if part.strip()]
    told = [" ".join(part.split()).rstrip(".") for part in sections]
    told = [re.sub(r"^Perhaps you meant: (\S+?),? .*", r"did you mean \1?", part) for part in told]
    return "; ".join(part for part in told if not part.startswith("For full helptext"))


def _stop(message: str) -> NoReturn:
    print(f"vitreous: error: {message}", file=sys.stderr)
    sys.exit(2)


if __name__ == "__main__":
    main()
