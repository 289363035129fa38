"""The translation task (S2.4): cross-entropy with label smoothing; BLEU and chrF by `sacrebleu`."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

import torch.nn.functional as F
from torch import Tensor

from vitreous.core.extras import load_extra
from vitreous.run.folder import TRANSLATION
from vitreous.text.transformer import PAD


@dataclass(frozen=True)
class Translation:
    """From one language to another."""

    kind: ClassVar[str] = TRANSLATION
    better: ClassVar[tuple[str, str]] = ("loss", "min")
    source: str
    target: str
    label_smoothing: float = 0.0

    def loss(self, out: Tensor, y: Tensor) -> Tensor:
        """Mean over the tokens of the cross-entropy of logits `(B, L, vocabulary)` with the tokens `(B, L)`."""
        return F.cross_entropy(out.flatten(0, 1), y.flatten(), ignore_index=PAD, label_smoothing=self.label_smoothing)

    def counts(self, out: Tensor, y: Tensor) -> dict[str, Tensor]:
        """Of a batch: number of tokens, the sum of their cross-entropies, and how many are the likeliest."""
        present = y != PAD
        total = F.cross_entropy(out.flatten(0, 1), y.flatten(), ignore_index=PAD, reduction="sum")
        return {"tokens": present.sum(), "loss": total, "accuracy": ((out.argmax(-1) == y) & present).sum()}

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        return {"kind": self.kind, **asdict(self)}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "Translation":
        """The inverse of `to_dict`."""
        return cls(str(values["source"]), str(values["target"]), float(values["label_smoothing"]))


def corpus_scores(translations: Sequence[str], references: Sequence[str]) -> dict[str, float]:
    """BLEU and chrF of whole corpora, 0 to 100, as sacrebleu defines them."""
    sacrebleu = load_extra("sacrebleu", "translate")
    scorers = {"bleu": sacrebleu.corpus_bleu, "chrf": sacrebleu.corpus_chrf}
    return {name: float(score(translations, [references]).score) for name, score in scorers.items()}
