"""The command `vitreous powder example`."""

from pathlib import Path
from typing import Annotated, Literal

from tyro.conf import Positional


def example(
    name: Annotated[Literal["triclinic", "thiosulfate"], Positional],
    *,
    out: Path | None = None,
) -> None:
    """Write a pattern that comes with the package, to try things out.

    Args:
        name: triclinic: simulated as in a laboratory | thiosulfate: measured at a synchrotron.
        out: file of the pattern: .xy, .xye or .csv; default NAME.xy.
    """
    from vitreous.core.terminal import console
    from vitreous.powder.example import EXAMPLES
    from vitreous.powder.example import example as example_pattern
    from vitreous.powder.files import write_pattern

    path = out or Path(f"{name}.xy")
    write_pattern(path, example_pattern(name))
    console().print(f"{path}: {EXAMPLES[name]}", highlight=False)
