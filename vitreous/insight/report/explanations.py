"""Sections on how the model reaches its predictions: maps, their faithfulness, attention heads and positions."""

import numpy as np

from vitreous.insight import positions as position_figures
from vitreous.insight.attention import attention_model, head_measures, heads_figure, maps_figure, no_attention_note
from vitreous.insight.attribution import METHODS
from vitreous.insight.explanation import average_tests, explain_figure, faithfulness_figure, verdict
from vitreous.insight.html_page import Section
from vitreous.insight.report.run import Run, with_answers
from vitreous.run.answers import Answers

_LAYERS = 4  # layers of which the heads are drawn


@with_answers
def single_predictions(run: Run, answers: Answers) -> Section:
    """A typical prediction and the worst one, with every map."""
    typical, model = run.typical[0], run.predictor.model
    figures = []
    for name, index in (("A typical prediction", typical), ("The worst prediction", 0)):
        sample, maps, tests = run.explanations[index]
        figures.append((f"{name}: {sample.answer}", explain_figure(sample, maps, tests, sample.answer)))
    text = "The input with every map that the model allows, and the effect of removing the marked parts."
    if len(run.predictor.targets) > 1:
        text += " With several quantities, the one with the largest error is explained."
    if model.attends:
        depth = attention_model(run.predictor).config.depth
        layers = np.unique(np.linspace(0, depth - 1, _LAYERS).round().astype(int)).tolist()
        heads = maps_figure(run.predictor, answers.samples[typical], layers)
        which = "every layer" if len(layers) == depth else f"{len(layers)} of {depth} layers"
        figures.append((f"The typical sample: attention of each head of {which}", heads))
        missing = [name for name in METHODS if name not in run.explanations[typical].maps]
        text += f" A package is missing for: {', '.join(missing)}." if missing else ""
    else:
        text += f" The {no_attention_note(model)}."
    return Section("Explanations of single predictions", text, figures)


@with_answers
def faithfulness(run: Run, _: Answers) -> Section:
    """Which kind of map describes this model best."""
    tests = average_tests([answer.tests for answer in run.explanations.values()])
    text = (
        f"Over {len(run.explanations)} samples, the worst and the most typical, {verdict(tests)}. A faithful map ranks "
        "first the parts that the prediction depends on: it changes quickly when they are removed, and is restored "
        "quickly when they alone are put back."
    )
    return Section("Faithfulness of the maps", text, [("Deletion and insertion", faithfulness_figure(tests, " "))])


@with_answers
def heads(run: Run, answers: Answers) -> Section | None:
    """Attention distance and entropy of each head, by layer."""
    if not run.predictor.model.attends:
        return None
    samples = answers.samples[answers.drawn]
    measures = head_measures(run.predictor, samples)
    text = f"Means over {len(samples)} of the {run.samples_noun}, drawn evenly from all but the worst. "
    text += " ".join(f"The {measure.label} {measure.trend}." for measure in measures)
    figure = heads_figure(measures)
    return Section("Attention distance and entropy", text, [("One point per head, against depth", figure)])


def positions(run: Run) -> Section | None:
    """Similarity of the position embeddings, and the relative biases."""
    model, text, figures = run.predictor.model, "", []
    if position_figures.has_position_table(model):
        similarity, shape = position_figures.position_similarity(model), position_figures.patch_grid(model)
        text = f"The {position_figures.grid_verdict(similarity, shape)}."
        figure = position_figures.similarity_figure(model, run.predictor.axes, " ")
        figures.append(("Similarity of position embeddings", figure))
    if position_figures.has_relative_bias(model):
        figures.append(("Relative bias against displacement", position_figures.bias_figure(model)))
    return Section("Position embeddings and biases", text, figures) if figures else None
