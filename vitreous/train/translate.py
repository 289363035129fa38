"""A run that translates: pairs, subwords, model, task and the loop put together, and the folder it leaves.

Beside the files of every run, `subwords.json` is the vocabulary and `test.tsv` what the run makes of the test part:
source, reference and translation.
"""

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from accelerate import Accelerator
from torch import Tensor

from vitreous.atomic import write_atomically
from vitreous.data.extras import load_extra
from vitreous.data.pairs import Pair, Pairs
from vitreous.data.source import PARTS
from vitreous.data.subwords import Subwords
from vitreous.errors import InputError
from vitreous.nn.models import TextConfig, TextModel, build
from vitreous.train.about import TASK, VERSION
from vitreous.train.batches import Buckets, Coded, in_order
from vitreous.train.config import TrainConfig
from vitreous.train.course import Course, finished, follow
from vitreous.train.run import EXPERIMENT, machine, made_with
from vitreous.train.stream import Batch
from vitreous.train.translation import Translation, scores
from vitreous.train.translator import SUBWORDS, read_subwords, translated
from vitreous.zoo.weights import load_text_model

ANSWERS = "test.tsv"


@dataclass(frozen=True)
class TextExperiment:
    """All that decides a run that translates.

    Args:
        pairs: sentences and their translations.
        model: its `vocabulary` is set from the subwords.
        train: how to train; its `batch` counts tokens of the target, padding included.
        languages: of source and target.
        subwords: a vocabulary, or the size of one that is learnt from the training part.
        label_smoothing: of the loss.
        epochs: if not 0, times that every pair is seen, in place of the steps.
        scored: whether BLEU and chrF are computed; else the translations are left to be scored elsewhere.
        command: words of the command that makes it, but for `--out`.
    """

    pairs: Pairs
    model: TextConfig
    train: TrainConfig = field(default_factory=TrainConfig)
    languages: tuple[str, str] = ("source", "target")
    subwords: int | Subwords = 8000
    label_smoothing: float = 0.1
    epochs: float = 0.0
    scored: bool = True
    command: tuple[str, ...] = ()


@torch.random.fork_rng()
def train_text(
    experiment: TextExperiment,
    folder: Path,
    resume: bool = False,
    device: str = "auto",
    tensorboard: bool = False,
    bar: bool = True,
) -> dict[str, Any]:
    """Train, translate the test part and leave a run folder; returns what `result.json` says.

    With `resume`, go on where the run in the folder stopped, or begin it if there is none.
    """
    started, e = time.monotonic(), experiment
    found = finished(folder, resume)
    if found is not None:
        return found
    if e.train.accumulate > 1 or e.train.shard:
        raise InputError("accumulate, shard: are not for texts; a smaller --batch, of tokens, takes less memory")
    if e.train.freeze or e.train.layer_decay != 1 or e.train.stream != "float32":
        raise InputError("freeze, layer_decay, stream: are not for texts")
    if e.scored:
        load_extra("sacrebleu", "translate")  # before the training rather than after it
    task = Translation(*e.languages, e.label_smoothing)
    subwords = _subwords(e, folder, resume)
    coded = {part: _coded(e.pairs.of(part), subwords) for part in PARTS}
    accelerator = machine(e.train.precision, device)
    place = accelerator.device, accelerator.process_index, accelerator.num_processes
    fitting = [pair for pair in coded["train"] if _longest(pair) < e.model.length]
    if not fitting:
        raise InputError(f"{e.pairs.name}: no pair to train on has fewer than {e.model.length} tokens")
    stream = Buckets(fitting, e.train.batch, e.model.length, e.train.seed, *place)
    config = e.train
    if e.epochs < 0:
        raise InputError(f"epochs: found {e.epochs:g}, expected more than 0")
    if e.epochs:
        steps = max(1, round(e.epochs * len(stream)))
        config = replace(config, steps=steps, evaluate_every=max(1, min(config.evaluate_every, steps // 10)))
    torch.manual_seed(config.seed)
    model = build(replace(e.model, vocabulary=len(subwords)))
    known = [pair for pair in coded["validation"] if _longest(pair) < e.model.length]
    check = in_order(known, config.batch, e.model.length)

    def evaluate(trained: Callable[[Tensor], Tensor]) -> dict[str, float]:
        return _evaluated(trained, task, check, accelerator.device)

    def tell() -> None:
        about = {"version": VERSION, "data": e.pairs.name, "task": task.to_dict()}
        write_atomically(folder / SUBWORDS, subwords.content.encode())
        _write(folder / TASK, about)
        _write(folder / EXPERIMENT, _told(e, config, len(fitting), accelerator))

    def finish() -> dict[str, Any]:
        trained = load_text_model(folder).to(accelerator.device).eval()
        result: dict[str, Any] = {"parameters": sum(p.numel() for p in trained.parameters())}
        if check:
            result["validation"] = evaluate(trained)
        pairs = e.pairs.test
        if pairs:
            texts = answers(trained, subwords, [row for row, _ in coded["test"]])
            if accelerator.is_main_process:
                write_answers(folder / ANSWERS, pairs, texts)
            if e.scored:
                result["test"] = scores(texts, [target for _, target in pairs])
        return result

    course = Course(model, task.loss, task.better, stream, _as_is, evaluate if check else None, config, tell, finish)
    return follow(course, folder, accelerator, started, resume, tensorboard, bar)


def _as_is(x: Tensor, y: Tensor) -> Batch:
    return x, y


def _subwords(e: TextExperiment, folder: Path, resume: bool) -> Subwords:
    """The vocabulary of a run that goes on, or one that is learnt from both languages of the training part."""
    if resume and (folder / SUBWORDS).is_file():
        return read_subwords(folder)
    if isinstance(e.subwords, Subwords):
        return e.subwords
    return Subwords.learnt((text for pair in e.pairs.train for text in pair), e.subwords)


def _coded(pairs: Sequence[Pair], subwords: Subwords) -> Coded:
    columns = (subwords.encode([pair[side] for pair in pairs]) for side in (0, 1))
    return list(zip(*columns, strict=True))


def _longest(pair: tuple[Sequence[int], Sequence[int]]) -> int:
    return max(len(row) for row in pair)


@torch.no_grad()
def _evaluated(
    model: Callable[[Tensor], Tensor], task: Translation, batches: Sequence[Batch], device: torch.device
) -> dict[str, float]:
    """Loss, without smoothing, and share of the tokens that are the likeliest, given those before them."""
    total: dict[str, Tensor] = {}
    for x, y in batches:
        for name, value in task.counts(model(x.to(device)).float(), y.to(device)).items():
            total[name] = total.get(name, torch.zeros_like(value)) + value
    return {name: float(value / total["tokens"]) for name, value in total.items() if name != "tokens"}


def answers(model: TextModel, subwords: Subwords, rows: Sequence[Sequence[int]]) -> list[str]:
    """Translations by greedy search; of a source that is longer than the model takes there is none, which counts."""
    fit = [len(row) < model.length for row in rows]
    written = translated(model, [row for row, fits in zip(rows, fit, strict=True) if fits])
    found = iter(subwords.decode(each.tokens for each in written))
    return [next(found) if fits else "" for fits in fit]


def write_answers(path: Path, pairs: Sequence[Pair], texts: Sequence[str]) -> None:
    """`test.tsv`: source, reference and translation in each line."""
    lines = ["\t".join([*pair, " ".join(text.split())]) for pair, text in zip(pairs, texts, strict=True)]
    write_atomically(path, ("\n".join(lines) + "\n").encode())


def read_answers(path: Path) -> list[tuple[str, str, str]]:
    """The inverse of `write_answers`."""
    rows = [line.split("\t") for line in path.read_text(encoding="utf-8").splitlines()]
    return [(source, reference, text) for source, reference, text in rows]


def _told(e: TextExperiment, config: TrainConfig, fitting: int, accelerator: Accelerator) -> dict[str, Any]:
    """How the run is made, for those who want to make it again."""
    return {
        "command": list(e.command),
        "train": config.to_dict(),
        "label_smoothing": e.label_smoothing,
        "subwords": e.subwords if isinstance(e.subwords, int) else len(e.subwords),
        "samples": {part: len(e.pairs.of(part)) for part in PARTS} | {"train": fitting},
        "made_with": made_with(config.precision, accelerator),
    }


def _write(path: Path, about: dict[str, Any]) -> None:
    write_atomically(path, (json.dumps(about, indent=1) + "\n").encode())
