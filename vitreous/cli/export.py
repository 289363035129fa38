"""`vitreous export`: a run's model as one file."""

from pathlib import Path
from typing import Any, Literal

from vitreous.cli.options import RunArgument


def export(
    run: RunArgument,
    out: Path,
    *,
    format: Literal["onnx", "torch"] = "onnx",
    int8: bool = False,
    data: str | None = None,
    target: tuple[str, ...] = (),
) -> None:
    """Write a run's model to one file that vitreous predict takes in its place; ONNX needs no torch.

    The file takes raw samples and gives physical quantities, as the run does; the largest difference is printed.

    Args:
        out: the file: .onnx, or .safetensors for --format torch.
        format: onnx, for onnxruntime anywhere, or torch: weights, model and task in one file.
        int8: 8-bit weights and matrix multiplication in the ONNX file, faster on a CPU; the cost is measured.
        data: for --int8: labelled data to measure on; the run's own data if not given.
        target: for --int8: the label columns of these data, as in train.
    """
    from vitreous.cli.output import print_line
    from vitreous.core.errors import InputError
    from vitreous.export.files import check_path, export_run
    from vitreous.run.predictor import load

    check_path(out, format)
    if int8 and format != "onnx":
        raise InputError(f"int8: is for --format onnx, found {format}")
    if not int8 and (data is not None or target):
        raise InputError("data, target: are labelled data to measure the loss of --int8 on; leave them out here")
    predictor = load(run)
    if int8:
        source, calibration, rows = _int8_data(run, predictor, data, target)
        x = predictor.on_axis(source)
        exported = export_run(run, out, format, predictor.check(x[calibration]), predictor)
        _print_cost(predictor, exported, predictor.check(x[rows]), source, rows)
    else:
        exported = export_run(run, out, format, predictor=predictor)
    difference = " and ".join(f"{value:.1e} at batch {size}" for size, value in exported.parity.items())
    print_line(f"Largest difference from the run: {difference}")
    print_line(f"{len(exported.content) / 1e6:.2f} MB; the model is in {out}")


def _int8_data(run: Path, predictor: Any, data: str | None, target: tuple[str, ...]) -> tuple[Any, Any, Any]:
    """Labelled data with the rows to calibrate on and the rows to measure on."""
    from vitreous.core.errors import InputError
    from vitreous.export.int8 import CALIBRATION
    from vitreous.recipes.jobs import load_run_data, part_rows
    from vitreous.run.answers import evenly

    try:
        source = load_run_data(run, data, target)
    except InputError as fault:
        if data is not None:
            raise
        raise InputError(f"int8: its loss cannot be measured ({fault}); name labelled data with --data") from None
    calibration, rows = (part_rows(run, predictor, source, part) for part in ("train", "test"))
    if not len(rows):
        raise InputError(f"int8: {source.name} has no test part on which its loss could be measured")
    return source, calibration[evenly(len(calibration), CALIBRATION)], rows


def _print_cost(predictor: Any, exported: Any, x: Any, source: Any, rows: Any) -> None:
    """Print a table of a run's scores and those of the int8 model."""
    from vitreous.cli.output import main_scores, print_table
    from vitreous.export.files import compare_scores

    scores = compare_scores(predictor, exported.predictor, x, source.y[rows])
    title = f"Cost of int8 on the {len(rows):,} samples of the test part of {source.name}"
    changes = [(name, *scores[name]) for name in main_scores(scores)]
    lines = [(name, f"{before:.5g}", f"{after:.5g}", f"{after - before:+.2g}") for name, before, after in changes]
    print_table(title, ("score", "run", "int8", "change"), lines)
