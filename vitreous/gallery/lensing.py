"""Strong lenses (S2.12): mass and shear of a lens from the image of a galaxy behind it."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from vitreous.gallery.entry import Entry

if TYPE_CHECKING:
    from vitreous.prediction import Prediction
    from vitreous.train.answers import Answers
    from vitreous.train.predictor import Predictor

_SHOWN = 5  # lenses in a row
_FINE = 400  # points along each side on which curves are traced


def draw(run: Path) -> list[Path]:
    """`lenses.png`: images with critical curves and caustics, true and found; `parameters.png`: answers and truth."""
    from vitreous.gallery.panels import answered, opened

    predictor, answers = opened(run)
    answer = answered(predictor, answers)
    return [
        _draw_lenses(run / "lenses.png", predictor, answers, answer),
        _draw_parameters(run / "parameters.png", answers, answer),
    ]


def _draw_lenses(path: Path, predictor: "Predictor", answers: "Answers", answer: "Prediction") -> Path:
    from vitreous.insight.attention import attends, rollout_map
    from vitreous.insight.overlay import over_grid
    from vitreous.insight.style import figure, save
    from vitreous.insight.units import model_input

    assert answer.values is not None
    places, samples = answers.shown[answers.drawn][:_SHOWN], answers.samples[answers.drawn][:_SHOWN]
    looks = attends(predictor.model)
    half = abs(predictor.axes[0].origin) + predictor.axes[0].spacing / 2
    extent = (-half, half, -half, half)
    with figure(2 * _SHOWN, 4.4 if looks else 2.5) as drawing:
        panels = drawing.subplots(2 if looks else 1, _SHOWN, squeeze=False)
        for axes in panels.flat:
            axes.set_axis_off()
        for column, (place, sample) in enumerate(zip(places, samples, strict=True)):
            axes = panels[0, column]
            axes.set_axis_on()
            axes.imshow(sample[0], origin="lower", extent=extent, cmap="magma")
            _draw_curves(axes, answers.y[place], half, "solid")
            _draw_curves(axes, answer.values[place], half, "dashed")
            axes.set(xlim=extent[:2], ylim=extent[2:], xticks=(-2, 0, 2), yticks=(-2, 0, 2))
            axes.tick_params(labelsize=7)
            axes.set_title(
                f"Einstein radius {answers.y[place, 0]:.2f}\nfound {answer.values[place, 0]:.2f} arcsec", fontsize=8
            )
            if looks:
                reached = rollout_map(predictor.model, model_input(predictor, sample[None]))[0]  # type: ignore[arg-type]
                panels[1, column].imshow(over_grid(predictor, reached), origin="lower", extent=extent, cmap="viridis")
                _draw_curves(panels[1, column], answers.y[place], half, "solid")
                panels[1, column].set_title("where its answer comes from" if column == 0 else "", fontsize=8)
        drawing.suptitle("Critical curves (white) and caustics (green): true solid, found dashed", fontsize=9)
        save(drawing, path)
    return path


def _draw_curves(axes: Any, values: NDArray[Any], half: float, style: str) -> None:
    """The critical curve of a lens and, where it lies among the sources, its caustic."""
    import torch

    from vitreous.sim.lensing import Lens, deflection, inverse_magnification

    lens = Lens(*(torch.tensor([value], dtype=torch.float64) for value in values))
    if lens.einstein <= 0 or lens.e1.hypot(lens.e2) >= 1:
        return  # what a model that has learned little answers need not be a lens
    axis = torch.linspace(-half, half, _FINE, dtype=torch.float64)
    x, y = axis.expand(1, _FINE, _FINE), axis[:, None].expand(1, _FINE, _FINE)
    inverse, ticks = inverse_magnification(x, y, lens)[0].numpy(), axis.numpy()
    critical = axes.contour(ticks, ticks, inverse, [0.0], colors="white", linewidths=0.9, linestyles=style)
    for line in critical.allsegs[0]:
        seen = torch.from_numpy(line.T.copy())[:, None]  # (2, 1, points)
        moved = (seen - torch.stack(deflection(seen[0], seen[1], lens)))[:, 0].numpy()
        axes.plot(*moved, color="limegreen", lw=0.7, ls=style)


def _draw_parameters(path: Path, answers: "Answers", answer: "Prediction") -> Path:
    from vitreous.gallery.panels import parity
    from vitreous.insight.style import figure, save

    assert answer.values is not None
    with figure(9, 5.4) as drawing:
        panels = drawing.subplots(2, 3).ravel()
        for target, axes in enumerate(panels[: len(answer.targets)]):
            parity(axes, answer, answers.y, target)
        axes = panels[-1]
        flat, error = np.hypot(*answers.y[:, 3:5].T), np.hypot(*(answer.values - answers.y)[:, 3:5].T)
        axes.plot(flat, error, ".", ms=3, alpha=0.4)
        axes.plot([0, flat.max()], [0, flat.max()], "k-", lw=0.8, label="as large as the shear")
        axes.set(xlabel="true shear", ylabel="error of the shear")
        axes.legend(frameon=False, fontsize=7)
        save(drawing, path)
    return path


ENTRY = Entry(
    "lensing", "strong gravitational lenses", "Einstein radius, ellipticity and shear from an image, how sure?",
    ("vit", "resnet-18"), draw,
)  # fmt: skip
