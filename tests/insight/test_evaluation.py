"""Figures of a model's evaluation: what they draw is what they were given."""

from typing import Any

import numpy as np
import pytest
from matplotlib.colors import to_rgba

from vitreous.data import Axis
from vitreous.insight import evaluation

RNG = np.random.default_rng(0)
NM = (Axis("wavelength", "nm", 500.0, 2.0),)
PIXELS = (Axis("y", "px"), Axis("x", "px"))


def curve(axes: Any, line: int = 0) -> tuple[list[float], list[float]]:
    x, y = axes.lines[line].get_data()
    return list(x), list(y)


def test_learning_curves_are_those_of_the_log() -> None:
    log = [
        {"step": 1, "loss": 2.0, "lr": 0.1},
        {"step": 2, "loss": 1.5, "lr": 0.1},
        {"step": 2, "validation": {"loss": 1.6, "accuracy": 0.5}},
        {"step": 4, "validation": {"loss": 1.1, "accuracy": 0.7}},
    ]
    above, below = evaluation.learning_figure(log, "accuracy").axes
    assert curve(above) == ([1, 2], [2.0, 1.5])
    assert curve(above, 1) == ([2, 4], [1.6, 1.1])
    assert curve(below) == ([2, 4], [0.5, 0.7])


def test_a_confusion_matrix_counts_true_classes_down_and_predicted_ones_across() -> None:
    matrix = evaluation.confusion_matrix(np.array([0, 1, 1, 2]), np.array([0, 0, 1, 2]), 3)
    assert matrix.tolist() == [[1, 1, 0], [0, 1, 0], [0, 0, 1]]
    (axes,) = evaluation.confusion_figure(matrix, ["a", "b", "c"]).axes
    shown = {(text.get_position(), text.get_text(), text.get_color()) for text in axes.texts}
    assert ((1, 0), "1", "darkred") in shown
    assert len(shown) == 4
    assert [label.get_text() for label in axes.get_xticklabels()] == ["a", "b", "c"]


def test_every_number_of_a_confusion_stands_out_from_its_cell() -> None:
    matrix = np.array([[1, 3, 10], [30, 100, 300], [1000, 3000, 10000]])
    (axes,) = evaluation.confusion_figure(matrix, ["a", "b", "c"]).axes
    (image,) = axes.images
    for text in axes.texts:
        column, row = map(int, text.get_position())
        cell = image.cmap(image.norm(image.get_array()[row, column]))
        low, high = sorted(map(luminance, (to_rgba(text.get_color()), cell)))
        assert (high + 0.05) / (low + 0.05) > 4  # the contrast of WCAG, 1 to 21


def luminance(rgba: Any) -> float:
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in rgba[:3]]
    return float(np.dot(linear, (0.2126, 0.7152, 0.0722)))


def test_a_confusion_of_many_classes_is_drawn_without_numbers() -> None:
    (axes,) = evaluation.confusion_figure(np.eye(100, dtype=int), [str(i) for i in range(100)]).axes
    assert not axes.texts


def test_samples_are_drawn_along_their_axis_or_as_pictures() -> None:
    spectra = RNG.normal(size=(3, 2, 40))
    panels = evaluation.samples_figure(spectra, ["one", "two", "three"], NM).axes
    assert [panel.get_title() for panel in panels] == ["one", "two", "three", ""]
    x, y = panels[1].lines[1].get_data()
    assert (x[0], x[-1]) == (500, 578)
    np.testing.assert_array_equal(y, spectra[1, 1])
    picture = RNG.integers(0, 255, (1, 1, 8, 6), dtype=np.uint8)
    image = np.asarray(evaluation.samples_figure(picture, ["p"], PIXELS).axes[0].images[0].get_array())
    assert image.shape == (8, 6)
    assert (image.argmax(), image.min(), image.max()) == (picture.argmax(), 0, 1)
    assert (
        evaluation.samples_figure(RNG.normal(size=(1, 3, 8, 6)), ["p"], PIXELS).axes[0].images[0].get_array().ndim == 3
    )
    volume = evaluation.samples_figure(RNG.normal(size=(1, 1, 5, 8, 6)), ["v"], (Axis(), *PIXELS))
    assert volume.axes[0].images[0].get_array().shape == (8, 6)


def test_parity_draws_every_value_its_residual_and_in_red_the_intervals_that_miss() -> None:
    truth, values = np.array([1.0, 2.0, 3.0]), np.array([1.1, 2.0, 4.0])
    above, below = evaluation.parity_figure(values, truth, "assay (mg)", values - 0.5, values + 0.5).axes
    assert curve(above) == ([1, 2, 3], [1.1, 2.0, 4.0])
    np.testing.assert_allclose(curve(below)[1], [0.1, 0, 1])
    held, missed = above.collections
    assert len(held.get_segments()) == 2
    np.testing.assert_allclose(missed.get_segments()[0], [[3, 3.5], [3, 4.5]])
    assert tuple(missed.get_color()[0][:3]) == to_rgba("C3")[:3]
    assert "assay (mg)" in above.get_ylabel()


def test_parity_of_a_logarithm_has_logarithmic_axes_and_long_intervals_do_not_hide_the_rest() -> None:
    truth = np.array([3.0, 4.0, 5.0])
    above, _ = evaluation.parity_figure(truth, truth, "a (Å)", truth - 2, truth + 1e4, log=True).axes
    assert (above.get_xscale(), above.get_yscale()) == ("log", "log")
    assert above.get_ylim()[1] < 10


def test_parity_over_many_decades_fills_the_axes() -> None:
    truth = np.geomspace(1e-2, 1e2, 50)
    above, _ = evaluation.parity_figure(truth, truth, "q", 0 * truth, 2 * truth, log=True).axes
    shown = above.transAxes.inverted().transform(above.transData.transform(np.stack([truth, truth], 1)))
    assert (shown > 0).all()
    assert (shown < 1).all()
    np.testing.assert_allclose(np.median(shown, 0), 0.5, atol=0.1)
    ends = np.concatenate([segment[:, 1] for bars in above.collections for segment in bars.get_segments()])
    assert ends.min() == above.get_ylim()[0]  # an interval from 0 begins where the axis does
    labels = {label.get_text() for label in above.get_yticklabels()}
    assert {"0.01", "1", "100"} <= labels


def test_reliability_is_the_share_that_is_right_among_equally_sure_answers() -> None:
    confidence, right = np.array([0.95] * 4 + [0.65] * 2), np.array([True, True, True, False, True, False])
    mean, share, counts = evaluation.reliability(confidence, right)
    np.testing.assert_allclose(mean, [0.65, 0.95])
    np.testing.assert_allclose(share, [0.5, 0.75])
    assert counts.tolist() == [2, 4]
    assert evaluation.confidence_error(confidence, right) == pytest.approx((2 * 0.15 + 4 * 0.2) / 6)
    above, below = evaluation.reliability_figure(confidence, right).axes
    assert curve(above, 1) == (pytest.approx([0.65, 0.95]), pytest.approx([0.5, 0.75]))
    assert [bar.get_height() for bar in below.patches] == [2, 4]


def test_coverage_has_a_line_for_each_target() -> None:
    asked, found = np.array([0.5, 0.9]), np.array([[0.4, 0.6], [0.8, 0.95]])
    (axes,) = evaluation.coverage_figure(asked, found, ["a", "b"]).axes
    assert curve(axes, 2) == ([0.5, 0.9], [0.6, 0.95])
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["a", "b"]


def test_errors_against_a_number_show_where_they_grow() -> None:
    column = np.linspace(0, 10, 400)
    error = np.abs(RNG.normal(size=400)) * column
    (axes,) = evaluation.error_figure(error, column, "temperature (K)", "|error|").axes
    places, medians = axes.containers[0].lines[0].get_data()
    assert len(places) == 8
    assert medians[-1] > 5 * medians[0]
    assert axes.get_xlabel() == "temperature (K)"


def test_mistakes_against_a_word_are_shares() -> None:
    column, wrong = np.array(["Ada"] * 10 + ["Bob"] * 10), np.array([True] * 2 + [False] * 8 + [True] * 5 + [False] * 5)
    (axes,) = evaluation.error_figure(wrong, column, "operator", "share wrong").axes
    assert list(axes.containers[0].lines[0].get_data()[1]) == [0.2, 0.5]
    assert [label.get_text() for label in axes.get_xticklabels()] == ["Ada", "Bob"]
    (axes,) = evaluation.error_figure(np.arange(20.0), column, "operator", "|error|").axes
    assert list(axes.containers[0].lines[0].get_data()[1]) == [4.5, 14.5]


def test_a_column_of_one_value_is_drawn_as_one_place() -> None:
    (axes,) = evaluation.error_figure(np.arange(9.0), np.full(9, 3.0), "batch", "|error|").axes
    assert list(axes.containers[0].lines[0].get_data()[0]) == [3.0]


@pytest.mark.parametrize("method", evaluation.EMBEDDINGS)
def test_what_is_apart_in_the_features_is_apart_on_the_map(method: str) -> None:
    labels = np.repeat([0, 1, 2], 20)
    features = RNG.normal(size=(60, 12)) * 0.1 + np.eye(3, 12)[labels] * 5
    drawing = evaluation.embedding_figure(features, labels, "class", method, ["x", "y", "z"])
    places = np.asarray(drawing.axes[0].collections[0].get_offsets())
    distance = np.linalg.norm(places[:, None] - places[None], axis=-1) + 1e9 * np.eye(60)
    assert (labels[distance.argmin(1)] == labels).all()
    assert [text.get_text() for text in drawing.legends[0].get_texts()] == ["x", "y", "z"]


def test_a_class_that_does_not_occur_takes_no_name_from_another() -> None:
    labels = np.repeat([0, 2], 10)
    drawing = evaluation.embedding_figure(RNG.normal(size=(20, 4)), labels, "class", "PCA", ["x", "y", "z"])
    (dots,), legend = drawing.axes[0].collections, drawing.legends[0]
    found = {name.get_text(): to_rgba(handle.get_markerfacecolor()) for name, handle in _entries(legend)}
    assert found == {"x": tuple(dots.to_rgba(0)), "z": tuple(dots.to_rgba(2))}


def _entries(legend: Any) -> Any:
    return zip(legend.get_texts(), legend.legend_handles, strict=True)


def test_a_map_of_a_quantity_has_a_scale_of_colours() -> None:
    features = RNG.normal(size=(20, 3))
    drawing = evaluation.embedding_figure(features, features[:, 0], "assay (mg)", "PCA")
    assert drawing.axes[1].get_ylabel() == "assay (mg)"
