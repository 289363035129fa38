"""The figure of a refinement."""

from dataclasses import replace
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pytest

from vitreous.core.errors import InputError
from vitreous.insight.style import save
from vitreous.powder.figures.fit import fit_figure
from vitreous.powder.refinement import Fit
from vitreous.powder.refinement.profile import START, LineProfile

X = np.linspace(10, 60, 1000)
PEAKS = sum(np.exp(-(((X - at) / 0.2) ** 2)) for at in (21.4, 30.4, 37.4))
FIT = Fit(
    cell=(4.15, 4.15, 4.15, 90.0, 90.0, 90.0),
    errors=(0.0001, 0.0001, 0.0001, 0.0, 0.0, 0.0),
    zero=0.01,
    zero_error=0.001,
    displacement=0.0,
    displacement_error=0.0,
    transparency=0.0,
    transparency_error=0.0,
    position_error=0.025,
    two_theta=X,
    observed=PEAKS + 0.1 + 0.01 * np.sin(50 * X),
    calculated=PEAKS + 0.1,
    background=np.full_like(X, 0.1),
    sigma=np.full_like(X, 0.01),
    hkl=np.array([(1, 0, 0), (1, 1, 0), (1, 1, 1)]),
    positions=np.array([21.4, 30.4, 37.4]),
    intensities=np.array([0.35, 0.35, 0.35]),
    profile=LineProfile(START, 30.0),
    rwp=0.043,
    rexp=0.04,
    chi2=1.156,
    unexplained=0.0,
    converged=True,
)


@pytest.mark.parametrize("ending", ["png", "pdf", "svg"])
def test_a_fit_is_drawn_in_every_format(ending: str, tmp_path: Path) -> None:
    path = tmp_path / f"fit.{ending}"
    save(fit_figure(FIT, "LaB6"), path)
    assert path.stat().st_size > 5000


def test_curves_axes_and_residual_are_named(tmp_path: Path) -> None:
    path = tmp_path / "fit.svg"
    with mpl.rc_context({"svg.fonttype": "none"}):
        save(fit_figure(FIT, "LaB6", "intensity (counts)"), path)
    text = path.read_text()
    for word in ("2θ (°)", "intensity (counts)", "observed", "calculated", "background", "difference", "reflections"):
        assert word in text
    assert "LaB6" in text
    assert "4.3 %" in text


def test_a_fit_without_any_line_is_drawn(tmp_path: Path) -> None:
    save(fit_figure(replace(FIT, intensities=np.zeros(3))), tmp_path / "fit.png")
    assert (tmp_path / "fit.png").exists()


def test_another_format_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"file type: unknown choice '.tex'; expected one of: .png"):
        save(fit_figure(FIT), tmp_path / "fit.tex")
