"""What the commands do with runs that translate, apart from their flags."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from vitreous.data.pairs import Pairs, read_pairs, split_pairs
from vitreous.errors import InputError
from vitreous.insight.alignment import explain_translation
from vitreous.insight.style import check_format, save
from vitreous.train.recipes import TEXTS
from vitreous.train.translate import TextExperiment, answers
from vitreous.train.translation import scores
from vitreous.train.translator import load_translator


def adjusted(found: TextExperiment, changes: dict[str, Any]) -> TextExperiment:
    """The experiment with `changes` to its training, None for none."""
    changes = {name: value for name, value in changes.items() if value is not None}
    epochs = changes.pop("epochs", 0.0)
    return replace(found, train=replace(found.train, **changes), epochs=epochs)


def refuse(run: Path, others: Mapping[str, object]) -> None:
    """Raise `InputError` for the first option that is given and that texts do not have."""
    for name, value in others.items():
        if value:
            raise InputError(f"{name}: found {value}, but {run} translates texts, which have none")


def translate(run: Path, texts: Sequence[str]) -> list[dict[str, Any]]:
    """One record for every text, or for every line of a text file."""
    translator = load_translator(run)
    lines = [line for text in texts for line in _lines(text)]
    return [{"text": line, "translation": found} for line, found in zip(lines, translator(lines), strict=True)]


def _lines(text: str) -> list[str]:
    """The lines of a text file, or what is no such file's name itself."""
    path = Path(text)
    if path.suffix != ".txt" or (len(text.split()) > 1 and not path.is_file()):
        return [text]
    try:
        found = [line for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    except FileNotFoundError:
        raise InputError(f"{path}: no such file") from None
    except (OSError, UnicodeDecodeError) as fault:
        raise InputError(f"{path}: cannot be read ({fault})") from None
    if not found:
        raise InputError(f"{path}: holds no text")
    return found


def score(run: Path, data: str | None, part: str) -> dict[str, float]:
    """BLEU and chrF of a run, by greedy search, on a part of its own pairs or of those of a file."""
    translator = load_translator(run)
    known = _own(translator.data) if data is None else split_pairs(data, read_pairs(Path(data)))
    pairs = known.of(part)
    if not pairs:
        raise InputError(f"part: {known.name} has no {part} part; choose another, or all of it")
    rows = translator.subwords.encode([source for source, _ in pairs])
    return scores(answers(translator.model, translator.subwords, rows), [target for _, target in pairs])


def _own(name: str) -> Pairs:
    """The pairs that a run was trained on."""
    recipe = f"translate-{name}"
    if recipe not in TEXTS:
        raise InputError(f"data: the run was trained on {name!r}; name a file of pairs")
    return TEXTS[recipe]().pairs


def draw(run: Path, text: str, out: Path) -> Sequence[str]:
    """Draw which words of a text each word of its translation rests on; returns what there is to say about it."""
    check_format(out)
    translator, lines = load_translator(run), _lines(text)
    if len(lines) > 1:
        raise InputError(f"{text}: has {len(lines)} lines; give one sentence to explain")
    told = explain_translation(translator.align(lines[0]), f"{translator.task.source} → {translator.task.target}")
    save(told.figure, out)
    return told.text
