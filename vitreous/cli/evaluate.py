"""`vitreous eval`: scores of a run on labelled data."""

from typing import Annotated

from tyro.conf import Positional, arg

from vitreous.cli.options import MergeOption, PartOption, RunArgument, TargetOption


def evaluate(
    run: RunArgument,
    data: Annotated[str | None, Positional, arg(metavar="[DATA]")] = None,
    *,
    target: TargetOption = (),
    part: PartOption = "test",
    merge: MergeOption = (),
) -> None:
    """Score a run on labelled data.

    Args:
        data: digits, mnist, a folder of images or a file of spectra. For a run that translates: a file with a source, a
            tab and a target in each line, or nothing for its own data.
    """
    from vitreous.core.errors import InputError
    from vitreous.data import read
    from vitreous.recipes.jobs import part_rows
    from vitreous.run.folder import translates
    from vitreous.run.predictor import load

    if translates(run):
        from vitreous.text.runs import refuse_options, score_translations

        refuse_options(run, {"target": target, "merge": merge})
        scores = score_translations(run, data, part)
    elif data is None:
        raise InputError(f"data: name labelled data to score {run} on")
    else:
        predictor, source = load(run), read(data, target)
        rows = part_rows(run, predictor, source, part)
        samples = predictor.check(predictor.on_axis(source)[rows])
        assert source.y is not None
        with predictor.merging(merge):
            scores = predictor.score(samples, source.y[rows])
    for name, value in scores.items():
        print(f"{name:12s} {value:.6g}")
