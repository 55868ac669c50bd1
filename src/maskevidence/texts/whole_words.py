"""Hide all pieces of a word together, for the pseudo-log-likelihood of word-piece models."""

from collections.abc import Iterable
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor, nn

from maskevidence.core.errors import InputError
from maskevidence.core.model import MASS, Conditionals
from maskevidence.core.tokens import Tokens
from maskevidence.texts.encoding import EncodedTexts
from maskevidence.texts.masked_lm import MaskedLM
from maskevidence.texts.pieces import without_blanks

HIDDEN_TOGETHER = "all tokens of a word are hidden together"
HIDDEN_LATER = "the later tokens of a word are hidden together with each token (PLL-word-l2r)"
NO_BLANKS = (
    "in a script without blanks (Chinese, Japanese, Thai, ...) each token is a word, where otherwise the "
    "whole text would be one"
)
WHOLE_WORDS = f"{MASS} of a token given all other words"
WORD_L2R = f"{WHOLE_WORDS} and the earlier tokens of its own"


def notes_on_words(encoded: EncodedTexts, texts: Iterable[str]) -> list[str]:
    """Notes on words in scripts without blanks, and on texts of one word, which are hidden whole."""
    notes = [NO_BLANKS] if any(map(without_blanks, texts)) else []
    if encoded.words is not None:
        scored = encoded.tokens.maskable
        last = encoded.words.masked_fill(~scored, -1).amax(1, keepdim=True)
        n_whole = int((((encoded.words == last) | ~scored).all(1) & (scored.sum(1) > 1)).sum())
        if n_whole:
            notes.append(
                f"{n_whole:,} of {len(encoded.tokens):,} observations are one word: their whole text is "
                "hidden at once"
            )
    return notes


class WholeWords(nn.Module):
    """A masked language model that hides the other pieces of a hidden token's word, too.

    With the leave-one-out design, token j of word w scores log p(x_j | all words but w), so that the sum is
    the pseudo-log-likelihood with whole-word masking; or with `left_to_right`, log p(x_j | all words but w,
    earlier tokens of w), which adds up to log p(w | all other words) from left to right (PLL-word-l2r).
    Without either, the visible pieces of a word give away the hidden one. A word of m pieces is computed m
    times.

    Args:
        model: the masked language model.
        texts: the result of `model.encode`; only these observations can be scored.
        left_to_right: hide only the later pieces of the word, not the earlier ones.

    Raises:
        InputError: the tokenizer does not know the words.

    Source:
        Kauf, Ivanova (2023), A Better Way to Do Masked Language Model Scoring: PLL-whole-word, PLL-word-l2r.
    """

    def __init__(self, model: MaskedLM, texts: EncodedTexts, *, left_to_right: bool = False) -> None:
        super().__init__()
        if texts.words is None:
            flag = "--word-l2r" if left_to_right else "--whole-words"
            raise InputError(f"the tokenizer does not tell which tokens form a word; leave out {flag}")
        self.conditionals: Conditionals = model.conditionals
        self.base_measure = WORD_L2R if left_to_right else WHOLE_WORDS
        self.model = model
        self.left_to_right = left_to_right
        order = torch.argsort(texts.tokens.ids)
        self._ids, self._words = texts.tokens.ids[order], texts.words[order]

    def batches(self, n_present: Int64[np.ndarray, " n_pairs"]) -> Iterable[Int64[np.ndarray, " n_in_call"]]:
        """Split rows into calls as the model itself does."""
        return self.model.batches(n_present)

    def timed_batches(
        self, n_present: Int64[np.ndarray, " n_pairs"]
    ) -> Iterable[Int64[np.ndarray, " n_in_call"]]:
        """Split rows into calls as the model's `timed_batches` does."""
        return self.model.timed_batches(n_present)

    @property
    def call_note(self) -> str | None:
        """The result of the trial of `timed_batches`, or None."""
        return self.model.call_note

    def log_conditionals(self, tokens: Tokens, masked: Bool[Tensor, "B D"]) -> Float[Tensor, "B D"]:
        """log p of each masked token with the other pieces of its word hidden, nats, shape (B, D)."""
        widened = self.widened(tokens, masked)
        return torch.where(masked, self.model.log_conditionals(tokens, widened), 0.0)

    def widened(self, tokens: Tokens, masked: Bool[Tensor, "B D"]) -> Bool[Tensor, "B D"]:
        """Add the other, or only the later, pieces of masked tokens' words to the mask, shape (B, D)."""
        words = self._words[torch.searchsorted(self._ids, tokens.ids.cpu())].to(masked.device)
        hidden, place = torch.zeros_like(masked), torch.arange(masked.shape[1], device=masked.device)
        for row in range(len(masked)):
            together = words[row][:, None] == words[row][masked[row]]
            if self.left_to_right:
                together &= place[:, None] >= place[masked[row]]
            hidden[row] = together.any(1) & tokens.maskable[row]
        return hidden

    def fingerprint_settings(self) -> dict[str, Any]:
        """The model's settings, and whether earlier pieces stay visible."""
        return self.model.fingerprint_settings() | ({"left_to_right": True} if self.left_to_right else {})
