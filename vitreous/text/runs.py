"""What people do with a run that translates: translate texts, score it, draw an alignment (S2.1)."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vitreous.core.errors import InputError
from vitreous.insight.style import check_format, figure, save
from vitreous.text.job import translate_greedily
from vitreous.text.pairs import en_de, read_lines, read_pairs, split_pairs
from vitreous.text.task import corpus_scores
from vitreous.text.translator import Alignment, load_translator

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_DATA = {"en-de": en_de}
"""Pairs that a run can be scored on by the name of its data."""
_CELL = 0.32  # inches of a word


def refuse_options(run: Path, options: Mapping[str, object]) -> None:
    """Raise `InputError` for the first option that is set; runs that translate have none of them."""
    for name, value in options.items():
        if value:
            raise InputError(f"{name}: found {value}, but {run} translates texts, which have none")


def translate(run: Path, texts: Sequence[str]) -> list[dict[str, Any]]:
    """One record for every text, or for every line of a text file."""
    translator = load_translator(run)
    lines = [line for text in texts for line in _lines_of(text)]
    return [{"text": line, "translation": target} for line, target in zip(lines, translator(lines), strict=True)]


def _lines_of(text: str) -> list[str]:
    """The lines of a text file; a text that does not name such a file is one line."""
    path = Path(text)
    if path.suffix != ".txt" or (len(text.split()) > 1 and not path.is_file()):
        return [text]
    lines = [line for line in read_lines(path) if line.strip()]
    if not lines:
        raise InputError(f"{path}: holds no text")
    return lines


def score_translations(run: Path, data: str | None, part: str) -> dict[str, float]:
    """BLEU and chrF of a run, by greedy search, on a part of its own pairs or of those in a file."""
    translator = load_translator(run)
    if data is None and translator.data not in _DATA:
        raise InputError(f"data: the run was trained on {translator.data!r}; name a file of pairs")
    all_pairs = _DATA[translator.data]() if data is None else split_pairs(data, read_pairs(Path(data)))
    pairs = all_pairs.of(part)
    if not pairs:
        raise InputError(f"part: {all_pairs.name} has no {part} part; choose another, or all")
    rows = translator.subwords.encode([source for source, _ in pairs])
    texts = translate_greedily(translator.model, translator.subwords, rows)
    return corpus_scores(texts, [target for _, target in pairs])


def draw_alignment(run: Path, text: str, out: Path) -> Sequence[str]:
    """Draw which source words each word of a translation attends to.

    Returns the translation, and for each of its words the source word that it rests on most.
    """
    check_format(out)
    translator, lines = load_translator(run), _lines_of(text)
    if len(lines) > 1:
        raise InputError(f"{text}: has {len(lines)} lines; give one sentence to explain")
    alignment = translator.align(lines[0])
    save(alignment_figure(alignment, f"{translator.task.source} → {translator.task.target}"), out)
    target = alignment.target[:-1]
    sources = zip(target, alignment.weights, strict=False)
    pairs = [f"{word} ← {alignment.source[row.argmax()]} ({row.max():.0%})" for word, row in sources]
    return " ".join(target), *pairs


def alignment_figure(alignment: Alignment, name: str = "") -> "Figure":
    """Target words down, source words across, as dark as their weight."""
    source, target = alignment.source, alignment.target
    with figure(max(3.0, 1.6 + _CELL * len(source)), max(2.4, 1.6 + _CELL * len(target))) as drawing:
        axes = drawing.add_subplot()
        image = axes.imshow(alignment.weights, cmap="Greys", vmin=0, vmax=1, aspect="equal")
        axes.set_xticks(range(len(source)), source, rotation=60, ha="left", rotation_mode="anchor")
        axes.set_yticks(range(len(target)), target)
        axes.tick_params(top=True, labeltop=True, bottom=False, labelbottom=False, length=0)
        axes.spines[:].set_visible(False)
        drawing.colorbar(image, ax=axes, label="attention", shrink=0.6)
        drawing.suptitle(name)
    return drawing
