"""The linear Bernoulli model: 0/1 tokens from a Gaussian latent space (the paper's linear VAE decoder)."""

import math
from dataclasses import asdict, replace
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float, Float64, Int64
from torch import Tensor, nn
from torch.nn.functional import softplus

from maskevidence.core.errors import InputError, NumericalError
from maskevidence.core.model import MASS, Conditionals
from maskevidence.core.support.checks import whole_number
from maskevidence.core.support.keyed_random import keyed_bits
from maskevidence.core.tokens import Tokens
from maskevidence.tables.base import TableModel
from maskevidence.tables.gaussian.family import divergence_from_prior
from maskevidence.tables.latent import posterior_nodes, refined_integral, shared_nodes
from maskevidence.tables.latent.quadrature import (
    MAX_AXES,
    Grid,
    Importance,
    Integration,
    Nodes,
)
from maskevidence.tables.latent.refined_integral import MAX_NODES, RefinedIntegral
from maskevidence.tables.latent.shared_nodes import MAX_ORDER, Decoder
from maskevidence.tables.noise import KeyedNoise, chosen, row_keys

_FINEST = 1e-6  # nats, to which `integrate` goes on grids by default
_FEWEST = 100  # observations that judge the nodes


def _tenth(ids: Int64[Tensor, " B"]) -> Int64[Tensor, " b"]:
    """The positions of a tenth of the observations, chosen by their ids; of 100 at least."""
    chosen_by = keyed_bits(0, 0, ids.cpu().numpy())
    first = np.argsort(chosen_by, kind="stable")[: max(_FEWEST, len(chosen_by) // 10)]
    return torch.from_numpy(np.sort(first)).to(ids.device)


class LinearEncoder(nn.Module):
    """q(z | x) = N(A x + a, diag exp(2 (C x + c))).

    Args:
        generator: of the initial A, whose entries have standard deviation 1/√D; C, a and c start at 0.
    """

    def __init__(self, n_features: int, n_components: int, generator: torch.Generator) -> None:
        super().__init__()
        start = torch.randn(n_components, n_features, generator=generator, dtype=torch.float64)
        self.mean_weight = nn.Parameter(start / math.sqrt(n_features))
        self.mean_bias = nn.Parameter(torch.zeros(n_components, dtype=torch.float64))
        self.scale_weight = nn.Parameter(torch.zeros(n_components, n_features, dtype=torch.float64))
        self.scale_bias = nn.Parameter(torch.zeros(n_components, dtype=torch.float64))

    def forward(self, x: Float[Tensor, "B D"]) -> tuple[Float[Tensor, "B K"], Float[Tensor, "B K"]]:
        """Mean and log standard deviation of z, each of shape (B, K)."""
        return x @ self.mean_weight.T + self.mean_bias, x @ self.scale_weight.T + self.scale_bias


class BernoulliPCA(TableModel):
    """z ~ N(0, I_K), x_j | z ~ Bernoulli(sigmoid(w_j·z + b_j)), independent given z.

    Conditionals and evidence are integrals over z: on a `Grid` shared by all rows (K up to 3), by matrix
    products alone, or by `Importance` sampling from each row's posterior. `log_conditionals`, `log_evidence`
    and training use the current nodes, `integration`. The nodes of a grid define a density, a mixture with
    one component per node, which obeys Eq. 2 exactly but may be far from the integral if posteriors are
    narrower than the spacing. `integrate` doubles the nodes until a tolerance is reached and reports the
    error; `refine` sets the nodes that reach a tolerance.

    Args:
        n_features: D.
        n_components: K.
        integration: the nodes; by default `Grid(20, 5.0)` for K up to 3, `Importance()` above.
        encoder: whether the model has the linear encoder that `Elbo` trains.
        seed: of the random initial loadings (standard deviation 1/√(3K)) and of the encoder.
        dtype: of training and of the conditionals; `integrate` always computes in float64.

    Raises:
        InputError: no features or components, or a grid over too many dimensions.

    Source:
        Moreno-Muñoz, Recasens, Hauberg (2023), section 3.3 and Figure 3; Tipping (1998), Probabilistic
        Visualisation of High-Dimensional Binary Data.

    Example:
        >>> import maskevidence as me
        >>> model = me.models.BernoulliPCA(n_features=4, n_components=1, seed=1)
        >>> tokens = me.Tokens.from_array([[0, 1, 1, 0]])
        >>> estimate = me.estimate_evidence(model, tokens, me.Exhaustive())
        >>> abs(estimate.log_evidence - model.log_evidence(tokens).item()) < 1e-12
        True
        >>> model.integrate(tokens).error < 1e-6
        True
    """

    conditionals: Conditionals = "approximate"
    base_measure = MASS

    def __init__(
        self,
        n_features: int,
        n_components: int,
        *,
        integration: Integration | dict[str, Any] | None = None,
        encoder: bool = False,
        seed: int = 0,
        dtype: torch.dtype = torch.float64,
    ) -> None:
        if n_features < 1 or n_components < 1:
            raise InputError(
                f"n_features={n_features} and n_components={n_components}; give at least one of each"
            )
        super().__init__(n_features)
        self.n_components = n_components
        if isinstance(integration, dict):  # of a saved model
            integration = (Grid if "per_axis" in integration else Importance)(**integration)
        self.integration: Integration = integration or (Grid() if n_components <= MAX_AXES else Importance())
        if isinstance(self.integration, Grid):
            self.integration.check(n_components)
        generator = torch.Generator().manual_seed(whole_number("seed", seed))
        loadings = torch.randn(n_features, n_components, generator=generator, dtype=torch.float64)
        self.loadings = nn.Parameter((loadings / math.sqrt(3 * n_components)).to(dtype))
        self.bias = nn.Parameter(torch.zeros(n_features, dtype=dtype))
        self.encoder: LinearEncoder | None = None
        if encoder:
            self.add_encoder(seed)

    @classmethod
    def from_parameters(
        cls,
        loadings: Float[Tensor, "D K"],
        bias: Float[Tensor, " D"] | None = None,
        *,
        integration: Integration | None = None,
        dtype: torch.dtype = torch.float64,
    ) -> "BernoulliPCA":
        """A model with known parameters.

        Args:
            loadings: W, shape (D, K).
            bias: b, shape (D,); by default 0.
            integration: as for the class.
            dtype: of the computation.
        """
        model = cls(*loadings.shape, integration=integration, dtype=dtype)
        with torch.no_grad():
            model.loadings.copy_(loadings)
            if bias is not None:
                model.bias.copy_(bias)
        return model

    def add_encoder(self, seed: int = 0) -> None:
        """Add a new linear encoder for the ELBO, in place."""
        generator = torch.Generator().manual_seed(whole_number("seed", seed) + 1)
        self.encoder = LinearEncoder(self.n_features, self.n_components, generator).to(self.bias)

    @property
    def decoder(self) -> Decoder:
        """The decoder's parameters, W and b."""
        return Decoder(self.loadings, self.bias)

    def log_conditionals(self, tokens: Tokens, masked: Bool[Tensor, "B D"]) -> Float[Tensor, "B D"]:
        """log p(x_j | x_visible) in nats, shape (B, D); exactly 0 where `masked` is False.

        p(x_j | x_R) = Σ_q r_q p(x_j | z_q) with r_q ∝ w_q p(x_R | z_q) at the current nodes.
        """
        visible = tokens.visible(masked)
        values = self._binary(tokens, masked | visible)
        if isinstance(self.integration, Importance):
            return posterior_nodes.log_conditionals_at_own(
                self.decoder, self.integration, values, masked, visible
            )
        return shared_nodes.log_conditionals_at_shared(self.decoder, self._nodes(), values, masked, visible)

    def log_evidence(self, tokens: Tokens) -> Float[Tensor, " B"]:
        """log p(maskable tokens | context) at the current nodes, nats per observation, shape (B,)."""
        values = self._binary(tokens, tokens.maskable | tokens.context)
        return refined_integral.log_evidence(self.decoder, self.integration, replace(tokens, values=values))

    def latent_means(self, tokens: Tokens) -> Float[Tensor, "B K"]:
        """E[z | the present tokens], by importance sampling from each row's posterior, shape (B, K).

        The nodes are `integration` if it is `Importance`, otherwise `Importance()`: a grid shared by all rows
        may be too coarse for their posteriors.

        Args:
            tokens: B observations.
        """
        present = tokens.maskable | tokens.context
        rule = self.integration if isinstance(self.integration, Importance) else Importance()
        z, log_joint = posterior_nodes.log_joints(self.decoder, rule, self._binary(tokens, present), present)
        return (torch.softmax(log_joint, 1)[:, None, :] @ z)[:, 0]

    def means_given(self, latent: Float[Tensor, "B K"]) -> Float[Tensor, "B D"]:
        """E[x | z] = sigmoid(W z + b), shape (B, D)."""
        return torch.sigmoid(self.decoder.logits(latent))

    def integrate(
        self, tokens: Tokens, *, tolerance: float | None = None, most_nodes: int = MAX_NODES
    ) -> RefinedIntegral:
        """The log evidence to a tolerance, with its error and the number of nodes used.

        The nodes are doubled in each dimension, starting from `Grid()` or the current `Importance` rule. The
        error is the largest change of a log evidence since the last doubling. With importance sampling, where
        one change may be small by luck, the change over two doublings and the change with other points count
        as well.

        Args:
            tokens: B observations.
            tolerance: the largest error, nats; by default 1e-6 on grids and 0.01 by importance sampling.
            most_nodes: the largest number of nodes.

        Raises:
            NumericalError: the tolerance is not reached; names the error that was.
        """
        rule = Grid() if isinstance(self.integration, Grid) else self.integration
        if tolerance is None:
            tolerance = _FINEST if isinstance(rule, Grid) else 1e-2
        if not tolerance > 0:
            raise InputError(f"tolerance={tolerance}; give a number of nats above 0, such as 1e-6")
        values = self._binary(tokens, tokens.maskable | tokens.context).double()
        tokens = replace(tokens, values=values)
        decoder = Decoder(self.loadings.double(), self.bias.double())
        with torch.no_grad():
            return refined_integral.refine(decoder, rule, tokens, tolerance, most_nodes)

    def refine(self, tokens: Tokens, *, tolerance: float = 0.01, most_nodes: int = 2**18) -> str:
        """Set the number of nodes that these tokens need, in place.

        The nodes of each dimension are doubled until the log evidences at them differ from `integrate` by at
        most the tolerance, on average over a tenth of the observations (100 at least, chosen by their ids),
        two standard errors included. On grids, `integrate` goes to a hundredth of the tolerance.

        Args:
            tokens: B observations.
            tolerance: nats per observation.
            most_nodes: the largest number of nodes.

        Returns:
            A note on the number of nodes and the difference, one sentence.

        Raises:
            NumericalError: the tolerance is not reached; names the difference that was.

        Example:
            >>> import maskevidence as me
            >>> model = me.models.BernoulliPCA(n_features=40, n_components=1, seed=1)
            >>> model.refine(model.tokens(model.sample(20)))
            'integrated over 20 latent nodes: log evidence within 1.9e-06 nats of the refined ...'
        """
        self._binary(tokens, tokens.maskable | tokens.context)
        some = tokens[_tenth(tokens.ids)]
        fine = max(0.01 * tolerance, _FINEST) if isinstance(self.integration, Grid) else None
        integral = self.integrate(some, tolerance=fine)
        while True:
            with torch.no_grad():
                each = (self.log_evidence(some).double() - integral.log_evidence).abs()
            left_out = math.sqrt(1 - len(some) / len(tokens))
            off = float(each.mean() + 2 * left_out * each.std(correction=0) / math.sqrt(len(some)))
            n_nodes = self.integration.n_nodes_over(self.n_components)
            if off <= tolerance:
                of_some = "" if len(some) == len(tokens) else f" on {len(some):,} of {len(tokens):,}"
                return (
                    f"integrated over {n_nodes:,} latent nodes: log evidence within {off:.2g} nats of the "
                    f"refined integral (± {integral.error:.1g}){of_some}"
                )
            if 2 * n_nodes > most_nodes:
                raise NumericalError(
                    f"{n_nodes:,} latent nodes give log evidences {off:.2g} nats from the integral, "
                    f"tolerance {tolerance:g}; allow more nodes or a larger tolerance"
                )
            self.integration = self.integration.finer()

    def score_orderings(self, tokens: Tokens, ranks: Int64[Tensor, "B D"]) -> Float[Tensor, "B D"]:
        """Scores of the nested masks {j maskable: rank_j < M}, M = 1..D, nats, shape (B, D).

        Columns beyond an observation's number of tokens are 0. On a grid the posteriors of all prefixes of an
        order are cumulative sums; importance sampling, and a grid of millions of nodes, take each prefix as a
        separate mask.
        """
        values, grid = self._binary(tokens, tokens.maskable | tokens.context), self.integration
        at_once = isinstance(grid, Grid) and grid.n_nodes_over(self.n_components) * tokens.width <= MAX_ORDER
        scores = []
        for row in range(len(tokens)):
            n = int(tokens.maskable[row].sum())
            order = torch.argsort(ranks[row], descending=True)[-n:]  # hidden last is seen first
            if not at_once:
                score = self._scores_of_prefixes(tokens[row : row + 1], ranks[row], n)
            else:
                context = torch.nonzero(tokens.context[row]).flatten()
                score = shared_nodes.score_one_order(
                    self.decoder.of(order),
                    self._nodes(),
                    values[row, order],
                    (self.decoder.of(context), values[row, context]),
                ).flip(0)
            scores.append(torch.cat([score, score.new_zeros(tokens.width - n)]))
        return torch.stack(scores)

    def _scores_of_prefixes(self, row: Tokens, ranks: Tensor, n: int) -> Float[Tensor, " n"]:
        size = torch.arange(1, n + 1, device=ranks.device)
        masked = (ranks < size[:, None]) & row.maskable
        batch = row[torch.zeros(n, dtype=torch.int64, device=ranks.device)]
        return self.log_conditionals(batch, masked).sum(1) / size

    def elbo(
        self, tokens: Tokens, *, generator: torch.Generator | None = None, samples: int = 1
    ) -> Float[Tensor, " B"]:
        """E_q[log p(x | z)] - KL(q(z | x) ‖ p(z)), a lower bound of the log evidence, nats, shape (B,).

        q is the Gaussian of the linear encoder. The expectation is over reparameterised draws, the divergence
        in closed form.

        Args:
            tokens: B observations without context.
            generator: of the draws.
            samples: number of draws per observation.

        Raises:
            InputError: a model without an encoder, or tokens with context.

        Source:
            Kingma and Welling (2014), Auto-Encoding Variational Bayes, Eq. 10 and appendix B.
        """
        if self.encoder is None:
            raise InputError("this BernoulliPCA has no encoder; build it with encoder=True for the ELBO")
        self._refuse_context(tokens)
        present = tokens.maskable
        values = torch.where(present, self._binary(tokens, present), 0.0)
        mean, log_scale = self.encoder(values)
        divergence = divergence_from_prior(mean, log_scale)
        noise = torch.randn((samples, *mean.shape), generator=generator, dtype=mean.dtype, device=mean.device)
        logits = self.decoder.logits(mean + torch.exp(log_scale) * noise)
        expected = torch.where(present, values * logits - softplus(logits), 0.0).sum(2).mean(0)
        return expected - divergence

    def fit(self, x: object, *, max_iterations: int = 200) -> "BernoulliPCA":
        """Maximum likelihood at the current nodes, by L-BFGS from the current loadings, in place.

        A weak prior keeps the logits of constant columns finite: half an observation of 1 and half of 0 at
        z = 0, and loadings of standard deviation 10.

        Args:
            x: shape (N, D), 0 and 1, NaN where a value is missing.
            max_iterations: of L-BFGS.
        """
        tokens = self.tokens(x)
        self._remember(x, tokens)
        self._binary(tokens, tokens.maskable)
        with torch.no_grad():
            n_seen = tokens.maskable.sum(0)
            n_white = torch.where(tokens.maskable, tokens.values, 0.0).sum(0)
            self.bias.copy_(torch.log((n_white + 0.5) / (n_seen - n_white + 0.5)))
            self.loadings.mul_(0.3)
        self._climb(tokens, max_iterations)
        return self

    def _climb(self, tokens: Tokens, max_iterations: int) -> None:
        optimizer = torch.optim.LBFGS(
            [self.loadings, self.bias],
            max_iter=max_iterations,
            history_size=20,
            tolerance_change=1e-10,
            tolerance_grad=1e-6,
            line_search_fn="strong_wolfe",
        )

        def loss() -> Tensor:
            optimizer.zero_grad()
            penalty = 0.5 * (softplus(self.bias) + softplus(-self.bias)).sum()
            penalty = penalty + 0.005 * self.loadings.square().sum()
            value = -self.log_evidence(tokens).mean() + penalty / len(tokens)
            value.backward()  # type: ignore[no-untyped-call]
            return value

        optimizer.step(loss)  # type: ignore[no-untyped-call]
        self.n_iterations = int(optimizer.state[self.loadings]["n_iter"])

    def score_samples(self, x: object) -> Float64[np.ndarray, " N"]:
        """log p of each row, nats, refined by `integrate`; NaN is missing. Shape (N,)."""
        return self.integrate(self.tokens(x)).log_evidence.cpu().numpy()

    def _missing_moments(self, tokens: Tokens) -> tuple[Float[Tensor, "B D"], Float[Tensor, "B D"]]:
        missing = ~tokens.maskable
        values = torch.where(missing, 1.0, tokens.values).to(tokens.values.dtype)
        as_one = replace(tokens, values=values, maskable=torch.ones_like(missing))
        p = self.log_conditionals(as_one, missing).exp()
        return p, p * (1 - p)

    def _draw_missing(self, tokens: Tokens, seed: int) -> Float[Tensor, "B D"]:
        """Draw z from the nodes by posterior weight, then independent tokens given z."""
        seen, values = tokens.maskable, self._binary(tokens, tokens.maskable)
        noise = KeyedNoise(row_keys(seed, tokens.ids.cpu().numpy(), seen.cpu().numpy()), self.bias)
        uniform = noise.uniform(1)[:, 0]
        if isinstance(self.integration, Importance):
            points, log_joint = posterior_nodes.log_joints(self.decoder, self.integration, values, seen)
            node = chosen(torch.softmax(log_joint, 1), uniform)
            z = points[torch.arange(len(node), device=node.device), node]
        else:
            z = self._nodes().points[
                shared_nodes.drawn_nodes(self.decoder, self._nodes(), values, seen, uniform)
            ]
        return (noise.uniform(self.n_features) <= self.means_given(z)).to(values.dtype)

    def _draw_rows(self, n: int, seed: int) -> Float[Tensor, "n D"]:
        generator = torch.Generator().manual_seed(whole_number("seed", seed))
        z = torch.randn(n, self.n_components, generator=generator, dtype=torch.float64)
        p = torch.sigmoid(z @ self.loadings.double().cpu().T + self.bias.double().cpu())
        return torch.bernoulli(p, generator=generator)

    @property
    def n_parameters(self) -> int:
        """The number of free parameters: minus the rotations of z, and without the encoder."""
        k = self.n_components
        return self.bias.numel() + self.loadings.numel() - k * (k - 1) // 2

    def arguments(self) -> dict[str, Any]:
        return {
            "n_features": self.n_features,
            "n_components": self.n_components,
            "integration": asdict(self.integration),
            "encoder": self.encoder is not None,
        }

    def _nodes(self) -> Nodes:
        assert isinstance(self.integration, Grid)
        return self.integration.nodes(self.n_components, self.bias.dtype, self.bias.device)

    def tokens(self, x: object) -> Tokens:
        """Rows as tokens in the model's dtype, which holds 0 and 1 exactly, and on its device.

        Args:
            x: shape (N, D), NaN where a value is missing.
        """
        if isinstance(x, Tokens):
            return replace(x, values=x.values.to(self.bias.dtype)).to(self.bias.device)
        return Tokens.from_array(self._own_columns(x), dtype=self.bias.dtype).to(self.bias.device)

    def _binary(self, tokens: Tokens, read: Bool[Tensor, "B D"]) -> Float[Tensor, "B D"]:
        """Check that the cells read are 0 or 1; return them in the model's dtype."""
        self.refuse_strange_cells(tokens, read)
        return tokens.values.to(self.bias.dtype)

    def strange_cell(self, tokens: Tokens, read: Bool[Tensor, "B D"]) -> tuple[int, int, str] | None:
        wrong = read & (tokens.values != 0) & (tokens.values != 1)
        if not bool(wrong.any()):
            return None
        row, column = torch.nonzero(wrong)[0].tolist()
        advice = "binarise grey values first, by a threshold or at random"
        if not 0 <= tokens.values[row, column] <= 1:
            advice = "scale them to [0, 1], then binarise them by a threshold or at random"
        return row, column, f"a Bernoulli model takes 0 and 1: {advice} (--binarise threshold or stochastic)"
