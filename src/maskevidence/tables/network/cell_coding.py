"""Encode the cells of a row as a masked network's inputs, and read its outputs as distributions."""

import math
from collections.abc import Callable, Sequence

import numpy as np
import torch
from jaxtyping import Bool, Float, Float64
from torch import Tensor, nn
from torch.nn.functional import logsigmoid

from maskevidence.tables.base import keeping_dtype
from maskevidence.tables.network.network_columns import Column
from maskevidence.tables.noise import chosen

N_LOGISTICS = 8  # per number
_LOG_SCALES = (-7.0, 0.0)  # range for a logistic, in units of asinh((x - centre) / scale)
_NODES = torch.linspace(-18.0, 18.0, 73, dtype=torch.float64)  # nodes of a standard logistic, for moments
_FAR = 1e5  # scales; farther out, the slope gives a cell's width
_TINY = -13.0  # below this log t, 1 - exp(-t) equals t in float32
_SMALLEST = 2.0**-33  # smaller than every uniform draw
_NEAR, _FAR_STEPS = 256, 128  # edges near the median, all of them; and edges farther away, per side
_ELEMENTS = 2**22  # of an array of rows, logistics and edges: 32 MiB
_NEVER = -1e4  # the logit of an outcome that the column lacks
_OF_ATOMS = 0.9  # an atom's initial share of the cells beyond those expected from the mixture
_FEWEST = 0.1  # added to counts of cells, to avoid log 0


class ColumnHeads(nn.Module):
    """The inputs and outputs of a network for the columns of a table.

    A visible yes/no cell is -1 or 1, a category a vector of 0 and 1, and a number u = asinh((x - centre) /
    scale), each with 1 for "visible"; a hidden or absent cell is 0 throughout. The output for a yes/no column
    is a logit, for a category logits, and for a number the weights, means and log scales of a mixture of
    logistic distributions of u; the mass of this mixture on a cell of width δ around x, divided by δ, is the
    density.

    Args:
        density: whether yes/no columns count as densities per unit, too; False for a table without numbers.
    """

    centre: Tensor
    scale: Tensor
    low: Tensor
    high: Tensor
    step: Tensor
    power: Tensor  # 10^d for a grid of d decimals
    no: Tensor
    yes: Tensor
    on_grid: Tensor
    atoms: Tensor  # each number's atoms, padded with NaN
    share_of: Tensor  # positions of the logits of each number's mixture and atoms
    of_input: Tensor  # the column of each encoded input
    widening: Tensor  # added to the log scales of all numbers

    def __init__(self, columns: Sequence[Column], *, density: bool) -> None:
        super().__init__()
        self.columns = tuple(columns)
        self.number = [k for k, column in enumerate(columns) if column.kind == "number"]
        self.yes_no = [k for k, column in enumerate(columns) if column.kind == "yes/no"]
        self.category = [k for k, column in enumerate(columns) if column.kind == "category"]
        numbers = [columns[k] for k in self.number]
        for name, values in {
            "centre": [column.centre for column in numbers],
            "scale": [column.scale for column in numbers],
            "low": [column.low for column in numbers],
            "high": [column.high for column in numbers],
            "step": [column.step for column in numbers],
            "power": [10.0**column.decimals for column in numbers],
            "no": [columns[k].values[0] for k in self.yes_no],
            "yes": [columns[k].values[1] for k in self.yes_no],
        }.items():
            self.register_buffer(name, torch.tensor(values, dtype=torch.float64), persistent=False)
        self.register_buffer(
            "on_grid",
            torch.tensor([column.on_grid for column in numbers], dtype=torch.bool),
            persistent=False,
        )
        self.edges = [_edges(column) if column.on_grid else (np.zeros(0),) * 3 for column in numbers]
        self.register_buffer("widening", torch.zeros((), dtype=torch.float64))
        self.density = density
        self.sizes = [len(columns[k].values) for k in self.category]
        of_input = [*self.number, *self.yes_no, *np.repeat(self.category, self.sizes).tolist()]
        self.register_buffer("of_input", torch.tensor(of_input, dtype=torch.int64), persistent=False)
        self.n_encoded = len(of_input)
        self.n_inputs = len(columns) + self.n_encoded
        self.n_shifts = len(self.yes_no) + sum(self.sizes) + len(self.number)
        self.n_shares = self._place_atoms([column.atoms for column in numbers])
        self.n_outputs = (
            len(self.yes_no) + sum(self.sizes) + 3 * N_LOGISTICS * len(self.number) + self.n_shares
        )

    def _place_atoms(self, atoms: Sequence[Sequence[float]]) -> int:
        """Store the atoms and the positions of their logits; return the number of these logits.

        A column with atoms has a logit for its mixture and one per atom; the padding points to `_NEVER` or 0.
        """
        most = max(map(len, atoms), default=0)
        n_logits = sum(len(each) + 1 for each in atoms if each)
        values = np.full((len(atoms), most), np.nan)
        share_of = np.full((len(atoms), most + 1), n_logits)  # the position of _NEVER
        next_logit = 0
        for k, each in enumerate(atoms):
            values[k, : len(each)] = each
            share_of[k, : len(each) + 1] = next_logit + np.arange(len(each) + 1) if each else n_logits + 1
            next_logit += len(each) + 1 if each else 0
        self.register_buffer("atoms", torch.from_numpy(values), persistent=False)
        self.register_buffer("share_of", torch.from_numpy(share_of.astype(np.int64)), persistent=False)
        return n_logits

    def spread(self, shifts: Float[Tensor, "B S"]) -> Float[Tensor, "B O"]:
        """Expand shifts to outputs: one for each logit except the atoms', one for all centres of a number."""
        logits, centres = torch.split(shifts, [self.n_shifts - len(self.number), len(self.number)], 1)
        zero = torch.zeros_like(centres)
        mixtures = torch.stack([zero, centres, zero], 2)[:, :, None].expand(-1, -1, N_LOGISTICS, -1)
        shares = shifts.new_zeros(len(shifts), self.n_shares)
        return torch.cat([logits, mixtures.reshape(len(shifts), -1), shares], 1)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> "ColumnHeads":
        """Keep centres, scales and steps in float64 when the network changes dtype."""
        super()._apply(keeping_dtype(fn, list(self.buffers())), recurse)  # type: ignore[no-untyped-call]
        return self

    def encoded(self, values: Float64[Tensor, "B D"]) -> Float64[Tensor, "B E"]:
        """Encode every cell as numbers of about unit size; `of_input` gives the column of each."""
        number = torch.asinh((values[:, self.number] - self.centre) / self.scale)
        yes_no = torch.where(values[:, self.yes_no] == self.yes, 1.0, -1.0)
        return torch.cat([number, yes_no, *(self._indicator(k, values) for k in self.category)], 1)

    def inputs(self, values: Float64[Tensor, "B D"], visible: Bool[Tensor, "B D"]) -> Float64[Tensor, "B I"]:
        """The network's input; cells that are not visible are 0."""
        seen = visible.double()
        return torch.cat([2 * seen - 1, self.encoded(values) * seen[:, self.of_input]], 1)

    def log_density(
        self,
        outputs: Float[Tensor, "B O"],
        values: Float64[Tensor, "B D"],
        step: Float64[Tensor, " D"] | None = None,
    ) -> Float[Tensor, "B D"]:
        """The log-probability or log density of every cell, nats, shape (B, D); `step` overrides theirs."""
        answer = outputs.new_zeros(values.shape)
        logits, categories, mixtures, shares = self._parts(outputs)
        if self.yes_no:
            sign = torch.where(values[:, self.yes_no] == self.yes, 1.0, -1.0).to(logits.dtype)
            answer[:, self.yes_no] = logsigmoid(sign * logits)
            if self.density:
                answer[:, self.yes_no] -= torch.log(self.yes - self.no).to(logits.dtype)
        for k, category in zip(self.category, categories, strict=True):
            answer[:, k] = self._log_category(k, category, values)
        if self.number:
            wide = self.step if step is None else step[self.number]
            answer[:, self.number] = self._log_number(mixtures, shares, values[:, self.number], wide)
        return answer

    def marginals(self, table: Float64[np.ndarray, "N D"]) -> Float[Tensor, " O"]:
        """Outputs that give each cell its column's marginal distribution in the training rows."""
        outputs = [np.zeros(0)]
        for kind in (self.yes_no, self.category):
            for k in kind:
                values = np.array(self.columns[k].values)
                log_share = np.log((table[:, [k]] == values).sum(0) + 0.5)
                outputs.append(log_share if kind is self.category else np.diff(log_share))
        levels = (np.arange(N_LOGISTICS) + 0.5) / N_LOGISTICS
        shares = []
        for k, column in zip(self.number, (self.columns[k] for k in self.number), strict=True):
            present = table[~np.isnan(table[:, k]), k]
            u = np.arcsinh((present - column.centre) / column.scale)
            centre = np.quantile(u, levels)
            log_scale = np.log(max(float(u.std()), 1e-2) / 3)
            outputs.append(np.column_stack([0 * centre, centre, np.full_like(centre, log_scale)]).ravel())
            if column.atoms:
                atoms = np.array(column.atoms)
                edges = (atoms + np.array([[-0.5], [0.5]]) * column.step - column.centre) / column.scale
                below = (np.arcsinh(edges)[:, :, None] - centre) / np.exp(log_scale)
                below = torch.sigmoid(torch.from_numpy(below)).numpy().mean(2)
                counts = (present[:, None] == atoms).sum(0) - len(present) * np.diff(below, axis=0)[0]
                counts = _OF_ATOMS * counts.clip(min=0)
                shares.append(np.log(np.append(len(present) - counts.sum(), counts) + _FEWEST))
        return torch.from_numpy(np.concatenate([*outputs, *shares])).to(torch.float32)

    def log_probabilities(self, outputs: Float[Tensor, "B O"], column: int) -> Float[Tensor, "B V"]:
        """Log-probabilities of a discrete column's values, then of "unseen" for a category; nats."""
        logits, categories, *_ = self._parts(outputs)
        if self.columns[column].kind == "yes/no":
            logit = logits[:, self.yes_no.index(column)]
            return torch.stack([logsigmoid(-logit), logsigmoid(logit)], 1)
        unseen = self.columns[column].unseen
        seen = torch.log_softmax(categories[self.category.index(column)], 1) + math.log1p(-unseen)
        return torch.cat([seen, torch.full_like(seen[:, :1], math.log(unseen))], 1)

    def moments(self, outputs: Float[Tensor, "B O"]) -> tuple[Float64[Tensor, "B D"], Float64[Tensor, "B D"]]:
        """Mean and variance of every cell; for a category, the most probable value and 1 - its probability.

        The moments match `draw`: for a number on a grid they are sums over its cells.
        """
        mean = torch.zeros(len(outputs), len(self.columns), dtype=torch.float64, device=outputs.device)
        variance = torch.zeros_like(mean)
        for k in (*self.yes_no, *self.category):
            column = self.columns[k]
            weights = self.log_probabilities(outputs, k).exp().double()
            values = torch.tensor(column.values, dtype=torch.float64, device=outputs.device)
            if column.kind == "yes/no":
                mean[:, k] = weights @ values
                variance[:, k] = weights @ values.square() - mean[:, k].square()
            else:
                highest = weights[:, : len(values)].max(1)
                mean[:, k], variance[:, k] = values[highest.indices], 1 - highest.values
        if self.number:
            mean[:, self.number], variance[:, self.number] = self._number_moments(*self._parts(outputs)[2:])
        return mean, variance

    def draw(self, outputs: Float[Tensor, "B O"], uniform: Float[Tensor, "B D 2"]) -> Float64[Tensor, "B D"]:
        """Draw every cell from its own distribution.

        A number on a grid stays between the lowest and the highest training value; other numbers stay within
        one range of the training values of them.
        """
        drawn = torch.zeros(uniform.shape[:2], dtype=torch.float64, device=outputs.device)
        for k in (*self.yes_no, *self.category):
            values = torch.tensor(self.columns[k].values, dtype=torch.float64, device=outputs.device)
            weights = self.log_probabilities(outputs, k).exp().double()[:, : len(values)]
            drawn[:, k] = values[chosen(weights, uniform[:, k, 0].double())]
        if self.number:
            u, pick = uniform[:, self.number].double().unbind(2)
            logits, centre, log_scale = self._parts(outputs)[2].double().unbind(3)
            share = self._parts(outputs)[3].double().exp()
            weights = torch.cat([share[:, :, :1] * torch.softmax(logits, 2), share[:, :, 1:]], 2)
            index = chosen(weights, pick)[:, :, None]
            of_mixture = index.clamp(max=N_LOGISTICS - 1)
            centre, log_scale = (part.gather(2, of_mixture)[:, :, 0] for part in (centre, log_scale))
            u = centre + log_scale.exp() * torch.logit(u.clamp(_SMALLEST, 1 - _SMALLEST))
            listed = torch.cat(
                [
                    self._rounded(self.centre + self.scale * torch.sinh(u))[:, :, None],
                    self.atoms.expand(len(u), -1, -1),
                ],
                2,
            )
            drawn[:, self.number] = listed.gather(2, (index - (N_LOGISTICS - 1)).clamp(min=0))[:, :, 0]
        return drawn

    @property
    def _ends(self) -> tuple[Float64[Tensor, " n"], Float64[Tensor, " n"]]:
        """The lowest and highest number that can be drawn or counted in a mean."""
        margin = torch.where(self.on_grid, 0.0, self.high - self.low + self.step)
        return self.low - margin, self.high + margin

    def _rounded(self, number: Float64[Tensor, "B n"]) -> Float64[Tensor, "B n"]:
        """Clamp numbers to their ends, and round them to the column's grid if it has one."""
        number = torch.clamp(number, *self._ends)
        value = self.centre + self.step * torch.round((number - self.centre) / self.step)
        return torch.where(self.on_grid, torch.round(value * self.power) / self.power, number)

    def _parts(
        self, outputs: Float[Tensor, "B O"]
    ) -> tuple[
        Float[Tensor, "B b"], list[Float[Tensor, "B V"]], Float[Tensor, "B n K 3"], Float[Tensor, "B n S"]
    ]:
        """Split the outputs: yes/no logits, categories' logits, mixtures of numbers, log shares of mixtures
        and atoms.
        """
        logits, *categories, mixtures, shares = torch.split(
            outputs,
            [len(self.yes_no), *self.sizes, 3 * N_LOGISTICS * len(self.number), self.n_shares],
            1,
        )
        ends = outputs.new_tensor([_NEVER, 0.0]).expand(len(outputs), -1)
        shares = torch.cat([shares, ends], 1)[:, self.share_of]
        logits_of, centre, raw = mixtures.reshape(len(outputs), len(self.number), N_LOGISTICS, 3).unbind(3)
        log_scale = raw.clamp(*_LOG_SCALES) + self.widening.to(outputs.dtype)
        mixtures = torch.stack([logits_of, centre, log_scale], 3)
        return logits, categories, mixtures, torch.log_softmax(shares, 2)

    def _indicator(self, column: int, values: Float64[Tensor, "B D"]) -> Float64[Tensor, "B V"]:
        """A one-hot vector for each row's category; all 0 for an unseen category."""
        seen = torch.tensor(self.columns[column].values, dtype=values.dtype, device=values.device)
        return (values[:, [column]] == seen).double()

    def _log_category(
        self, column: int, logits: Float[Tensor, "B V"], values: Float64[Tensor, "B D"]
    ) -> Float[Tensor, " B"]:
        """The log-probability of each row's category; unseen categories share one probability."""
        unseen = self.columns[column].unseen
        indicator = self._indicator(column, values).to(logits.dtype)
        seen = (torch.log_softmax(logits, 1) * indicator).sum(1) + math.log1p(-unseen)
        return torch.where(indicator.any(1), seen, math.log(unseen))

    def _log_number(
        self,
        mixtures: Float[Tensor, "B n K 3"],
        shares: Float[Tensor, "B n S"],
        values: Float64[Tensor, "B n"],
        step: Float64[Tensor, " n"],
    ) -> Float[Tensor, "B n"]:
        """log p(x), with the mass of a logistic as σ(b) - σ(a) = σ(b) σ(-a) (1 - exp(a - b))."""
        logits, centre, log_scale = mixtures.unbind(3)
        z = (values - self.centre) / self.scale
        half = 0.5 * step / self.scale
        below, above = torch.asinh(z - half), torch.asinh(z + half)
        slope = 2 * half / torch.hypot(z, torch.ones_like(z))  # as exact where the difference loses digits
        is_far = z.abs() > torch.clamp(1000 * half, min=_FAR)
        log_width = torch.log(torch.where(is_far, slope, above - below)).to(logits.dtype)
        below, above = (edge.to(logits.dtype)[:, :, None] for edge in (below, above))
        sharpness = torch.exp(-log_scale)
        a, b = (below - centre) * sharpness, (above - centre) * sharpness
        log_mass = logsigmoid(b) + logsigmoid(-a) + _log_1_minus_exp(log_width[:, :, None] - log_scale)
        mass = torch.logsumexp(torch.log_softmax(logits, 2) + log_mass, 2) + shares[:, :, 0]
        if self.n_shares:
            is_atom = (values[:, :, None] - self.atoms).abs() < 0.5 * step[:, None]
            of_atoms = torch.where(is_atom, shares[:, :, 1:], _NEVER).logsumexp(2)
            mass = torch.where(is_atom.any(2), torch.logaddexp(mass, of_atoms), mass)
        return mass - torch.log(step).to(logits.dtype)

    def _number_moments(
        self, mixtures: Float[Tensor, "B n K 3"], shares: Float[Tensor, "B n S"]
    ) -> tuple[Float64[Tensor, "B n"], Float64[Tensor, "B n"]]:
        """Mean and variance of the mixtures with their atoms."""
        of_mixture, variance = self._mixture_moments(mixtures)
        share = shares.double().exp()
        beyond = torch.nan_to_num(self.atoms - of_mixture[:, :, None])
        shift = (share[:, :, 1:] * beyond).sum(2)
        spread = share[:, :, 0] * (variance + shift.square())
        spread = spread + (share[:, :, 1:] * (beyond - shift[:, :, None]).square()).sum(2)
        return of_mixture + shift, spread

    def _mixture_moments(
        self, mixtures: Float[Tensor, "B n K 3"]
    ) -> tuple[Float64[Tensor, "B n"], Float64[Tensor, "B n"]]:
        """Mean and variance of the mixtures: by the trapezoidal rule, or summed over the cells of a grid."""
        logits, centre, log_scale = mixtures.double().unbind(3)
        weight, scale = torch.softmax(logits, 2), log_scale.exp()
        nodes = _NODES.to(logits.device)
        share = torch.sigmoid(nodes) * torch.sigmoid(-nodes)
        share = share / share.sum()
        low, high = (end[:, None, None] for end in self._ends)
        x = torch.sinh(centre[..., None] + scale[..., None] * nodes) * self.scale[:, None, None]
        x = (x + self.centre[:, None, None]).clamp(low, high)
        mean = (weight * (x @ share)).sum(2)
        variance = (weight * ((x - mean[..., None, None]).square() @ share)).sum(2)
        for k in torch.nonzero(self.on_grid).flatten().tolist():
            parts = zip(
                *(torch.split(each[:, k], self._rows(k)) for each in (weight, centre, scale)), strict=True
            )
            mean[:, k], variance[:, k] = torch.cat([self._grid_moments(k, *part) for part in parts], 1)
        return mean, variance

    def _grid_moments(
        self,
        k: int,
        weight: Float64[Tensor, "B K"],
        centre: Float64[Tensor, "B K"],
        scale: Float64[Tensor, "B K"],
    ) -> Float64[Tensor, "2 B"]:
        """Mean and variance of low + δ·N, where N counts the edges below the number: E N = Σ_j P(X > edge_j).

        E N² = Σ_j (2j + 1) P(X > edge_j). Far from the median, an edge also stands for its neighbours.
        """
        rank, stands_for, middle = (torch.from_numpy(part).to(weight) for part in self.edges[k])
        u = torch.asinh((self.low[k] + (rank + 0.5) * self.step[k] - self.centre[k]) / self.scale[k])
        above = torch.sigmoid((centre[:, :, None] - u) / scale[:, :, None])
        share = (weight[:, :, None] * above).sum(1) * stands_for
        first, second = share.sum(1), share @ (2 * middle + 1)
        spread = (second - first.square()).clamp(min=0.0) * self.step[k].square()
        return torch.stack([self.low[k] + self.step[k] * first, spread])

    def _rows(self, k: int) -> int:
        """The number of rows per chunk."""
        return max(1, _ELEMENTS // (N_LOGISTICS * max(1, len(self.edges[k][0]))))


def _edges(column: Column) -> tuple[Float64[np.ndarray, " E"], ...]:
    """Edges between a grid's cells: ranks from 0, the number of edges each stands for, and their mean rank.

    Example:
        >>> [part.tolist() for part in _edges(Column(low=0.0, high=3.0, step=1.0))]
        [[0.0, 1.0, 2.0], [1.0, 1.0, 1.0], [0.0, 1.0, 2.0]]
    """
    n, median = (round((value - column.low) / column.step) for value in (column.high, column.centre))
    far = np.geomspace(_NEAR, max(n, _NEAR), _FAR_STEPS).round()
    rank = np.unique(median + np.concatenate([-far, np.arange(-_NEAR, _NEAR), far]))
    rank = rank[(rank >= 0) & (rank < n)]
    ends = np.concatenate([[0.0], np.floor((rank[1:] + rank[:-1] + 1) / 2), [float(n)]])
    first, last = (ends[:-1], ends[1:] - 1) if n else (rank, rank)
    return rank, last - first + (n > 0), (first + last) / 2


def _log_1_minus_exp(log_t: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    """log (1 - exp(-t)), also where t underflows."""
    return torch.where(log_t < _TINY, log_t, torch.log(-torch.expm1(-torch.exp(log_t.clamp(min=_TINY)))))
