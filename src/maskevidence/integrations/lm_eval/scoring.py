"""Masked texts through the model, each distinct one once."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float32, Float64, Int64

from maskevidence.evidence import estimate_evidence
from maskevidence.integrations.lm_eval.requests import Continuation, Encoder
from maskevidence.masks import Policy
from maskevidence.models.text.masked_lm import MaskedLM
from maskevidence.tokens import Tokens

_ONE_CALL = 2**40  # tokens: a number of texts per call was asked for, which alone decides
_TABLE_ROWS = 512  # hidden tokens whose whole distributions are in memory at a time


class MaskedText(NamedTuple):
    """A text with some tokens of its continuation hidden.

    Attributes:
        text: the continuation and its context.
        hidden: shape (n,); which tokens of the continuation are hidden.
    """

    text: Continuation
    hidden: Bool[np.ndarray, " n"]


class _Row(NamedTuple):
    """What the model reads of a masked text.

    Attributes:
        shown: the ids, with the mask token where they are hidden.
        hidden: the places of the hidden tokens.
        targets: their ids.
    """

    shown: tuple[int, ...]
    hidden: tuple[int, ...]
    targets: tuple[int, ...]


_Same = list[tuple[int, _Row]]  # rows that look the same to the model, and their places among the texts


class Scorer:
    """Log-probabilities of hidden tokens.

    Texts that look the same to the model are one pass, whatever the hidden tokens are: choices of the same
    length with all tokens hidden, for example.

    Args:
        model: the masked language model.
        encoder: knows the special tokens around a text.
        batch_size: how many masked texts go into one call; None leaves it to the model.

    Attributes:
        n_passes: how many masked texts went through the model so far.
    """

    def __init__(self, model: MaskedLM, encoder: Encoder, batch_size: int | None = None) -> None:
        self.model, self.encoder, self.batch_size = model, encoder, batch_size
        self.n_passes = 0
        if batch_size is not None:
            model.batch_tokens = _ONE_CALL

    def token_log_probs(self, texts: Sequence[MaskedText]) -> list[Float64[np.ndarray, " _"]]:
        """log p(hidden token | visible tokens) of each hidden token of each masked text, nats."""
        places: dict[tuple[int, ...], _Same] = defaultdict(list)
        for place, text in enumerate(texts):
            row = self._row(text)
            places[row.shown].append((place, row))
        result = [np.zeros(0)] * len(texts)
        several = {shown: len({row.targets for _, row in same}) > 1 for shown, same in places.items()}
        for call in self._calls([same for shown, same in places.items() if not several[shown]]):
            for same, values in zip(call, self._of_targets([same[0][1] for same in call]), strict=True):
                for place, _ in same:
                    result[place] = values
        for call in self._calls([same for shown, same in places.items() if several[shown]]):
            for part in _few_hidden(call):
                for same, table in zip(part, self._of_all([same[0][1] for same in part]), strict=True):
                    for place, row in same:
                        result[place] = table[np.arange(len(row.targets)), row.targets].astype(np.float64)
        return result

    def distributions(
        self, rows: Sequence[tuple[Sequence[int], Sequence[int]]]
    ) -> list[Float32[np.ndarray, "_ V"]]:
        """log p of every token at the given places of each row of ids, which hold the mask token already.

        Args:
            rows: the ids, and the places that are asked for.
        """
        wanted = [
            _Row(tuple(ids), tuple(places), tuple(ids[place] for place in places)) for ids, places in rows
        ]
        result: list[Float32[np.ndarray, "_ V"]] = []
        for start in range(0, len(wanted), self.batch_size or len(wanted) or 1):
            result += self._of_all(wanted[start : start + (self.batch_size or len(wanted))])
        return result

    def along_policy(self, texts: Sequence[Continuation], policy: Policy) -> list[float]:
        """log p of each continuation along the order in which a policy writes it, nats."""
        if not texts:
            return []
        everything = [MaskedText(text, np.ones(len(text.scored), dtype=np.bool_)) for text in texts]
        tokens, _ = self._tokens([self._row(one) for one in everything])
        self.n_passes += sum(len(text.scored) for text in texts) - len(texts)
        estimate = estimate_evidence(self.model, tokens, policy, check=False)
        return [float(value) for value in estimate.per_observation]

    def _row(self, one: MaskedText) -> _Row:
        ids, first = self.encoder.row(one.text)
        hidden = (first + np.flatnonzero(one.hidden)).tolist()
        targets = tuple(ids[place] for place in hidden)
        for place in hidden:
            ids[place] = self.model.mask_token_id
        return _Row(tuple(ids), tuple(hidden), targets)

    def _calls(self, groups: list[_Same]) -> Iterator[list[_Same]]:
        """Groups of equal rows, longest first, as many as go into one call."""
        if not groups:
            return
        lengths = np.array([len(same[0][1].shown) for same in groups])
        if self.batch_size is None:
            for part in self.model.batches(lengths):
                yield [groups[place] for place in part]
            return
        order = np.argsort(-lengths, kind="stable")
        for start in range(0, len(order), self.batch_size):
            yield [groups[place] for place in order[start : start + self.batch_size]]

    def _of_targets(self, rows: list[_Row]) -> list[Float64[np.ndarray, " _"]]:
        tokens, masked = self._tokens(rows)
        with torch.no_grad():
            log_conditionals = self.model.log_conditionals(tokens, masked).double().cpu().numpy()
        return [values[list(row.hidden)] for values, row in zip(log_conditionals, rows, strict=True)]

    def _of_all(self, rows: list[_Row]) -> list[Float32[np.ndarray, "_ V"]]:
        tokens, masked = self._tokens(rows)
        with torch.no_grad():
            table = self.model.log_distributions(tokens, masked).float().cpu()
        ends = np.cumsum([len(row.hidden) for row in rows])[:-1]
        return np.split(table.numpy(), ends)

    def _tokens(self, rows: list[_Row]) -> tuple[Tokens, Bool[torch.Tensor, "B D"]]:
        """The rows as the model takes them; hidden tokens are maskable, all others are context."""
        self.n_passes += len(rows)
        shape = (len(rows), max(len(row.shown) for row in rows))
        values: Int64[np.ndarray, "B D"] = np.zeros(shape, dtype=np.int64)
        present, masked = np.zeros(shape, dtype=np.bool_), np.zeros(shape, dtype=np.bool_)
        for place, row in enumerate(rows):
            values[place, : len(row.shown)] = row.shown
            values[place, list(row.hidden)] = row.targets
            present[place, : len(row.shown)] = True
            masked[place, list(row.hidden)] = True
        hidden = torch.from_numpy(masked)
        tokens = Tokens(
            torch.from_numpy(values), hidden, torch.from_numpy(present & ~masked), torch.arange(len(rows))
        )
        return tokens.to(self.model.device), hidden.to(self.model.device)


def _few_hidden(groups: list[_Same]) -> Iterator[list[_Same]]:
    """The groups in parts with a bounded number of hidden tokens, but at least one group each."""
    part: list[_Same] = []
    count = 0
    for same in groups:
        n_hidden = len(same[0][1].hidden)
        if part and count + n_hidden > _TABLE_ROWS:
            yield part
            part, count = [], 0
        part.append(same)
        count += n_hidden
    if part:
        yield part
