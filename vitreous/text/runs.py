"""What people do with a run that translates: translate texts, score it, draw an alignment."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from vitreous.core.errors import InputError
from vitreous.insight.style import check_format, save
from vitreous.text.alignment import explain_translation
from vitreous.text.job import translate_greedily
from vitreous.text.pairs import Pairs, en_de, read_pairs, split_pairs
from vitreous.text.task import corpus_scores
from vitreous.text.translator import load_translator

_DATA = {"en-de": en_de}
"""Pairs that a run can be scored on by the name of its data."""


def refuse_options(run: Path, options: Mapping[str, object]) -> None:
    """Raise `InputError` for the first option that is set; runs that translate have none of them."""
    for name, value in options.items():
        if value:
            raise InputError(f"{name}: found {value}, but {run} translates texts, which have none")


def translate(run: Path, texts: Sequence[str]) -> list[dict[str, Any]]:
    """One record for every text, or for every line of a text file."""
    translator = load_translator(run)
    lines = [line for text in texts for line in _read_lines(text)]
    return [{"text": line, "translation": target} for line, target in zip(lines, translator(lines), strict=True)]


def _read_lines(text: str) -> list[str]:
    """The lines of a text file; a text that does not name such a file is one line."""
    path = Path(text)
    if path.suffix != ".txt" or (len(text.split()) > 1 and not path.is_file()):
        return [text]
    try:
        lines = [line for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    except FileNotFoundError:
        raise InputError(f"{path}: no such file") from None
    except (OSError, UnicodeDecodeError) as fault:
        raise InputError(f"{path}: cannot be read ({fault})") from None
    if not lines:
        raise InputError(f"{path}: holds no text")
    return lines


def score_translations(run: Path, data: str | None, part: str) -> dict[str, float]:
    """BLEU and chrF of a run, by greedy search, on a part of its own pairs or of those in a file."""
    translator = load_translator(run)
    all_pairs = _own_pairs(translator.data) if data is None else split_pairs(data, read_pairs(Path(data)))
    pairs = all_pairs.of(part)
    if not pairs:
        raise InputError(f"part: {all_pairs.name} has no {part} part; choose another, or all")
    rows = translator.subwords.encode([source for source, _ in pairs])
    texts = translate_greedily(translator.model, translator.subwords, rows)
    return corpus_scores(texts, [target for _, target in pairs])


def _own_pairs(name: str) -> Pairs:
    """The pairs that a run was trained on."""
    if name not in _DATA:
        raise InputError(f"data: the run was trained on {name!r}; name a file of pairs")
    return _DATA[name]()


def draw_alignment(run: Path, text: str, out: Path) -> Sequence[str]:
    """Draw which source words each word of a translation attends to; returns remarks about it."""
    check_format(out)
    translator, lines = load_translator(run), _read_lines(text)
    if len(lines) > 1:
        raise InputError(f"{text}: has {len(lines)} lines; give one sentence to explain")
    explanation = explain_translation(
        translator.align(lines[0]), f"{translator.task.source} → {translator.task.target}"
    )
    save(explanation.figure, out)
    return explanation.text
