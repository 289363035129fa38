"""The command `vitreous powder plot`."""

from pathlib import Path
from typing import Annotated, Literal

from tyro.conf import Positional, arg


def plot(
    files: Annotated[tuple[Path, ...], Positional, arg(metavar="FILE...")],
    out: Path,
    *,
    anode: str | None = None,
    wavelength: float | None = None,
    axis: Literal["two-theta", "q"] = "two-theta",
) -> None:
    """Draw measured patterns, several of them above each other.

    Files: .xy .xye .csv .dat .txt, .xrdml, .ras, .rasx, .raw, .brml, .gsa, .gsas, .fxye and powder .cif, also with .gz.

    Args:
        files: the patterns.
        out: file of the figure: .png, .pdf or .svg.
        anode: anode of the X-ray tube, e.g. Cu; replaces the radiation that the files state.
        wavelength: ångström; replaces the wavelength that the files state.
        axis: 2θ in degrees, or the scattering vector in 1/Å, which needs the wavelength.
    """
    from vitreous.core.terminal import console
    from vitreous.insight.style import check_format
    from vitreous.powder.figures.pattern import pattern_figure
    from vitreous.powder.files import read_pattern

    check_format(out)
    patterns = [read_pattern(file, wavelength, anode) for file in files]
    pattern_figure(patterns, out, title=patterns[0].name if len(patterns) == 1 else "", axis=axis)
    console().print(f"{len(patterns)} pattern(s) drawn in {out}", highlight=False)
