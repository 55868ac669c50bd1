"""A Gaussian with a kernel around each training row, for densities that are not Gaussian."""

from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float, Float64, Int64
from torch import Tensor, nn

import maskevidence
from maskevidence.core.errors import InputError
from maskevidence.core.model import DENSITY, Conditionals
from maskevidence.core.support.checks import whole_number
from maskevidence.core.table import Table
from maskevidence.core.tokens import Tokens
from maskevidence.tables.base import TableModel
from maskevidence.tables.gaussian.family import LOG_2PI, normal_log_cell, normal_log_density
from maskevidence.tables.gaussian.full_covariance import Gaussian, unique_rows
from maskevidence.tables.gaussian.kernel_choice import choose_kernels, seconds_of_fit
from maskevidence.tables.gaussian.kernel_leave_one_out import log_leave_one_out
from maskevidence.tables.gaussian.kernel_sums import FEWEST, log_kernel_sums
from maskevidence.tables.gaussian.kernels import (
    MAX_ELEMENTS,
    KernelPart,
    Kernels,
    around_rows,
    check_kernel_table,
)
from maskevidence.tables.gaussian.precision import DensePrecision
from maskevidence.tables.gaussian.shrunk_covariance import fit_shrunk
from maskevidence.tables.noise import KeyedNoise, row_keys

_MOST_SECONDS = 300.0  # of a fit that chooses its kernels
_SAME_ROW = 1e-10  # squared distance, relative to the sum of squares, below which two rows are one


class KernelGaussian(TableModel):
    """A mixture with one kernel N(μ + a c_i, h² Σ) around each of N training rows, a = √(1 - h²).

    The centres c_i are rows about their mean, with conditional means for missing values. Since they are drawn
    towards the mean by a, the mixture of complete rows has their mean and covariance (but for the shrinkage
    of Σ) whatever the bandwidth h: near 1 it is the Gaussian N(μ, Σ), near 0 it follows the rows themselves.
    All conditionals are exact, and their means are those of the Gaussian plus a weighted mean of the
    residuals of the rows that look alike.

    With Λ = Σ⁻¹ and H the hidden tokens, g_i = (Λ (x - a c_i))_H and A = Λ_HH give the squared distance of
    the visible tokens (x - a c_i)ᵀ Λ (x - a c_i) - g_iᵀ A⁻¹ g_i, the conditional mean -A⁻¹ g_i and covariance
    h² A⁻¹, with x and the mean about μ and x_H = 0: only blocks as large as the number of hidden tokens are
    solved.

    Args:
        n_features: D.
        n_centres: N of a model without a fit; a fit takes as many centres as it has rows.
        dtype: of the computation.

    Raises:
        InputError: no features or no centres.

    Source:
        West (1993), Approximating Posterior Distributions by Mixtures (kernels drawn to the mean); Silverman
        and Young (1987), The Bootstrap: To Smooth or Not to Smooth?

    Example:
        >>> import maskevidence as me
        >>> x = np.random.default_rng(0).normal(size=(200, 1)) + [[0.0, 0.0]]
        >>> x[:, 1] **= 2
        >>> model = me.models.KernelGaussian(n_features=2).fit(x, bandwidth=0.1)
        >>> model.impute([[2.0, np.nan]]).values.round(1).tolist()
        [[2.0, 3.8]]
        >>> gaussian = me.models.Gaussian(n_features=2).fit(x)
        >>> bool(model.score_samples(x).mean() > gaussian.score_samples(x).mean())
        True
    """

    conditionals: Conditionals = "exact"
    base_measure = DENSITY
    keeps_units = False
    refits = True
    seen: Tensor

    def __init__(self, n_features: int, n_centres: int = 1, *, dtype: torch.dtype = torch.float64) -> None:
        if n_features < 1 or n_centres < 1:
            raise InputError(f"n_features={n_features}, n_centres={n_centres}; give at least one of each")
        super().__init__(n_features)
        self.gaussian = Gaussian(n_features=n_features, dtype=dtype)
        self.centres = nn.Parameter(torch.zeros(n_centres, n_features, dtype=dtype))
        self.register_buffer("seen", torch.ones(n_centres, n_features, dtype=dtype))
        self.bandwidth_logit = nn.Parameter(torch.zeros((), dtype=dtype))
        self.shrinkage: float | None = None  # of the last fit

    @property
    def bandwidth(self) -> Float[Tensor, ""]:
        """h, in (0, 1)."""
        return torch.sigmoid(self.bandwidth_logit)

    @property
    def _kernels(self) -> Kernels:
        gaussian = self.gaussian
        precision = DensePrecision.of(gaussian.factor)
        return Kernels(gaussian.mean, precision, lambda: gaussian.covariance, self.centres)

    def arguments(self) -> dict[str, Any]:
        return {"n_features": self.n_features, "n_centres": len(self.centres)}

    def for_table(self, table: Table) -> TableModel:
        if not table.levels:
            return self
        like = self._like()
        return maskevidence.models.MixedKernelGaussian(self.n_features).to(like.device, like.dtype)

    def fit(
        self,
        x: object,
        *,
        shrinkage: float | None = None,
        bandwidth: float | None = None,
        tolerance: float = 1e-3,
        max_iterations: int = 1000,
        seed: int = 0,
    ) -> "KernelGaussian":
        """Fit μ, Σ and the centres by EM, in place.

        The number of centres becomes the number of rows, at most 1,000 of them, drawn at random.

        Args:
            x: shape (N, D), NaN where a value is missing.
            shrinkage: λ in (0, 1], by which the correlations are shrunk: Σ = (1 - λ) S + λ diag(S); by
                default `choose_kernels` finds it by cross-validation.
            bandwidth: h in (0, 1); likewise.
            tolerance: EM ends when no entry of the covariance changes by more, in units of the columns.
            max_iterations: the largest number of EM iterations.
            seed: of the choice of centres, and of the folds of cross-validation.

        Raises:
            InputError: a table that cannot be fitted, or one whose fit would take more than five minutes
                without shrinkage and bandwidth (5,000 complete columns with fewer rows take seconds).
        """
        table = self._table(x)
        check_kernel_table(table, tolerance, max_iterations, self.columns)
        if not (shrinkage is None or 0 < shrinkage <= 1) or not (bandwidth is None or 0 < bandwidth < 1):
            raise InputError(
                f"shrinkage={shrinkage}, bandwidth={bandwidth}; give a shrinkage in (0, 1] and a bandwidth "
                "in (0, 1)"
            )
        if shrinkage is None or bandwidth is None:
            _refuse_long(table)
            choice = choose_kernels(table, shrinkage=shrinkage, bandwidth=bandwidth, seed=seed)
            shrinkage, bandwidth = choice.shrinkage, choice.bandwidth
        fitted = fit_shrunk(table, shrinkage, tolerance, max_iterations)
        kernels, rows = around_rows(fitted, seed)
        like = self._like()
        gaussian = Gaussian(torch.from_numpy(fitted.mean), torch.from_numpy(fitted.covariance))
        self.gaussian, self.centres = gaussian.to(like), nn.Parameter(kernels.centres.to(like))
        self.seen = torch.from_numpy(~np.isnan(table[rows])).to(like)
        logit = np.log(bandwidth / (1 - bandwidth))
        self.bandwidth_logit = nn.Parameter(torch.tensor(float(logit), dtype=torch.float64).to(like))
        self.n_iterations, self.shrinkage = fitted.n_iterations, shrinkage
        return self

    def _fit_again(self, table: Float64[np.ndarray, "N D"], seed: int) -> None:
        """Fit one kernel a row, keeping bandwidth and shrinkage, which equal rows would distort.

        The missing values of a centre are drawn: their means, as after a fit, would vary too little, so that
        a coefficient of a half-empty column were biased.
        """
        self.fit(table, shrinkage=self.shrinkage, bandwidth=float(self.bandwidth.detach()))
        first = torch.from_numpy(np.unique(self.centres.detach().cpu().numpy(), axis=0, return_index=True)[1])
        centres, self.seen = self.centres.detach()[first], self.seen[first]
        seen, mean = self.seen.bool(), self.gaussian.mean.detach()
        rows = torch.where(seen, centres + mean, torch.nan)
        drawn = torch.from_numpy(self.gaussian.draw_missing(rows, seed=seed)[0]).to(mean) - mean
        self.centres = nn.Parameter(torch.where(seen, centres, drawn.to(centres)))

    def log_conditionals(self, tokens: Tokens, masked: Bool[Tensor, "B D"]) -> Float[Tensor, "B D"]:
        """log p(x_j | x_visible) in nats, shape (B, D); exactly 0 where `masked` is False.

        It is log Σ_i r_i N(x_j; mean_ij, h² A⁻¹_jj) with r_i ∝ N(x_R; a c_i, h² Σ_RR).
        """
        return self.log_cells(tokens, masked, None)

    def log_leave_one_out(self, tokens: Tokens, visible: Bool[Tensor, "B D"]) -> Float[Tensor, "B D"]:
        """log p of each visible token given the other visible ones, nats, shape (B, D); 0 elsewhere."""
        self.check_width(tokens.width)
        result, kernels = self.centres.new_zeros(visible.shape), self._kernels
        for part in kernels.parts(tokens.values, visible):
            if part.hidden.shape[1] < self.n_features:
                centred = kernels.centred(tokens.values[part.rows], visible[part.rows])
                result[part.rows] = log_leave_one_out(part, centred, self.bandwidth)
        return result

    def log_cells(
        self, tokens: Tokens, masked: Bool[Tensor, "B D"], step: Float[Tensor, " D"] | None
    ) -> Float[Tensor, "B D"]:
        """The log mass of the cell of width `step` about each masked value, over the step; see `CellMass`.

        Without a step, log p of the value.
        """
        self.check_width(tokens.width)
        visible, kernels = tokens.visible(masked), self._kernels
        alone = ~visible.any(1)
        result = self._log_marginals(tokens.values, masked & alone[:, None], step)
        some = torch.nonzero(~alone).flatten()
        for part in kernels.parts(tokens.values[some], visible[some]):
            cells = (some[part.rows, None], part.hidden)
            if step is None:
                x = (tokens.values[cells] - kernels.mean[part.hidden]).to(result)
                result[cells] = self._log_densities(part, x, masked[cells])
            else:
                result[cells] = self._log_masses(part, tokens.values[some], masked[some], step)
        return result

    def _log_marginals(
        self, values: Float[Tensor, "B D"], wanted: Bool[Tensor, "B D"], step: Float[Tensor, " D"] | None
    ) -> Float[Tensor, "B D"]:
        """log p(x_j) of the wanted tokens, or of their cells; 0 for others."""
        result, h = self.centres.new_zeros(values.shape), self.bandwidth
        variances = h.square() * self.gaussian.factor.square().sum(1)
        by_columns = (torch.sqrt(1 - h.square()) * self.centres).T.contiguous()
        constant = 0.5 * (LOG_2PI + torch.log(variances))
        few = wanted.sum(0) < (FEWEST if step is None else 0)
        cells, at_once = torch.nonzero(wanted & few), max(1, MAX_ELEMENTS // len(self.centres))
        for rows, j in (part.T for part in torch.split(cells, at_once) if len(part)):
            x = (values[rows, j] - self.gaussian.mean[j]).to(result)
            scale = torch.rsqrt(2 * variances[j])[:, None]
            squares = (x[:, None] * scale - by_columns[j] * scale).square()
            result[rows, j] = torch.logsumexp(-squares, 1) - constant[j]
        for j in torch.nonzero((wanted & ~few).any(0)).flatten().tolist():
            rows, centres, variance = torch.nonzero(wanted[:, j]).flatten(), by_columns[j], variances[j]
            x = (values[rows, j] - self.gaussian.mean[j]).to(result)
            if step is None:
                result[rows, j] = log_kernel_sums(x, centres, variance) - constant[j]
            else:
                some = torch.split(x[:, None], at_once)
                wide = variance.expand(1, len(centres))
                masses = [normal_log_cell(each - centres, wide, step[j]) for each in some]
                result[rows, j] = torch.cat([torch.logsumexp(each, 1) for each in masses])
        return torch.where(wanted, result - np.log(len(self.centres)), result)

    def _log_densities(
        self,
        part: KernelPart,
        x: Float[Tensor, "b m"],
        wanted: Bool[Tensor, "b m"],
    ) -> Float[Tensor, "b m"]:
        """log p(x_j | x_R) of the masked tokens of a part, x about μ; 0 for other hidden ones."""
        h = self.bandwidth
        a, log_kernels = torch.sqrt(1 - h.square()), part.log_kernels(h)[:, None, :]
        log_kernels = log_kernels - log_kernels.amax(2, keepdim=True)  # far rows keep their digits
        residual, variance = torch.where(wanted, x - part.shift, 0.0)[:, :, None], h.square() * part.within
        scale = torch.rsqrt(2 * variance)[:, :, None]
        white = torch.addcmul(residual * scale, part.moves, -a * scale)
        joint = torch.addcmul(log_kernels, white, white, value=-1)  # without what all kernels share
        shared = normal_log_density(torch.zeros_like(variance), variance)
        log_density = torch.logsumexp(joint, 2) - torch.logsumexp(log_kernels, 2) + shared
        return torch.where(wanted, log_density, 0.0)

    def _log_masses(
        self,
        part: KernelPart,
        values: Float[Tensor, "B D"],
        masked: Bool[Tensor, "B D"],
        step: Float[Tensor, " D"],
    ) -> Float[Tensor, "b m"]:
        """The log mass of the masked tokens' cells over the step; 0 for other hidden tokens."""
        h, log_kernels = self.bandwidth, part.log_kernels(self.bandwidth)
        row, place = torch.nonzero(masked[part.rows].gather(1, part.hidden), as_tuple=True)
        column = part.hidden[row, place]
        x = (values[part.rows[row], column] - self.gaussian.mean[column]).to(part.shift)
        residual = (x - part.shift[row, place])[:, None] - torch.sqrt(1 - h.square()) * part.moves[row, place]
        variance = (h.square() * part.within)[row, place][:, None].expand_as(residual)
        joint = log_kernels[row] + normal_log_cell(residual, variance, step[column][:, None])
        log_mass = torch.logsumexp(joint, 1) - torch.logsumexp(log_kernels, 1)[row]
        return torch.zeros_like(part.shift).index_put((row, place), log_mass)

    def answers(
        self,
        values: Float[Tensor, "B D"],
        visible: Bool[Tensor, "B D"],
        wanted: Bool[Tensor, "B D"] | None = None,
        step: Float[Tensor, " D"] | None = None,
        own: Int64[Tensor, " B"] | None = None,
    ) -> tuple[Float[Tensor, "B D"], Float[Tensor, "B D"]]:
        """The conditional mean of every hidden token, and the log mass of the wanted ones' cells, else 0.

        Args:
            own: a kernel of each row that is left out.
        """
        mean, log_mass = values.to(self.centres), self.centres.new_zeros(values.shape)
        for part in self._kernels.parts(values, visible):
            log_kernels, cells = part.log_kernels(self.bandwidth), (part.rows[:, None], part.hidden)
            if own is not None:
                log_kernels[torch.arange(len(part.rows)), own[part.rows]] = -torch.inf
            expected = part.expected(torch.softmax(log_kernels, 1), self.bandwidth)
            mean = mean.index_put(cells, self.gaussian.mean[part.hidden].to(mean) + expected)
            if wanted is not None and step is not None:
                log_mass = log_mass.index_put(cells, self._log_masses(part, values, wanted, step))
        return mean, log_mass

    def log_evidence(self, tokens: Tokens) -> Float[Tensor, " B"]:
        """log p(maskable tokens | context), nats per observation, shape (B,)."""
        self.check_width(tokens.width)
        joint = self._log_density(tokens.values, tokens.maskable | tokens.context)
        if not bool(tokens.context.any()):
            return joint
        return joint - self._log_density(tokens.values, tokens.context)

    def units(
        self, values: Float64[np.ndarray, "N D"]
    ) -> tuple[Float64[np.ndarray, " D"], Float64[np.ndarray, " D"]]:
        return self.gaussian.units(values)

    def rescale(self, shift: Float64[np.ndarray, " D"], scale: Float64[np.ndarray, " D"]) -> None:
        self.gaussian.rescale(shift, scale)
        with torch.no_grad():
            self.centres.mul_(torch.from_numpy(scale).to(self.centres))

    def _log_density(self, values: Float[Tensor, "B D"], present: Bool[Tensor, "B D"]) -> Float[Tensor, " B"]:
        result = self.centres.new_zeros(len(values))
        for part in self._kernels.parts(values, present):
            log_kernels = part.log_kernels(self.bandwidth)
            log_density = torch.logsumexp(log_kernels, 1) - np.log(len(self.centres))
            result[part.rows] = log_density
        return result

    def _missing_moments(self, tokens: Tokens) -> tuple[Float[Tensor, "B D"], Float[Tensor, "B D"]]:
        mean, variance = tokens.values.clone(), torch.zeros_like(tokens.values)
        for part in self._kernels.parts(tokens.values, tokens.maskable):
            if part.hidden.shape[1]:
                weight = self._weights_of_others(tokens.maskable, part)
                expected = part.expected(weight, self.bandwidth)
                cells = (part.rows[:, None], part.hidden)
                mean[cells] = (self.gaussian.mean[part.hidden] + expected).to(mean)
                variance[cells] = part.variance(expected, weight, self.bandwidth).to(variance)
        return mean, variance

    def _draw_missing(self, tokens: Tokens, seed: int) -> Float[Tensor, "B D"]:
        """A kernel in proportion to its weight, and from it N(mean_i, h² A⁻¹) for the missing tokens."""
        h, result = self.bandwidth, tokens.values.clone()
        keys = row_keys(seed, tokens.ids.cpu().numpy(), tokens.maskable.cpu().numpy())
        noise = KeyedNoise(keys, self._like())
        uniform, normal = noise.uniform(1)[:, 0], noise.normal(self.n_features)
        distinct, of = unique_rows(torch.where(tokens.maskable, tokens.values, torch.nan))
        copies, order = torch.bincount(of), torch.argsort(of, stable=True)
        seen, first = ~torch.isnan(distinct), copies.cumsum(0) - copies
        for part in self._kernels.parts(distinct, seen):
            m = part.hidden.shape[1]
            if m:
                number = torch.arange(int(copies[part.rows].max()), device=of.device)
                place, draw = torch.nonzero(number < copies[part.rows, None], as_tuple=True)
                rows = order[(first[part.rows, None] + number).clamp(max=len(order) - 1)]
                sums = self._weights_of_others(seen, part).cumsum(1)
                kernel = torch.searchsorted(sums, uniform[rows] * sums[:, -1:])
                moves = part.moves.gather(2, kernel[:, None].expand(-1, m, -1))
                around = torch.linalg.cholesky(part.inverse) @ normal[rows, :m].mT
                drawn = part.shift[:, :, None] + torch.sqrt(1 - h.square()) * moves + h * around
                columns = part.hidden[place]
                filled = self.gaussian.mean[columns] + drawn[place, :, draw]
                result[rows[place, draw][:, None], columns] = filled.to(result)
        return result

    def _weights_of_others(self, seen: Bool[Tensor, "B D"], part: KernelPart) -> Float[Tensor, "b N"]:
        """The kernels' weights given the present tokens, leaving out the row's own kernel."""
        log_kernels, own = part.log_kernels(self.bandwidth), self._own_kernels(seen, part)
        log_kernels[own] = -torch.inf
        return torch.softmax(log_kernels, 1)

    def _own_kernels(
        self, seen: Bool[Tensor, "B D"], part: KernelPart
    ) -> tuple[Int64[Tensor, " e"], Int64[Tensor, " e"]]:
        """Which kernels are around the row itself: the centre has the same observed values, and no others.

        A row that was fitted is filled by the kernels of the others, since its own says nothing about its
        missing values but what μ and Σ say. Of several equal rows, only one is its own.
        """
        visible = seen[part.rows].to(self.centres)
        same_number = torch.nonzero(self.seen.sum(1) == self.n_features - part.hidden.shape[1]).flatten()
        agree = visible @ self.seen[same_number].T == self.n_features - part.hidden.shape[1]
        rows, places = torch.nonzero(agree, as_tuple=True)
        kernels = same_number[places]
        base, cross, own = part.base[rows, 0], part.cross[rows, kernels], part.own[rows, kernels]
        same = base - 2 * cross + own <= _SAME_ROW * (base + own).clamp(min=1.0)
        rows, kernels = rows[same], kernels[same]
        first = torch.ones_like(rows, dtype=torch.bool)
        first[1:] = rows[1:] != rows[:-1]
        return rows[first], kernels[first]

    def _draw_rows(self, n: int, seed: int) -> Float[Tensor, "n D"]:
        generator = torch.Generator().manual_seed(whole_number("seed", seed))
        chosen = torch.randint(len(self.centres), (n,), generator=generator)
        noise = torch.randn(n, self.n_features, generator=generator, dtype=self.centres.dtype)
        h, factor = self.bandwidth.cpu(), self.gaussian.factor.cpu()
        centres = torch.sqrt(1 - h.square()) * self.centres.cpu()[chosen]
        return self.gaussian.mean.cpu() + centres + h * (noise @ factor.T)


def _refuse_long(table: Float64[np.ndarray, "N D"]) -> None:
    """Raise an InputError for a table for which the choice of the kernels takes long."""
    seconds = seconds_of_fit(table, chooses=True)
    if seconds > _MOST_SECONDS:
        minutes = -(-int(seconds) // 60)
        given = -(-int(seconds_of_fit(table, chooses=False)) // 60)
        holes = " with missing values" if np.isnan(table).any() else ""
        raise InputError(
            f"{table.shape[1]:,} columns{holes}: the choice of shrinkage and bandwidth takes about {minutes} "
            f"minutes on one core; give both, which takes about {given}, or fewer columns, or use ppca or "
            "factor-analysis"
        )
