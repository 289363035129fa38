"""Writing: what is written is read back."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.powder.files.contents import X, Y
from vitreous.core.errors import InputError
from vitreous.powder.files import read_pattern, write_pattern
from vitreous.powder.pattern import Pattern


@settings(max_examples=30)
@given(
    steps=st.lists(st.floats(0.001, 1), min_size=60, max_size=80),
    seed=st.integers(0, 99),
    kind=st.sampled_from([".xy", ".xye", ".csv"]),
    wavelength=st.none() | st.floats(0.11, 9.5),
    ratio=st.floats(0, 1),
)
def test_a_written_pattern_is_read_back(
    tmp_path_factory: pytest.TempPathFactory,
    steps: list[float],
    seed: int,
    kind: str,
    wavelength: float | None,
    ratio: float,
) -> None:
    rng = np.random.default_rng(seed)
    x = np.cumsum(steps)
    second = wavelength * 1.0025 if wavelength and ratio else None
    sigma = None if kind == ".xy" else rng.uniform(0.1, 1, len(x))
    path = tmp_path_factory.mktemp("written") / f"x{kind}"
    written = Pattern(x, rng.exponential(100, len(x)), sigma, wavelength, path.name, second, ratio if second else 0.0)
    write_pattern(path, written)
    pattern = read_pattern(path)
    np.testing.assert_array_equal(pattern.two_theta, written.two_theta)
    np.testing.assert_array_equal(pattern.intensity, written.intensity)
    assert (pattern.sigma is None) == (sigma is None)
    if sigma is not None:
        np.testing.assert_array_equal(pattern.sigma, sigma)
    assert (pattern.wavelength, pattern.wavelength2, pattern.ratio, pattern.name) == (
        wavelength, written.wavelength2, written.ratio, path.name,
    )  # fmt: skip


def test_patterns_that_cannot_be_written_are_refused(tmp_path: Path) -> None:
    pattern = Pattern(X, Y, None, None, "x.xy")
    with pytest.raises(
        InputError, match=r"a.brml: file type: unknown choice '.brml'; expected one of: .xy, .xye, .csv"
    ):
        write_pattern(tmp_path / "a.brml", pattern)
    with pytest.raises(InputError, match=r"a.xye: x.xy has no standard errors for an .xye file; expected .xy or .csv"):
        write_pattern(tmp_path / "a.xye", pattern)
