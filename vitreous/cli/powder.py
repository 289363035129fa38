"""The command group `vitreous powder`."""

from collections.abc import Callable


def powder(command: Callable[[], None]) -> None:
    """Powder diffraction: simulate the pattern of a crystal, draw measured patterns.

    vitreous powder simulate quartz.cif --out quartz.xy --figure quartz.png

    vitreous powder plot measured.xrdml quartz.xy --out both.png

    To find unit cells: vitreous index measured.xrdml
    """
    command()
