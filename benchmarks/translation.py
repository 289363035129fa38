"""Recurrent attention (S2.1), by each score of S2.2, beside the Transformer (S2.4) at equal training time.

    python -m benchmarks.translation --out DIR --seconds 60 --device cuda   # trains what DIR does not hold yet
    python -m benchmarks.translation --score DIR                            # the table, by sacrebleu, anywhere
    python -m benchmarks.translation --cache RUN                            # greedy with a cache and without

The recipe `translate-en-de` decides models and training. DIR is small enough to be carried: the measurements, the
translations of the held-out tenth, and the Transformer's run in half precision, packed and cut into parts, which
`--unpack DIR --out RUN` puts together.
"""

import gc
import gzip
import io
import json
import statistics
import tarfile
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import safetensors.torch
import torch
import tyro
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table
from sklearn.feature_extraction.text import CountVectorizer
from torch import Tensor

from vitreous.text.batches import BucketBatches, pad_rows
from vitreous.text.decode import greedy
from vitreous.text.job import TRANSLATIONS, TranslationJob, read_translations
from vitreous.text.models import TextModel
from vitreous.text.pairs import Pairs, en_de
from vitreous.text.recipe import MODELS, translate_en_de
from vitreous.text.subwords import Subwords
from vitreous.text.task import corpus_scores
from vitreous.text.transformer import END
from vitreous.text.translator import load_translator
from vitreous.train import train
from vitreous.zoo.weights import WEIGHTS

MEASURED, ANSWERED, PACKED = "measured.json", "answers.json.gz", "transformer.tar.gz"
LENGTHS = (10, 20, 40, 80)
LIKE = 0.7  # share of the words above which two sentences are alike
PART = 15 << 20  # bytes of a part of the packed run
CONSOLE = Console(width=150)


def experiment(
    model: str, pairs: Pairs, subwords: Subwords, seconds: float, small: bool, vary: tuple[str, ...]
) -> TranslationJob:
    """The recipe, for so many seconds, with few evaluations on the way."""
    job = translate_en_de(pairs, model, "")
    for name, value in (word.split("=") for word in vary):
        part = "config" if hasattr(job.config, name) else "settings"
        owner = getattr(job, part)
        job = replace(job, **{part: replace(owner, **{name: type(getattr(owner, name))(value)})})
    settings = replace(job.settings, steps=200_000, minutes=seconds / 60, evaluate_every=4000)
    config = job.config
    if small:
        settings, config = replace(settings, batch=512), replace(config, dim=48, depth=2)
    return replace(job, subwords=subwords, settings=settings, config=config, scored=False)


def seconds_of(work: Callable[[], Any], device: torch.device, rounds: int = 2) -> float:
    """The median time of a few rounds, after one that is not counted."""
    found = []
    for _ in range(rounds + 1):
        started = time.perf_counter()
        work()
        if device.type == "cuda":
            torch.cuda.synchronize()
        found.append(time.perf_counter() - started)
    return statistics.median(found[1:])


def sources(coded: list[list[int]], length: int, rows: int, device: torch.device) -> Tensor:
    """Sources `(rows, length)` of real text, run together and cut."""
    stream = [token for row in coded for token in row]
    stream *= -(-rows * length // len(stream))
    return pad_rows([[*stream[i * length : (i + 1) * length - 1], END] for i in range(rows)], length).to(device)


def growth(model: TextModel, coded: list[list[int]], rows: int) -> dict[str, float]:
    """Milliseconds to translate so many sentences of each length at once, greedily, with a cache."""
    device = model.table.device
    found = {}
    for length in LENGTHS:
        source = sources(coded, length, rows, device)
        found[str(length)] = 1000 * seconds_of(lambda s=source, n=length: greedy(model, s, n, stop=False), device)  # type: ignore[misc]
    return found


def cached(model: TextModel, coded: list[list[int]], rows: int, length: int = 40) -> dict[str, Any]:
    """Milliseconds of so many sentences of 40 tokens with a cache and without, and whether both write the same."""
    device = model.table.device
    source = sources(coded, length, rows, device)
    ways = {name: lambda way=way: greedy(model, source, length, way, stop=False) for name, way in _WAYS.items()}
    found: dict[str, Any] = {f"{name} ms": 1000 * seconds_of(ways[name], device) for name in ways}  # type: ignore[arg-type]
    one, other = (ways[name]().tokens for name in ways)
    return (
        {"rows": rows} | found | {"times": found["without ms"] / found["with ms"], "equal": bool((one == other).all())}
    )


_MANY = (512, 2048)  # sentences at once that a GPU has time for
_WAYS = {"with": True, "without": False}


def measure(made: TranslationJob, folder: Path, device: str) -> tuple[dict[str, Any], list[str]]:
    """Train one model; what is to be said about it, and its translations of the test part."""
    started = time.perf_counter()
    result = train(made, folder, device=device, bar=False)
    whole = time.perf_counter() - started
    place = "cuda" if device == "auto" and torch.cuda.is_available() else device.replace("auto", "cpu")
    translator = load_translator(folder, place)
    model, subwords = translator.model, translator.subwords
    coded = subwords.encode([source for source, _ in made.pairs.test])
    coded_pairs = zip(*(subwords.encode([pair[side] for pair in made.pairs.train]) for side in (0, 1)), strict=True)
    fitting = [pair for pair in coded_pairs if max(map(len, pair)) < made.config.length]
    batches = BucketBatches(fitting, made.settings.batch, made.config.length, 0, torch.device("cpu"))
    epochs, tokens = result["steps"] / len(batches), sum(len(target) + 1 for _, target in fitting)
    told = {
        "parameters": result["parameters"],
        "steps": result["steps"],
        "seconds": 60 * made.settings.minutes,
        "seconds with all": whole,
        "validation": result["validation"],
        "tokens per second": epochs * tokens / (60 * made.settings.minutes),
        "epochs": epochs,
        "growth": growth(model, coded, 64),
        "cache": [cached(model, coded, rows) for rows in (1, 64, *(_MANY if place == "cuda" else ()))],
        "device": torch.cuda.get_device_name() if place == "cuda" else "CPU",
    }
    return told, [text for _, _, text in read_translations(folder / TRANSLATIONS)]


def unlike(pairs: Pairs, most: float = LIKE) -> NDArray[np.bool_]:
    """Which pairs of the test part share no more of their words, source or target, with any of the training part.

    As shares of all words of both (Jaccard). Messages of programs are alike: a figure of all of them says how well a
    model remembers, too.
    """
    found = np.zeros(len(pairs.test), bool)
    for side in (0, 1):
        count = CountVectorizer(binary=True, token_pattern=r"\w+")
        known = count.fit_transform([pair[side] for pair in pairs.train]).T.tocsc()
        asked, sizes = count.transform([pair[side] for pair in pairs.test]), known.sum(0)
        words = count.build_analyzer()
        whole = [len({*words(pair[side])}) for pair in pairs.test]  # with words that are new
        for row in range(len(whole)):
            both = (asked[row] @ known).toarray()
            found[row] |= bool((both > most * (whole[row] + sizes - both)).any())
    return ~found


def pack(run: Path, out: Path) -> None:
    """A run without its state, in half precision, in parts."""
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w:gz") as archive:
        for path in sorted(run.iterdir()):
            data = b"" if path.is_dir() else path.read_bytes()
            if path.name == WEIGHTS:
                with safetensors.safe_open(path, "pt") as file:
                    about = file.metadata()
                data = safetensors.torch.save({k: v.half() for k, v in safetensors.torch.load(data).items()}, about)
            if path.is_file():
                entry = tarfile.TarInfo(path.name)
                entry.size = len(data)
                archive.addfile(entry, io.BytesIO(data))
    whole = content.getvalue()
    for number, start in enumerate(range(0, len(whole), PART)):
        (out / f"{PACKED}.{number}").write_bytes(whole[start : start + PART])


def unpacked(folder: Path, run: Path) -> None:
    """The inverse of `pack`."""
    whole = b"".join(path.read_bytes() for path in sorted(folder.glob(f"{PACKED}.*")))
    run.mkdir(parents=True, exist_ok=True)
    with tarfile.open(fileobj=io.BytesIO(whole)) as archive:
        archive.extractall(run, filter="data")


def table(folder: Path) -> Table:
    """What was measured, with BLEU and chrF of the translations."""
    told, answers = json.loads((folder / MEASURED).read_text()), _read(folder)
    shown = Table(title=f"English to German, {len(answers['reference']):,} held-out sentences")
    for heading in (
        "model",
        "parameters",
        "steps",
        "epochs",
        "validation loss",
        "BLEU",
        "BLEU of the unlike",
        "chrF",
        "tokens/s",
        *(f"{n} tokens" for n in LENGTHS),
    ):
        shown.add_column(heading, justify="left" if heading == "model" else "right")
    held_out = tuple(zip(answers["source"], answers["reference"], strict=True))
    kept = unlike(replace(en_de(), test=held_out)).nonzero()[0]
    for name, row in told.items():
        found = corpus_scores(answers[name], answers["reference"])
        hard = corpus_scores(*([answers[part][i] for i in kept] for part in (name, "reference")))
        times = [f"{ms:.0f} ms" for ms in row["growth"].values()]
        numbers = (f"{row['parameters']:,}", f"{row['steps']:,}", f"{row['epochs']:.1f}")
        shown.add_row(
            name, *numbers, f"{row['validation']['loss']:.2f}", f"{found['bleu']:.1f}", f"{hard['bleu']:.1f}",
            f"{found['chrf']:.1f}", f"{row['tokens per second']:,.0f}", *times,
        )  # fmt: skip
    shown.caption = f"unlike: the {len(kept):,} that share at most {LIKE:.0%} of their words with a training pair"
    return shown


def cache_table(told: dict[str, list[dict[str, Any]]]) -> Table:
    """Greedy search with a cache beside the same without."""
    shown = Table(title="Greedy search, 40 tokens")
    for heading in ("model", "sentences", "with cache", "without", "times", "same tokens"):
        shown.add_column(heading, justify="left" if heading == "model" else "right")
    for name, rows in told.items():
        for row in rows:
            times = (f"{row[way]:.0f} ms" for way in ("with ms", "without ms"))
            shown.add_row(name, str(row["rows"]), *times, f"{row['times']:.1f}", "yes" if row["equal"] else "no")
    return shown


def _read(folder: Path) -> dict[str, list[str]]:
    path = folder / ANSWERED
    return json.loads(gzip.decompress(path.read_bytes())) if path.is_file() else {}


def _write(folder: Path, told: dict[str, Any], answers: dict[str, list[str]]) -> None:
    (folder / MEASURED).write_text(json.dumps(told, indent=1))
    (folder / ANSWERED).write_bytes(gzip.compress(json.dumps(answers, ensure_ascii=False).encode()))


def train_all(
    out: Path, seconds: float, device: str, models: tuple[str, ...], vary: tuple[str, ...], pairs: int, small: bool
) -> None:
    """Train and measure each model that the folder does not hold yet."""
    data = en_de()
    if pairs:
        data = replace(data, train=data.train[:pairs], validation=data.validation[:pairs], test=data.test[:pairs])
    out.mkdir(parents=True, exist_ok=True)
    told = json.loads((out / MEASURED).read_text()) if (out / MEASURED).is_file() else {}
    answers = _read(out) or {"source": [s for s, _ in data.test], "reference": [t for _, t in data.test]}
    subwords = Subwords.learned((text for pair in data.train for text in pair), 8000)
    for model in models:
        name = " ".join((model, *vary))
        if name in told:
            continue
        made = experiment(model, data, subwords, seconds, small, vary)
        with tempfile.TemporaryDirectory() as folder:
            told[name], answers[name] = measure(made, Path(folder) / "run", device)
            if name == "transformer":
                pack(Path(folder) / "run", out)
        _write(out, told, answers)
        CONSOLE.print(f"{name}: {json.dumps(told[name])}", highlight=False)
        gc.collect()  # the last model's recorded steps hold much of a GPU's memory
        torch.cuda.empty_cache()


def main(
    out: Path | None = None,
    seconds: float = 60.0,
    device: Literal["auto", "cpu", "cuda"] = "auto",
    models: tuple[str, ...] = MODELS,
    vary: tuple[str, ...] = (),
    pairs: int = 0,
    small: bool = False,
    score: Path | None = None,
    cache: Path | None = None,
    unpack: Path | None = None,
) -> None:
    """Train and measure into `out`, or tell what was measured.

    Args:
        out: folder for what comes out; a model that it holds already is not trained again.
        seconds: of training, for each model.
        device: where to train.
        models: which.
        vary: settings of the recipe's model or training to try others of, e.g. dropout=0.2 lr=0.002.
        pairs: of each part, at most; all if 0.
        small: tiny models, for a trial on a CPU.
        score: print the table of such a folder.
        cache: time greedy search by a run with a cache and without.
        unpack: put the Transformer's run of such a folder together in `out`.
    """
    if score is not None:
        CONSOLE.print(table(score))
        told = json.loads((score / MEASURED).read_text())
        CONSOLE.print(cache_table({name: row["cache"] for name, row in told.items()}))
        return
    if cache is not None:
        translator = load_translator(cache)
        coded = translator.subwords.encode([source for source, _ in en_de().test])
        found = [cached(translator.model, coded, rows) for rows in (1, 16, 64)]
        CONSOLE.print(cache_table({cache.name: found}))
        return
    if out is None:
        raise SystemExit("out: name the folder for what comes out")
    if unpack is not None:
        unpacked(unpack, out)
        return
    train_all(out, seconds, device, models, vary, pairs, small)


if __name__ == "__main__":
    tyro.cli(main)
