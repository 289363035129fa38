"""Commands that ask runs: score, predict, explain, compare and report."""

from pathlib import Path
from typing import Annotated, Literal

from tyro.conf import Positional, arg


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
