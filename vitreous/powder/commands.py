"""What the commands `powder simulate`, `powder plot` and `powder example` do, apart from their flags."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from vitreous.errors import InputError
from vitreous.insight.pattern import Ticks, pattern_figure
from vitreous.insight.style import check_format
from vitreous.powder import simulate as powder
from vitreous.powder.example import EXAMPLES, example
from vitreous.powder.files import read_pattern, write_pattern
from vitreous.sim.powder import Effects
from vitreous.zoo.show import console

_UNITS = {"zero": "°", "displacement": "°", "width": "°"}


@dataclass(frozen=True)
class Wanted:
    """The crystal to simulate: exactly one of a CIF, a cell and a crystal system."""

    cif: Path | None
    cell: Sequence[float]
    spacegroup: int | None
    system: str | None

    def __post_init__(self) -> None:
        given = [self.cif is not None, len(self.cell) > 0, self.system is not None]
        if sum(given) != 1:
            found = " and ".join(n for n, is_ in zip(("a CIF", "--cell", "--random"), given, strict=True) if is_)
            raise InputError(f"simulate: found {found or 'no crystal'}, expected one of a CIF, --cell and --random")
        if self.spacegroup is not None and not self.cell:
            raise InputError("spacegroup: is for --cell; a CIF and --random bring their own")

    def crystal(self, s_max: float) -> powder.Crystal:
        """With its lines up to 1/d = `s_max` (1/Å)."""
        if self.cif is not None:
            return powder.from_cif(self.cif, s_max)
        if self.system is not None:
            return powder.from_system(self.system, s_max)
        return powder.from_cell(self.cell, self.spacegroup or 1, s_max)


def simulate(
    wanted: Wanted,
    given: Mapping[str, Sequence[float]],
    settings: Mapping[str, Any],
    seed: int,
    out: Path | None,
    figure: Path | None,
) -> None:
    """Simulate one pattern, write and draw it, and print what it is."""
    if out is None and figure is None:
        raise InputError("simulate: found neither --out nor --figure, expected one of them or both")
    if figure is not None:
        check_format(figure)
    effects = powder.effects_of(given, **settings)
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        effects = powder.drawn(effects)
        crystal = wanted.crystal(effects.s_max)
        pattern = powder.simulate(crystal, effects)
    if out is not None:
        write_pattern(out, pattern)
    noisy = effects.counts[1] > 0
    if figure is not None:
        ylabel = "intensity (counts)" if noisy else "intensity (highest point = 1)"
        marks = Ticks(*powder.ticks(crystal, effects))
        pattern_figure(pattern, figure, marks, f"{crystal.name}, {_cell(crystal)}", ylabel=ylabel)
    screen = console()
    screen.print(f"{crystal.name}: {_cell(crystal)}", highlight=False)
    screen.print(_told(effects), highlight=False)
    screen.print(f"written: {' '.join(str(path) for path in (out, figure) if path is not None)}", highlight=False)


def _cell(crystal: powder.Crystal) -> str:
    lengths, angles = ([f"{x:.6g}" for x in part] for part in (crystal.cell[:3], crystal.cell[3:]))
    return f"{' '.join(lengths)} Å, {' '.join(angles)}°"


def _told(effects: Effects) -> str:
    """The values that were drawn."""
    low, high = effects.two_theta
    lines = f"λ {effects.wavelength:.6g} Å" + (f" and {effects.wavelength2:.6g} Å" if effects.alpha2[1] else "")
    found = [f"2θ {low:g} to {high:g}°", lines]
    for name, ends in effects.to_dict().items():
        if isinstance(ends, tuple) and name not in ("two_theta", "start"):
            found.append(f"{name} {ends[0]:.3g}{_UNITS.get(name, '')}")
    return ", ".join(found)


def write_example(name: str, out: Path) -> None:
    """Write a pattern that comes with the package, and say what it is."""
    write_pattern(out, example(name))
    console().print(f"{out}: {EXAMPLES[name]}", highlight=False)


def plot(files: Sequence[Path], out: Path, anode: str | None, wavelength: float | None, axis: str) -> None:
    """Draw the patterns of files."""
    check_format(out)
    patterns = [read_pattern(file, wavelength, anode) for file in files]
    pattern_figure(patterns, out, title=patterns[0].name if len(patterns) == 1 else "", axis=axis)
    console().print(f"{len(patterns)} pattern(s) drawn in {out}", highlight=False)
