"""`vitreous explain`: draw which parts of a sample an answer depends on."""

from pathlib import Path
from typing import Annotated

from tyro.conf import Positional, arg

from vitreous.cli.options import MergeOption, PatternAnodeOption, PatternWavelengthOption, RunArgument


def explain(
    run: RunArgument,
    input: Annotated[str, Positional, arg(metavar="INPUT")],
    out: Path,
    *,
    row: int = 0,
    target: str | None = None,
    heads: bool = False,
    layer: tuple[int, ...] = (),
    anode: PatternAnodeOption = None,
    wavelength: PatternWavelengthOption = None,
    merge: MergeOption = (),
) -> None:
    """Draw what an answer depends on: attention, rollout, attention × gradient and integrated gradients over the input.

    A deletion test removes parts of the input in the order of each map and says which map is true for this model. A CNN
    has no attention, only integrated gradients. For a text, the alignment with its translation is drawn.

    Args:
        input: a file as for predict, or digits or mnist; or a text.
        out: the figure: .png, .pdf or .svg.
        row: which sample of the file, counted from 0.
        target: the class or quantity to explain; the predicted class or the first quantity if not given.
        heads: draw the attention of every head of every layer instead.
        layer: the same for these layers only, counted from 0, or from the end with -1.
    """
    from vitreous.insight import explanation
    from vitreous.insight.style import check_format, save
    from vitreous.predict import read_sample
    from vitreous.run.embedding import check_answers
    from vitreous.run.folder import translates
    from vitreous.run.predictor import load

    check_format(out)
    if translates(run):
        from vitreous.text.runs import draw_alignment, refuse_options

        options = {"row": row, "target": target, "layer": layer, "heads": heads, "anode": anode}
        refuse_options(run, options | {"wavelength": wavelength, "merge": merge})
        remarks = draw_alignment(run, input, out)
    else:
        predictor = load(run)
        check_answers(predictor.task, run)
        if heads or layer:
            _check_attention(run, predictor.model)
        name, sample = read_sample(predictor, input, row, anode, wavelength)
        with predictor.merging(merge):
            if heads or layer:
                answer = explanation.explain_heads(predictor, sample, layer or None, target, Path(name).name)
            else:
                answer = explanation.explain(predictor, sample, target, Path(name).name)
        save(answer.figure, out)
        remarks = answer.text
    for line in remarks:
        print(line)
    print(f"The figure is in {out}")


def _check_attention(run: Path, model: object) -> None:
    from vitreous.core.errors import InputError
    from vitreous.nn.vit import ViT

    if not getattr(model, "attends", False):
        kind = "has blocks without mixing and" if isinstance(model, ViT) else "is a CNN, which"
        raise InputError(f"heads: {run} {kind} has no attention; leave it out for attributions")
