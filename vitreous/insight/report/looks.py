"""Where the model looks: maps over a few samples, their truth, what the heads do, and what it knows of places."""

import numpy as np

from vitreous.insight.attention import attends, head_measures, heads_figure, maps_figure, no_attention
from vitreous.insight.attribution import METHODS, overall, trials_figure, verdict
from vitreous.insight.explain import explain_figure
from vitreous.insight.positions import bias_figure, grid_verdict, position_similarity, similarity_figure
from vitreous.insight.report.run import Run
from vitreous.nn.position import GridPosition
from vitreous.nn.tokens import PatchTokenizer
from vitreous.nn.vit import ViT
from vitreous.page import Section
from vitreous.train.task import Regression

_LAYERS = 4  # of which the heads are drawn


def explanations(run: Run) -> Section | None:
    """A typical answer and the worst one, under every map."""
    if run.answers is None:
        return None
    figures, typical = [], run.typical[0]
    for name, place in (("A typical answer", typical), ("The worst answer", 0)):
        asked, maps, trials = run.tried[place]
        figures.append((f"{name}: {asked.answer}", explain_figure(asked, maps, trials, asked.answer)))
    text = "The input under every map that the model allows, and what is left of the answer without the marked parts."
    if isinstance(run.predictor.task, Regression) and len(run.predictor.task.targets) > 1:
        text += " Of several quantities it is the one that is furthest off."
    model = run.predictor.model
    if isinstance(model, ViT) and attends(model):
        depth = model.config.depth
        layers = np.unique(np.linspace(0, depth - 1, _LAYERS).round().astype(int)).tolist()
        every = maps_figure(run.predictor, run.answers.samples[typical], layers)
        of = "every layer" if len(layers) == depth else f"{len(layers)} of {depth} layers"
        figures.append((f"The typical sample once more: what each head of {of} attends to", every))
        lacking = [name for name in METHODS if name not in run.tried[typical].maps]
        text += f" For want of a package there are no {', '.join(lacking)}." if lacking else ""
    else:
        text += f" The {no_attention(model)}."
    return Section("What an answer rests on", text, figures)


def faithfulness(run: Run) -> Section | None:
    """Which kind of map tells the truth about this model."""
    if run.answers is None:
        return None
    trials = overall([tried.trials for tried in run.tried.values()])
    text = (
        f"Over {len(run.tried)} samples, the worst and the most typical, {verdict(trials)}. A map that tells the truth "
        "names first what the answer rests on: taken away, the answer falls at once; alone, it is there at once."
    )
    return Section("Which map tells the truth?", text, [("Deletion and insertion curves", trials_figure(trials, " "))])


def heads(run: Run) -> Section | None:
    """How far and how broadly each head looks, layer by layer."""
    if run.answers is None or not attends(run.predictor.model):
        return None
    samples = run.answers.samples[run.answers.drawn]
    measures = head_measures(run.predictor, samples)
    text = f"Means over {len(samples)} of the {run.noun}, drawn evenly from all but the worst. "
    text += " ".join(f"The {measure.label} {measure.trend}." for measure in measures)
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
