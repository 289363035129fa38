"""The commands `vitreous powder ...`: their flags, apart from what they do (`vitreous/powder/`)."""

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Literal

from tyro.conf import Positional, arg

Degrees = Annotated[tuple[float, ...], arg(metavar="DEG [DEG]", help_behavior_hint="")]
Number = Annotated[tuple[float, ...], arg(metavar="X [X]", help_behavior_hint="")]


def powder(command: Callable[[], None]) -> None:
    """Powder diffraction: simulate the pattern of a crystal, draw measured ones.

    vitreous powder simulate quartz.cif --out quartz.xy --figure quartz.png

    vitreous powder plot measured.xrdml quartz.xy --out both.png

    To find unit cells: vitreous index measured.xrdml
    """
    command()


def simulate(
    crystal: Annotated[Path | None, Positional, arg(metavar="[CIF]", help_behavior_hint="")] = None,
    *,
    cell: Annotated[tuple[float, ...], arg(metavar="A B C ALPHA BETA GAMMA", help_behavior_hint="")] = (),
    spacegroup: int | None = None,
    random: str | None = None,
    out: Path | None = None,
    figure: Path | None = None,
    anode: str | None = None,
    wavelength: float | None = None,
    two_theta: tuple[float, float] = (5.0, 90.0),
    points: int | None = None,
    clean: bool = False,
    seed: int = 0,
    alpha2: Number = (),
    zero: Degrees = (),
    displacement: Degrees = (),
    width: Degrees = (),
    slope: Number = (),
    dip: Number = (),
    mixing: Number = (),
    asymmetry: Number = (),
    texture: Number = (),
    background: Number = (),
    hump: Number = (),
    impurity: Number = (),
    counts: Number = (),
) -> None:
    """Simulate the powder pattern of a crystal as a diffractometer measures it.

    The crystal is a CIF, a cell (--cell, with random intensities) or a random one (--random). An effect of the
    measurement is one value, or two to draw from; those that are not given are drawn as for a laboratory
    diffractometer, and printed.

    Args:
        crystal: the crystal's file.
        cell: lengths in ångström, angles in degrees.
        spacegroup: number of the cell's space group, 1 to 230; 1 if not given.
        random: crystal system of a random crystal, e.g. triclinic.
        out: write the pattern here: .xy, .xye or .csv.
        figure: draw it here, with the reflections marked: .png, .pdf or .svg.
        anode: of the X-ray tube: Cr, Fe, Co, Cu, Ga, Mo, Ag or W; Cu if no wavelength is given either.
        wavelength: ångström, 0.1 to 10, in place of an anode.
        two_theta: first and last angle, degrees.
        points: of the pattern; a step of 0.02 degrees if not given.
        clean: no effects but those that are given; without noise the highest point is 1.
        seed: of everything that is random.
        alpha2: intensity of Kα2 relative to Kα1, 0 to 1; usually 0 to 0.5.
        zero: zero shift in degrees, -0.5 to 0.5; usually -0.04 to 0.04.
        displacement: shift by a displaced sample, times cos θ, in degrees, -0.5 to 0.5; usually -0.03 to 0.03.
        width: full width at half maximum at 2θ = 30°, in degrees, 0.01 to 2; usually 0.05 to 0.15.
        slope: growth of the squared width with tan² θ, relative, 0 to 0.5; usually 0 to 0.3.
        dip: the same with tan θ, -0.4 to 0; usually -0.3 to 0.
        mixing: Lorentzian share of the profile, 0 to 1; usually 0.1 to 0.9.
        asymmetry: axial divergence, half the slit's height over the radius, 0 to 0.05; usually 0 to 0.02.
        texture: March-Dollase parameter of preferred orientation, 0.2 to 5, 1 for none; usually 0.7 to 1.3.
        background: height relative to the strongest line, 0 to 10; usually 0 to 0.05.
        hump: height of an amorphous hump relative to the strongest line, 0 to 10; usually 0 to 0.03.
        impurity: lines of another crystal, relative to the crystal's own, 0 to 1; usually 0 to 0.02.
        counts: in the strongest line, with Poisson's noise, 0 (no noise) to 1e9; usually 3e3 to 1e5.
    """
    from vitreous.powder import commands

    given = {
        "alpha2": alpha2, "zero": zero, "displacement": displacement, "width": width, "slope": slope, "dip": dip,
        "mixing": mixing, "asymmetry": asymmetry, "texture": texture, "background": background, "hump": hump,
        "impurity": impurity, "counts": counts,
    }  # fmt: skip
    wanted = commands.Wanted(crystal, cell, spacegroup, random)
    settings = {"two_theta": two_theta, "points": points, "anode": anode, "wavelength": wavelength, "clean": clean}
    commands.simulate(wanted, {name: ends for name, ends in given.items() if ends}, settings, seed, out, figure)


def example(
    name: Annotated[Literal["triclinic", "thiosulfate"], Positional],
    *,
    out: Path | None = None,
) -> None:
    """Write a pattern that comes with the package, to try things out.

    Args:
        name: triclinic: simulated as in a laboratory | thiosulfate: measured at a synchrotron.
        out: the file: .xy, .xye or .csv; NAME.xy if not given.
    """
    from vitreous.powder import commands

    commands.write_example(name, out or Path(f"{name}.xy"))


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
        out: the figure: .png, .pdf or .svg.
        anode: of the X-ray tube, e.g. Cu, in place of what the files say.
        wavelength: ångström, in place of what the files say.
        axis: 2θ in degrees, or the scattering vector in 1/Å, for which the wavelength must be known.
    """
    from vitreous.powder import commands

    commands.plot(files, out, anode, wavelength, axis)


def index(
    files: Annotated[tuple[Path, ...], Positional, arg(metavar="FILE...")],
    *,
    anode: str | None = None,
    wavelength: float | None = None,
    peaks: bool = False,
    system: Annotated[tuple[str, ...], arg(metavar="SYSTEM...")] = (),
    most: int = 5,
    figure: Path | None = None,
    report: Path | None = None,
    json: bool = False,
) -> None:
    """Find the unit cell of powder patterns.

    Files are measured patterns of any usual format, or folders of them. Every crystal system is searched; the best
    cell is refined on the whole pattern.

    Args:
        files: patterns, or folders of patterns.
        anode: of the X-ray tube, e.g. Cu, in place of what the files say.
        wavelength: ångström, in place of what the files say.
        peaks: the files are lists of lines: 2θ in degrees, and intensity if known, one a row.
        system: search these only: cubic, hexagonal (and trigonal), tetragonal, orthorhombic, monoclinic, triclinic.
        most: cells to show.
        figure: draw the fit here, for one pattern: .png, .pdf or .svg.
        report: write one HTML page about it here, for one pattern.
        json: print JSON in place of a table.
    """
    from vitreous.powder import indexing
    from vitreous.powder.solve import LATTICES

    wanted = indexing.Wanted(anode, wavelength, peaks, system or tuple(LATTICES), most)
    indexing.index_files(files, wanted, figure, report, json)
