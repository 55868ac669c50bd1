"""The Gaussian family against block matrices, and the methods of the full Gaussian alone."""

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from scipy.stats import chi2, kstest

import maskevidence as me
import oracles
from maskevidence.core.masks.design import MaskKey, Masks
from maskevidence.core.tokens import Tokens
from maskevidence.tables.gaussian.full_covariance import unique_rows


def masks_of(tokens: Tokens, seed: int) -> torch.Tensor:
    """One mask of a random size per row."""
    design, n_rows = me.RandomSize(1, 1), len(tokens)
    ids, zero = tokens.ids.numpy(), np.zeros(n_rows, dtype=np.int64)
    draw, size = design.plan(MaskKey(seed), ids, tokens.n_tokens.numpy(), zero)
    return torch.from_numpy(design.masked(MaskKey(seed), ids, draw, size, tokens.maskable.numpy()))


def complete(n_rows: int, n_features: int, seed: int = 0) -> Tokens:
    return Tokens.from_array(np.random.default_rng(seed).normal(size=(n_rows, n_features)))


class TestFamily:
    """Tests of Gaussian, PPCA and factor analysis alike."""

    def test_conditionals_equal_the_block_matrices(self, build, mixed_tokens) -> None:
        model, tokens = build(8), mixed_tokens(40, 8)
        masked = masks_of(tokens, 1)
        visible = tokens.visible(masked).numpy()
        expected = oracles.gaussian_log_conditionals(
            *oracles.parameters_of(model), tokens.values.numpy(), masked.numpy(), visible
        )
        found = model.log_conditionals(tokens, masked).detach().numpy()
        np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-12)

    def test_conditionals_of_masks_that_many_rows_share(self, build) -> None:
        model, tokens = build(5), complete(30, 5)
        patterns = torch.tensor([[True, False, True, False, False], [True] * 5, [False] * 4 + [True]])
        masked = patterns[torch.arange(30) % 3]
        expected = oracles.gaussian_log_conditionals(
            *oracles.parameters_of(model), tokens.values.numpy(), masked.numpy(), ~masked.numpy()
        )
        found = model.log_conditionals(tokens, masked)
        np.testing.assert_allclose(found.detach(), expected, rtol=1e-10, atol=1e-12)
        one_by_one = [model.log_conditionals(tokens[k : k + 1], masked[k : k + 1]) for k in range(30)]
        parameters = list(model.parameters())
        for grouped, single in zip(
            torch.autograd.grad(found.sum(), parameters),
            torch.autograd.grad(torch.cat(one_by_one).sum(), parameters),
            strict=True,
        ):
            torch.testing.assert_close(grouped, single, rtol=1e-10, atol=1e-10)

    def test_the_evidence_is_scipys_density_of_the_present_tokens(self, build, mixed_tokens) -> None:
        model, tokens = build(8), mixed_tokens(15, 8)
        arrays = (part.numpy() for part in (tokens.values, tokens.maskable, tokens.context))
        expected = oracles.gaussian_log_evidence(*oracles.parameters_of(model), *arrays)
        np.testing.assert_allclose(model.log_evidence(tokens).detach(), expected, rtol=1e-10)

    def test_gradients_of_the_evidence_equal_central_differences(self, build, mixed_tokens) -> None:
        model, tokens = build(5), mixed_tokens(6, 5)
        arrays = [part.numpy() for part in (tokens.values, tokens.maskable, tokens.context)]
        model.log_evidence(tokens).sum().backward()
        for parameter in model.parameters():
            expected = oracles.numerical_gradient(
                lambda: float(oracles.gaussian_log_evidence(*oracles.parameters_of(model), *arrays).sum()),
                parameter,
            )
            np.testing.assert_allclose(parameter.grad, expected, rtol=1e-6, atol=1e-7)

    def test_samples_have_the_models_moments(self, build) -> None:
        """A z-test of each mean and second moment, and a chi-square test of the distances from the mean."""
        model, n = build(4), 20_000
        x = model.sample(n, seed=5)
        mean, covariance = oracles.parameters_of(model)
        assert (np.abs(x.mean(0) - mean) < 4 * np.sqrt(np.diag(covariance) / n)).all()
        found = (x - mean).T @ (x - mean) / n
        error = np.sqrt((covariance**2 + np.outer(np.diag(covariance), np.diag(covariance))) / n)
        assert (np.abs(found - covariance) < 4 * error).all()
        white = np.linalg.solve(np.linalg.cholesky(covariance), (x - mean).T)
        assert kstest((white**2).sum(0), chi2(4).cdf).pvalue > 1e-3

    def test_holes_are_filled_by_conditional_means_and_variances(self, build) -> None:
        model = build(6)
        x = model.sample(12, seed=2)
        holes = np.random.default_rng(0).random(x.shape) < 0.4
        holes[:, 3] = False
        filled = model.impute(np.where(holes, np.nan, x))
        np.testing.assert_array_equal(filled.values[~holes], x[~holes])
        assert (filled.variance[~holes] == 0).all()
        for row in range(12):
            mean, spread = oracles.condition(*oracles.parameters_of(model), x[row], ~holes[row])
            np.testing.assert_allclose(filled.values[row][holes[row]], mean[holes[row]], rtol=1e-9)
            np.testing.assert_allclose(
                filled.variance[row][holes[row]], np.diag(spread)[holes[row]], rtol=1e-9
            )


class TestOrderings:
    """The scores of all nested masks of an order at once, against one call per mask."""

    def expected(self, model: torch.nn.Module, tokens: Tokens, ranks: torch.Tensor) -> torch.Tensor:
        """score_masks of every prefix, 0 beyond an observation's tokens."""
        columns = []
        for size in range(1, tokens.width + 1):
            rows = torch.nonzero(tokens.n_tokens >= size).flatten()
            column = torch.zeros(len(tokens), dtype=tokens.values.dtype)
            if len(rows):
                part = tokens[rows]
                masked = part.maskable & (ranks[rows] < size)
                column = column.index_put((rows,), me.score_masks(model, part, masked))
            columns.append(column)
        return torch.stack(columns, dim=1)

    @pytest.mark.parametrize("masks", ["own", "shared"])
    @pytest.mark.parametrize("complete_rows", [True, False])
    @pytest.mark.parametrize("n_features", [1, 2, 8, 30])
    def test_values_and_gradients(
        self, build_gaussian, mixed_tokens, masks: Masks, complete_rows: bool, n_features: int
    ) -> None:
        """Own orders take one factor per row, shared orders one factor for all rows."""
        model, n_rows = build_gaussian(n_features), 20
        tokens = complete(n_rows, n_features) if complete_rows else mixed_tokens(n_rows, n_features)
        ids, draw = tokens.ids.numpy(), np.zeros(n_rows, dtype=np.int64)
        ranks = me.Orderings(1).ranks(MaskKey(3, masks), ids, draw, tokens.maskable.numpy())
        ranks = torch.from_numpy(ranks)
        found, expected = model.score_orderings(tokens, ranks), self.expected(model, tokens, ranks)
        torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-11)
        parameters = list(model.parameters())
        for fast, slow in zip(
            torch.autograd.grad(found.sum(), parameters),
            torch.autograd.grad(expected.sum(), parameters),
            strict=True,
        ):
            torch.testing.assert_close(fast, slow, rtol=1e-8, atol=1e-9)

    def test_holes_and_context_that_many_rows_share(self, build_gaussian, mixed_tokens) -> None:
        model, few = build_gaussian(16), mixed_tokens(4, 16)
        tokens = few[torch.arange(40) % 4]
        values = torch.where(tokens.values.isnan(), np.nan, complete(40, 16).values)
        tokens = Tokens(values, tokens.maskable, tokens.context, torch.arange(40))
        zero = np.zeros(40, dtype=np.int64)
        ranks = me.Orderings(1).ranks(MaskKey(3, "shared"), zero, zero, tokens.maskable.numpy())
        found = model.score_orderings(tokens, torch.from_numpy(ranks))
        expected = self.expected(model, tokens, torch.from_numpy(ranks))
        torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-11)

    def test_the_sum_over_sizes_is_the_chain_rule_of_one_order(self, build_gaussian) -> None:
        """The sums differ between orders; their mean over all 24 orders of 4 tokens is the evidence."""
        model, tokens = build_gaussian(4), complete(1, 4)
        orders = torch.cartesian_prod(*[torch.arange(4)] * 4)
        orders = orders[(orders.sort(dim=1).values == torch.arange(4)).all(1)]
        assert len(orders) == 24
        sums = model.score_orderings(tokens[torch.zeros(24, dtype=torch.int64)], orders).sum(1)
        assert sums.std().item() > 1e-3
        assert sums.mean().item() == pytest.approx(model.log_evidence(tokens).item(), rel=1e-12)


def test_free_parameters_are_counted_which_decide_the_smallest_model() -> None:
    """A rotation of K factors leaves a density as it is: K (K - 1)/2 of the loadings are not free."""
    assert me.models.Gaussian(n_features=4).n_parameters == 4 + 10
    assert me.models.PPCA(5, 2).n_parameters == 5 + 10 + 1 - 1
    assert me.models.FactorAnalysis(5, 3).n_parameters == 5 + 15 + 5 - 3
    assert me.models.BernoulliPCA(5, 2, encoder=True).n_parameters == 5 + 10 - 1


class TestFit:
    @pytest.mark.parametrize("ddof", [0, 1])
    def test_complete_rows_give_the_sample_moments(self, ddof: int) -> None:
        x = np.random.default_rng(0).normal(size=(30, 4)) @ np.random.default_rng(1).normal(size=(4, 4))
        model = me.models.Gaussian(n_features=4).fit(x, ddof=ddof)
        mean, covariance = oracles.parameters_of(model)
        np.testing.assert_allclose(mean, x.mean(0), rtol=1e-13)
        np.testing.assert_allclose(covariance, np.cov(x.T, ddof=ddof), rtol=1e-10, atol=1e-12)

    def test_maximum_likelihood_has_no_gradient(self) -> None:
        x = np.random.default_rng(0).normal(size=(30, 3))
        model = me.models.Gaussian(n_features=3).fit(x)
        model.log_evidence(model.tokens(x)).mean().backward()
        for parameter in model.parameters():
            assert parameter.grad.abs().max() < 1e-12

    def test_columns_of_very_different_units_are_no_problem(self) -> None:
        x = np.random.default_rng(0).normal(size=(50, 3)) * [1e-8, 1.0, 1e8]
        model = me.models.Gaussian(n_features=3).fit(x)
        scaled = me.models.Gaussian(n_features=3).fit(x / [1e-8, 1.0, 1e8])
        np.testing.assert_allclose(
            model.score_samples(x), scaled.score_samples(x / [1e-8, 1.0, 1e8]), rtol=1e-10
        )


class TestConstruction:
    def test_the_covariance_is_kept(self) -> None:
        covariance = torch.tensor([[2.0, 0.3, 0.0], [0.3, 1.0, -0.4], [0.0, -0.4, 3.0]], dtype=torch.float64)
        model = me.models.Gaussian(torch.zeros(3, dtype=torch.float64), covariance)
        torch.testing.assert_close(model.covariance, covariance, rtol=1e-14, atol=1e-15)
        assert me.models.Gaussian(n_features=3).covariance.tolist() == torch.eye(3).tolist()

    def test_every_value_of_the_parameters_is_a_covariance(self) -> None:
        model = me.models.Gaussian(n_features=4)
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.copy_(torch.randn(parameter.shape, generator=torch.Generator().manual_seed(1)))
        assert np.linalg.eigvalsh(model.covariance.detach().numpy())[0] > 0

    def test_rounding_in_the_symmetry_is_accepted(self) -> None:
        root = torch.randn(40, 60, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
        covariance = root @ root.T
        covariance[0, 1] += 1e-12 * covariance[0, 0]
        me.models.Gaussian(torch.zeros(40), covariance)


def test_unique_rows_are_numpys() -> None:
    rng = np.random.default_rng(0)
    for rows in (rng.random((50, 17)) < 0.15, rng.integers(0, 2, size=(60, 3)) - 1):
        unique, which = unique_rows(torch.from_numpy(rows))
        assert len(unique) == len(np.unique(rows, axis=0))
        np.testing.assert_array_equal(unique[which].numpy(), rows)


def _gaussian(covariance: list[list[float]], n: int = 2) -> me.models.Gaussian:
    return me.models.Gaussian(torch.zeros(n), torch.tensor(covariance))


def _fitted(x: object, **options: int) -> me.models.Gaussian:
    return me.models.Gaussian(n_features=len(x[0])).fit(x, **options)  # type: ignore[index]


NORMAL = np.random.default_rng(0).normal(size=(50, 6))
DEPENDENT = np.column_stack([NORMAL[:, :2], NORMAL[:, 0] - 2 * NORMAL[:, 1]])
HOLED = np.where(np.arange(24).reshape(4, 6) == 0, np.nan, NORMAL[:4])
INPUT, NUMERICAL = me.InputError, me.NumericalError


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: _gaussian([[1.0, 2.0], [2.0, 1.0]]), NUMERICAL, "its smallest eigenvalue is -1;"),
        (lambda: _gaussian([[1.0, 1.0], [1.0, 1.0]]), NUMERICAL, "not positive definite"),
        (lambda: _gaussian([[1.0, 0.0], [0.0, 0.0]]), NUMERICAL, "its smallest eigenvalue is 0;"),
        (lambda: _gaussian([[1.0, 0.5], [0.4, 1.0]]), INPUT, "not symmetric"),
        (lambda: _gaussian([[1.0, math.nan], [math.nan, 1.0]]), INPUT, "not symmetric"),
        (
            lambda: _gaussian([[1.0, 0.0], [0.0, 1.0]], 3),
            INPUT,
            r"mean has 3 entries, the covariance shape \(2, 2\)",
        ),
        (lambda: me.models.Gaussian(), INPUT, "needs a mean, or n_features of 1 or more"),
        (lambda: me.models.Gaussian(n_features=0), INPUT, "n_features of 1 or more"),
        (lambda: me.models.Gaussian(3), INPUT, r"mean=3; give a Tensor of floats, shape \(D\)"),  # type: ignore[arg-type]
        (
            lambda: _fitted(DEPENDENT),
            NUMERICAL,
            r"50 rows and 3 columns .*smallest eigenvalue is .*; leave out",
        ),
        (lambda: _fitted(NORMAL[:4]), NUMERICAL, "4 rows do not determine the covariance of 6 columns"),
        (lambda: _fitted(HOLED), NUMERICAL, "4 rows do not determine the covariance of 6 columns"),
        (lambda: _fitted([[1.0, 2.0]]), INPUT, "1 rows are too few; give at least 2"),
        (lambda: _fitted([[1.0, 2.0], [2.0, 0.0]], ddof=2), INPUT, "2 rows are too few for ddof=2"),
    ],
)
def test_what_is_no_gaussian_is_refused(
    call: Callable[[], object], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        call()
