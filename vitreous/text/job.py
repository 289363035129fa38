"""Training of a translator: pairs, subwords, model and task as a job.

Beside the files of every run, `subwords.json` is the vocabulary and `test.tsv` holds source, reference and translation
of the test part.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from accelerate import Accelerator
from torch import Tensor

from vitreous.core.atomic import write_atomically
from vitreous.core.errors import InputError
from vitreous.core.extras import load_extra
from vitreous.data.source import PARTS
from vitreous.nn.models import describe
from vitreous.run.folder import TASK, write_json
from vitreous.run.provenance import Provenance
from vitreous.run.task_file import VERSION
from vitreous.text.batches import BucketBatches, TokenPairs, batches_in_order
from vitreous.text.models import TextConfig, TextModel, build_text_model, load_text_model
from vitreous.text.pairs import Pair, Pairs
from vitreous.text.subwords import Subwords
from vitreous.text.task import Translation, corpus_scores
from vitreous.text.translator import SUBWORDS, read_subwords, translate_tokens
from vitreous.train.batches import Batch
from vitreous.train.config import TrainConfig
from vitreous.train.fingerprint import digest_arrays, flatten
from vitreous.train.job import Job, TrainedModel

TRANSLATIONS = "test.tsv"


@dataclass(eq=False)
class TranslationJob(Job):
    """A training on pairs of sentences.

    Args:
        pairs: sentences and their translations.
        config: the model; its `vocabulary` is set from the subwords.
        settings: how to train; the batch size counts tokens of the target, with padding.
        languages: of source and target.
        subwords: a vocabulary, or the size of one that is learned from the training part.
        label_smoothing: of the loss.
        epochs: if not 0, how often every pair is used, in place of the steps.
        scored: whether BLEU and chrF are computed; otherwise the translations are only written.
        provenance: where data and settings come from.
    """

    pairs: Pairs
    config: TextConfig
    settings: TrainConfig = field(default_factory=TrainConfig)
    languages: tuple[str, str] = ("source", "target")
    subwords: int | Subwords = 8000
    label_smoothing: float = 0.1
    epochs: float = 0.0
    scored: bool = True
    provenance: Provenance = field(default_factory=Provenance)

    # set by `setup`
    model: TextModel = field(init=False, repr=False)
    task: Translation = field(init=False, repr=False)
    vocabulary: Subwords = field(init=False, repr=False)
    device: torch.device = field(init=False, repr=False)
    is_main: bool = field(init=False, repr=False)
    _coded: dict[str, TokenPairs] = field(init=False, repr=False)
    _batches: BucketBatches = field(init=False, repr=False)
    _validation: list[Batch] = field(init=False, repr=False)

    def fingerprint(self) -> dict[str, Any]:
        size = self.subwords if isinstance(self.subwords, int) else digest_arrays(text=self.subwords.content)
        choices = {"languages": self.languages, "label_smoothing": self.label_smoothing, "subwords": size}
        texts = {f"{part} texts": digest_arrays(text=repr(self.pairs.of(part))) for part in PARTS}
        return super().fingerprint() | choices | texts | flatten("model", describe(self.config))

    def setup(self, accelerator: Accelerator, folder: Path, resume: bool) -> None:
        self._check()
        self.device, self.is_main = accelerator.device, accelerator.is_main_process
        self.task = Translation(*self.languages, self.label_smoothing)
        self.vocabulary = self._read_vocabulary(folder, resume)
        coded = self._coded = {part: encode_pairs(self.pairs.of(part), self.vocabulary) for part in PARTS}
        settings, length = self.settings, self.config.length
        place = self.device, accelerator.process_index, accelerator.num_processes
        for part in ("train", "validation"):
            coded[part] = [pair for pair in coded[part] if max(len(row) for row in pair) < length]
        if not coded["train"]:
            raise InputError(f"{self.pairs.name}: no training pair has fewer than {length} tokens")
        self._batches = BucketBatches(coded["train"], settings.batch, length, settings.seed, *place)
        if self.epochs:
            self.settings = settings.with_steps(max(1, round(self.epochs * len(self._batches))))
        torch.manual_seed(settings.seed)
        self.model = build_text_model(replace(self.config, vocabulary=len(self.vocabulary)))
        self._validation = batches_in_order(coded["validation"], settings.batch, length)
        self.better, self.validates = self.task.better, bool(self._validation)

    def _check(self) -> None:
        settings = self.settings
        if settings.accumulate > 1 or settings.shard:
            raise InputError("accumulate, shard: are not for texts; a smaller --batch, of tokens, takes less memory")
        if settings.freeze or settings.layer_decay != 1 or settings.stream != "float32":
            raise InputError("freeze, layer_decay, stream: are not for texts")
        if self.epochs < 0:
            raise InputError(f"epochs: found {self.epochs:g}, expected more than 0")
        if self.scored:
            load_extra("sacrebleu", "translate")  # before the training, not after it

    def _read_vocabulary(self, folder: Path, resume: bool) -> Subwords:
        """The vocabulary of a run that continues, or one that is learned from both languages of the training part."""
        if resume and (folder / SUBWORDS).is_file():
            return read_subwords(folder)
        if isinstance(self.subwords, Subwords):
            return self.subwords
        return Subwords.learned((text for pair in self.pairs.train for text in pair), self.subwords)

    def with_changes(self, changes: Mapping[str, Any]) -> "TranslationJob":
        changed = {name: value for name, value in changes.items() if value is not None}
        for name, flag in {"scale": "scale", "start": "from"}.items():
            if name in changed:
                raise InputError(f"{flag}: is not for texts")
        epochs = changed.pop("epochs", 0.0)
        return replace(self, settings=replace(self.settings, **changed), epochs=epochs)

    def batches(self, step: int) -> Batch:
        return self._batches(step)

    def loss(self, out: Tensor, y: Tensor) -> Tensor:
        return self.task.loss(out, y)

    @torch.no_grad()
    def evaluate(self, model: TrainedModel) -> dict[str, float]:
        """Loss without smoothing, and the share of tokens that are the likeliest after those before them."""
        totals: dict[str, Tensor] = {}
        for x, y in self._validation:
            for name, value in self.task.counts(model(x.to(self.device)).float(), y.to(self.device)).items():
                totals[name] = totals.get(name, torch.zeros_like(value)) + value
        return {name: float(value / totals["tokens"]) for name, value in totals.items() if name != "tokens"}

    def describe(self, folder: Path) -> dict[str, Any]:
        write_atomically(folder / SUBWORDS, self.vocabulary.content.encode())
        write_json(folder / TASK, {"version": VERSION, "data": self.pairs.name, "task": self.task.to_dict()})
        samples = {part: len(self.pairs.of(part)) for part in PARTS} | {"train": len(self._coded["train"])}
        size = self.subwords if isinstance(self.subwords, int) else len(self.subwords)
        return {"label_smoothing": self.label_smoothing, "subwords": size, "samples": samples}

    def finish(self, folder: Path) -> dict[str, Any]:
        model = load_text_model(folder).to(self.device).eval()
        result: dict[str, Any] = {"parameters": sum(p.numel() for p in model.parameters())}
        if self.validates:
            result["validation"] = self.evaluate(model)
        if self.pairs.test:
            texts = translate_greedily(model, self.vocabulary, [row for row, _ in self._coded["test"]])
            if self.is_main:
                write_translations(folder / TRANSLATIONS, self.pairs.test, texts)
            if self.scored:
                result["test"] = corpus_scores(texts, [target for _, target in self.pairs.test])
        return result


def encode_pairs(pairs: Sequence[Pair], subwords: Subwords) -> TokenPairs:
    """Pairs of sentences as tokens."""
    columns = (subwords.encode([pair[side] for pair in pairs]) for side in (0, 1))
    return list(zip(*columns, strict=True))


def translate_greedily(model: TextModel, subwords: Subwords, rows: Sequence[Sequence[int]]) -> list[str]:
    """Translations by greedy search; empty for a source that is longer than the model takes."""
    fits = [len(row) < model.length for row in rows]
    translations = translate_tokens(model, [row for row, fit in zip(rows, fits, strict=True) if fit])
    texts = iter(subwords.decode(translation.tokens for translation in translations))
    return [next(texts) if fit else "" for fit in fits]


def write_translations(path: Path, pairs: Sequence[Pair], texts: Sequence[str]) -> None:
    """Write `test.tsv`: source, reference and translation in each line."""
    lines = ["\t".join([*pair, " ".join(text.split())]) for pair, text in zip(pairs, texts, strict=True)]
    write_atomically(path, ("\n".join(lines) + "\n").encode())


def read_translations(path: Path) -> list[tuple[str, str, str]]:
    """The inverse of `write_translations`."""
    rows = [line.split("\t") for line in path.read_text(encoding="utf-8").splitlines()]
    return [(source, reference, text) for source, reference, text in rows]
