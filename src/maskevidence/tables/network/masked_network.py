"""A network trained by masked prediction: the model of rows for tables with columns of any kind."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float, Float64, Int64
from torch import Tensor, nn

from maskevidence.core.errors import InputError
from maskevidence.core.evidence.precise import estimate_evidence
from maskevidence.core.masks.design import BoolMatrix, Integers, MaskKey, Plan, Positions
from maskevidence.core.masks.sizes import RandomSize
from maskevidence.core.model import Conditionals
from maskevidence.core.support.checks import whole_number
from maskevidence.core.support.devices import seeded
from maskevidence.core.support.keyed_random import first_copies, held_out_first, keyed_bits, keyed_ranks
from maskevidence.core.tokens import Tokens
from maskevidence.core.training.fit import fit
from maskevidence.core.training.history import History
from maskevidence.core.training.objectives import MaskedObjective, Objective
from maskevidence.core.training.training_pace import Pace
from maskevidence.tables.described import DescribedTableModel
from maskevidence.tables.network.cell_coding import ColumnHeads
from maskevidence.tables.network.gaussian_answer import GaussianAnswer
from maskevidence.tables.network.network_columns import (
    Column,
    base_measure,
    column_settings,
    columns_from,
    notes_on_unseen,
)
from maskevidence.tables.noise import KeyedNoise, row_keys

_ROWS = 8_192  # rows per call
_STEPS = 4_000
_BATCHES = (32, 128)  # rows per step, with two masks each
_LOOKS = (20, 100)  # steps between evaluations on the held-out rows
_WARM_UP_STEPS, _END = 25, 0.25  # the learning rate rises at first, and falls in the last quarter
_PACE = (2, 0.25, 0.05, 0.2)
_WORK = 3e11  # multiplications in training, about a minute on two cores
_FEWEST_HELD_OUT, _MOST_HELD_OUT = 20, 10_000
_MOST_PASSES, _ROWS_TO_FILL = 40, 100_000  # of a fit to fill some columns: epochs, and rows times epochs
_WIDENING_ROWS = 1_000
_MOST_OF_GAUSSIAN = 60  # encoded inputs; the cost of its matrices grows with the third power
_WARM_UP = 0.05  # share of the training
_SHRINKAGE = 0.5  # per step, times the square root of a batch's share of the rows


class MaskedNetwork(DescribedTableModel):
    """A network that predicts a distribution for every hidden cell from the visible cells of its row.

    The columns may be numbers, counts, yes/no and categories. Missing cells are treated as hidden. `Column`
    describes how each kind is encoded and predicted. The network is a residual multilayer perceptron plus a
    linear map. Its training loss is minus the area under the score curve with uniform sizes, which bounds the
    log evidence of the mixture over all orders from below; `me.order_mixture` and `Orderings(16,
    bound="importance")` estimate that mixture.

    Args:
        n_features: D.
        width: units of each layer.
        layers: residual blocks of two linear layers each.
        dropout: the share of units that a training step leaves out; by default 12 D / N for N training rows,
            at most ½.
        gaussian: whether the conditional mean and standard deviation of every cell under a Gaussian are
            inputs, too; by default for tables of up to 60 numbers, yes/no columns and categories together.
        columns: settings of the D columns, as `arguments` gives them; by default they are taken from the rows
            that the model is fitted to.
        levels: the words of columns of categories, by the name of the column.
        seed: of the initial weights.
        dtype: of the computation.

    Attributes:
        history: the course of the last `fit`; None before.
        columns_to_fill: if `fit` is to learn these columns alone, by their positions, it hides no others and
            takes a few passes over the rows; None, the default, for all columns.

    Raises:
        InputError: sizes below 1, a dropout outside [0, 1), or settings that describe no columns.

    Source:
        Uria, Murray, Larochelle (2014), A Deep and Tractable Density Estimator (EoNADE, training over all
        orders); Salimans et al. (2017), PixelCNN++ (mixtures of logistics over cells); Guo et al. (2017), On
        Calibration of Modern Neural Networks (a scale chosen by held-out rows); Ravikumar, Wainwright and
        Lafferty (2010), High-dimensional Ising model selection using l1-regularized logistic regression.

    Example:
        >>> import maskevidence as me
        >>> rng = np.random.default_rng(0)
        >>> sick = rng.random(400) < 0.5
        >>> x = np.column_stack([sick, rng.poisson(np.where(sick, 6, 1)), rng.normal(2.0 * sick)])
        >>> model = me.models.MaskedNetwork(n_features=3, width=32).fit(x, epochs=20)
        >>> model.base_measure
        'mass of each cell over its step'
        >>> me.impute(model, [[np.nan, 8, 2.5], [np.nan, 0, -1.0]]).values[:, 0].round(1).tolist()
        [1.0, 0.0]
    """

    conditionals: Conditionals = "learned"
    described: tuple[Column, ...]
    learning_rate = 2e-3

    def __init__(
        self,
        n_features: int,
        width: int = 256,
        layers: int = 2,
        *,
        dropout: float | None = None,
        gaussian: bool | None = None,
        columns: Sequence[Mapping[str, Any]] | None = None,
        levels: Mapping[str, Sequence[str]] | None = None,
        seed: int = 0,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        counts = {"n_features": n_features, "width": width, "layers": layers}
        n_features, width, layers = (whole_number(name, count, 1) for name, count in counts.items())
        if not (dropout is None or 0 <= dropout < 1):
            raise InputError(f"dropout={dropout}; give a share in [0, 1)")
        super().__init__(n_features, levels)
        self.width, self.layers, self.dropout, self.with_gaussian = width, layers, dropout, gaussian
        self.seed = whole_number("seed", seed)
        self.history: History | None = None
        self.columns_to_fill: Sequence[int] | None = None
        self._dtype = dtype
        self.fitted = columns is not None
        self._build([Column()] * n_features if columns is None else columns_from(columns))
        if columns is not None and len(columns) != n_features:
            raise InputError(f"{len(columns)} columns are described, the model has {n_features} features")

    def _build(self, columns: Sequence[Column], n_rows: int = 0) -> None:
        """Build the network with new weights for these columns and number of training rows."""
        by_rows = min(0.5, 12 * self.n_features / n_rows) if n_rows else 0.5
        dropout = by_rows if self.dropout is None else self.dropout
        self.described, self.base_measure = tuple(columns), base_measure(columns)
        with seeded(self.seed):
            self.cells = ColumnHeads(columns, density=any(column.kind == "number" for column in columns))
            few = self.cells.n_encoded <= _MOST_OF_GAUSSIAN
            with_gaussian = few if self.with_gaussian is None else self.with_gaussian
            self.gaussian = GaussianAnswer(self.cells.n_encoded).to(self._dtype) if with_gaussian else None
            n_inputs = self.cells.n_inputs + 2 * self.cells.n_encoded * with_gaussian
            network = _Network(self.cells, n_inputs, self.width, self.layers, dropout)
            self.network = network.to(self._dtype)
        self.eval()

    def arguments(self) -> dict[str, Any]:
        return {
            "n_features": self.n_features,
            "width": self.width,
            "layers": self.layers,
            "dropout": self.dropout,
            "gaussian": self.with_gaussian,
            "columns": column_settings(self.described) if self.fitted else None,
            "levels": self.levels,
            "seed": self.seed,
        }

    # Conditionals

    def log_conditionals(self, tokens: Tokens, masked: Bool[Tensor, "B D"]) -> Float[Tensor, "B D"]:
        """log p(x_j | x_visible) in nats, shape (B, D); exactly 0 where `masked` is False.

        Raises:
            InputError: a wrong width, or a yes/no cell with a third value.
        """
        return self.log_cells(tokens, masked, None)

    def log_cells(
        self, tokens: Tokens, masked: Bool[Tensor, "B D"], step: Float[Tensor, " D"] | None
    ) -> Float[Tensor, "B D"]:
        """The log mass of the cell of width `step` about each masked number, over the step; words as ever.

        Without a step, the columns' own.
        """
        visible = tokens.visible(masked)
        values = self._values(tokens, masked | visible)
        answer = self._answer(values, visible, tokens.ids)
        return torch.where(masked, self.cells.log_density(answer, values, step), 0.0)

    def notes_on(self, tokens: Tokens, data: object = None) -> tuple[str, ...]:
        """Notes if the model was fitted to these rows, or columns have unseen categories."""
        return (*super().notes_on(tokens), *self.notes_on_unseen(tokens, data))

    def notes_on_unseen(self, tokens: Tokens, data: object = None) -> list[str]:
        """A note for each column with categories unseen in training."""
        return notes_on_unseen(self, self.described, tokens, data)

    def _answer(
        self,
        values: Float64[Tensor, "B D"],
        visible: Bool[Tensor, "B D"],
        ids: Int64[Tensor, " B"] | None = None,
    ) -> Float[Tensor, "B O"]:
        """The network's output for every row given its visible cells; `ids` select Gaussian fits in
        training.
        """
        if not self.training and len(values) > _ROWS:
            parts = zip(torch.split(values, _ROWS), torch.split(visible, _ROWS), strict=True)
            return torch.cat([self._answer(*part) for part in parts])
        inputs = self.cells.inputs(torch.where(visible, values, 0.0), visible).to(self.dtype)
        if self.gaussian is not None:
            encoded, of_input = inputs[:, self.n_features :], self.cells.of_input
            answer = self.gaussian(encoded, visible[:, of_input], ids if self.training else None)
            inputs = torch.cat([inputs, answer], 1)
        return self.network(inputs)

    def score_samples(self, x: object) -> Float64[np.ndarray, " N"]:
        """The importance bound over 16 random orders, a lower bound of each row's log evidence, nats, shape
        (N,).
        """
        return self._bound_by_orders(x, self.seed)

    # Training

    def fit(
        self,
        x: object,
        *,
        held_out: object = None,
        epochs: int | None = None,
        batch_size: int | None = None,
        learning_rate: float = learning_rate,
        weight_decay: float = 0.1,
        kinds: Mapping[Any, str] | None = None,
        objective: Objective | None = None,
        seed: int = 0,
        **options: Any,
    ) -> "MaskedNetwork":
        """Train by masked prediction with masks of uniform size, in place.

        Each step of AdamW uses two masks per row, which together hide every cell. After every 20 to 100 steps
        the held-out rows are scored, always under the same masks. When their area has not risen for two such
        looks, or a fifth of those so far, training continues from the best weights at a quarter of the
        learning rate; it ends when this happens a third time, or after 4,000 steps (fewer for wide tables).
        The best weights are kept. With fewer rows than
        inputs, an L1 penalty keeps most weights into the outputs at 0. Finally, the scales of all numbers are
        multiplied by the factor with the highest area on the same held-out rows.

        Args:
            x: shape (N, D), NaN where a value is missing; a `Table`, a data frame or an array. Columns of
                words in a table or a data frame are categories.
            held_out: rows that decide the learning rate and the end, of which 10,000 are used at most; by
                default a tenth of x, at least 20 rows.
            epochs: passes over the rows, with a learning rate that rises and decays to 0, and with a look
                after each; by default the fit finds its own length.
            batch_size: rows in a step; by default a tenth of the rows, 32 to 128, or in `epochs` a sixteenth,
                32 to 256.
            learning_rate: the highest learning rate.
            weight_decay: of AdamW.
            kinds: "yes/no", "category" or "number" for some columns, by name or position; the others are
                guessed.
            objective: the loss; by default masked prediction with masks of uniform size.
            seed: of the masks, of the order of the rows and of the rows that are held out.
            options: further options of `me.fit`, such as `checkpoint`, `callbacks` or `patience`.

        Raises:
            InputError: a table that cannot be fitted.
            NumericalError: a loss that is not finite.
        """
        if kinds is not None:
            self.declare(x, kinds)
        self.set_units(x)
        tokens = self.tokens(x)
        self._remember(x, tokens)
        train, test = _split(tokens, seed) if held_out is None else (tokens, self.tokens(held_out))
        test = test[_random_rows(test, seed)[:_MOST_HELD_OUT].sort().values]
        if self.gaussian is not None:
            self._fit_gaussian(train, seed)
        every = train
        if self.columns_to_fill is not None:
            train, test = (_hiding(each, self.columns_to_fill) for each in (train, test))
            if epochs is None and len(train) <= _ROWS_TO_FILL:
                epochs = min(_MOST_PASSES, _ROWS_TO_FILL // len(train))
        length = self._length(len(train), epochs, batch_size)
        self.history = fit(
            self,
            train,
            objective or MaskedObjective(_Complements(2), seed=seed),
            optimizer=self._optimizer(len(train), length["batch_size"], learning_rate, weight_decay),
            seed=seed,
            held_out=test,
            evidence_every=0,
            **{**length, **options},
        )
        self.n_iterations = len(self.history)
        if self.cells.number:
            self._widen(test[:_WIDENING_ROWS], seed)
        self.fit_notes = (*self.history.notes, *self._beside_independent_columns(every, test))
        return self

    def _length(self, n_rows: int, epochs: int | None, batch_size: int | None) -> dict[str, Any]:
        """The training schedule: a given number of epochs, or steps at a pace set by the held-out rows."""
        if epochs is not None:
            batch = batch_size or min(max(n_rows // 16, 32), 256)
            patience = max(5, epochs // 4)
            return {"epochs": epochs, "batch_size": batch, "schedule": one_cycle, "patience": patience}
        batch = batch_size or min(max(n_rows // 10, _BATCHES[0]), _BATCHES[1])
        n_steps = max(1, round(min(_STEPS, _WORK / (batch * self.n_parameters))))
        look = min(max(round(math.sqrt(n_rows)), _LOOKS[0]), _LOOKS[1], n_steps)

        def schedule(progress: float) -> float:
            return min(1.0, (1 + progress * n_steps) / _WARM_UP_STEPS, (1 - progress) / _END)

        return {
            "epochs": -(-n_steps // look),
            "batch_size": batch,
            "epoch_size": look * min(batch, n_rows),
            "schedule": schedule,
            "pace": Pace(*_PACE),
        }

    def _optimizer(self, n_rows: int, batch_size: int, rate: float, decay: float) -> torch.optim.AdamW:
        """AdamW; with fewer rows than inputs, an L1 penalty shrinks the weights into the outputs, as in the
        lasso.
        """
        groups: list[dict[str, Any]] = [{"params": list(self.parameters())}]
        if n_rows < self.cells.n_encoded:
            shrunk = {id(layer.weight): layer.weight for layer in (self.network.skip, self.network.deep[-1])}
            groups = [
                {"params": [each for each in self.parameters() if id(each) not in shrunk]},
                {
                    "params": list(shrunk.values()),
                    "shrinkage": _SHRINKAGE * math.sqrt(batch_size / n_rows),
                },
            ]
        return _ShrinkingAdamW(groups, lr=rate, weight_decay=decay, fused=True)

    def _fit_gaussian(self, train: Tokens, seed: int) -> None:
        """Fit the Gaussian whose conditional moments are inputs."""
        assert self.gaussian is not None
        encoded = self.cells.encoded(self._values(train, train.maskable))
        encoded = torch.where(train.maskable[:, self.cells.of_input], encoded, math.nan)
        ids = train.ids.cpu().numpy()
        self.gaussian.fit(encoded.cpu().numpy(), ids, seed, ids[first_copies(_table(train))])

    def _beside_independent_columns(self, train: Tokens, held_out: Tokens) -> list[str]:
        """A note if the network does not beat independent columns on the held-out rows."""
        assert self.history is not None
        outputs = self.cells.marginals(_table(train)).to(self._like()).expand(len(held_out), -1)
        alone = self.cells.log_density(outputs, self._values(held_out, held_out.maskable))
        independent = float((alone * held_out.maskable).sum(1).double().mean())
        best = self.history.best_epoch
        reached = independent if best is None else self.history.held_out[best - 1]
        if reached > independent:
            return []
        return [
            f"the network does not beat independent columns on held-out rows ({reached:.4g} and "
            f"{independent:.4g} nats): it learned no dependence between columns; a lower learning rate "
            "or more rows may help"
        ]

    def _widen(self, held_out: Tokens, seed: int) -> None:
        """Rescale the distributions of numbers in steps of 10 % as long as the held-out area rises."""

        def area(widening: float) -> float:
            self.cells.widening.fill_(widening)
            return estimate_evidence(self, held_out, RandomSize(8), seed=seed, check=False).log_evidence

        best, highest = 0.0, area(0.0)
        for step in (0.1, -0.1):
            while (value := area(best + step)) > highest:
                best, highest = best + step, value
        self.cells.widening.fill_(best)

    def set_units(self, x: object) -> None:
        """Set the columns' scales and categories from rows, and build a new network for them.

        If `declare` was called, the kinds are already known; otherwise they are guessed from x.

        Args:
            x: shape (N, D), NaN where a value is missing.

        Raises:
            InputError: a table that cannot be fitted.
        """
        table, columns = self._rows_to_fit(x)
        like, self.fitted = self._like(), True
        self._build(columns, len(table))
        self.network.bias.data.copy_(self.cells.marginals(table))
        self.to(like.device, like.dtype)

    # Missing values and samples

    def _missing_moments(self, tokens: Tokens) -> tuple[Float[Tensor, "B D"], Float[Tensor, "B D"]]:
        values = self._values(tokens, tokens.maskable)
        return self.cells.moments(self._answer(values, tokens.maskable))

    def _draw_missing(self, tokens: Tokens, seed: int) -> Float[Tensor, "B D"]:
        """Draw the missing cells one by one in a random order per row, each given the earlier ones."""
        values, seen = self._values(tokens, tokens.maskable), tokens.maskable.clone()
        noise = KeyedNoise(row_keys(seed, tokens.ids.cpu().numpy(), seen.cpu().numpy()), values)
        turn = noise.uniform(self.n_features).masked_fill(seen, 2.0).argsort(1)
        n_missing = (~seen).sum(1)
        for step in range(int(n_missing.max())):
            rows = torch.nonzero(n_missing > step)[:, 0]
            uniform = noise.uniform(self.n_features, 2)[rows]
            drawn = self.cells.draw(self._answer(values[rows], seen[rows]), uniform)
            column = turn[rows, step]
            values[rows, column] = drawn.gather(1, column[:, None])[:, 0]
            seen[rows, column] = True
        return values


def one_cycle(progress: float) -> float:
    """Learning rate relative to its peak: a linear rise, then half a cosine; `progress` is in [0, 1].

    Example:
        >>> one_cycle(0.05), round(one_cycle(1.0), 6)
        (1.0, 0.0)
    """
    if progress < _WARM_UP:
        return max(progress / _WARM_UP, 0.01)
    return 0.5 * (1 + math.cos(math.pi * (progress - _WARM_UP) / (1 - _WARM_UP)))


class _Complements(RandomSize):
    """Two masks for each row: M random tokens; and the other D - M plus one of the first M.

    Both sizes are uniform, and together the masks hide every token.
    """

    def plan(
        self, key: MaskKey, ids: Integers, n_tokens: Integers, index: Integers, position: Positions = None
    ) -> Plan:
        _, size = super().plan(key, ids, n_tokens, np.zeros_like(index), position)
        return index, np.where(index == 0, size, n_tokens + 1 - size)

    def masked(
        self, key: MaskKey, ids: Integers, draw: Integers, size: Integers, maskable: BoolMatrix
    ) -> BoolMatrix:
        ranks = keyed_ranks(key.seed, key.columns(ids, np.zeros_like(draw)), maskable)
        n_tokens = maskable.sum(1)
        first = ranks < size[:, None]
        second = ranks >= (n_tokens - size)[:, None]
        return maskable & np.where((draw == 0)[:, None], first, second)


class _Network(nn.Module):
    """The sum of a residual multilayer perceptron and a linear map.

    The linear map alone is a logistic regression of every column on the others and can be fitted to few rows.
    For a number, it shifts all centres of the mixture.
    """

    def __init__(self, cells: ColumnHeads, n_inputs: int, width: int, layers: int, dropout: float) -> None:
        super().__init__()
        n_outputs = cells.n_outputs
        blocks = [_Block(width, dropout) for _ in range(layers)]
        last = nn.Linear(width, n_outputs, bias=False)
        end = [nn.LayerNorm(width), nn.GELU(), _Dropout(dropout), last]
        self.deep = nn.Sequential(nn.Linear(n_inputs, width), *blocks, *end)
        self.skip = nn.Linear(n_inputs, cells.n_shifts, bias=False)
        self.bias = nn.Parameter(torch.zeros(n_outputs))
        self.spread = cells.spread
        last.weight.data *= 0.1
        nn.init.zeros_(self.skip.weight)

    def forward(self, x: Float[Tensor, "B I"]) -> Float[Tensor, "B O"]:
        return self.deep(x) + self.spread(self.skip(x)) + self.bias


class _ShrinkingAdamW(torch.optim.AdamW):
    """AdamW with an L1 proximal step: weights of a group shrink by rate times `shrinkage`, but not past 0."""

    @torch.no_grad()
    def step(self, closure: Any = None) -> Any:
        loss = super().step(closure)
        for group in self.param_groups:
            for weight in group["params"] if "shrinkage" in group else ():
                weight.copy_(nn.functional.softshrink(weight, group["lr"] * group["shrinkage"]))
        return loss


class _Block(nn.Module):
    """A residual block: x + W₂ gelu(W₁ norm(x)), with dropout."""

    def __init__(self, width: int, dropout: float) -> None:
        super().__init__()
        last = nn.Linear(width, width)
        nn.init.zeros_(last.weight)
        nn.init.zeros_(last.bias)
        first = [nn.LayerNorm(width), nn.Linear(width, width), nn.GELU(), _Dropout(dropout)]
        self.inner = nn.Sequential(*first, last, _Dropout(dropout))

    def forward(self, x: Float[Tensor, "B W"]) -> Float[Tensor, "B W"]:
        return x + self.inner(x)


class _Dropout(nn.Module):
    """Dropout from 16 random bits per unit, three times as fast on a CPU as torch's."""

    def __init__(self, share: float) -> None:
        super().__init__()
        self.share = share

    def forward(self, x: Float[Tensor, "B W"]) -> Float[Tensor, "B W"]:
        if not self.training or not self.share:
            return x
        words = torch.empty(-(-x.numel() // 4), dtype=torch.int64, device=x.device).random_(-(2**63), None)
        bits = words.view(torch.int16)[: x.numel()].view(x.shape)
        kept = bits >= round(self.share * 2**16) - 2**15
        return x * (kept.to(x.dtype) / (1 - self.share))


def _random_rows(tokens: Tokens, seed: int) -> Int64[Tensor, " B"]:
    """A random permutation of the rows."""
    return torch.from_numpy(np.argsort(keyed_bits(seed, tokens.ids.cpu().numpy()))).to(tokens.ids.device)


def _hiding(tokens: Tokens, columns: Sequence[int]) -> Tokens:
    """The rows with a value in some columns; the others are context."""
    some = torch.zeros(tokens.width, dtype=torch.bool, device=tokens.values.device)
    some[list(columns)] = True
    maskable, context = tokens.maskable & some, tokens.context | tokens.maskable & ~some
    return replace(tokens, maskable=maskable, context=context)[torch.nonzero(maskable.any(1)).flatten()]


def _table(tokens: Tokens) -> Float64[np.ndarray, "N D"]:
    """The tokens' values, NaN where a value is missing."""
    return torch.where(tokens.maskable, tokens.values.double(), math.nan).cpu().numpy()


def _split(tokens: Tokens, seed: int) -> tuple[Tokens, Tokens]:
    """Split the rows into training and held-out rows; a single row is used for both."""
    n = min(max(round(0.1 * len(tokens)), _FEWEST_HELD_OUT), len(tokens) // 2, _MOST_HELD_OUT)
    if not n:
        return tokens, tokens
    order = _random_rows(tokens, seed).cpu().numpy()
    out, left = held_out_first(_table(tokens), order, n)
    return tokens[torch.from_numpy(np.sort(left))], tokens[torch.from_numpy(np.sort(out))]
