"""A mixture of conditionals by counts: the model of rows for tables of words."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float, Float64
from torch import Tensor, nn

from maskevidence.core.errors import InputError
from maskevidence.core.model import Conditionals
from maskevidence.core.support.checks import whole_number
from maskevidence.core.support.progress import progress
from maskevidence.core.tokens import Tokens
from maskevidence.tables.base import keeping_dtype
from maskevidence.tables.counts.counted import TINY, WAYS, Batch, CodedRows, Counted, CountedPart, Own
from maskevidence.tables.described import DescribedTableModel
from maskevidence.tables.network.network_columns import (
    Column,
    base_measure,
    column_settings,
    columns_from,
    columns_of,
)
from maskevidence.tables.noise import KeyedNoise, row_keys

_ROWS_OF_FIT = 20_000  # that the weights are fitted to
_SWEEPS = 40
_LEAST = 1e-4  # a smaller share of the weights is left out


class MixtureTransition(DescribedTableModel):
    """A mixture of conditionals by counts, for columns of words, near-unique text and numbers.

    p(b | visible) = s p_new(b) + (1 - s) [w_0 p(b) + Σ_A w_A p(b | a)] / (w_0 + Σ_A w_A),

    the sums over the visible columns A whose value a the training rows have, with p(b | a) = (n_ab + κ p(b))
    / (n_a + κ), κ = 0.2. There are two s, for rows with more and with less than half of all weight. The
    weights of each column are fitted by EM, with all other columns visible and with random ones, each row by
    the counts of the others. p_new is a distribution over all strings (see `log_new`), or of numbers half
    their frequencies, half a Cauchy distribution. Words that the training rows lack count as one, as for
    `MaskedNetwork`; `me.wrong_cells` reads how they are written. Numbers are counted by their values if these
    recur, and in bins of about equally many rows, within which all cells are equal.

    Args:
        n_features: D.
        n_rows: the number of training rows; the model keeps these, also where it is saved.
        columns: settings of the D columns, as `arguments` gives them; by default they are taken from the rows
            that the model is fitted to.
        levels: the words of columns of categories, by the name of the column.

    Raises:
        InputError: no features, or settings that describe no columns.

    Source:
        Raftery (1985), A Model for High-Order Markov Chains (the mixture transition distribution); Hunter
        (2004), MM Algorithms for Generalized Bradley-Terry Models (weights that are shared by those who are
        there); Good (1953), The Population Frequencies of Species (words that occur once).

    Example:
        >>> import pandas as pd, maskevidence as me
        >>> cities = pd.DataFrame({"city": ["Bonn", "Rome"] * 20, "code": [53, 6] * 20})
        >>> model = me.models.MixtureTransition(n_features=2).fit(cities)
        >>> holed = pd.DataFrame({"city": [None], "code": [53]}, dtype=object)
        >>> me.impute(model, holed).to_frame()["city"].tolist()
        ['Bonn']
    """

    conditionals: Conditionals = "learned"
    refits = True
    rows: Tensor
    seen: Tensor

    def __init__(
        self,
        n_features: int,
        n_rows: int = 1,
        *,
        columns: Sequence[Mapping[str, Any]] | None = None,
        levels: Mapping[str, Sequence[str]] | None = None,
    ) -> None:
        super().__init__(n_features, levels)
        n_rows = whole_number("n_rows", n_rows, 1)
        self.described = None if columns is None else tuple(columns_from(columns))
        if columns is not None and len(columns) != n_features:
            raise InputError(f"{len(columns)} columns are described, the model has {n_features} features")
        self.base_measure = base_measure(self.described or [Column()] * n_features)
        self.weights = nn.Parameter(torch.zeros(n_features, 2 + WAYS * (1 + WAYS * n_features)).double())
        self.register_buffer("rows", torch.zeros(n_rows, n_features, dtype=torch.float64))
        self.register_buffer("seen", torch.ones(n_rows, n_features, dtype=torch.float64))
        self._counted: Counted | None = None

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> "MixtureTransition":
        """Keep the training rows in float64 when the weights change dtype."""
        super()._apply(keeping_dtype(fn, [self.rows]), recurse)  # type: ignore[no-untyped-call]
        return self

    def arguments(self) -> dict[str, Any]:
        return {
            "n_features": self.n_features,
            "n_rows": len(self.rows),
            "columns": None if self.described is None else column_settings(self.described),
            "levels": self.levels,
        }

    def in_words(self) -> str:
        return "mixture transition distribution"

    @property
    def counted(self) -> Counted:
        """The counts of the training rows."""
        if self._counted is None:
            rows = torch.where(self.seen > 0, self.rows, torch.nan).cpu().double().numpy()
            columns = self.described or (Column(),) * self.n_features
            names = self.columns or [""] * self.n_features
            self._counted = Counted(rows, columns, [self.levels.get(name) for name in names])
        return self._counted

    # Conditionals

    def log_conditionals(self, tokens: Tokens, masked: Bool[Tensor, "B D"]) -> Float[Tensor, "B D"]:
        """log p(x_j | x_visible) in nats, shape (B, D); exactly 0 where `masked` is False.

        Raises:
            InputError: a wrong width, or a yes/no cell with a third value.
        """
        visible = tokens.visible(masked)
        self.refuse_strange_cells(tokens, masked | visible)
        read, hidden = (each.cpu().numpy() for each in (masked | visible, masked))
        x = np.where(read, tokens.values.detach().cpu().double().numpy(), np.nan)
        batch = self.counted.batch(x, read & ~hidden, None)
        result = self.weights.new_zeros(masked.shape)
        for j in np.flatnonzero(hidden.any(0)).tolist():
            rows = np.flatnonzero(hidden[:, j])
            log_p = self._log_column(j, batch.take(rows), spelled=False)
            result[torch.from_numpy(rows).to(result.device), j] = log_p
        return result

    def log_each(
        self,
        rows: CodedRows,
        asked: Bool[np.ndarray, "B D"],
        visible: Bool[np.ndarray, "B D"],
        own: Own | None,
    ) -> CodedRows:
        """log p of each cell asked for given the visible others, an unseen word by its own string.

        Args:
            own: the training rows that these are, which are not counted; None for none.
        """
        answer, batch = np.full(rows.shape, np.nan), self.counted.batch(rows, visible, own)
        with torch.no_grad():
            for j in np.flatnonzero(asked.any(0)).tolist():  # no part reads the column that it predicts
                there = np.flatnonzero(asked[:, j])
                of_rows = batch if len(there) == len(rows) else batch.take(there)
                answer[there, j] = self._log_column(j, of_rows, spelled=True).cpu().double().numpy()
        return answer

    def _log_column(self, j: int, batch: Batch, spelled: bool) -> Float[Tensor, " B"]:
        """log p of the cells of a column given the visible ones."""
        parts, counted = self._parts(j), self.counted
        like = self.weights
        use, p = (torch.from_numpy(each).to(like) for each in counted.shares(parts, batch))
        weight = torch.exp(like[j, [part.weight for part in parts]])
        there = (use * weight).sum(1)
        mixed = (p * weight).sum(1) / there.clamp(min=TINY)
        s = torch.where(there > weight.sum() / 2, like[j, 0], like[j, 1])
        new = torch.from_numpy(counted.log_new(j, batch, spelled)).to(like)
        log_s, log_rest = nn.functional.logsigmoid(s), nn.functional.logsigmoid(-s)
        log_p = torch.logaddexp(log_s + new, log_rest + torch.log(mixed.clamp(min=TINY)))
        return log_p - counted.log_unit[j]

    def _parts(self, j: int) -> list[CountedPart]:
        """The parts of the mixture of a column with a weight of at least 1/10,000 of the largest one."""
        parts = self.counted.parts(j)
        log_w = self.weights[j].detach().cpu().double().numpy()[[part.weight for part in parts]]
        large = log_w >= log_w.max() + math.log(_LEAST)
        return [part for part, kept in zip(parts, large, strict=True) if kept or part.given is None]

    # Fit

    def fit(self, x: object, *, kinds: Mapping[Any, str] | None = None, seed: int = 0) -> "MixtureTransition":
        """Count the rows, and fit the weights of each column to at most 20,000 of them by EM, in place.

        Args:
            x: shape (N, D), NaN where a value is missing; a `Table`, a data frame or an array. Columns of
                words in a table or a data frame are categories.
            kinds: "yes/no", "category" or "number" for some columns, by name or position; the others are
                guessed.
            seed: of the choice of rows, and of the columns that are visible.

        Raises:
            InputError: a table that cannot be fitted.
        """
        table, columns = self._rows_to_fit(x, kinds)
        self._fit_rows(table, columns, seed)
        return self

    def _fit_again(self, table: Float64[np.ndarray, "N D"], seed: int) -> None:
        self._fit_rows(table, self.described or columns_of(table), seed)

    def _fit_rows(self, table: CodedRows, columns: Sequence[Column], seed: int) -> None:
        """Keep the rows, and fit the weights."""
        like = self.weights
        self.described, self.base_measure = tuple(columns), base_measure(columns)
        self.rows = torch.from_numpy(np.nan_to_num(table)).to(like.device)
        self.seen = torch.from_numpy(~np.isnan(table)).to(like)
        self._counted = None
        rng, counted = np.random.default_rng(seed), self.counted
        chosen = np.sort(rng.permutation(len(table))[:_ROWS_OF_FIT])
        own = counted.own(chosen)
        seen = ~np.isnan(own.cells)
        most = rng.random((len(chosen), 1))
        some = seen & (rng.random(seen.shape) < most)
        batches = [counted.batch(table[chosen], visible, own) for visible in (seen, some)]
        weights = np.full(tuple(like.shape), -30.0)
        with progress("fit", self.n_features) as advance:
            for j in range(self.n_features):
                there = np.flatnonzero(seen[:, j])
                parts = counted.parts(j)
                answers = [counted.shares(parts, batch.take(there)) for batch in batches]
                use, p = (np.concatenate(each).astype(np.float32) for each in zip(*answers, strict=True))
                new = np.tile(counted.log_new(j, batches[0].take(there), spelled=True), 2)
                weights[j, :2], found = _fitted_weights(use, p, new)
                weights[j, [part.weight for part in parts]] = found
                advance(1)
        with torch.no_grad():
            self.weights.copy_(torch.from_numpy(weights))

    # Missing values and samples

    def _missing_moments(self, tokens: Tokens) -> tuple[Float[Tensor, "B D"], Float[Tensor, "B D"]]:
        mean, variance = (torch.zeros_like(tokens.values, dtype=torch.float64) for _ in range(2))
        seen = tokens.maskable.cpu().numpy()
        x = np.where(seen, tokens.values.cpu().double().numpy(), np.nan)
        batch, columns = self.counted.batch(x, seen, None), self.described or ()
        for j in np.flatnonzero(~seen.all(0)).tolist():
            rows = np.flatnonzero(~seen[:, j])
            of_rows, place = batch.take(rows), torch.from_numpy(rows)
            if columns[j].kind == "category":
                best, p = self.likeliest(j, of_rows)
                mean[place, j], variance[place, j] = torch.from_numpy(best), torch.from_numpy(1 - p)
                continue
            share = self._part_shares(j, of_rows)
            moments = [self.counted.moments(j, part, of_rows) for part in self._parts(j)]
            first, second = (np.stack([of[k] for of in moments], 1) for k in range(2))
            first, second = (first * share).sum(1), (second * share).sum(1)
            mean[place, j] = torch.from_numpy(first)
            variance[place, j] = torch.from_numpy(np.maximum(second - first**2, 0.0))
        return mean, variance

    def _part_shares(self, j: int, batch: Batch) -> Float64[np.ndarray, "B C"]:
        """The weight of each part in each row, without that of new words."""
        parts = self._parts(j)
        use = self.counted.shares(parts, batch)[0]
        weight = use * np.exp(
            self.weights[j].detach().cpu().double().numpy()[[part.weight for part in parts]]
        )
        return weight / weight.sum(1, keepdims=True)

    def likeliest(
        self, j: int, batch: Batch, without: Float64[np.ndarray, " B"] | None = None
    ) -> tuple[Float64[np.ndarray, " B"], Float64[np.ndarray, " B"]]:
        """The most probable word of a column in each row, and its probability among all known words.

        Args:
            without: a word for each row that is left out; NaN for none.
        """
        share, parts, counted = self._part_shares(j, batch), self._parts(j), self.counted
        way = counted.ways[parts[0].way]
        values = way.values
        best, highest = np.zeros(len(share)), np.zeros(len(share))
        out = np.full(len(share), -1) if without is None else way.of(without)
        at_once = max(1, 2**22 // max(1, len(values)))
        for rows in np.split(np.arange(len(share)), range(at_once, len(share), at_once)):
            p = counted.distribution(parts, share[rows], batch.take(rows))
            left = np.flatnonzero(out[rows] >= 0)
            p[left, out[rows][left]] = 0.0
            best[rows], highest[rows] = values[p.argmax(1)], p.max(1)
        return best, highest

    def said(self, j: int, batch: Batch) -> Float64[np.ndarray, " B"]:
        """How much each row says of a column: Σ_v |p(v | row) - p(v)| / 2 over its known values."""
        parts, counted = self._parts(j), self.counted
        way = [k for k, part in enumerate(parts) if part.way == parts[0].way]  # a number has others, by bins
        share, parts = self._part_shares(j, batch)[:, way], [parts[k] for k in way]
        share /= np.maximum(share.sum(1, keepdims=True), 1e-300)
        by_frequency, found = np.eye(1, len(parts)), np.zeros(len(share))
        at_once = max(1, 2**21 // len(counted.ways[parts[0].way].values))
        for rows in np.split(np.arange(len(share)), range(at_once, len(share), at_once)):
            given, alone = (
                counted.distribution(parts, weights, batch.take(rows))
                for weights in (share[rows], by_frequency.repeat(len(rows), 0))
            )
            found[rows] = np.abs(given - alone).sum(1) / 2
        return found

    def _draw_missing(self, tokens: Tokens, seed: int) -> Float[Tensor, "B D"]:
        """Draw the missing cells one by one in a random order per row, each given the earlier ones."""
        seen = tokens.maskable.cpu().numpy().copy()
        x = np.where(seen, tokens.values.cpu().double().numpy(), np.nan)
        noise = KeyedNoise(
            row_keys(seed, tokens.ids.cpu().numpy(), seen), torch.zeros((), dtype=torch.float64)
        )
        turn = np.where(seen, 2.0, noise.uniform(self.n_features).numpy()).argsort(1)
        n_missing = (~seen).sum(1)
        for step in range(int(n_missing.max(initial=0))):
            uniform = noise.uniform(3).numpy()
            column = np.where(n_missing > step, turn[:, step], -1)
            for j in np.unique(column[column >= 0]).tolist():
                rows = np.flatnonzero(column == j)
                batch = self.counted.batch(x[rows], seen[rows], None)
                x[rows, j] = self._drawn(j, batch, uniform[rows])
                seen[rows, j] = True
        return torch.from_numpy(x).to(tokens.values)

    def _drawn(self, j: int, batch: Batch, uniform: Float64[np.ndarray, "B 3"]) -> Float64[np.ndarray, " B"]:
        """A cell of a column for each row: that of a training row with the same value elsewhere."""
        parts, share = self._parts(j), self._part_shares(j, batch)
        part = (share.cumsum(1) < uniform[:, :1] * (1 - 1e-12)).sum(1).clip(max=len(parts) - 1)
        drawn = np.zeros(len(share))
        for k in np.unique(part).tolist():
            rows = np.flatnonzero(part == k)
            drawn[rows] = self.counted.drawn(j, parts[k], batch.take(rows), uniform[rows, 1:])
        return drawn


def _fitted_weights(
    use: Float[np.ndarray, "N C"], p: Float[np.ndarray, "N C"], log_new: Float64[np.ndarray, " N"]
) -> tuple[Float64[np.ndarray, " 2"], Float64[np.ndarray, " C"]]:
    """The logits of s and the log weights, by EM with an MM step for the parts that each row has."""
    w, s = np.full(use.shape[1], 1 / use.shape[1], dtype=np.float32), np.full(2, 0.05)
    for _ in range(_SWEEPS):
        there, mixed = np.maximum(use @ w, 1e-30), np.maximum(p @ w, 1e-30)
        few = (there <= w.sum() / 2).astype(np.int64)
        log_odds = np.log(s / (1 - s))[few] + log_new - np.log(mixed / there)
        rest = (1 / (1 + np.exp(np.minimum(log_odds, 500.0)))).astype(np.float32)
        n_new = np.bincount(few, 1 - rest, 2) + 5 * (1 - rest.mean())  # 5 rows of both for each
        s = np.clip((n_new + 0.5) / (np.bincount(few, minlength=2) + 6), 1e-6, 1 - 1e-6)
        w = w * ((rest / mixed) @ p + 1e-3) / ((rest / there) @ use + 1e-3)
        w = np.maximum(w / w.sum(), 1e-9)
    return np.log(s / (1 - s)), np.log(w.astype(np.float64))
