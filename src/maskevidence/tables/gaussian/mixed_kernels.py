"""A kernel Gaussian for tables with words: categories become indicators inside the model."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float, Float64, Int64
from torch import Tensor

from maskevidence.core.errors import InputError
from maskevidence.core.model import Conditionals
from maskevidence.core.table import varies
from maskevidence.core.tokens import Tokens
from maskevidence.tables.described import DescribedTableModel
from maskevidence.tables.gaussian.family import normal_log_cell
from maskevidence.tables.gaussian.kernel_gaussian import KernelGaussian
from maskevidence.tables.network.network_columns import (
    Column,
    base_measure,
    column_settings,
    columns_from,
    notes_on_unseen,
)
from maskevidence.tables.noise import KeyedNoise, chosen, row_keys

_MOST_INPUTS = 150  # indicators in all
_FEWEST_OF_INPUT = 2  # cells that hold the value of an indicator
_MIXING_ROWS = 500  # whose cells are predicted to find the shares of the marginals
_MIXING_STEPS = 30


class MixedKernelGaussian(DescribedTableModel):
    """A `KernelGaussian` of numbers and of indicators of words, read as a distribution for every hidden cell.

    Each frequent word is a column of 0 and 1, and so is a yes/no column. With m_v the conditional mean of the
    indicator of word v under the kernels, (m_v)₊ its positive part and r = (1 - Σ_v (m_v)₊)₊ for the words
    without an indicator,

        p(v | visible) = (1 - u) [(1 - ε) (m_v)₊ / (Σ_w (m_w)₊ + r) + ε n_v/n],

    with ε of the column by EM on training rows that are predicted without their own kernel, and u = (n₁ + ½)
    / (n + 1) for all words that training has not seen. This is a regression on indicators, not a joint
    density: the area is a lower bound. A number is scored by the kernels' mass of its cell over its step, as
    by `CellMass`. A hole of words or yes/no is filled by its most probable value.

    Args:
        n_features: D.
        n_centres: the number of kernels.
        columns: settings of the D columns, as `arguments` gives them; by default they are taken from the rows
            that the model is fitted to.
        levels: the words of columns of categories, by the name of the column.
        inputs: column and value of each input of the kernels, as `arguments` gives them; the value is None
            for a number.
        dtype: of the computation.

    Raises:
        InputError: no features, or settings that describe no columns.

    Source:
        Hastie, Tibshirani and Friedman (2009), The Elements of Statistical Learning, section 4.2 (regression
        on indicators); West (1993), Approximating Posterior Distributions by Mixtures.

    Example:
        >>> import maskevidence as me, pandas
        >>> rng = np.random.default_rng(0)
        >>> sick = rng.random(200) < 0.5
        >>> frame = pandas.DataFrame({"ward": np.where(sick, "A", "B"), "fever": rng.normal(36 + 3.0 * sick)})
        >>> model = me.models.MixedKernelGaussian(n_features=2).fit(frame)
        >>> model.impute(pandas.DataFrame({"ward": [None], "fever": [40.0]})).to_frame()["ward"][0]
        'A'
    """

    conditionals: Conditionals = "learned"
    described: tuple[Column, ...]
    share: Tensor  # of each value of the discrete columns in training
    mixing: Tensor  # ε of each column
    _of_input: Tensor  # the column of each input
    _is_number: Tensor
    _level: Tensor  # the value that an input indicates
    _step: Tensor

    def __init__(
        self,
        n_features: int,
        n_centres: int = 1,
        *,
        columns: Sequence[Mapping[str, Any]] | None = None,
        levels: Mapping[str, Sequence[str]] | None = None,
        inputs: Sequence[Sequence[Any]] | None = None,
        dtype: torch.dtype = torch.float64,
    ) -> None:
        super().__init__(n_features, levels)
        self.fitted = columns is not None
        cells = [Column()] * n_features if columns is None else columns_from(columns)
        if len(cells) != n_features:
            raise InputError(f"{len(cells)} columns are described, the model has {n_features} features")
        every = [(k, None) for k in range(n_features)]
        pairs = every if inputs is None else [(int(k), value) for k, value in inputs]
        self._build(cells, pairs)
        self.kernels = KernelGaussian(max(1, len(self.inputs)), n_centres, dtype=dtype)

    def _build(self, columns: Sequence[Column], inputs: Sequence[tuple[int, float | None]]) -> None:
        """Set the columns and the inputs of the kernels, with uniform shares."""
        self.described, self.inputs = tuple(columns), tuple(inputs)
        self.base_measure = base_measure(columns)
        number = [value is None for _, value in inputs]
        buffers: dict[str, Any] = {
            "_of_input": torch.tensor([k for k, _ in inputs], dtype=torch.int64),
            "_is_number": torch.tensor(number, dtype=torch.bool),
            "_level": torch.tensor([value or 0.0 for _, value in inputs], dtype=torch.float64),
            "_step": torch.tensor([column.step for column in columns], dtype=torch.float64),
        }
        for name, buffer in buffers.items():
            self.register_buffer(name, buffer, persistent=False)
        sizes = [len(column.values) for column in columns]
        shares = [torch.full((size,), 1 / max(1, size), dtype=torch.float64) for size in sizes]
        self.register_buffer("share", torch.cat([*shares, torch.ones(1, dtype=torch.float64)]))  # never empty
        self.register_buffer("mixing", torch.ones(len(columns), dtype=torch.float64))
        self._places = {k: [e for e, (of, _) in enumerate(inputs) if of == k] for k in range(len(columns))}

    def arguments(self) -> dict[str, Any]:
        return {
            "n_features": self.n_features,
            "n_centres": len(self.kernels.centres),
            "columns": column_settings(self.described) if self.fitted else None,
            "levels": self.levels,
            "inputs": [list(each) for each in self.inputs],
        }

    # Fit

    def fit(
        self, x: object, *, kinds: Mapping[Any, str] | None = None, seed: int = 0
    ) -> "MixedKernelGaussian":
        """Encode the rows, fit the kernels and the shares of the marginals, in place.

        Args:
            x: shape (N, D), NaN where a value is missing; a `Table`, a data frame or an array. Columns of
                words in a table or a data frame are categories.
            kinds: "yes/no", "category" or "number" for some columns, by name or position; the others are
                guessed.
            seed: of the centres and the folds of `KernelGaussian.fit`.

        Raises:
            InputError: a table that cannot be fitted.
        """
        table, columns = self._rows_to_fit(x, kinds)
        like, self.fitted = self._like(), True
        self._build(columns, _inputs(table, columns))
        counts = [(table[:, [k]] == np.array(of.values)).sum(0) for k, of in enumerate(columns) if of.values]
        shares = [(count + 1e-3) / (count + 1e-3).sum() for count in counts]
        self.share = torch.from_numpy(np.concatenate([*shares, np.ones(1)]))
        self.kernels = KernelGaussian(max(1, len(self.inputs)), 1, dtype=like.dtype)
        if self.inputs:
            present = ~np.isnan(table)[:, self._of_input.numpy()]
            encoded = np.where(present, self._encoded(torch.from_numpy(np.nan_to_num(table))).numpy(), np.nan)
            self.kernels.fit(encoded[present.any(1)], seed=seed)
            self.mixing = self._mixed(seed)
        self.to(like.device)
        return self

    def _mixed(self, seed: int) -> Float64[Tensor, " D"]:
        """The share ε of each column's marginal, by EM on rows predicted without their own kernel."""
        n_rows = min(_MIXING_ROWS, len(self.kernels.centres))
        rng, own = np.random.default_rng(seed), torch.arange(n_rows)
        values = (self.kernels.centres + self.kernels.gaussian.mean)[:n_rows].detach()
        size = rng.random((n_rows, 1))
        hidden = torch.from_numpy(rng.random((n_rows, self.n_features)) < size)[:, self._of_input]
        seen, mixing = self.kernels.seen[:n_rows].bool(), self.mixing.clone()
        with torch.no_grad():
            mean, _ = self.kernels.answers(values, seen & ~hidden, own=own)
        for k, places in self._places.items():
            if not self.described[k].values or not places:
                continue
            slots, share = self._slots(mean, k)
            rows = torch.nonzero((seen & hidden)[:, places[0]]).flatten()
            truth = torch.cat([values[:, places], 1 - values[:, places].sum(1, keepdim=True)], 1)[rows]
            truth = truth.argmax(1)
            ours, marginal = slots[rows].gather(1, truth[:, None])[:, 0], share[truth]
            eps = torch.tensor(0.1, dtype=torch.float64)
            for _ in range(_MIXING_STEPS):
                part = eps * marginal / (eps * marginal + (1 - eps) * ours)
                eps = (part.sum() + 1) / (len(part) + 2)
            mixing[k] = eps
        return mixing

    # Conditionals

    def log_conditionals(self, tokens: Tokens, masked: Bool[Tensor, "B D"]) -> Float[Tensor, "B D"]:
        """log p(x_j | x_visible) in nats, shape (B, D); exactly 0 where `masked` is False.

        Raises:
            InputError: a wrong width, or a yes/no cell with a third value.
        """
        return self.log_cells(tokens, masked, self._step)

    def log_cells(
        self, tokens: Tokens, masked: Bool[Tensor, "B D"], step: Float[Tensor, " D"]
    ) -> Float[Tensor, "B D"]:
        """log [P(cell of width `step` around a number) / step] or log p of a word, nats, shape (B, D)."""
        visible = tokens.visible(masked)
        values = self._values(tokens, masked | visible)
        mean, log_mass = self._answers(values, visible, masked, step)
        columns = [self._log_cell(k, mean, log_mass, values[:, k], step[k]) for k in range(self.n_features)]
        return torch.where(masked, torch.stack(columns, 1).to(self.dtype), 0.0)

    def _log_cell(
        self,
        k: int,
        mean: Float[Tensor, "B E"],
        log_mass: Float[Tensor, "B E"],
        x: Float64[Tensor, " B"],
        step: Float[Tensor, ""],
    ) -> Float[Tensor, " B"]:
        """The log-probability of a column's values, or of their cells over the step."""
        column, places = self.described[k], self._places[k]
        if column.kind == "number":
            if places:
                return log_mass[:, places[0]]
            one = torch.ones_like(x)
            return normal_log_cell(x - column.centre, one * column.scale**2, one * step)
        code = torch.bucketize(x.contiguous(), x.new_tensor(column.values)).clamp(max=len(column.values) - 1)
        seen = x.new_tensor(column.values)[code] == x
        log_p = self._log_probabilities(k, mean, code)
        if column.kind == "yes/no":
            density = self._with_numbers * math.log(column.values[1] - column.values[0])
            return log_p - density
        return torch.where(seen, log_p + math.log1p(-column.unseen), math.log(column.unseen))

    @property
    def _with_numbers(self) -> bool:
        return any(column.kind == "number" for column in self.described)

    def _encoded(self, values: Float64[Tensor, "B D"]) -> Float64[Tensor, "B E"]:
        """The inputs of the kernels."""
        each = values[:, self._of_input]
        return torch.where(self._is_number, each, (each == self._level).double())

    def _answers(
        self,
        values: Float64[Tensor, "B D"],
        visible: Bool[Tensor, "B D"],
        wanted: Bool[Tensor, "B D"] | None = None,
        step: Float[Tensor, " D"] | None = None,
    ) -> tuple[Float[Tensor, "B E"], Float[Tensor, "B E"]]:
        """The mean of each input given the visible ones, and the log mass of the wanted numbers' cells."""
        if not self.inputs:
            return (values[:, :0].to(self.dtype),) * 2
        encoded, seen = self._encoded(values), visible[:, self._of_input]
        asked = None if wanted is None else wanted[:, self._of_input] & self._is_number
        steps = (self._step if step is None else step)[self._of_input]
        return self.kernels.answers(encoded, seen, asked, steps)

    def _of_column(self, k: int) -> Float64[Tensor, " V"]:
        """The shares of a discrete column's values in training."""
        start = sum(len(column.values) for column in self.described[:k])
        return self.share[start : start + len(self.described[k].values)]

    def _slots(
        self, mean: Float[Tensor, "B E"], k: int
    ) -> tuple[Float64[Tensor, "B S"], Float64[Tensor, " S"]]:
        """The kernels' probabilities of a column's indicated values and of all others; and their shares."""
        places, share = self._places[k], self._of_column(k)
        indicated = self._indicated(k)
        shares = torch.cat([share[indicated], (1 - share[indicated].sum()).clamp(min=0)[None]])
        if not places:
            return shares.expand(len(mean), -1), shares
        positive = mean[:, places].double().clamp(min=0)
        rest = (1 - positive.sum(1, keepdim=True)).clamp(min=0)
        if len(indicated) == len(share):
            rest, shares[-1] = torch.zeros_like(rest), 0.0
        slots = torch.cat([positive, rest], 1)
        total = slots.sum(1, keepdim=True)
        return torch.where(total > 0, slots / total.clamp(min=1e-300), shares), shares

    def _indicated(self, k: int) -> Int64[Tensor, " I"]:
        """The positions of the values with an indicator."""
        values = self.described[k].values
        chosen = [values.index(self.inputs[e][1]) for e in self._places[k]]
        return torch.tensor(chosen, dtype=torch.int64, device=self.share.device)

    def _mixture(
        self, mean: Float[Tensor, "B E"], k: int
    ) -> tuple[Float64[Tensor, "B S"], Int64[Tensor, " V"], Float64[Tensor, " V"]]:
        """The slots' probabilities; and for each value its slot and its share of the slot."""
        slots, shares = self._slots(mean, k)
        share, indicated = self._of_column(k), self._indicated(k)
        slot = torch.full((len(share),), len(indicated), dtype=torch.int64, device=share.device)
        slot[indicated] = torch.arange(len(indicated), device=share.device)
        within = share / shares[-1].clamp(min=1e-300)
        within[indicated] = 1.0
        return (1 - self.mixing[k]) * slots + self.mixing[k] * shares, slot, within

    def _log_probabilities(
        self, k: int, mean: Float[Tensor, "B E"], code: Int64[Tensor, " B"]
    ) -> Float64[Tensor, " B"]:
        """The log-probabilities of these values among those of training."""
        slots, slot, within = self._mixture(mean, k)
        return torch.log(slots.gather(1, slot[code][:, None])[:, 0] * within[code])

    def notes_on(self, tokens: Tokens, data: object = None) -> tuple[str, ...]:
        """Notes if the model was fitted to these rows, or columns have unseen categories."""
        return (*super().notes_on(tokens), *self.notes_on_unseen(tokens, data))

    def notes_on_unseen(self, tokens: Tokens, data: object = None) -> list[str]:
        """A note for each column with categories unseen in training."""
        return notes_on_unseen(self, self.described, tokens, data)

    # Missing values and samples

    def _missing_moments(self, tokens: Tokens) -> tuple[Float[Tensor, "B D"], Float[Tensor, "B D"]]:
        values, seen = self._values(tokens, tokens.maskable), tokens.maskable
        expected, variance = torch.zeros_like(values), torch.zeros_like(values)
        mean, spread = (values[:, :0],) * 2
        if self.inputs:
            present = seen[:, self._of_input]
            encoded = Tokens(self._encoded(values), present, torch.zeros_like(present), tokens.ids)
            mean, spread = self.kernels._missing_moments(encoded)
        for k, column in enumerate(self.described):
            places = self._places[k]
            if column.kind == "number":
                expected[:, k] = mean[:, places[0]] if places else column.centre
                variance[:, k] = spread[:, places[0]] if places else 0.0
                continue
            slots, slot, within = self._mixture(mean, k)
            p = slots[:, slot] * within
            highest, listed = p.max(1), values.new_tensor(column.values)
            if column.kind == "yes/no":
                expected[:, k], variance[:, k] = p @ listed, p @ listed.square() - (p @ listed).square()
            else:
                expected[:, k] = listed[highest.indices]
                variance[:, k] = 1 - (1 - column.unseen) * highest.values
        return expected, variance

    def _draw_missing(self, tokens: Tokens, seed: int) -> Float[Tensor, "B D"]:
        """Draw missing words and yes/no one by one, each given the earlier ones, then all numbers jointly."""
        values, seen = self._values(tokens, tokens.maskable), tokens.maskable.clone()
        uniform = KeyedNoise(row_keys(seed, tokens.ids.cpu().numpy(), seen.cpu().numpy()), values).uniform(
            self.n_features
        )
        for k, column in enumerate(self.described):
            rows = torch.nonzero(~seen[:, k])[:, 0]
            if column.kind == "number" or not len(rows):
                continue
            mean, _ = self._answers(values[rows], seen[rows])
            slots, slot, within = self._mixture(mean, k)
            values[rows, k] = values.new_tensor(column.values)[
                chosen(slots[:, slot] * within, uniform[rows, k])
            ]
            seen[rows, k] = True
        if self.inputs:
            present = seen[:, self._of_input]
            encoded = Tokens(self._encoded(values), present, torch.zeros_like(present), tokens.ids)
            drawn = self.kernels._draw_missing(encoded, seed)
        for k, column in enumerate(self.described):
            if column.kind == "number":
                places = self._places[k]
                new = drawn[:, places[0]].double() if places else values.new_tensor(column.centre)
                values[:, k] = torch.where(seen[:, k], values[:, k], new)
        return values


def _inputs(table: Float64[np.ndarray, "N D"], columns: Sequence[Column]) -> list[tuple[int, float | None]]:
    """Columns and values of the kernels' inputs: numbers, yes/no, and the most frequent words."""
    vary = varies(table)
    chosen: list[tuple[int, float | None]] = []
    words = list[tuple[int, int, float]]()
    for k, column in enumerate(columns):
        if not vary[k]:
            continue
        if column.kind == "category":
            counts = (table[:, [k]] == np.array(column.values)).sum(0)
            words += [
                (-int(n), k, v) for n, v in zip(counts, column.values, strict=True) if n >= _FEWEST_OF_INPUT
            ]
        else:
            chosen.append((k, None if column.kind == "number" else column.values[1]))
    chosen += [(k, value) for _, k, value in sorted(words)[:_MOST_INPUTS]]
    return sorted(chosen, key=lambda each: (each[0], each[1] or 0.0))
