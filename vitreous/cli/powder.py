"""`vitreous powder`: the commands simulate, plot, example and database."""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from tyro.conf import Positional, arg

from vitreous.cli.options import AnodeOption, ColumnsOption, ScanOption, WavelengthOption

if TYPE_CHECKING:
    from vitreous.powder.sim.effects import Effects
    from vitreous.powder.sim.simulate import Crystal

Degrees = Annotated[tuple[float, ...], arg(metavar="DEG [DEG]", help_behavior_hint="")]
Number = Annotated[tuple[float, ...], arg(metavar="X [X]", help_behavior_hint="")]

_SHOWN_FAILURES = 10  # structures that could not be read
_UNITS = {"zero": "°", "displacement": "°", "width": "°"}


def powder(command: Callable[[], None]) -> None:
    """Powder diffraction: simulate the pattern of a crystal, draw measured patterns, build a database of phases.

    vitreous powder simulate quartz.cif --out quartz.xy --figure quartz.png

    vitreous powder plot measured.xrdml quartz.xy --out both.png

    vitreous powder database cifs/ --out my.db

    To find unit cells: vitreous index measured.xrdml
    """
    command()


def example(name: Annotated[Literal["triclinic", "thiosulfate"], Positional], *, out: Path | None = None) -> None:
    """Write a pattern that comes with the package, to try things out.

    Args:
        name: triclinic: simulated as in a laboratory | thiosulfate: measured at a synchrotron.
        out: file of the pattern: .xy, .xye or .csv; default NAME.xy.
    """
    from vitreous.cli.output import print_line
    from vitreous.powder.example import EXAMPLES
    from vitreous.powder.example import example as example_pattern
    from vitreous.powder.files import write_pattern

    path = out or Path(f"{name}.xy")
    write_pattern(path, example_pattern(name))
    print_line(f"{path}: {EXAMPLES[name]}")


def database(
    sources: Annotated[tuple[Path, ...], Positional, arg(metavar="SOURCE...")],
    out: Path,
    *,
    jobs: int = 0,
) -> None:
    """Build a database of phases from crystal structures, or add to one.

    vitreous powder database cifs/ --out my.db

    vitreous powder database cod.zip minerals.jsonl.gz cells.csv --out my.db

    Sources: folders of CIFs with all folders in them, .zip and .tar.gz archives of CIFs, single CIFs (.cif, .cif.gz),
    files of structures (.jsonl.gz, one a line) and lists of cells (.csv with the columns a, b, c and, if known, alpha,
    beta, gamma, spacegroup, name and formula). Phases of a list of cells have no atoms: they can be identified, but not
    quantified.

    What is in the database stays, and is not computed again: to add structures, run the command with more sources.
    Structures of the same phase become one entry. A build that was stopped continues with the same command. Structures
    that cannot be read are listed with the reasons in OUT.failed.csv; the others are built.

    Args:
        sources: what to read.
        out: the database file.
        jobs: processes; 0 is one on each core.
    """
    from vitreous.cli.output import print_line, print_table
    from vitreous.powder.identify.build import build_database

    summary = build_database(sources, out, jobs)
    told = f"{summary.added} added, {summary.kept} there before"
    print_line(f"{out}: {summary.count} phases ({told}); {summary.joined} structures joined with the same phase")
    if summary.failed:
        shown = summary.failed[:_SHOWN_FAILURES]
        more = f", the first {len(shown)}" if len(summary.failed) > len(shown) else ""
        print_table(f"{len(summary.failed)} not read{more}", ("source", "reason"), shown, left=2)
        print_line(f"all reasons: {out}.failed.csv")


def plot(
    files: Annotated[tuple[Path, ...], Positional, arg(metavar="FILE...")],
    out: Path,
    *,
    anode: AnodeOption = None,
    wavelength: WavelengthOption = None,
    columns: ColumnsOption = (),
    scan: ScanOption = None,
    axis: Literal["two-theta", "q"] = "two-theta",
) -> None:
    """Draw measured patterns, several of them above each other.

    Files: .xy .xye .csv .dat .txt, .xrdml, .ras, .rasx, .raw, .brml, .gsa, .gsas, .fxye and powder .cif, also with .gz.

    Args:
        files: the patterns.
        out: file of the figure: .png, .pdf or .svg.
        axis: 2θ in degrees, or the scattering vector in 1/Å, which needs the wavelength.
    """
    from vitreous.cli.output import print_line
    from vitreous.core.errors import InputError
    from vitreous.insight.style import check_format
    from vitreous.powder.figures.pattern import pattern_figure
    from vitreous.powder.files import read_pattern

    check_format(out)
    if not files:
        raise InputError("files: found none, expected patterns")
    patterns = [read_pattern(file, wavelength, anode, columns=columns, scan=scan) for file in files]
    pattern_figure(patterns, out, title=patterns[0].name if len(patterns) == 1 else "", axis=axis)
    print_line(f"{len(patterns)} pattern(s) drawn in {out}")


@dataclass(frozen=True)
class EffectOptions:
    """Effects of the measurement: one value each, or the two ends of a range.

    Args:
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
        counts: counts of the strongest line, with Poisson noise, 0 (no noise) to 1e9; usually 3e3 to 1e5.
    """

    alpha2: Number = ()
    zero: Degrees = ()
    displacement: Degrees = ()
    width: Degrees = ()
    slope: Number = ()
    dip: Number = ()
    mixing: Number = ()
    asymmetry: Number = ()
    texture: Number = ()
    background: Number = ()
    hump: Number = ()
    impurity: Number = ()
    counts: Number = ()


_NO_EFFECTS = EffectOptions()


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
    effects: Annotated[EffectOptions, arg(name="")] = _NO_EFFECTS,
) -> None:
    """Simulate the powder pattern of a crystal as a diffractometer measures it.

    The crystal is a CIF, a cell (--cell, with random intensities) or a random crystal (--random). An effect of the
    measurement is one value, or the two ends of a range to draw from. Effects without a value are drawn from the
    ranges of a laboratory diffractometer. All values are printed.

    Args:
        crystal: CIF of the crystal.
        cell: lengths in ångström, angles in degrees.
        spacegroup: number of the cell's space group, 1 to 230; default 1.
        random: crystal system of a random crystal, e.g. triclinic.
        out: file of the pattern: .xy, .xye or .csv.
        figure: file of a figure with marked reflections: .png, .pdf or .svg.
        anode: anode of the X-ray tube: Cr, Fe, Co, Cu, Ga, Mo, Ag or W; Cu without a wavelength.
        wavelength: ångström, 0.1 to 10, in place of an anode.
        two_theta: first and last angle, degrees.
        points: number of points; by default a step of 0.02 degrees.
        clean: only the effects with a value; without noise the highest point is 1.
        seed: seed of all random numbers.
    """
    from vitreous.core.errors import InputError
    from vitreous.insight.style import check_format
    from vitreous.powder.sim.simulate import choose_effects

    create_crystal = _choose_crystal(crystal, cell, spacegroup, random)
    if out is None and figure is None:
        raise InputError("simulate: found neither --out nor --figure, expected one of them or both")
    if figure is not None:
        check_format(figure)
    ranges = {name: ends for name, ends in asdict(effects).items() if ends}
    _simulate(create_crystal, choose_effects(ranges, two_theta, points, anode, wavelength, clean), seed, out, figure)


def _choose_crystal(
    cif: Path | None, cell: tuple[float, ...], spacegroup: int | None, system: str | None
) -> "Callable[[float], Crystal]":
    """A function that makes the crystal, which has one source only, with its lines up to a value of 1/d (1/Å)."""
    from vitreous.core.errors import InputError
    from vitreous.powder.sim.simulate import crystal_from_cell, crystal_from_cif, random_crystal

    sources = {"a CIF": cif is not None, "--cell": len(cell) > 0, "--random": system is not None}
    if sum(sources.values()) != 1:
        names = " and ".join(name for name, present in sources.items() if present) or "no crystal"
        raise InputError(f"simulate: found {names}, expected one of a CIF, --cell and --random")
    if spacegroup is not None and not cell:
        raise InputError("spacegroup: is for --cell; a CIF and --random bring their own")
    if cif is not None:
        return partial(crystal_from_cif, cif)
    if system is not None:
        return partial(random_crystal, system)
    return partial(crystal_from_cell, cell, spacegroup or 1)


def _simulate(
    create_crystal: "Callable[[float], Crystal]", ranges: "Effects", seed: int, out: Path | None, figure: Path | None
) -> None:
    """Draw the effects from their ranges, simulate, write the files and print what they hold."""
    import torch

    from vitreous.cli.output import print_line
    from vitreous.powder.cell import cell_line
    from vitreous.powder.figures.pattern import Ticks, pattern_figure
    from vitreous.powder.files import write_pattern
    from vitreous.powder.sim.simulate import draw_effects, reflection_ticks, simulate_pattern

    with torch.random.fork_rng():
        torch.manual_seed(seed)
        effects = draw_effects(ranges)
        crystal = create_crystal(effects.s_max)
        pattern = simulate_pattern(crystal, effects)
    if out is not None:
        write_pattern(out, pattern)
    description = cell_line(crystal.cell)
    if figure is not None:
        ylabel = "intensity (counts)" if effects.counts[1] > 0 else "intensity (highest point = 1)"
        marks = Ticks(*reflection_ticks(crystal, effects))
        pattern_figure(pattern, figure, marks, f"{crystal.name}, {description}", ylabel=ylabel)
    print_line(f"{crystal.name}: {description}")
    print_line(_effects_text(effects))
    print_line(f"written: {' '.join(str(path) for path in (out, figure) if path is not None)}")


def _effects_text(effects: "Effects") -> str:
    """The effects of the measurement, with units."""
    low, high = effects.two_theta
    lines = f"λ {effects.wavelength:.6g} Å" + (f" and {effects.wavelength2:.6g} Å" if effects.alpha2[1] else "")
    values = [
        f"{name} {ends[0]:.3g}{_UNITS.get(name, '')}"
        for name, ends in effects.to_dict().items()
        if isinstance(ends, tuple) and name not in ("two_theta", "start")
    ]
    return ", ".join([f"2θ {low:g} to {high:g}°", lines, *values])
