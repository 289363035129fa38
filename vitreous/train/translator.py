"""`Translator`: texts in, translations out, and what each word rests on, from a run folder. Loading runs no code."""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

import torch
from numpy.typing import NDArray
from torch import Tensor

from vitreous.data.subwords import Subwords
from vitreous.errors import InputError
from vitreous.kind import TASK, translates
from vitreous.nn.decode import beam, greedy
from vitreous.nn.models import TextModel
from vitreous.nn.record import record
from vitreous.nn.seq2seq import END, START, Seq2Seq
from vitreous.train.about import VERSION
from vitreous.train.batches import padded, trimmed
from vitreous.train.course import RESULT
from vitreous.train.translation import Translation
from vitreous.zoo.weights import load_text_model

SUBWORDS = "subwords.json"
BEAM = 4
"""Beams of a search."""
_AT_ONCE = 2**15  # tokens of the sources that are translated together
_SENTENCE = re.compile(r"(?<=[.!?…])(?<!e\.g\.)(?<!i\.e\.)(?<!etc\.)(?<!vs\.) (?=[\"'“‘(]*[A-Z0-9])")
_STOP = re.compile(r"(?<=[.!?…]) ")  # where a sentence that is too long may have ended, too
_CUT = " …"  # behind a translation that does not come to an end


@dataclass(frozen=True)
class Alignment:
    """Where a translation looks: `weights` `(target words, source words)`, whose rows sum to one."""

    source: tuple[str, ...]
    target: tuple[str, ...]
    weights: NDArray[Any]


class Translator:
    """A trained model with its vocabulary.

    Args:
        model: in evaluation mode.
        task: what it translates.
        subwords: its vocabulary.
        data: name of the pairs it was trained on.
    """

    def __init__(self, model: TextModel, task: Translation, subwords: Subwords, data: str = "") -> None:
        self.model, self.task, self.subwords, self.data = model.eval(), task, subwords, data

    def __call__(self, texts: Sequence[str], width: int = BEAM) -> list[str]:
        """The translation of each text, sentence by sentence; one that does not come to an end has … behind it."""
        if isinstance(texts, str):
            raise InputError(f"texts: found one text, expected a list of them: [{texts[:30]!r}]")
        parts = [self._sentences(text) for text in texts]
        written = translated(self.model, [row for sentences in parts for row in sentences], width)
        decoded = self.subwords.decode(each.tokens for each in written)
        found = iter(text + _CUT * (not each.ended) for text, each in zip(decoded, written, strict=True))
        return [" ".join(next(found) for _ in sentences) for sentences in parts]

    def align(self, text: str) -> Alignment:
        """The translation of one sentence, and how much of each source word every word of it rests on.

        Mean over the heads of the decoder's last block but one, or of its only one: the one that aligns best (Garg et
        al. 2019). A word is looked at as much as its subwords are together, and looks as they do on average.
        """
        sentences = self._sentences(text)
        if len(sentences) > 1:
            raise InputError(f"text: is drawn sentence by sentence; give one of its {len(sentences)}")
        source = [*sentences[0], END]
        ((target, _),) = translated(self.model, sentences, BEAM)
        device = self.model.table.device
        x = torch.tensor([source], device=device), torch.tensor([[START, *target]], device=device)
        layer = max(0, len(self.model.blocks) - 2)
        with torch.no_grad(), record(self.model, layers=[layer]) as seen:
            self.model.decode(x[1], self.model.encode(x[0]))
        weights = seen[f"blocks.{layer}.cross"][0].float().mean(0).cpu()  # (T + 1, S + 1)
        columns, rows = self.subwords.words(source), self.subwords.words([*target, END])
        weights = torch.stack([weights[:, places].sum(1) for _, places in columns], dim=1)
        weights = torch.stack([weights[places].mean(0) for _, places in rows])
        return Alignment(tuple(word for word, _ in columns), tuple(word for word, _ in rows), weights.numpy())

    def _sentences(self, text: str) -> list[list[int]]:
        """The sentences of a text as tokens, which is how a model meets them in training."""
        text = " ".join(text.split())
        if not text:
            raise InputError("text: is empty; give a sentence to translate")
        if any("\ud800" <= sign <= "\udfff" for sign in text):  # what Python makes of bytes that are no signs
            raise InputError("text: is not valid UTF-8")
        unknown = self.subwords.unknown(text)
        if unknown:
            signs = " ".join(repr(sign) for sign in unknown[:8])
            raise InputError(f"text: has signs that the run has never seen: {signs}")
        most = self.model.length - 1  # and its end
        pieces = [
            part
            for piece in _SENTENCE.split(text)
            for part in ([piece] if len(self.subwords.encode([piece])[0]) <= most else _STOP.split(piece))
        ]
        rows = self.subwords.encode(pieces)
        for piece, row in zip(pieces, rows, strict=True):
            if len(row) > most:
                raise InputError(
                    f"text: the sentence '{piece[:30]}…' has {len(row)} tokens, the run takes {most}; cut it in two"
                )
        return rows


class Written(NamedTuple):
    """A translation as tokens, without its end, and whether it came to one."""

    tokens: list[int]
    ended: bool


def translated(model: Seq2Seq, rows: Sequence[Sequence[int]], width: int = 1) -> list[Written]:
    """Translations of rows of tokens, without ends, those of like length together; by greedy search if `width` is 1.

    One that does not come to an end is cut at twice the length of the longest source beside it, and a few more.
    """
    order = sorted(range(len(rows)), key=lambda i: len(rows[i]))
    device, found = model.table.device, dict[int, Written]()
    while order:
        some = _together(order, rows, width)
        length = len(rows[some[-1]]) + 1
        source = padded([[*rows[i], END] for i in some], length).to(device)
        most = min(model.length, 2 * length + 16)
        tokens: Tensor = (greedy(model, source, most) if width == 1 else beam(model, source, width, most)).tokens
        tokens = tokens.cpu()
        written = map(Written, trimmed(tokens), (tokens == END).any(1).tolist())
        found |= dict(zip(some, written, strict=True))
        order = order[len(some) :]
    return [found[i] for i in range(len(rows))]


def _together(order: Sequence[int], rows: Sequence[Sequence[int]], width: int) -> list[int]:
    """As many of the first as are translated at once."""
    count = 1
    while count < len(order) and (count + 1) * width * (len(rows[order[count]]) + 1) <= _AT_ONCE:
        count += 1
    return list(order[:count])


def load_translator(folder: str | PathLike[str], device: str = "cpu") -> Translator:
    """The translator of a run folder."""
    folder = Path(folder)
    if not translates(folder):
        raise InputError(f"{folder}: is no run that translates")
    if not (folder / RESULT).is_file():
        raise InputError(f"{folder}: the run has not finished; go on with vitreous train --resume")
    about = json.loads((folder / TASK).read_text())
    if about.get("version") != VERSION:
        raise InputError(f"{folder / TASK}: was written in format {about.get('version')}, this version reads {VERSION}")
    try:
        task, data = Translation.from_dict(about["task"]), str(about["data"])
    except (KeyError, TypeError, ValueError) as fault:
        raise InputError(f"{folder / TASK}: is damaged ({type(fault).__name__}: {fault})") from None
    subwords, model = read_subwords(folder), load_text_model(folder)
    if len(subwords) != model.config.vocabulary:
        raise InputError(f"{folder / SUBWORDS}: has {len(subwords)} tokens, the model {model.config.vocabulary}")
    return Translator(model.to(torch.device(device)), task, subwords, data)


def read_subwords(folder: Path) -> Subwords:
    """The vocabulary of a run."""
    try:
        return Subwords((folder / SUBWORDS).read_text(encoding="utf-8"))
    except OSError as fault:
        raise InputError(f"{folder / SUBWORDS}: cannot be read ({fault.strerror})") from None
    except (InputError, UnicodeDecodeError) as fault:
        if "pip install" in str(fault):
            raise
        raise InputError(f"{folder / SUBWORDS}: {fault}") from None
