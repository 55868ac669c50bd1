"""A trial, the rows and masks that a model is asked about, and the `Check`, a test on a trial."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float64, Int64, Shaped
from torch import Tensor

from maskevidence.core.check.findings import Finding, failed, passed
from maskevidence.core.model import rounding
from maskevidence.core.scores.ask import Answer, Asker, MaskedRows, slices
from maskevidence.core.scores.score_masks import like
from maskevidence.core.tokens import Tokens

_MAX_ROWS = 16
MASKS_PER_ROW = 3
ROWS_IN_A_CALL = 256
_MAX_POOL = 2000
_N_ATTEMPTS = 8  # attempts to draw a value that differs from the old one


@dataclass
class Trial:
    """The pairs of a row and a mask on which a model is checked."""

    model: Any
    data: Tokens  # all observations
    tokens: Tokens  # the row of each pair
    masked: Bool[Tensor, "b D"]  # the mask of each pair
    tolerance: float  # relative tolerance for rounding, a multiple of 1 + |answer|
    seed: int = 0  # seed of all random numbers
    # the texts of each observation, one or two; None for other data
    texts: tuple[tuple[str, ...], ...] | None = None
    n_passes: int = 0  # pairs that went through the model so far

    @cached_property
    def answer(self) -> Float64[Tensor, "b D"]:
        """The model's answers for the pairs."""
        return self.ask(self.tokens)

    @property
    def n_rows(self) -> int:
        """Number of distinct observations."""
        return len(torch.unique(self.tokens.ids))

    def rng(self, purpose: str) -> np.random.Generator:
        """A generator for one purpose; the same seed gives the same numbers."""
        return np.random.default_rng([self.seed, *purpose.encode()])

    def noise(self, purpose: str, shape: Shaped[Tensor, "n D"] | None = None) -> Float64[Tensor, "n D"]:
        """Uniform random numbers shaped like a tensor, by default like the masks."""
        shape = self.masked if shape is None else shape
        return torch.from_numpy(self.rng(purpose).random(tuple(shape.shape))).to(shape.device)

    def raw(self, tokens: Tokens, masked: Bool[Tensor, "n D"]) -> Any:
        """The unchecked return value of one call of the model."""
        self.n_passes += len(masked)
        with torch.no_grad():
            return self.model.log_conditionals(tokens, masked)

    def ask(self, tokens: Tokens, masked: Bool[Tensor, "n D"] | None = None) -> Float64[Tensor, "n D"]:
        """The answers for any number of pairs, by default with the trial's masks, in double precision.

        The calls are raw: packing by an `Asker` would reorder the rows that share a call, on which an answer
        may wrongly depend, and would refuse empty masks, which a model has to answer by 0.
        """
        masked = self.masked if masked is None else masked
        parts = slices(len(masked), ROWS_IN_A_CALL)
        return torch.cat([self.raw(tokens[part], masked[part]).double() for part in parts])

    def distributions(self, rows: Int64[np.ndarray, " n"]) -> Iterator[Answer]:
        """Yield `log_distributions` for the pairs at positions `rows`."""
        masked, asker = self.masked.cpu(), Asker(self.model, any_mode=True)
        size = masked.sum(1).numpy()[rows]
        yield from asker.distributions(MaskedRows(self.tokens, rows, size, lambda part: masked[rows[part]]))
        self.n_passes += asker.n_passes

    def curve(self, row: int, column: int) -> Callable[[Tensor], Float64[np.ndarray, " n"]]:
        """A function from n values of a hidden token to their log-probabilities."""

        def log_prob(values: Tensor) -> Float64[np.ndarray, " n"]:
            rows = torch.full((len(values),), row)
            tokens = self.tokens[rows]
            changed = tokens.values.clone()
            changed[:, column] = values.reshape(changed[:, column].shape).to(changed)
            return self.ask(replace(tokens, values=changed), self.masked[rows])[:, column].cpu().numpy()

        return log_prob

    def probe(self, purpose: str) -> Int64[Tensor, " b"]:
        """The column of one random hidden token per pair."""
        return torch.where(self.masked, self.noise(purpose), -1.0).argmax(1)

    def with_values(self, values: Tensor, where: Bool[Tensor, "b D"] | None = None) -> Tokens:
        """Replace the values of the pairs, everywhere or where a mask is True."""
        changed = values if where is None else torch.where(like(where, values), values, self.tokens.values)
        return replace(self.tokens, values=changed)

    def other_values(self, purpose: str) -> tuple[Tensor, Bool[Tensor, "b D"]]:
        """Values of the same column of other rows, and where they differ from the pairs' own.

        A column that has only one value borrows from all columns.
        """
        data, current, rng = self.data, self.tokens.values, self.rng(purpose)
        present = data.maskable | data.context
        new = current.clone()
        differs = torch.zeros(current.shape[:2], dtype=torch.bool)
        everywhere = torch.nonzero(present)[:_MAX_POOL]
        for column in range(current.shape[1]):
            own = torch.nonzero(present[:, column])[:, 0]
            varies = len(torch.unique(data.values[own, column], dim=0)) > 1
            of_column = torch.stack([own, torch.full_like(own, column)], 1)
            for pool in (of_column,) if varies else (of_column, everywhere):
                for _ in range(_N_ATTEMPTS):
                    left = torch.nonzero(~differs[:, column])[:, 0]
                    if len(left) == 0 or len(pool) == 0:
                        break
                    at = pool[torch.from_numpy(rng.integers(len(pool), size=len(left)))]
                    picked = data.values[at[:, 0], at[:, 1]]
                    new[left, column] = picked
                    differs[left, column] = (picked != current[left, column]).reshape(len(left), -1).any(1)
        return torch.where(like(differs, new), new, current), differs


def new_trial(
    model: Any,
    data: Tokens,
    *,
    seed: int = 0,
    texts: tuple[tuple[str, ...], ...] | None = None,
    tolerance: float | None = None,
) -> Trial:
    """Draw rows, and three masks for each: a single token, half of the tokens, a random number of them."""
    rng = np.random.default_rng(seed)
    chosen = np.sort(rng.permutation(len(data))[:_MAX_ROWS])
    rows = np.repeat(chosen, MASKS_PER_ROW)
    tokens = data[torch.from_numpy(rows)]
    n = tokens.n_tokens.cpu().numpy()
    any_size = 1 + np.floor(rng.random(len(rows)) * n).astype(np.int64)
    pair = np.arange(len(rows))
    size = np.stack([np.ones_like(n), (n + 1) // 2, any_size])[pair % MASKS_PER_ROW, pair]
    order = np.where(tokens.maskable.cpu().numpy(), rng.random(tokens.maskable.shape), 2.0)
    ranks = np.argsort(np.argsort(order))
    masked = torch.from_numpy(ranks < size[:, None]).to(tokens.maskable.device) & tokens.maskable
    tolerance = rounding(model) if tolerance is None else tolerance
    return Trial(model, data, tokens, masked, tolerance, seed, texts)


def compared(
    trial: Trial, before: Float64[Tensor, "b D"], after: Float64[Tensor, "b D"], where: Bool[Tensor, "b D"]
) -> Finding:
    """Compare the answers before and after a change that must not matter, up to rounding.

    What counts is the largest |after - before| / (1 + |before|) of the answers in `where`.
    """
    excess = torch.where(where, (after - before).abs() / (1 + before.abs()), 0.0)
    excess = torch.where(where & (after == before), 0.0, excess).nan_to_num(torch.inf, torch.inf)
    largest = float(excess.max()) if excess.numel() else 0.0
    fields = {"largest": largest, "allowed": trial.tolerance}
    if largest <= trial.tolerance:
        size = f"the largest change is {largest:.1e} of 1 + |answer|" if largest else "no answer changed"
        return passed(size, **fields)
    row, column = divmod(int(excess.argmax()), excess.shape[1])
    share = float((excess > trial.tolerance).sum() / where.sum())
    return failed(
        f"{share:.0%} of the answers changed; that for token {column} of observation "
        f"{int(trial.tokens.ids[row])} from {float(before[row, column]):.6g} to "
        f"{float(after[row, column]):.6g} nats",
        **fields,
    )


def worst(findings: Iterable[Finding]) -> Finding:
    """Return the finding with the largest change."""
    return max(findings, key=lambda finding: finding.largest or 0.0)


@dataclass(frozen=True)
class Check:
    """A named test of a model, which turns a trial into a finding."""

    name: str  # name of the finding
    run: Callable[..., Finding]  # returns the finding of a trial, without its name
    did: str  # what is tested, in one sentence
    look_at: str = ""  # what to look at in the model after a failure
    explains: bool = True  # whether a failure may explain failures of later checks

    def __call__(self, trial: Trial, *more: Any) -> Finding:
        """Run the check on a trial and complete the finding; an exception of the model is a failure."""
        try:
            found = self.run(trial, *more)
        except Exception as error:
            return raised(self.name, error)
        if found.status == "failed" and not found.look_at:
            found = replace(found, look_at=self.look_at)
        if found.status != "skipped" and not (found.n_rows or found.n_masks):
            found = replace(found, n_rows=trial.n_rows, n_masks=len(trial.masked))
        return replace(found, check=self.name, did=self.did)


def check(
    name: str, did: str, look_at: str = "", explains: bool = True
) -> Callable[[Callable[..., Finding]], Check]:
    """Decorator that makes a `Check` of a function from a trial to a finding."""
    return lambda run: Check(name, run, did, look_at, explains)


def raised(name: str, error: Exception) -> Finding:
    """The failed finding of a check in which the model raised an exception."""
    return Finding(
        name,
        "failed",
        f"the model raised {type(error).__name__}: {' '.join(str(error).split())[:200]}",
        "The model was called with tokens and masks that the protocol allows.",
        look_at="the line that raised it",
    )
