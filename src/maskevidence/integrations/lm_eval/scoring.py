"""Masked texts through the model, each distinct one once."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float64, Int64
from torch import Tensor

from maskevidence.integrations.lm_eval.requests import Continuation, Encoder
from maskevidence.models.text.masked_lm import MaskedLM
from maskevidence.scores.ask import Asker, MaskedRows, Part
from maskevidence.tokens import Tokens

_ONE_CALL = 2**40  # tokens: a number of texts per call was asked for, which alone decides


class MaskedText(NamedTuple):
    """A text with some tokens of its continuation hidden.

    Attributes:
        text: the continuation and its context.
        hidden: shape (n,); which tokens of the continuation are hidden.
    """

    text: Continuation
    hidden: Bool[np.ndarray, " n"]


class Scorer:
    """Log-probabilities of hidden tokens.

    Texts that look the same to the model are one pass, whatever the hidden tokens are: choices of the same
    length with all tokens hidden, for example.

    Args:
        model: the masked language model.
        encoder: knows the special tokens around a text.
        batch_size: how many masked texts go into one call; None leaves it to the model.

    Attributes:
        asker: asks the model, and counts the masked texts that go through it.
    """

    def __init__(self, model: MaskedLM, encoder: Encoder, batch_size: int | None = None) -> None:
        self.model, self.encoder = model, encoder
        self.asker = Asker(model, batch_size)
        if batch_size is not None:
            model.batch_tokens = _ONE_CALL

    @property
    def n_passes(self) -> int:
        """How many masked texts went through the model so far."""
        return self.asker.n_passes

    def token_log_probs(self, texts: Sequence[MaskedText]) -> list[Float64[np.ndarray, " _"]]:
        """log p(hidden token | visible tokens) of each hidden token of each masked text, nats."""
        if not texts:
            return []
        number = {text: k for k, text in enumerate(dict.fromkeys(one.text for one in texts))}
        tokens, first = self.tokens(list(number))
        row = np.array([number[one.text] for one in texts])
        size = np.array([one.hidden.sum() for one in texts])

        def masked(part: Part) -> Bool[Tensor, "b D"]:
            some = np.arange(len(texts))[part]
            hidden = np.zeros((len(some), tokens.width), dtype=np.bool_)
            for line, k in zip(hidden, some, strict=True):
                line[first[row[k]] :][: len(texts[k].hidden)] = texts[k].hidden
            return torch.from_numpy(hidden)

        result: list[Float64[np.ndarray, " _"]] = []
        for answer in self.asker.conditionals(MaskedRows(tokens, row, size, masked), share=True):
            log_probs = answer.log_probs[answer.hidden].numpy()
            result += np.split(log_probs, np.cumsum(size[answer.part])[:-1])
        return result

    def tokens(self, texts: Sequence[Continuation]) -> tuple[Tokens, Int64[np.ndarray, " B"]]:
        """The texts as the model takes them, all but the scored tokens context, and where these begin."""
        rows = [self.encoder.row(text) for text in texts]
        first = np.array([begin for _, begin in rows])
        end = first + [len(text.scored) for text in texts]
        length = np.array([len(ids) for ids, _ in rows])
        values: Int64[np.ndarray, "B D"] = np.zeros((len(rows), length.max()), dtype=np.int64)
        for line, (ids, _) in zip(values, rows, strict=True):
            line[: len(ids)] = ids
        column = np.arange(values.shape[1])
        scored = (column >= first[:, None]) & (column < end[:, None])
        context = (column < length[:, None]) & ~scored
        tensors = map(torch.from_numpy, (values, scored, context, np.arange(len(rows))))
        return Tokens(*tensors), first
