"""Texts of the harness as token ids, and the scores of their masks."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from jaxtyping import Int64

from maskevidence import MaskDesign, MaskKey, ScoreTable, Tokens
from maskevidence.errors import InputError
from maskevidence.models import MaskedLM
from maskevidence.models.text.pieces import Frame, frame_of
from maskevidence.scores import Asker
from maskevidence.scores.score import Scoring, score_by


@dataclass(frozen=True)
class Continuation:
    """A continuation and its context as token ids."""

    context: tuple[int, ...]  # visible, never scored; special tokens of the model are not among them
    scored: tuple[int, ...]  # the tokens of the continuation
    n_cut: int = 0  # how many tokens of the context did not fit and were cut from the left


class Encoder:
    """Cuts texts into tokens for a model.

    Args:
        max_tokens: the longest text that the model reads, special tokens included; None if there is no limit.

    Attributes:
        frame: the special tokens around a text.
        room: the number of other tokens that fit; None if there is no limit.
    """

    def __init__(self, tokenizer: Any, max_tokens: int | None) -> None:
        self.tokenizer = tokenizer
        self.frame: Frame = frame_of(tokenizer, pair=False)
        self.room = None if max_tokens is None else max_tokens - self.frame.n_tokens
        if self.room is not None and self.room < 1:
            raise InputError(
                f"max_length={max_tokens} leaves no room beside {self.frame.n_tokens} special tokens; "
                "give more"
            )

    def encode(self, text: str) -> list[int]:
        """The tokens of a text; special tokens spelled out in it, as in chat templates, are recognised."""
        return (
            list(self.tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"]) if text else []
        )

    def pair(self, context: str, continuation: str) -> Continuation:
        """A continuation after its context.

        As in the harness, spaces at the end of the context belong to the continuation. Both are cut into
        tokens together, and a token across the border belongs to the continuation. A context that is too
        long is cut from the left.
        """
        kept = context.rstrip()
        continuation = context[len(kept) :] + continuation
        ids, n_context = self._together(kept, continuation)
        before, scored = ids[:n_context], ids[n_context:]
        n_cut = 0
        if self.room is not None:
            if len(scored) > self.room:
                raise InputError(
                    f"a continuation has {len(scored)} tokens, and the model reads {self.room} beside its "
                    "special tokens; leave it out, or give a larger max_length"
                )
            n_cut = max(0, len(ids) - self.room)
        return Continuation(tuple(before[n_cut:]), tuple(scored), n_cut)

    def _together(self, context: str, continuation: str) -> tuple[list[int], int]:
        """The tokens of both, and how many belong to the context."""
        if not context:
            return self.encode(continuation), 0
        if not getattr(self.tokenizer, "is_fast", False):  # no offsets: the common beginning is the context's
            whole, alone = self.encode(context + continuation), self.encode(context)
            differ = [token != other for token, other in zip(whole, alone, strict=False)]
            return whole, differ.index(True) if True in differ else min(len(whole), len(alone))
        encoded = self.tokenizer(
            context + continuation, add_special_tokens=False, return_offsets_mapping=True, verbose=False
        )
        ends = np.array([end for _, end in encoded["offset_mapping"]], dtype=np.int64)
        within = np.flatnonzero(ends > len(context))
        return list(encoded["input_ids"]), int(within[0]) if len(within) else len(ends)

    def windows(self, text: str) -> list[Continuation]:
        """A text of any length in windows that score each token once.

        As in the harness, every window is filled with as much context as fits: the last one, which may have
        few tokens left to score, begins with tokens that the window before it has scored.
        """
        ids = self.encode(text)
        return [
            Continuation(tuple(ids[first:start]), tuple(ids[start:end]))
            for first, start, end in rolling_windows(len(ids), self.room)
        ]

    def before(self, context: str, n_tokens: int) -> Continuation:
        """A context that leaves room for this many tokens after it; a longer one is cut from the left."""
        ids = self.encode(context)
        n_cut = 0
        if self.room is not None:
            if n_tokens > self.room:
                raise InputError(
                    f"max_gen_toks={n_tokens}, and the model reads {self.room} tokens; give a smaller number"
                )
            n_cut = max(0, len(ids) + n_tokens - self.room)
        return Continuation(tuple(ids[n_cut:]), (), n_cut)

    def up_to_end(self, ids: Sequence[int]) -> list[int]:
        """Ids up to the first token that ends a text."""
        ends = {self.tokenizer.eos_token_id, self.tokenizer.sep_token_id, self.tokenizer.pad_token_id} - {
            None
        }
        end = next((i for i, token in enumerate(ids) if token in ends), len(ids))
        return list(ids[:end])

    def row(self, text: Continuation) -> tuple[list[int], int]:
        """All ids that the model reads, and the position of the first scored id."""
        ids = [*self.frame.before, *text.context, *text.scored, *self.frame.after]
        return ids, len(self.frame.before) + len(text.context)


def rolling_windows(n_tokens: int, room: int | None) -> list[tuple[int, int, int]]:
    """Where each window begins, where its scored tokens begin, and where it ends.

    Example:
        >>> rolling_windows(10, 4)
        [(0, 0, 4), (4, 4, 8), (6, 8, 10)]
        >>> rolling_windows(3, None)
        [(0, 0, 3)]
    """
    room = n_tokens if room is None else room
    ends = [min(start + room, n_tokens) for start in range(0, n_tokens, max(1, room))]
    starts: Sequence[int] = [0, *ends[:-1]]
    return [(max(0, end - room), start, end) for start, end in zip(starts, ends, strict=True)]


_ONE_CALL = 2**40  # tokens: the user's number of texts per call decides alone


class TextScorer:
    """Scores of masks of continuations.

    Texts that look the same to the model, such as fully hidden choices of the same length, take one pass.

    Args:
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
        """Score repeats of a design on continuations, whose ids are their positions in `texts`.

        Args:
            per_token: whether to record the log-probability of each hidden token; its column counts from the
                beginning of the continuation.
        """
        tokens, first = self._tokens_and_first(texts)
        scoring = Scoring(design, key, per_token=per_token, share=True)
        table = score_by(self.asker, tokens, scoring, repeats)
        if table.hidden is None:
            return table
        position = table.hidden.column - np.repeat(first[table.id], table.size).astype(np.int32)
        return replace(table, hidden=replace(table.hidden, column=position))

    def tokens(self, texts: Sequence[Continuation]) -> Tokens:
        """The texts as the model takes them; tokens that are not scored are context."""
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
