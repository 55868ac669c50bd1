"""A trial: some rows and masks of the data, the model's answers for them, and how exact these can be."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float64, Int64
from torch import Tensor

from maskevidence.check.findings import Finding
from maskevidence.scores.ask import Answer, Asker, MaskedRows, slices
from maskevidence.scores.first_batch import like, rounding
from maskevidence.tokens import Tokens

MAX_ROWS = 16
MASKS_PER_ROW = 3
ROWS_IN_A_CALL = 256
_MAX_POOL = 2000


@dataclass(frozen=True)
class Replacements:
    """Values that may stand in for others: each comes from the same column of another row of the data.

    Attributes:
        values: shape (N, D, ...); the values of the data.
        present: shape (N, D); which of them are there.
    """

    values: Tensor
    present: Bool[Tensor, "N D"]

    def drawn(self, current: Tensor, rng: np.random.Generator) -> tuple[Tensor, Bool[Tensor, "b D"]]:
        """Replace each value of `current` by a different one of its column, and say where that was possible.

        A column with one value alone borrows from all columns.
        """
        new = current.clone()
        differs = torch.zeros(current.shape[:2], dtype=torch.bool)
        everywhere = torch.nonzero(self.present)[:_MAX_POOL]
        for column in range(current.shape[1]):
            own = torch.nonzero(self.present[:, column])[:, 0]
            pools = [torch.stack([own, torch.full_like(own, column)], 1), everywhere]
            for pool in pools:
                for _ in range(8):
                    left = torch.nonzero(~differs[:, column])[:, 0]
                    if len(left) == 0 or len(pool) == 0:
                        break
                    at = pool[torch.from_numpy(rng.integers(len(pool), size=len(left)))]
                    picked = self.values[at[:, 0], at[:, 1]]
                    new[left, column] = picked
                    differs[left, column] = _differ(picked, current[left, column])
        return torch.where(like(differs, new), new, current), differs


@dataclass
class Trial:
    """Pairs of a row and a mask, on which a model is checked.

    Attributes:
        model: the model.
        data: all observations.
        tokens: the row of each pair.
        masked: shape (b, D); the mask of each pair.
        tolerance: the largest difference that rounding can explain, relative to 1 + |answer|.
        seed: of everything that is drawn.
        texts: the texts behind the observations, one or two for each, or None.
        n_passes: how many rows with a mask went through the model so far.
    """

    model: Any
    data: Tokens
    tokens: Tokens
    masked: Bool[Tensor, "b D"]
    tolerance: float
    seed: int = 0
    texts: tuple[tuple[str, ...], ...] | None = None
    n_passes: int = 0

    @cached_property
    def answer(self) -> Float64[Tensor, "b D"]:
        """The model's answers for the pairs."""
        return self.ask(self.tokens, self.masked)

    @cached_property
    def replacements(self) -> Replacements:
        """Values of other rows."""
        return Replacements(self.data.values, self.data.maskable | self.data.context)

    @property
    def n_rows(self) -> int:
        """The number of different observations."""
        return len(torch.unique(self.tokens.ids))

    def rng(self, purpose: str) -> np.random.Generator:
        """Random numbers for one purpose, the same in each run."""
        return np.random.default_rng([self.seed, *purpose.encode()])

    def raw(self, tokens: Tokens, masked: Bool[Tensor, "n D"]) -> Any:
        """What the model answers in one call, whatever it is."""
        self.n_passes += len(masked)
        with torch.no_grad():
            return self.model.log_conditionals(tokens, masked)

    def distributions(self, rows: Int64[np.ndarray, " n"]) -> Iterator[Answer]:
        """What the model's `log_distributions` answers for some pairs, numbered by `rows`."""
        masked, asker = self.masked.cpu(), Asker(self.model)
        size = masked.sum(1).numpy()[rows]
        yield from asker.distributions(MaskedRows(self.tokens, rows, size, lambda part: masked[rows[part]]))
        self.n_passes += asker.n_passes

    def ask(self, tokens: Tokens, masked: Bool[Tensor, "n D"]) -> Float64[Tensor, "n D"]:
        """The answers for any number of pairs, in calls of a bounded size, in double precision.

        The calls are raw: packing by an `Asker` would reorder the rows that share a call, on which an answer
        may wrongly depend, and would refuse empty masks, which a model has to answer by 0.
        """
        parts = [
            self.raw(tokens[part], masked[part]).double() for part in slices(len(masked), ROWS_IN_A_CALL)
        ]
        return torch.cat(parts)

    def curve(self, row: int, column: int) -> Callable[[Tensor], Float64[np.ndarray, " n"]]:
        """The log-probability of a hidden token of a pair as a function of its value, for n values."""

        def log_prob(values: Tensor) -> Float64[np.ndarray, " n"]:
            where = torch.full((len(values),), row)
            tokens = self.tokens[where]
            changed = tokens.values.clone()
            changed[:, column] = values.reshape(changed[:, column].shape).to(changed)
            return self.ask(replace(tokens, values=changed), self.masked[where])[:, column].cpu().numpy()

        return log_prob

    def with_values(self, values: Tensor) -> Tokens:
        """The rows of the pairs with other values."""
        return replace(self.tokens, values=values)

    def one_masked_token(self, purpose: str) -> Int64[Tensor, " b"]:
        """A random masked token of each pair."""
        noise = torch.from_numpy(self.rng(purpose).random(tuple(self.masked.shape)))
        return torch.where(self.masked, noise, -1.0).argmax(1)

    def passed(self, check: str, found: str, did: str, **numbers: Any) -> Finding:
        """A finding of this trial that passed."""
        return self.finding(check, "passed", found, did, **numbers)

    def finding(self, check: str, status: Any, found: str, did: str, **numbers: Any) -> Finding:
        """A finding about all pairs of this trial."""
        counts = {"n_rows": self.n_rows, "n_masks": len(self.masked)} | numbers
        return Finding(check, status, found, did, **counts)

    def compared(
        self,
        check: str,
        did: str,
        pair: tuple[Tensor, Tensor],
        where: Bool[Tensor, "n D"],
        look_at: str,
        of: Tokens | None = None,
    ) -> Finding:
        """A finding from answers that have to be equal up to rounding.

        Args:
            check: its name.
            did: what was done, one sentence.
            pair: the answers before and after, each of shape (n, D).
            where: shape (n, D); which answers have to be equal.
            look_at: what to look at if they are not.
            of: the rows of the answers; by default those of the trial.
        """
        before, after = pair
        tokens = self.tokens if of is None else of
        excess = torch.where(where, (after - before).abs() / (1 + before.abs()), 0.0)
        excess = torch.where(where & (after == before), 0.0, excess).nan_to_num(torch.inf, torch.inf)
        worst = float(excess.max()) if excess.numel() else 0.0
        numbers = {
            "largest": worst,
            "allowed": self.tolerance,
            "n_rows": len(torch.unique(tokens.ids)),
            "n_masks": len(where),
        }
        if worst <= self.tolerance:
            found = f"the largest change is {worst:.1e} of 1 + |answer|" if worst else "no answer changed"
            return self.passed(check, found, did, **numbers)
        row, column = divmod(int(excess.argmax()), excess.shape[1])
        share = float((excess > self.tolerance).sum() / where.sum())
        found = (
            f"{share:.0%} of the answers changed; that for token {column} of observation "
            f"{int(tokens.ids[row])} from {float(before[row, column]):.6g} to "
            f"{float(after[row, column]):.6g} nats"
        )
        return self.finding(check, "failed", found, did, look_at=look_at, **numbers)


def new_trial(
    model: Any,
    data: Tokens,
    *,
    seed: int = 0,
    texts: tuple[tuple[str, ...], ...] | None = None,
    tolerance: float | None = None,
) -> Trial:
    """Draw rows and masks: for each row one token alone, half of the tokens, and a random number of them.

    Args:
        model: any `MaskedModel`.
        data: the observations.
        seed: of what is drawn.
        texts: the texts behind the observations.
        tolerance: the room for rounding; by default that of the model's least precise numbers.
    """
    rng = np.random.default_rng(seed)
    chosen = np.sort(rng.permutation(len(data))[:MAX_ROWS])
    rows = np.repeat(chosen, MASKS_PER_ROW)
    tokens = data[torch.from_numpy(rows)]
    n = tokens.n_tokens.cpu().numpy()
    drawn = 1 + np.floor(rng.random(len(rows)) * n).astype(np.int64)
    sizes = np.stack([np.ones_like(n), (n + 1) // 2, drawn])[
        np.arange(len(rows)) % MASKS_PER_ROW, np.arange(len(rows))
    ]
    ranks = np.argsort(
        np.argsort(np.where(tokens.maskable.cpu().numpy(), rng.random(tokens.maskable.shape), 2.0))
    )
    masked = torch.from_numpy(ranks < sizes[:, None]).to(tokens.maskable.device) & tokens.maskable
    room = rounding(model) if tolerance is None else tolerance
    return Trial(model, data, tokens, masked, room, seed, texts)


def _differ(a: Tensor, b: Tensor) -> Bool[Tensor, " n"]:
    return (a != b).flatten(1).any(1) if a.ndim > 1 else a != b
