"""Figures of strong lenses (S2.12): images with critical curves, and every parameter against the truth."""

from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from vitreous.gallery.figures import Figure, draw_target, load_run, predict_test, save_figures
from vitreous.gallery.lensing.simulate import Lens, deflection, inverse_magnification
from vitreous.insight.attention import attention_model, rollout_map
from vitreous.insight.regions import map_to_grid, model_input
from vitreous.insight.style import figure
from vitreous.run.answers import Answers
from vitreous.run.prediction import Prediction
from vitreous.run.predictor import Predictor

_EXAMPLES = 5  # lenses in a row
_FINE = 400  # points along each side on which curves are traced


def draw(run: Path) -> list[Path]:
    """Draw `lenses.png`, images with true and predicted critical curves and caustics, and `parameters.png`."""
    predictor, answers = load_run(run)
    prediction, values = predict_test(predictor, answers)
    lenses, parameters = _lenses_figure(predictor, answers, values), _parameters_figure(answers, prediction, values)
    return save_figures(run, {"lenses.png": lenses, "parameters.png": parameters})


def _lenses_figure(predictor: Predictor, answers: Answers, values: NDArray[Any]) -> Figure:
    """Images with true and predicted curves, and the attention rollout of a transformer."""
    rows, samples = answers.shown[answers.drawn][:_EXAMPLES], answers.samples[answers.drawn][:_EXAMPLES]
    half = abs(predictor.axes[0].origin) + predictor.axes[0].spacing / 2
    extent = (-half, half, -half, half)
    with figure(2 * _EXAMPLES, 4.4 if predictor.model.attends else 2.5) as drawing:
        panels = drawing.subplots(2 if predictor.model.attends else 1, _EXAMPLES, squeeze=False)
        for axes in panels.flat:
            axes.set_axis_off()
        for column, (row, sample) in enumerate(zip(rows, samples, strict=True)):
            axes, true, predicted = panels[0, column], answers.y[row], values[row]
            axes.set_axis_on()
            axes.imshow(sample[0], origin="lower", extent=extent, cmap="magma")
            _draw_curves(axes, true, half, "solid")
            _draw_curves(axes, predicted, half, "dashed")
            axes.set(xlim=extent[:2], ylim=extent[2:], xticks=(-2, 0, 2), yticks=(-2, 0, 2))
            axes.tick_params(labelsize=7)
            axes.set_title(f"Einstein radius {true[0]:.2f}\nfound {predicted[0]:.2f} arcsec", fontsize=8)
            if predictor.model.attends:
                axes = panels[1, column]
                rollout = rollout_map(attention_model(predictor), model_input(predictor, sample[None]))[0]
                axes.imshow(map_to_grid(predictor, rollout), origin="lower", extent=extent, cmap="viridis")
                _draw_curves(axes, true, half, "solid")
                axes.set_title("where its answer comes from" if column == 0 else "", fontsize=8)
        drawing.suptitle("Critical curves (white) and caustics (green): true solid, found dashed", fontsize=9)
    return drawing


def _draw_curves(axes: Any, values: NDArray[Any], half: float, style: str) -> None:
    """Draw the critical curve of a lens and its caustic."""
    lens = Lens(*(torch.tensor([value], dtype=torch.float64) for value in values))
    if lens.einstein <= 0 or lens.e1.hypot(lens.e2) >= 1:
        return  # an untrained model may predict an impossible lens
    axis = torch.linspace(-half, half, _FINE, dtype=torch.float64)
    x, y = axis.expand(1, _FINE, _FINE), axis[:, None].expand(1, _FINE, _FINE)
    inverse, ticks = inverse_magnification(x, y, lens)[0].numpy(), axis.numpy()
    critical = axes.contour(ticks, ticks, inverse, [0.0], colors="white", linewidths=0.9, linestyles=style)
    for line in critical.allsegs[0]:
        image = torch.from_numpy(line.T.copy())[:, None]  # (2, 1, points)
        source = (image - torch.stack(deflection(image[0], image[1], lens)))[:, 0].numpy()
        axes.plot(*source, color="limegreen", lw=0.7, ls=style)


def _parameters_figure(answers: Answers, prediction: Prediction, values: NDArray[Any]) -> Figure:
    """Every parameter against the truth, and the error of the shear by its size."""
    with figure(9, 5.4) as drawing:
        panels = drawing.subplots(2, 3).ravel()
        for target, axes in enumerate(panels[: len(prediction.targets)]):
            draw_target(axes, prediction, answers.y, target)
        axes = panels[-1]
        shear, error = np.hypot(*answers.y[:, 3:5].T), np.hypot(*(values - answers.y)[:, 3:5].T)
        axes.plot(shear, error, ".", ms=3, alpha=0.4)
        axes.plot([0, shear.max()], [0, shear.max()], "k-", lw=0.8, label="as large as the shear")
        axes.set(xlabel="true shear", ylabel="error of the shear")
        axes.legend(frameon=False, fontsize=7)
    return drawing
