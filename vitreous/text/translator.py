"""`Translator`: texts in, translations and alignments out, from a run folder. Loading never executes code."""

import re
from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

import torch
from numpy.typing import NDArray

from vitreous.core.checksums import read_verified
from vitreous.core.errors import InputError
from vitreous.nn.record import record
from vitreous.run.folder import check_finished, translates
from vitreous.run.task_file import read_as
from vitreous.text.batches import pad_rows, tokens_to_lists
from vitreous.text.decode import beam, greedy
from vitreous.text.models import TextModel, load_text_model
from vitreous.text.subwords import Subwords
from vitreous.text.task import Translation
from vitreous.text.transformer import END, START, Seq2Seq

SUBWORDS = "subwords.json"
BEAM = 4
"""Beams of a search."""
_BATCH_TOKENS = 2**15  # source tokens that are translated together
_SENTENCE = re.compile(r"(?<=[.!?…])(?<!e\.g\.)(?<!i\.e\.)(?<!etc\.)(?<!vs\.) (?=[\"'“‘(]*[A-Z0-9])")
_STOP = re.compile(r"(?<=[.!?…]) ")  # further places to split a sentence that is too long
_CUT = " …"  # follows a translation without an end


class Alignment(NamedTuple):
    """Where a translation looks: `weights` `(target words, source words)`, whose rows sum to one."""

    source: tuple[str, ...]
    target: tuple[str, ...]
    weights: NDArray[Any]


class Translator:
    """A trained model with its languages, its vocabulary and the name of the pairs that it was trained on."""

    def __init__(self, model: TextModel, task: Translation, subwords: Subwords, data: str = "") -> None:
        self.model, self.task, self.subwords, self.data = model.eval(), task, subwords, data

    def __call__(self, texts: Sequence[str], width: int = BEAM) -> list[str]:
        """The translation of each text, sentence by sentence; … follows a translation that has no end."""
        if isinstance(texts, str):
            raise InputError(f"texts: found one text, expected a list of them: [{texts[:30]!r}]")
        parts = [self._sentences(text) for text in texts]
        translations = translate_tokens(self.model, [row for sentences in parts for row in sentences], width)
        decoded = self.subwords.decode(each.tokens for each in translations)
        texts_out = iter(text + _CUT * (not each.ended) for text, each in zip(decoded, translations, strict=True))
        return [" ".join(next(texts_out) for _ in sentences) for sentences in parts]

    def align(self, text: str) -> Alignment:
        """The translation of one sentence, and how much each of its words attends to every source word.

        Mean over the heads of the decoder's second-to-last block (or its only one), which aligns best (Garg et al.
        2019). The attention to a word is the sum over its subwords; that of a word is their mean.
        """
        sentences = self._sentences(text)
        if len(sentences) > 1:
            raise InputError(f"text: is drawn sentence by sentence; give one of its {len(sentences)}")
        source = [*sentences[0], END]
        ((target, _),) = translate_tokens(self.model, sentences, BEAM)
        x, y = (torch.tensor([row], device=self.model.table.device) for row in (source, [START, *target]))
        layer = max(0, len(self.model.blocks) - 2)
        with torch.no_grad(), record(self.model, layers=[layer]) as seen:
            self.model.decode(y, self.model.encode(x))
        weights = seen[f"blocks.{layer}.cross"][0].float().mean(0).cpu()  # (T + 1, S + 1)
        columns, rows = self.subwords.words(source), self.subwords.words([*target, END])
        weights = torch.stack([weights[:, places].sum(1) for _, places in columns], dim=1)
        weights = torch.stack([weights[places].mean(0) for _, places in rows])
        return Alignment(tuple(word for word, _ in columns), tuple(word for word, _ in rows), weights.numpy())

    def _sentences(self, text: str) -> list[list[int]]:
        """The sentences of a text as tokens, as in training."""
        text = " ".join(text.split())
        if not text:
            raise InputError("text: is empty; give a sentence to translate")
        if any("\ud800" <= character <= "\udfff" for character in text):  # bytes that are not valid UTF-8
            raise InputError("text: is not valid UTF-8")
        unknown = self.subwords.unknown(text)
        if unknown:
            characters = " ".join(repr(character) for character in unknown[:8])
            raise InputError(f"text: has characters that are not in the vocabulary: {characters}")
        most = self.model.length - 1  # one is the end token
        pieces: list[str] = []
        for piece in _SENTENCE.split(text):
            pieces += [piece] if len(self.subwords.encode([piece])[0]) <= most else _STOP.split(piece)
        rows = self.subwords.encode(pieces)
        for piece, row in zip(pieces, rows, strict=True):
            if len(row) > most:
                sentence = f"the sentence '{piece[:30]}…' has {len(row)} tokens"
                raise InputError(f"text: {sentence}, the run takes {most}; cut it in two")
        return rows


class TokenTranslation(NamedTuple):
    """A translation as tokens, without the end token, and whether there was one."""

    tokens: list[int]
    ended: bool


def translate_tokens(model: Seq2Seq, rows: Sequence[Sequence[int]], width: int = 1) -> list[TokenTranslation]:
    """Translations of rows of tokens (without end tokens); greedy search if `width` is 1, beam search otherwise.

    Rows of similar length are translated together. A translation without an end is cut at about twice the length of
    the longest source of its batch.
    """
    order = sorted(range(len(rows)), key=lambda i: len(rows[i]))
    device, translations = model.table.device, dict[int, TokenTranslation]()
    while order:
        count = 1
        while count < len(order) and (count + 1) * width * (len(rows[order[count]]) + 1) <= _BATCH_TOKENS:
            count += 1
        batch, order = order[:count], order[count:]
        length = len(rows[batch[-1]]) + 1
        source = pad_rows([[*rows[i], END] for i in batch], length).to(device)
        most = min(model.length, 2 * length + 16)
        tokens = (greedy(model, source, most) if width == 1 else beam(model, source, width, most)).tokens.cpu()
        ended = (tokens == END).any(1).tolist()
        translations |= dict(zip(batch, map(TokenTranslation, tokens_to_lists(tokens), ended), strict=True))
    return [translations[i] for i in range(len(rows))]


def load_translator(folder: str | PathLike[str], device: str = "cpu") -> Translator:
    """The translator of a run folder."""
    folder = Path(folder)
    if not translates(folder):
        raise InputError(f"{folder}: does not translate texts")
    check_finished(folder)
    task, data = read_as(folder, lambda values: (Translation.from_dict(values["task"]), str(values["data"])))
    subwords, model = read_subwords(folder), load_text_model(folder)
    if len(subwords) != model.config.vocabulary:
        raise InputError(f"{folder / SUBWORDS}: has {len(subwords)} tokens, the model {model.config.vocabulary}")
    return Translator(model.to(torch.device(device)), task, subwords, data)


def read_subwords(folder: Path) -> Subwords:
    """The vocabulary of a run."""
    content = read_verified(folder / SUBWORDS)
    try:
        return Subwords(content.decode())
    except (InputError, UnicodeDecodeError) as fault:
        if "pip install" in str(fault):
            raise
        raise InputError(f"{folder / SUBWORDS}: {fault}") from None
