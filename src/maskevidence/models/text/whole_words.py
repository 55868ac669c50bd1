"""Whole words hidden together, for the pseudo-log-likelihood of models that read word pieces."""

from collections.abc import Iterable
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor, nn

from maskevidence.errors import InputError
from maskevidence.model import MASS, Conditionals
from maskevidence.models.text.encoding import EncodedTexts
from maskevidence.models.text.masked_lm import MaskedLM
from maskevidence.tokens import Tokens

HIDDEN_TOGETHER = "all tokens of a word are hidden together"
WHOLE_WORDS = f"{MASS} of a token given all other words"


class WholeWords(nn.Module):
    """A masked language model that hides all pieces of a word together.

    With the leave-one-out design, token j of word w scores log p(x_j | all words but w), so that the sum is
    the pseudo-log-likelihood with whole-word masking. Without whole words, the visible pieces of a word give
    away the hidden one. A word of m pieces is computed m times.

    Args:
        model: the masked language model.
        texts: the result of `model.encode`; only these observations can be scored.

    Raises:
        InputError: the tokenizer does not know the words.

    Source:
        Kauf, Ivanova (2023), A Better Way to Do Masked Language Model Scoring (the whole-word variant).
    """

    def __init__(self, model: MaskedLM, texts: EncodedTexts) -> None:
        super().__init__()
        if texts.words is None:
            raise InputError("the tokenizer does not tell which tokens form a word; leave out --whole-words")
        self.conditionals: Conditionals = model.conditionals
        self.base_measure = WHOLE_WORDS
        self.model = model
        order = torch.argsort(texts.tokens.ids)
        self._ids, self._words = texts.tokens.ids[order], texts.words[order]

    def batches(self, n_present: Int64[np.ndarray, " n_pairs"]) -> Iterable[Int64[np.ndarray, " n_in_call"]]:
        """Split rows into calls as the model itself does."""
        return self.model.batches(n_present)

    def timed_batches(
        self, n_present: Int64[np.ndarray, " n_pairs"]
    ) -> Iterable[Int64[np.ndarray, " n_in_call"]]:
        """The same, in calls of a size that the first calls have shown to be fast."""
        return self.model.timed_batches(n_present)

    @property
    def call_note(self) -> str | None:
        """What a trial of `timed_batches` has found."""
        return self.model.call_note

    def log_conditionals(self, tokens: Tokens, masked: Bool[Tensor, "B D"]) -> Float[Tensor, "B D"]:
        """log p of each masked token with every word that contains one hidden, nats, shape (B, D)."""
        widened = self.widened(tokens, masked)
        return torch.where(masked, self.model.log_conditionals(tokens, widened), 0.0)

    def widened(self, tokens: Tokens, masked: Bool[Tensor, "B D"]) -> Bool[Tensor, "B D"]:
        """The tokens that are hidden: the masked ones, and all others of their words, shape (B, D)."""
        words = self._words[torch.searchsorted(self._ids, tokens.ids.cpu())].to(masked.device)
        hidden = torch.zeros_like(masked)
        for row in range(len(masked)):
            hidden[row] = torch.isin(words[row], words[row][masked[row]]) & tokens.maskable[row]
        return hidden

    def fingerprint_settings(self) -> dict[str, Any]:
        """Those of the model."""
        return self.model.fingerprint_settings()
