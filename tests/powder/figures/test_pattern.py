"""Figures of powder patterns."""

from pathlib import Path

import matplotlib as mpl
import numpy as np
import pytest
from PIL import Image

from vitreous.core.errors import InputError
from vitreous.powder.figures.pattern import Ticks, format_indices, pattern_figure
from vitreous.powder.pattern import Pattern

TWO_THETA = np.linspace(10, 60, 500)
TICKS = Ticks(np.array([30.0, 40.0]), [(1, 0, -1), (2, 0, 0)], np.array([1.0, 0.1]))


def pattern(wavelength: float | None = 1.54) -> Pattern:
    return Pattern(TWO_THETA, np.exp(-((TWO_THETA - 30) ** 2)), None, wavelength, "made up")


@pytest.mark.parametrize(
    ("hkl", "text"), [((1, 0, -1), r"$10\overline{1}$"), ((10, -2, 0), r"$10\,\overline{2}\,0$"), ((0, 0, 4), "$004$")]
)
def test_indices_are_written_with_bars_for_signs(hkl: tuple[int, ...], text: str) -> None:
    assert format_indices(hkl) == text


@pytest.mark.parametrize("axis", ["two-theta", "q"])
@pytest.mark.parametrize("ending", ["png", "pdf", "svg"])
def test_a_pattern_is_drawn_in_every_format(ending: str, axis: str, tmp_path: Path) -> None:
    path = tmp_path / f"pattern.{ending}"
    pattern_figure(pattern(), path, TICKS, "a crystal", axis)
    assert path.stat().st_size > 3000


def test_axes_are_labelled_with_units(tmp_path: Path) -> None:
    path = tmp_path / "pattern.svg"
    with mpl.rc_context({"svg.fonttype": "none"}):  # text as text
        pattern_figure(pattern(), path, TICKS, ylabel="intensity (counts)")
        text = path.read_text()
        assert "2θ (°), λ = 1.54 Å" in text
        assert "intensity (counts)" in text
        pattern_figure([pattern(1.54), pattern(0.7)], path, axis="q")
        assert "scattering vector q (1/Å)" in path.read_text()


def test_more_patterns_make_a_higher_figure(tmp_path: Path) -> None:
    heights = []
    for count in (2, 7):
        pattern_figure([pattern()] * count, tmp_path / "stack.png")
        with Image.open(tmp_path / "stack.png") as image:
            heights.append(image.height)
    assert heights[1] > 2 * heights[0]


def test_figures_that_cannot_be_drawn_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"file type: unknown choice '.tex'; expected one of: .png"):
        pattern_figure(pattern(), tmp_path / "pattern.tex")
    with pytest.raises(InputError, match="cannot be written"):
        pattern_figure(pattern(), tmp_path / "nowhere" / "pattern.png")
    with pytest.raises(InputError, match="does not state its wavelength"):
        pattern_figure(pattern(None), tmp_path / "pattern.png", axis="q")
    with pytest.raises(InputError, match="found 2 patterns, expected one"):
        pattern_figure([pattern(), pattern()], tmp_path / "pattern.png", TICKS)
    assert not any(tmp_path.iterdir())
