"""Texts of the harness as token ids: cut, scored by masks, and written.

Text is written by unmasking the most confident tokens first, block by block.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor

from maskevidence import MaskDesign, MaskKey, ScoreTable, Tokens
from maskevidence.core.errors import InputError
from maskevidence.core.model import to_device_of
from maskevidence.core.scores import Answer, Asker
from maskevidence.core.scores.policies import most_urgent, steps
from maskevidence.core.scores.score import Scoring, score_by
from maskevidence.core.support.checks import whole_number
from maskevidence.core.support.keyed_random import keyed_bits
from maskevidence.texts.masked_lm import MaskedLM
from maskevidence.texts.pieces import Frame, frame_of

_ONE_CALL = 2**40  # tokens: the user's number of texts per call decides alone
_LENGTHS = ("max_gen_toks", "max_new_tokens", "max_tokens", "max_completion_tokens")


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
        """The tokens of a text; special tokens spelled out in it, as in chat templates, are recognised.

        Those that the model's frame begins with, too, are left out.
        """
        ids = list(self.tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"]) if text else []
        return ids[self._n_framed(ids) :]

    def _n_framed(self, ids: list[int]) -> int:
        """How many of the first ids the frame puts there anyway."""
        before = self.frame.before
        return len(before) if ids[: len(before)] == before else 0

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
        ids, n_context = list(encoded["input_ids"]), int(within[0]) if len(within) else len(ends)
        framed = min(self._n_framed(ids), n_context)
        return ids[framed:], n_context - framed

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
    if n_tokens == 0:
        return []
    room = n_tokens if room is None else room
    ends = [min(start + room, n_tokens) for start in range(0, n_tokens, max(1, room))]
    starts: Sequence[int] = [0, *ends[:-1]]
    return [(max(0, end - room), start, end) for start, end in zip(starts, ends, strict=True)]


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
        tokens, first = self.tokens(texts)
        scoring = Scoring(design, key, per_token=per_token, share=True)
        table = score_by(self.asker, tokens, scoring, repeats)
        if table.hidden is None:
            return table
        position = table.hidden.column - np.repeat(first[table.id], table.size).astype(np.int32)
        return replace(table, hidden=replace(table.hidden, column=position))

    def tokens(self, texts: Sequence[Continuation]) -> tuple[Tokens, Int64[np.ndarray, " B"]]:
        """The texts as the model takes them, other tokens as context, and where their scored tokens begin."""
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


@dataclass(frozen=True)
class Decoding:
    """How text is generated, with the options of LLaDA.

    Args:
        block_length: tokens of a block; blocks are written from left to right. None for one block.
        temperature: 0 takes the most probable token; otherwise tokens are drawn from p^(1/temperature).

    Example:
        >>> Decoding(max_tokens=8, block_length=4, steps=4).n_unmasked(4)
        [2, 2]
    """

    max_tokens: int = 256
    block_length: int | None = None
    steps: int | None = None
    temperature: float = 0.0

    def __post_init__(self) -> None:
        for name in ("max_tokens", "block_length", "steps"):
            if getattr(self, name) is not None:
                whole_number(name, getattr(self, name), 1)
        if not self.temperature >= 0:
            raise InputError(f"temperature={self.temperature!r}; give 0 or more")

    @property
    def block(self) -> int:
        """Tokens of a block."""
        return min(self.block_length or self.max_tokens, self.max_tokens)

    def n_unmasked(self, length: int) -> list[int]:
        """How many tokens of a block of this length each of its passes unmasks."""
        n_blocks = -(-self.max_tokens // self.block)
        n_steps = length if self.steps is None else min(length, max(1, self.steps // n_blocks))
        return [length // n_steps + (step < length % n_steps) for step in range(n_steps)]


def write(
    scorer: TextScorer,
    contexts: Sequence[Continuation],
    decoding: Decoding,
    keys: Sequence[int],
    seed: int = 0,
) -> list[list[int]]:
    """The ids that follow each context, `max_tokens` of them."""
    mask = scorer.model.mask_token_id
    blank = (mask,) * decoding.max_tokens
    tokens = _tokens(scorer, [replace(context, scored=blank) for context in contexts])
    position = tokens.maskable.cumsum(1) - 1
    for start in range(0, decoding.max_tokens, decoding.block):
        end = min(start + decoding.block, decoding.max_tokens)
        hidden = tokens.maskable & (position >= start) & (position < end)
        counts = decoding.n_unmasked(end - start)
        for step, rows, answer in steps(scorer.asker, tokens, hidden, listed=True):
            noise = None
            if decoding.temperature > 0:
                noise = decoding.temperature * _gumbel(seed, answer, np.array(keys)[rows], start + step)
            _unmask((tokens, hidden), rows, answer, counts[step], mask, noise)
    return [ids[own].tolist() for ids, own in zip(tokens.values, tokens.maskable, strict=True)]


def are_greedy(scorer: TextScorer, texts: Sequence[Continuation]) -> list[bool]:
    """Whether unmasking the most confident token first, token by token, gives each continuation.

    The model sees the special tokens and the length. A text is abandoned at its first different token.
    """
    mask, greedy = scorer.model.mask_token_id, np.ones(len(texts), dtype=np.bool_)
    scored = [number for number, text in enumerate(texts) if text.scored]
    if not scored:
        return greedy.tolist()
    original = _tokens(scorer, [texts[number] for number in scored])
    tokens = replace(original, values=original.values.masked_fill(original.maskable, mask))
    hidden = tokens.maskable.clone()
    for _, rows, answer in steps(scorer.asker, tokens, hidden, listed=True):
        _unmask((tokens, hidden), rows, answer, 1, mask)
        differ = ((tokens.values != original.values) & ~hidden).any(1)
        greedy[np.array(scored)[differ.cpu().numpy()]] = False
        hidden[differ] = False
    return greedy.tolist()


def _tokens(scorer: TextScorer, texts: Sequence[Continuation]) -> Tokens:
    return to_device_of(scorer.model, scorer.tokens(texts)[0])


def _gumbel(seed: int, answer: Answer, keys: Int64[np.ndarray, " b"], step: int) -> Float[np.ndarray, "n V"]:
    """Noise for each value of each hidden token: the largest of log p + noise is a draw from p."""
    row, column = (index.cpu().numpy()[:, None] for index in torch.nonzero(answer.hidden, as_tuple=True))
    values = np.arange(answer.log_probs.shape[1])
    uniform = (keyed_bits(seed, keys[row], step, values, column) >> np.uint64(11)) * 2.0**-53
    return -np.log(-np.log(uniform.clip(2.0**-53)))


def _unmask(
    texts: tuple[Tokens, Bool[Tensor, "B D"]],
    rows: Int64[np.ndarray, " b"],
    answer: Answer,
    count: int,
    mask: int,
    noise: Float[np.ndarray, "n V"] | None = None,
) -> None:
    """Write the `count` hidden tokens of each row with the largest log p into the texts.

    With noise, each token is the value with the largest sum of both. The mask token is never written.
    """
    (tokens, hidden), device = texts, answer.hidden.device
    table = answer.log_probs.float().cpu().numpy().copy()
    table[:, mask : mask + 1] = -np.inf
    token = (table if noise is None else table + noise).argmax(1)
    confidence = torch.zeros(answer.hidden.shape, device=device)
    confidence[answer.hidden] = torch.from_numpy(table[np.arange(len(token)), token]).to(device)
    written = torch.zeros_like(answer.tokens.values)
    written[answer.hidden] = torch.from_numpy(token).to(device)
    shown, at = most_urgent(confidence, answer.hidden, count), torch.from_numpy(rows).to(device)
    tokens.values[at] = torch.where(shown, written, tokens.values[at])
    hidden[at] &= ~shown


def asked_decoding(decoding: Decoding, asked: Mapping[str, Any]) -> Decoding:
    """The decoding of a request: the options of its task, and `decoding` for the rest.

    Example:
        >>> asked_decoding(Decoding(), {"until": ["."], "max_gen_toks": 16, "do_sample": False}).max_tokens
        16
    """
    length = next((asked[name] for name in _LENGTHS if asked.get(name) is not None), decoding.max_tokens)
    temperature = float(asked.get("temperature", decoding.temperature))
    if asked.get("do_sample") is False:
        temperature = 0.0
    return replace(
        decoding,
        max_tokens=int(length),
        temperature=temperature,
        steps=asked.get("steps", decoding.steps),
        block_length=asked.get("block_length", decoding.block_length),
    )


def up_to_stop(text: str, until: str | Sequence[str] | None) -> str:
    """A text up to the first of the sequences that stop it.

    Example:
        >>> up_to_stop("yes. no", [".", "!"])
        'yes'
    """
    stops = [until] if isinstance(until, str) else until or []
    ends = [text.find(stop) for stop in stops if stop and stop in text]
    return text[: min(ends)] if ends else text
