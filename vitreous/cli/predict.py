"""`vitreous predict`: predict the samples in files."""

from pathlib import Path
from typing import Annotated, Literal

from tyro.conf import Positional, arg

from vitreous.cli.options import MergeOption, PatternAnodeOption, PatternWavelengthOption


def predict(
    run: Annotated[Path, Positional, arg(metavar="RUN")],
    files: Annotated[tuple[str, ...], Positional, arg(metavar="FILE...")],
    *,
    interval: float | None = None,
    anode: PatternAnodeOption = None,
    wavelength: PatternWavelengthOption = None,
    merge: MergeOption = (),
    format: Literal["csv", "json"] = "csv",
    out: Path | None = None,
) -> None:
    """Predict files of spectra or images: physical quantities with units and intervals, or class probabilities.

    A run of a powder recipe takes measured patterns of any usual format and wavelength, one per file. A run that
    translates takes texts, or .txt files with one text per line.

    Args:
        run: folder of the run, or a file made by vitreous export.
        files: spectra (every row is predicted), images or powder patterns; or texts.
        interval: coverage of an interval around each value, e.g. 0.9.
        format: csv or json.
        out: write to this file instead of printing.
    """
    from vitreous.core.atomic import write_atomically
    from vitreous.predict import format_records, predict_files
    from vitreous.run.folder import translates

    if translates(run):
        from vitreous.text.runs import refuse_options, translate

        refuse_options(run, {"interval": interval, "anode": anode, "wavelength": wavelength, "merge": merge})
        records = translate(run, files)
    else:
        records = predict_files(run, files, interval, anode, wavelength, merge)
    text = format_records(records, format)
    if out is None:
        print(text, end="")
    else:
        write_atomically(out, text.encode())
