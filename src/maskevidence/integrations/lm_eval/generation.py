"""Text from a masked model: the most confident tokens are unmasked first, block by block."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor

from maskevidence import Tokens
from maskevidence.errors import InputError
from maskevidence.integrations.lm_eval.token_ids import Continuation, TextScorer
from maskevidence.model import to_device_of
from maskevidence.scores import Answer
from maskevidence.scores.policies import most_urgent, steps
from maskevidence.support.keyed_random import keyed_bits

_LENGTHS = ("max_gen_toks", "max_new_tokens", "max_tokens", "max_completion_tokens")


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
            value = getattr(self, name)
            if value is not None and (not isinstance(value, int) or value < 1):
                raise InputError(f"{name}={value!r}; give a whole number of 1 or more")
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
    return to_device_of(scorer.model, scorer.tokens(texts))


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
