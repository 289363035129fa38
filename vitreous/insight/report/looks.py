"""Where the model looks: maps over a few samples, their truth, what the heads do, and what it knows of places."""

import numpy as np

from vitreous.insight.attention import head_measures, heads_figure, maps_figure
from vitreous.insight.attribution import faithfulness as tried
from vitreous.insight.attribution import trials_figure, verdict
from vitreous.insight.explain import explain
from vitreous.insight.positions import bias_figure, grid_verdict, position_similarity, similarity_figure
from vitreous.insight.report.page import Section
from vitreous.insight.report.run import Run
from vitreous.nn.position import GridPosition
from vitreous.nn.tokens import PatchTokenizer
from vitreous.nn.vit import ViT

_EACH = 4  # samples of either kind on which maps are tested: it takes the model hundreds of times


def explanations(run: Run) -> Section | None:
    """A typical sample and the worst mistake, under every map."""
    if run.answers is None:
        return None
    chosen = {"A typical sample": -1, "The worst mistake": 0}
    found = {name: explain(run.predictor, run.answers.samples[place]) for name, place in chosen.items()}
    figures = [(f"{name}: {told.text[0]}", told.figure) for name, told in found.items()]
    text = "The input under every map that the model allows, and what is left of the answer without the marked parts."
    if isinstance(run.predictor.model, ViT):
        every = maps_figure(run.predictor, run.answers.samples[-1])
        figures.append(("The typical sample once more: what each head of each layer attends to", every))
    else:
        text += " The run is a CNN: it has no attention, so there are attributions only."
    return Section("What an answer rests on", text, figures)


def faithfulness(run: Run) -> Section | None:
    """Which kind of map tells the truth about this model."""
    if run.answers is None:
        return None
    samples = run.answers.samples
    few = samples if len(samples) < 2 * _EACH else np.concatenate([samples[:_EACH], samples[-_EACH:]])
    trials = tried(run.predictor, few)
    text = (
        f"Over {len(few)} samples, the worst and typical ones, {verdict(trials)}. A map that tells the truth names "
        "first what the answer rests on: taken away, the answer falls at once; alone, it is there at once."
    )
    return Section("Which map tells the truth?", text, [("Deletion and insertion curves", trials_figure(trials, " "))])


def heads(run: Run) -> Section | None:
    """How far and how broadly each head looks, layer by layer."""
    if run.answers is None or not isinstance(run.predictor.model, ViT):
        return None
    measures = head_measures(run.predictor, run.answers.samples)
    text = " ".join(f"The {measure.label} {measure.trend}." for measure in measures)
    return Section("How far the heads look", text, [("A point a head, against depth", heads_figure(measures))])


def positions(run: Run) -> Section | None:
    """Whether the position embeddings show the grid, and the relative biases."""
    model = run.predictor.model
    if not isinstance(model, ViT) or not isinstance(model.tokenizer, PatchTokenizer):
        return None
    text, figures = "", []
    if isinstance(model.position, GridPosition):
        text = f"The {grid_verdict(position_similarity(model), model.tokenizer.shape)}."
        figures.append(("Likeness of position embeddings", similarity_figure(model, run.predictor.axes, " ")))
    if model.bias is not None:
        figures.append(("Relative bias against displacement", bias_figure(model)))
    return Section("What it knows of places", text, figures) if figures else None
