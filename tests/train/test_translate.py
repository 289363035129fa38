"""Runs that translate: one vocabulary, one folder, resumed they end the same, and what is wrong is one line."""

import gzip
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.torch
import torch
from torch import Tensor

from benchmarks.translation import unlike
from tests.users import fails
from vitreous.cli import main
from vitreous.core.errors import InputError
from vitreous.recipes import load_recipe
from vitreous.text.batches import BucketBatches, batches_in_order
from vitreous.text.job import TranslationJob, read_translations, translate_greedily
from vitreous.text.models import TextConfig
from vitreous.text.pairs import Pairs, part_of, split_pairs
from vitreous.text.recipe import MODELS
from vitreous.text.recurrent import RecurrentConfig
from vitreous.text.runs import alignment_figure
from vitreous.text.subwords import SPECIAL, Subwords
from vitreous.text.task import Translation, corpus_scores
from vitreous.text.transformer import END, PAD, START, UNKNOWN, Transformer, TransformerConfig
from vitreous.text.translator import Translator, load_translator
from vitreous.train import TrainConfig, train

NUMBERS = {"one": "eins", "two": "zwei", "three": "drei", "four": "vier", "five": "fünf", "six": "sechs"}
SMALL: dict[str, TextConfig] = {
    "transformer": TransformerConfig(100, 16, dim=32, depth=2, heads=2, dropout=0.1),
    "gru-general": RecurrentConfig(100, 16, dim=32, score="general", dropout=0.1),
}


def counted(count: int = 800) -> Pairs:
    """Numbers in English and in German."""
    rng = np.random.default_rng(0)
    rows = [rng.choice(list(NUMBERS), rng.integers(1, 6)) for _ in range(count)]
    return split_pairs("numbers", [(" ".join(row), " ".join(NUMBERS[word] for word in row)) for row in rows])


def small(kind: str = "transformer", **settings: object) -> TranslationJob:
    config: dict[str, object] = {"steps": 30, "batch": 256, "lr": 5e-3, "evaluate_every": 10, **settings}
    return TranslationJob(counted(), SMALL[kind], TrainConfig(**config), ("English", "German"), 100)  # type: ignore[arg-type]


@pytest.fixture(scope="module", params=SMALL)
def run(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that has learnt to count."""
    folder = tmp_path_factory.mktemp("runs") / request.param
    result = train(small(request.param, steps=300, ema=0.9, evaluate_every=300), folder, device="cpu", bar=False)
    assert result["test"]["bleu"] > 90
    return folder


def test_a_run_holds_what_is_needed_to_translate(run: Path) -> None:
    names = {path.name for path in run.iterdir()}
    assert names >= {"config.json", "model.safetensors", "task.json", "subwords.json", "test.tsv", "result.json"}
    translator = load_translator(run)
    assert translator(["two three", "six"]) == ["zwei drei", "sechs"]
    assert translator(["two three"], width=1) == ["zwei drei"]
    job = read_translations(run / "test.tsv")
    assert [row[:2] for row in job] == list(counted().test)


@pytest.fixture(scope="module")
def writer() -> Translator:
    """One that knows capitals and stops; what it makes of them is another matter."""
    torch.manual_seed(0)
    written = [(f"{a.capitalize()}, e.g. i.e.! {b}?", f"{b}.") for a, b in counted().train]
    subwords = Subwords.learned((text for pair in written for text in pair), 100)
    model = Transformer(replace(SMALL["transformer"], vocabulary=len(subwords), length=24))  # type: ignore[arg-type]
    return Translator(model, Translation("English", "German"), subwords)


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("One two. Three four!  Five\n\tsix?", ["One two.", "Three four!", "Five six?"]),
        ("One two, e.g. Three, i.e. two.", ["One two, e.g. Three, i.e. two."]),
        ("  One two  ", ["One two"]),
        ("one two. " * 9, ["one two."] * 9),  # too long for one
    ],
)
def test_a_text_is_translated_sentence_by_sentence(text: str, sentences: list[str], writer: Translator) -> None:
    assert writer.subwords.decode(writer._sentences(text)) == sentences
    assert writer([text]) == [" ".join(writer(sentences))]


def test_a_sentence_past_the_maximum_is_refused(run: Path) -> None:
    with pytest.raises(InputError, match=r"the sentence 'one one .*…' has .* tokens, the run takes 15"):
        load_translator(run)(["one " * 40])
    with pytest.raises(InputError, match=r"expected a list of them: \['one'\]"):
        load_translator(run)("one")


def test_a_translation_that_does_not_end_says_so(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    translator = load_translator(run)
    whole = translator(["two three"])
    monkeypatch.setattr(translator.model, "decode", Unending(translator.model.decode))
    cut = translator(["two three"])
    assert whole == ["zwei drei"]
    assert cut[0].endswith(" …")


class Unending:
    """A decoder that never writes the end."""

    def __init__(self, decode: Callable[..., Tensor]) -> None:
        self.decode = decode

    def __call__(self, *args: Any, **options: Any) -> Tensor:
        out = self.decode(*args, **options)
        out[..., END] = -1e9
        return out


def test_the_loss_is_that_of_smoothed_words_without_padding() -> None:
    torch.manual_seed(0)
    out, y = torch.randn(2, 3, 7), torch.tensor([[4, 5, 2], [6, 2, PAD]])
    chances = out.log_softmax(-1)
    wanted = torch.full((2, 3, 7), 0.1 / 7)
    wanted.scatter_add_(2, y.unsqueeze(-1), torch.full((2, 3, 1), 0.9))
    each = -(wanted * chances).sum(-1)
    torch.testing.assert_close(Translation("a", "b", 0.1).loss(out, y), each[y != PAD].mean())
    counts = Translation("a", "b", 0.1).counts(out, y)
    torch.testing.assert_close(counts["loss"], -chances.gather(2, y.unsqueeze(-1)).squeeze(-1)[y != PAD].sum())
    assert counts["tokens"] == 5


def test_scores_are_of_translations_against_references() -> None:
    references = ["die Datei ist nicht lesbar", "der Ordner ist leer"]
    assert corpus_scores(references, references)["bleu"] == pytest.approx(100)
    wrong = corpus_scores(["die Datei ist nicht da", "ein Ordner"], references)
    assert 10 < wrong["bleu"] < 90
    sacrebleu = pytest.importorskip("sacrebleu")
    assert wrong["bleu"] == sacrebleu.corpus_bleu(["die Datei ist nicht da", "ein Ordner"], [references]).score


def test_sources_that_are_too_long_have_no_translation_and_count(run: Path) -> None:
    translator = load_translator(run)
    rows = translator.subwords.encode(["two three", "one " * 40])
    assert translate_greedily(translator.model, translator.subwords, rows) == ["zwei drei", ""]


def test_alignments_sum_to_one_and_find_the_words(run: Path) -> None:
    found = load_translator(run).align("two five three")
    assert found.source == ("two", "five", "three", "</s>")
    assert found.target == ("zwei", "fünf", "drei", "</s>")
    np.testing.assert_allclose(found.weights.sum(1), 1, atol=1e-5)
    assert alignment_figure(found).axes[0].get_yticklabels()[1].get_text() == "fünf"


@pytest.mark.parametrize("kind", SMALL)
def test_a_run_stopped_and_resumed_ends_the_same(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Killed(BaseException):
        pass

    train(small(kind), tmp_path / "whole", device="cpu", bar=False)
    calls = []

    def dies(buckets: BucketBatches, step: int) -> object:
        if step == 17 and not calls:
            calls.append(step)
            raise Killed
        return called(buckets, step)

    called = BucketBatches.__call__
    monkeypatch.setattr(BucketBatches, "__call__", dies)
    with pytest.raises(Killed):
        train(small(kind), tmp_path / "parts", device="cpu", bar=False)
    train(small(kind), tmp_path / "parts", resume=True, device="cpu", bar=False)
    one, other = (safetensors.torch.load_file(tmp_path / name / "model.safetensors") for name in ("whole", "parts"))
    assert all(torch.equal(one[name], other[name]) for name in one)


@pytest.mark.parametrize("kind", SMALL)
def test_a_step_can_be_recorded(kind: str, asked: list[str], tmp_path: Path) -> None:
    train(small(kind, steps=4), tmp_path / "run", device="cpu", bar=False)
    assert asked == []


@pytest.mark.skipif(not torch.cuda.is_available(), reason="records steps on a GPU")
@pytest.mark.parametrize("kind", SMALL)
def test_recorded_steps_of_several_lengths_train_as_plain_ones_do(kind: str, tmp_path: Path) -> None:
    found = []
    for way in ("graph", "off"):
        job = small(kind, compile=way, precision="float32", steps=60)
        train(replace(job, config=replace(job.config, dropout=0.0)), tmp_path / way, device="cuda", bar=False)
        found.append(safetensors.torch.load_file(tmp_path / way / "model.safetensors"))
    for name, value in found[0].items():
        torch.testing.assert_close(value, found[1][name], atol=5e-3, rtol=1e-2)


def test_epochs_are_counted_in_batches(tmp_path: Path) -> None:
    result = train(replace(small(), epochs=2.0), tmp_path / "run", device="cpu", bar=False)
    job = small()
    subwords = Subwords((tmp_path / "run" / "subwords.json").read_text())
    coded = [tuple(subwords.encode(list(pair))) for pair in job.pairs.train]
    assert result["steps"] == 2 * len(BucketBatches(coded, 256, 16, 0, torch.device("cpu")))  # type: ignore[arg-type]


@pytest.mark.parametrize("model", MODELS)
def test_the_recipe_runs_two_steps(model: str, tmp_path: Path) -> None:
    try:
        job = load_recipe("translate-en-de").create(model)
    except InputError as fault:
        pytest.skip(f"the data are not here: {fault}")
    few = {part: job.pairs.of(part)[:count] for part, count in (("train", 100), ("validation", 9), ("test", 3))}
    settings = replace(job.settings, steps=2, batch=128, evaluate_every=2)
    tiny = replace(job.config, dim=24, depth=2)
    job = replace(job, pairs=replace(job.pairs, **few), settings=settings, config=tiny, subwords=300)
    result = train(job, tmp_path / "run", device="cpu", bar=False)
    assert set(result["test"]) == {"bleu", "chrf"}
    assert len(load_translator(tmp_path / "run")(["Open the file"])) == 1


def test_every_pair_is_seen_once_an_epoch_and_batches_have_few_shapes() -> None:
    rng = np.random.default_rng(0)
    pairs = [([i + 4] * rng.integers(1, 30), [i + 4] * rng.integers(1, 30)) for i in range(500)]
    buckets = BucketBatches(pairs, 256, 40, 3, torch.device("cpu"))
    for epoch in range(2):
        batches = [buckets(epoch * len(buckets) + i) for i in range(len(buckets))]
        assert {int(x[row, 0, 0]) for x, _ in batches for row in range(len(x))} == set(range(4, 504))
        assert len({x.shape for x, _ in batches}) <= 6
        assert max(y.numel() for _, y in batches) <= 256
    one, other = buckets(1), BucketBatches(pairs, 256, 40, 3, torch.device("cpu"))(1)
    assert torch.equal(one[0], other[0])
    assert not torch.equal(buckets(0)[0], buckets(len(buckets))[0])
    x, y = one
    assert torch.equal(x[:, 1, 1:], y[:, :-1])  # a target up to each token
    assert (x[:, 1, 0] == START).all()
    assert ((y == END).sum(1) == 1).all()


def test_processes_share_a_batch() -> None:
    pairs = [([i + 4], [i + 4]) for i in range(64)]
    whole = BucketBatches(pairs, 128, 8, 0, torch.device("cpu"))(0)[0]
    parts = [BucketBatches(pairs, 128, 8, 0, torch.device("cpu"), rank, 2)(0)[0] for rank in (0, 1)]
    assert torch.equal(torch.cat(parts).sort(0).values, whole.sort(0).values)


def test_in_order_gives_each_pair_once() -> None:
    pairs = [([i + 4], [i + 4] * (i % 20)) for i in range(100)]
    assert sorted(int(i) for x, _ in batches_in_order(pairs, 64, 40) for i in x[:, 0, 0]) == list(range(4, 104))


def test_equal_sources_are_in_one_part() -> None:
    pairs = [(f"sentence {i}", "x") for i in range(5000)]
    parts = split_pairs("many", [*pairs, *((f"  Sentence   {i}", "y") for i in range(5000))])
    test = {source.casefold().split()[1] for source, _ in parts.test}
    rest = {source.casefold().split()[1] for source, _ in parts.train + parts.validation}
    assert not test & rest
    assert 0.08 < len(parts.test) / 10000 < 0.12
    assert part_of("Open File") == part_of("open  file")


def test_texts_come_back_from_their_subwords() -> None:
    texts = ["Öffne die Datei „%1“ …", "(a+b)  = 12345", "naïve café"]
    subwords = Subwords.learned(texts * 2, 200)
    assert subwords.decode(subwords.encode(texts)) == texts
    assert [SPECIAL[i] for i in (PAD, START, END, UNKNOWN)] == ["<pad>", "<s>", "</s>", "<unk>"]
    assert Subwords(subwords.content).encode(texts) == subwords.encode(texts)
    assert subwords.unknown("漢 die 漢字") == ["漢", "字"]
    assert subwords.unknown(texts[0]) == []
    words = subwords.words([*subwords.encode(["die Datei"])[0], END])
    assert [word for word, _ in words] == ["die", "Datei", "</s>"]
    assert [place for _, places in words for place in places] == list(range(len(subwords.encode(["die Datei"])[0]) + 1))


def test_commands_take_texts(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = tmp_path / "lines.txt"
    lines.write_text("one\n\nsix two\n")
    main(["predict", str(run), "four five", str(lines), "--format", "json"])
    found = json.loads(capsys.readouterr().out)
    assert [row["translation"] for row in found] == ["vier fünf", "eins", "sechs zwei"]
    main(["explain", str(run), "four five", "--out", str(tmp_path / "map.png")])
    out = capsys.readouterr().out
    assert out.startswith("vier fünf\nvier ← ")
    assert (tmp_path / "map.png").stat().st_size > 1000
    pairs = tmp_path / "pairs.tsv.gz"
    pairs.write_bytes(gzip.compress("one two\teins zwei drei\nthree four five six\tdrei vier fünf sechs\n".encode()))
    main(["eval", str(run), str(pairs), "--part", "all"])
    out = capsys.readouterr().out
    assert "bleu" in out
    assert "chrf" in out
    main(["compare", str(run)])


def test_mistakes_are_one_line(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "text: is empty" in fails(capsys, "predict", str(run), " ")
    assert "text: is not valid UTF-8" in fails(capsys, "predict", str(run), "bad\udcff")
    assert "not in the vocabulary: '<'" in fails(capsys, "predict", str(run), "one <pad> two")
    assert "none.txt: no such file" in fails(capsys, "predict", str(run), "none.txt")
    empty, two = tmp_path / "empty.txt", tmp_path / "two lines.txt"
    empty.write_text("\n \n")
    two.write_text("one\ntwo\n")
    assert "empty.txt: holds no text" in fails(capsys, "predict", str(run), str(empty))
    assert "has 2 lines" in fails(capsys, "explain", str(run), str(two), "--out", str(tmp_path / "x.png"))
    for flag in (("--freeze",), ("--layer-decay", "0.5"), ("--stream", "bfloat16")):
        wrong = fails(capsys, "train", "translate-en-de", "--out", str(tmp_path / "s"), *flag)
        assert "are not for texts" in wrong or "is missing" in wrong  # the pairs
    assert "not in the vocabulary: '漢'" in fails(capsys, "predict", str(run), "one 漢")
    assert "tokens, the run takes 15" in fails(capsys, "predict", str(run), "one " * 40)
    assert "interval: " in fails(capsys, "predict", str(run), "one", "--interval", "0.9")
    assert "layer: " in fails(capsys, "explain", str(run), "one", "--out", str(tmp_path / "x.png"), "--layer", "1")
    assert "translates texts" in fails(capsys, "report", str(run))
    assert "name a file of pairs" in fails(capsys, "eval", str(run))
    assert "no such file" in fails(capsys, "eval", str(run), str(tmp_path / "none.tsv"))
    bad = tmp_path / "bad.tsv"
    bad.write_text("one\teins\ntwo\n")
    assert "line 2 is not a source, a tab and a target" in fails(capsys, "eval", str(run), str(bad))
    wrong = fails(capsys, "sweep", "translate-en-de", "--out", str(tmp_path / "s"))
    assert "recipe of texts" in wrong or "is missing" in wrong  # the pairs
    assert "target: the recipe" in fails(
        capsys, "train", "translate-en-de", "--out", str(tmp_path / "s"), "--target", "x"
    )


def test_a_damaged_folder_is_named(run: Path, tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    broken.mkdir()
    for path in run.iterdir():
        if path.is_file():
            (broken / path.name).write_bytes(path.read_bytes())
    (broken / "subwords.json").write_text("{")
    with pytest.raises(InputError, match=r"subwords.json: is damaged"):
        load_translator(broken)
    (broken / "subwords.json").unlink()
    with pytest.raises(InputError, match=r"subwords.json: cannot be read"):
        load_translator(broken)
    (broken / "result.json").unlink()
    with pytest.raises(InputError, match="has not finished"):
        load_translator(broken)
    with pytest.raises(InputError, match="does not translate texts"):
        load_translator(tmp_path)


def test_missing_data_say_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("VITREOUS_DATA", str(tmp_path))
    told = fails(capsys, "train", "translate-en-de", "--out", str(tmp_path / "run"))
    assert "en-de.tsv.gz: is missing; put " in told


def test_held_out_pairs_that_are_like_training_ones_are_found_by_their_words() -> None:
    known = (("Open the file", "Die Datei öffnen"), ("a b c d", "w x y z"))
    asked = (
        ("open THE file!", "ganz anders"),  # the same words
        ("ganz anders", "die Datei jetzt öffnen"),  # three of four
        ("open the new file now", "eine neue Datei"),  # three of five
        ("words that are new", "neu"),
    )
    pairs = Pairs("some", known, (), asked)
    assert unlike(pairs, 0.7).tolist() == [False, False, True, True]
    assert unlike(pairs, 0.8).tolist() == [False, True, True, True]
