"""`vitreous report`: one HTML file about a run."""

from collections.abc import Sequence
from pathlib import Path

from vitreous.cli.options import PartOption, RunArgument, TargetOption


def report(
    run: RunArgument,
    *,
    out: Path | None = None,
    data: str | None = None,
    target: TargetOption = (),
    part: PartOption = "test",
    against: tuple[str, ...] = (),
) -> None:
    """Write one HTML file about a run: curves, mistakes, calibration, settings. It needs no network.

    The answers on the test part are in the run folder; name data to look at others, or at what the errors depend on:
    vitreous report RUN --data spectra.csv --target assay --against temperature operator

    Args:
        out: the HTML file; report.html in the run folder if not given.
        data: digits, mnist, a recipe, a folder of images or a file of spectra, labelled.
        against: further columns of the data, to draw the errors against.
    """
    print(f"The report is in {write_run_report(run, out, data, target, part, against)}")


def write_run_report(
    run: Path,
    out: Path | None = None,
    data: str | None = None,
    targets: Sequence[str] = (),
    part: str = "test",
    against: Sequence[str] = (),
) -> Path:
    """Write the report of a run, from its folder or on the named data; returns its path."""
    from vitreous.core.errors import InputError
    from vitreous.data import read_columns
    from vitreous.insight.report import read_run, write_report
    from vitreous.recipes.jobs import load_run_data, part_rows

    content = read_run(run)
    if data is None:
        for name, value in (("target", targets), ("against", against), ("part", part != "test")):
            if value:
                raise InputError(f"{name}: needs data, named with --data; {run} stores the answers on its test part")
        return write_report(content, out)
    source = load_run_data(run, data, targets)
    if against and not Path(data).is_file():
        raise InputError(f"against: is a column of a file of spectra; {data} has none")
    columns = read_columns(data, against) if against else {}
    rows = part_rows(run, content.predictor, source, part)
    flags = (("data", [data]), ("target", targets), ("part", [part] if part != "test" else []), ("against", against))
    options = [word for name, words in flags if words for word in (f"--{name}", *words)]
    return write_report(content, out, source, rows, part, columns, options)
