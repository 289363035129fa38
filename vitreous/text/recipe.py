"""English to German: 55,563 messages of free software and their translations, a tenth of them held out."""

from vitreous.nn.attention.scores import SCORES
from vitreous.text.job import TranslationJob
from vitreous.text.models import TextConfig
from vitreous.text.pairs import Pairs, en_de
from vitreous.text.recurrent import RecurrentConfig
from vitreous.text.transformer import TransformerConfig
from vitreous.train.config import TrainConfig
from vitreous.train.recipe import Recipe

_GRU = "gru-"
MODELS = ("transformer", *(f"{_GRU}{score}" for score in SCORES))
_VOCABULARY = 8000


def translate_en_de(pairs: Pairs, model: str, system: str) -> TranslationJob:
    """The Transformer of S2.4, or a GRU with attention by one of the scores of S2.2.

    `vitreous train translate-en-de --out RUN [--model gru-additive]`, for a GPU; on a CPU add `--minutes`. After 90 s
    of an H200 (`benchmarks/translation.py`) the Transformer has 39.4 BLEU on the held-out tenth, gru-additive 31.7.
    """
    recurrent = model.startswith(_GRU)
    config: TextConfig = TransformerConfig(
        _VOCABULARY, dim=384, depth=4, heads=6, mlp=2.0, dropout=0.3, attention_dropout=0.1
    )
    if recurrent:
        config = RecurrentConfig(_VOCABULARY, dim=512, depth=2, score=model.removeprefix(_GRU), dropout=0.3)
    settings = TrainConfig(
        steps=8000, batch=6144, lr=3e-3, optimiser="adamw" if recurrent else "muon", weight_decay=0.02, ema=0.998,
        evaluate_every=1000, keep="last", compile="graph",
    )  # fmt: skip
    return TranslationJob(pairs, config, settings, ("English", "German"), _VOCABULARY)


EN_DE = Recipe(
    "translate-en-de", "Messages of free software", "English to German", lambda model, system: en_de(),
    translate_en_de, MODELS,
)  # fmt: skip
