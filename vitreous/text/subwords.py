"""Subwords: texts as numbers and back, by byte-pair encoding with the package `tokenizers` (an extra)."""

from collections.abc import Iterable, Sequence
from typing import Any

from vitreous.core.errors import InputError
from vitreous.core.extras import load_extra

SPECIAL = ("<pad>", "<s>", "</s>", "<unk>")
"""Tokens that are no words, in the order of `vitreous.text.transformer`'s numbers."""
_SPACE = "▁"  # stands for a space, in front of a word
_PIECES = r"▁?[\p{L}\p{M}]+|▁?\p{N}|▁?[^\p{L}\p{M}\p{N}▁]|▁"  # a word, a digit, a sign


class Subwords:
    """A vocabulary and the merges that lead to it; `content` is JSON, as `tokenizers` writes it."""

    def __init__(self, content: str) -> None:
        tokenizers = load_extra("tokenizers", "translate")
        try:
            self._tokenizer: Any = tokenizers.Tokenizer.from_str(content)
        except Exception as fault:  # it raises Exception itself
            raise InputError(f"is damaged ({fault})") from None
        self._tokenizer.encode_special_tokens = True  # a '<s>' in a text is three signs, not the start of one
        self.content = content
        if tuple(self._tokenizer.id_to_token(i) for i in range(len(SPECIAL))) != SPECIAL:
            raise InputError(f"is no vocabulary of ours, whose first tokens are {' '.join(SPECIAL)}")

    @classmethod
    def learned(cls, texts: Iterable[str], size: int) -> "Subwords":
        """A vocabulary of this size at most, from the texts to be written with it."""
        t = load_extra("tokenizers", "translate")
        tokenizer = t.Tokenizer(t.models.BPE(unk_token=SPECIAL[-1]))
        tokenizer.normalizer = t.normalizers.NFC()
        pieces = t.pre_tokenizers.Split(t.Regex(_PIECES), "isolated")
        tokenizer.pre_tokenizer = t.pre_tokenizers.Sequence([t.pre_tokenizers.Metaspace(_SPACE), pieces])
        tokenizer.decoder = t.decoders.Metaspace(_SPACE)
        options = {"vocab_size": size, "min_frequency": 2, "special_tokens": list(SPECIAL), "show_progress": False}
        tokenizer.train_from_iterator(texts, t.trainers.BpeTrainer(**options))
        return cls(tokenizer.to_str())

    def __len__(self) -> int:
        size: int = self._tokenizer.get_vocab_size()
        return size

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Numbers of each text's tokens; no start, no end."""
        return [text.ids for text in self._tokenizer.encode_batch(list(texts), add_special_tokens=False)]

    def decode(self, rows: Iterable[Sequence[int]]) -> list[str]:
        """The texts of such numbers; tokens that are no words are left out."""
        texts: list[str] = self._tokenizer.decode_batch([list(row) for row in rows], skip_special_tokens=True)
        return texts

    def unknown(self, text: str) -> list[str]:
        """The characters of a text that the vocabulary does not have, each once."""
        encoded = self._tokenizer.encode(text, add_special_tokens=False)
        normal, tokens = self._tokenizer.normalizer.normalize_str(text), zip(encoded.ids, encoded.offsets, strict=True)
        missing = [normal[start:end] for token, (start, end) in tokens if token == SPECIAL.index("<unk>")]
        return list(dict.fromkeys("".join(missing)))

    def words(self, row: Sequence[int]) -> list[tuple[str, list[int]]]:
        """Words of a row of tokens, and the places of each one's tokens."""
        words: list[tuple[str, list[int]]] = []
        for place, token in enumerate(row):
            piece: str = self._tokenizer.id_to_token(token)
            if piece.startswith(_SPACE) or not words or token < len(SPECIAL):
                words.append((piece.removeprefix(_SPACE), [place]))
            else:
                word, places = words.pop()
                words.append((word + piece, [*places, place]))
        return words
