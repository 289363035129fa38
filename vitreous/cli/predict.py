"""`vitreous predict`: predict the samples in files."""

import sys
from pathlib import Path
from typing import Annotated, Literal

from tyro.conf import Positional, arg

from vitreous.cli.options import (
    NO_READ_FLAGS,
    MergeOption,
    PatternAnodeOption,
    PatternWavelengthOption,
    ReadOption,
)


def predict(
    run: Annotated[Path, Positional, arg(metavar="RUN")],
    files: Annotated[tuple[str, ...], Positional, arg(metavar="FILE...")],
    *,
    interval: float | None = None,
    anode: PatternAnodeOption = None,
    wavelength: PatternWavelengthOption = None,
    reading: ReadOption = NO_READ_FLAGS,
    merge: MergeOption = (),
    refuse_unfamiliar: bool = False,
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
        reading: how files of powder patterns are read.
        refuse_unfamiliar: predict nothing if a sample is unlike the training data (familiarity below 0.01).
        format: csv or json.
        out: write to this file instead of printing.
    """
    from vitreous.core.atomic import write_atomically
    from vitreous.core.errors import InputError
    from vitreous.powder.files.reading import ReadOptions
    from vitreous.predict import describe_unfamiliar, format_records, predict_files
    from vitreous.run.folder import translates

    if translates(run):
        from vitreous.text.runs import refuse_options, translate

        options = {"interval": interval, "anode": anode, "wavelength": wavelength, "merge": merge, **vars(reading)}
        refuse_options(run, options | {"refuse_unfamiliar": refuse_unfamiliar})
        records = translate(run, files)
    else:
        records = predict_files(run, files, interval, anode, wavelength, merge, ReadOptions(**vars(reading)))
        if refuse_unfamiliar and "familiarity" not in records[0]:
            raise InputError(
                f"refuse-unfamiliar: {run} does not say how familiar samples are; train or export it again"
            )
        if warning := describe_unfamiliar(records):
            if refuse_unfamiliar:
                raise InputError(warning)
            print(f"vitreous: warning: {warning}", file=sys.stderr)
    text = format_records(records, format)
    if out is None:
        print(text, end="")
    else:
        write_atomically(out, text.encode())
