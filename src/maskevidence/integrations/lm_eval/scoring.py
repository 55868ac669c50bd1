"""Scores of continuations in the harness: texts that look the same to the model are one pass."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
from jaxtyping import Int64

from maskevidence.integrations.lm_eval.requests import Continuation, Encoder
from maskevidence.masks.design import MaskDesign, MaskKey
from maskevidence.models.text.masked_lm import MaskedLM
from maskevidence.scores.ask import Asker
from maskevidence.scores.record import ScoreTable
from maskevidence.scores.score import Scoring, score_by
from maskevidence.tokens import Tokens

_ONE_CALL = 2**40  # tokens: a number of texts per call was asked for, which alone decides


class Scorer:
    """Scores of masks of continuations.

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

    def scores(
        self,
        texts: Sequence[Continuation],
        design: MaskDesign,
        key: MaskKey,
        repeats: range,
        *,
        per_token: bool = False,
    ) -> ScoreTable:
        """Score some repeats of a design on continuations, whose ids are their places among `texts`.

        Args:
            texts: with at least one scored token each.
            design: how masks are drawn.
            key: what they depend on.
            repeats: which of the design's repeats.
            per_token: whether what each hidden token scored is recorded; places count from the beginning of
                the continuation.
        """
        tokens, first = self._tokens_and_first(texts)
        scoring = Scoring(design, key, per_token=per_token, share=True)
        table = score_by(self.asker, tokens, scoring, repeats)
        if table.hidden is None:
            return table
        place = table.hidden.column - np.repeat(first[table.id], table.size).astype(np.int32)
        return replace(table, hidden=replace(table.hidden, column=place))

    def tokens(self, texts: Sequence[Continuation]) -> Tokens:
        """The texts as the model takes them: all but the scored tokens are context."""
        return self._tokens_and_first(texts)[0]

    def _tokens_and_first(self, texts: Sequence[Continuation]) -> tuple[Tokens, Int64[np.ndarray, " B"]]:
        """The texts as the model takes them, and where their scored tokens begin."""
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
