"""The command `vitreous powder simulate`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from tyro.conf import Positional, arg

if TYPE_CHECKING:
    from vitreous.powder.sim.effects import Effects
    from vitreous.powder.sim.simulate import Crystal

Degrees = Annotated[tuple[float, ...], arg(metavar="DEG [DEG]", help_behavior_hint="")]
Number = Annotated[tuple[float, ...], arg(metavar="X [X]", help_behavior_hint="")]

_UNITS = {"zero": "°", "displacement": "°", "width": "°"}


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
    import torch

    from vitreous.core.errors import InputError
    from vitreous.core.terminal import console
    from vitreous.insight.style import check_format
    from vitreous.powder.cell import cell_line
    from vitreous.powder.figures.pattern import Ticks, pattern_figure
    from vitreous.powder.files import write_pattern
    from vitreous.powder.sim.simulate import choose_effects, draw_effects, reflection_ticks, simulate_pattern

    ranges = {
        "alpha2": alpha2, "zero": zero, "displacement": displacement, "width": width, "slope": slope, "dip": dip,
        "mixing": mixing, "asymmetry": asymmetry, "texture": texture, "background": background, "hump": hump,
        "impurity": impurity, "counts": counts,
    }  # fmt: skip
    _check_crystal(crystal, cell, spacegroup, random)
    if out is None and figure is None:
        raise InputError("simulate: found neither --out nor --figure, expected one of them or both")
    if figure is not None:
        check_format(figure)
    ranges = {name: ends for name, ends in ranges.items() if ends}
    effects = choose_effects(ranges, two_theta, points, anode, wavelength, clean)
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        effects = draw_effects(effects)
        simulated = _crystal(crystal, cell, spacegroup, random, effects.s_max)
        pattern = simulate_pattern(simulated, effects)
    if out is not None:
        write_pattern(out, pattern)
    description = cell_line(simulated.cell)
    if figure is not None:
        ylabel = "intensity (counts)" if effects.counts[1] > 0 else "intensity (highest point = 1)"
        marks = Ticks(*reflection_ticks(simulated, effects))
        pattern_figure(pattern, figure, marks, f"{simulated.name}, {description}", ylabel=ylabel)
    screen = console()
    screen.print(f"{simulated.name}: {description}", highlight=False)
    screen.print(_effects_text(effects), highlight=False)
    screen.print(f"written: {' '.join(str(path) for path in (out, figure) if path is not None)}", highlight=False)


def _check_crystal(cif: Path | None, cell: tuple[float, ...], spacegroup: int | None, system: str | None) -> None:
    """Raise `InputError` unless there is exactly one of a CIF, a cell and a crystal system."""
    from vitreous.core.errors import InputError

    sources = {"a CIF": cif is not None, "--cell": len(cell) > 0, "--random": system is not None}
    if sum(sources.values()) != 1:
        names = " and ".join(name for name, present in sources.items() if present) or "no crystal"
        raise InputError(f"simulate: found {names}, expected one of a CIF, --cell and --random")
    if spacegroup is not None and not cell:
        raise InputError("spacegroup: is for --cell; a CIF and --random bring their own")


def _crystal(
    cif: Path | None, cell: tuple[float, ...], spacegroup: int | None, system: str | None, s_max: float
) -> "Crystal":
    """The crystal with its lines up to 1/d = `s_max` (1/Å)."""
    from vitreous.powder.sim.simulate import crystal_from_cell, crystal_from_cif, random_crystal

    if cif is not None:
        return crystal_from_cif(cif, s_max)
    if system is not None:
        return random_crystal(system, s_max)
    return crystal_from_cell(cell, spacegroup or 1, s_max)


def _effects_text(effects: "Effects") -> str:
    """The effects of the measurement, with units."""
    low, high = effects.two_theta
    lines = f"λ {effects.wavelength:.6g} Å" + (f" and {effects.wavelength2:.6g} Å" if effects.alpha2[1] else "")
    words = [f"2θ {low:g} to {high:g}°", lines]
    for name, ends in effects.to_dict().items():
        if isinstance(ends, tuple) and name not in ("two_theta", "start"):
            words.append(f"{name} {ends[0]:.3g}{_UNITS.get(name, '')}")
    return ", ".join(words)
