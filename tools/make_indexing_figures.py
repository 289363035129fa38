"""Make the pictures of docs/indexing.md: run its code blocks, and drop its pattern on the page of `vitreous serve`.

Also makes the picture of the powder panel in docs/serve.md.

    python -m tools.make_indexing_figures

Needs Chromium and playwright. The pictures are committed.
"""

import contextlib
import os
import re
import shlex
import tempfile
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from playwright.sync_api import sync_playwright

from tests.browser import CHROMIUM
from tests.serve.visitor import Visit, run_service
from vitreous.cli import main as run_command

PAGE = Path(__file__).parents[1] / "docs" / "indexing.md"
PICTURES = PAGE.parent / "indexing"
PANEL = PAGE.parent / "serve" / "powder.png"
FIGURES = ("fit.png", "one-phase.png", "two-phases.png", "pattern.png")  # which the blocks of the page write
PATTERN = "shell.xy"
DESK, PHONE = 1280, 390  # pixels
COLUMNS, GAP = 3, 24  # of the picture of the narrow page, which is long
SHADOW = 16  # largest difference of values in a row between two parts
COLOURS = 200
SLOWEST = 120_000  # milliseconds that a search may take


@contextlib.contextmanager
def folder_of_blocks() -> Iterator[Path]:
    """Run the blocks of the page in an empty folder until all figures exist."""
    names = dict[str, Any]()
    with tempfile.TemporaryDirectory() as name, contextlib.chdir(name):
        for language, block in re.findall(r"```(sh|python)\n(.*?)```", PAGE.read_text("utf-8"), flags=re.DOTALL):
            if all(Path(figure).exists() for figure in FIGURES):
                break
            if language == "python":
                exec(compile(block, PAGE.name, "exec"), names)
            for line in block.splitlines() if language == "sh" else ():
                print(f"$ {line}")
                run_command(shlex.split(line, comments=True)[1:])
        yield Path(name)


def draw_page(folder: Path) -> None:
    """Write screenshots of the page after the pattern was dropped on it."""
    content = (folder / PATTERN).read_bytes()
    with run_service("--powder") as (address, _), sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM)
        for width, name in ((DESK, "page.png"), (PHONE, "page-phone.png")):
            visit = Visit(browser, address, "powder", width=width)
            visit.context.set_default_timeout(SLOWEST)
            visit.drop(PATTERN, content)
            visit.panel.get_by_label("Program").select_option("GSAS-II")
            visit.page.mouse.move(0, 0)
            visit.panel.locator(".results").screenshot(path=folder / name)
            assert visit.errors == []
        draw_panel(Visit(browser, address, "powder"), folder / PANEL.name)
        browser.close()


def draw_panel(visit: Visit, path: Path) -> None:
    """Write a screenshot from the verdict on an example to the candidate cells, with the cursor on the plot."""
    visit.context.set_default_timeout(SLOWEST)
    visit.page.set_viewport_size({"width": DESK, "height": 2 * DESK})  # a larger picture would lose the cursor
    visit.panel.get_by_role("button", name="thiosulfate").click()
    visit.panel.get_by_role("button", name="Zoom in").click()
    plot, verdict, cells = (
        visit.panel.locator(part).bounding_box() for part in (".u-over", ".verdict", "[aria-label='Candidate cells']")
    )
    visit.page.mouse.move(plot["x"] + 0.7 * plot["width"], plot["y"] + 0.5 * plot["height"])
    area = {name: verdict[name] for name in ("x", "y", "width")}
    visit.page.screenshot(path=path, clip={**area, "height": cells["y"] + cells["height"] - verdict["y"]})


def in_columns(picture: Image.Image) -> Image.Image:
    """A long picture, cut between its parts into columns side by side."""
    pixels = np.asarray(picture).astype(int)
    even, paper = np.ptp(pixels, axis=1).max(axis=1) < SHADOW, pixels[GAP, 0].max()
    brightness = pixels.max(axis=(1, 2))  # the parts are brighter than the page, and lines in them darker
    empty = np.flatnonzero(even & (brightness <= paper) & (brightness > paper - SHADOW))
    wanted = picture.height * np.arange(1, COLUMNS) / COLUMNS
    cuts = [0, *(int(empty[np.abs(empty - row).argmin()]) for row in wanted), picture.height]
    height = max(np.diff(cuts))
    whole = Image.new("RGB", (COLUMNS * (picture.width + GAP) - GAP, height), picture.getpixel((0, cuts[1])))
    for column, (top, bottom) in enumerate(pairwise(cuts)):
        whole.paste(picture.crop((0, top, picture.width, bottom)), (column * (picture.width + GAP), 0))
    return whole


def main() -> None:
    """Make all pictures and store them with few colours."""
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    with folder_of_blocks() as folder:
        draw_page(folder)
        for path in (*(PICTURES / name for name in (*FIGURES, "page.png", "page-phone.png")), PANEL):
            picture = Image.open(folder / path.name).convert("RGB")
            picture = in_columns(picture) if path.name == "page-phone.png" else picture
            picture.quantize(COLOURS, dither=Image.Dither.NONE).save(path, optimize=True)
            print(f"{path.name}: {picture.width} x {picture.height}, {path.stat().st_size} bytes")


if __name__ == "__main__":
    main()
