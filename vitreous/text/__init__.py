"""Translation of texts: sentence pairs, subwords, encoder-decoder models and the translator."""

from vitreous.text.recurrent import Recurrent, RecurrentConfig
from vitreous.text.transformer import Transformer, TransformerConfig

__all__ = ["Recurrent", "RecurrentConfig", "Transformer", "TransformerConfig"]
