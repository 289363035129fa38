"""Make the pictures of docs/identify.md: run its code blocks.

    python -m tools.make_identify_figures

The pictures are committed.
"""

import contextlib
import re
import shlex
import tempfile
from pathlib import Path
from typing import Any

from PIL import Image

from vitreous.cli import main as run_command

PAGE = Path(__file__).parents[1] / "docs" / "identify.md"
PICTURES = PAGE.parent / "identify"
FIGURES = ("sample.png", "unknown.png", "frames.png")  # which the blocks of the page write
COLOURS = 128


def make_pictures() -> None:
    """Run the blocks of the page in an empty folder, and reduce the figures to a few colours."""
    names = dict[str, Any]()
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        for language, block in re.findall(r"```(sh|python)\n(.*?)```", PAGE.read_text("utf-8"), flags=re.DOTALL):
            if language == "python":
                exec(compile(block, PAGE.name, "exec"), names)
            for line in block.splitlines() if language == "sh" else ():
                print(f"$ {line}")
                run_command(shlex.split(line, comments=True)[1:])
        for name in FIGURES:
            with Image.open(name) as picture:
                picture.convert("RGB").quantize(COLOURS).save(PICTURES / name, optimize=True)


if __name__ == "__main__":
    make_pictures()
