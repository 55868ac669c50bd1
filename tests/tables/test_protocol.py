"""One conformance suite for every model of rows, and for a model as a user would write it."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor

import maskevidence as me
from maskevidence.core.tokens import Tokens
from maskevidence.tables.gaussian.family import GaussianFamily
from paper.encoding_decoding import EncodingDecoding

D = 5


class BinaryTable(torch.nn.Module):
    """Binary tokens with a table of joint probabilities; every conditional is a ratio of two sums."""

    conditionals, base_measure = "exact", me.model.MASS

    def __init__(self, n_tokens: int, seed: int) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(seed)
        self.states = torch.cartesian_prod(*[torch.arange(2)] * n_tokens)
        self.logits = torch.nn.Parameter(torch.randn(len(self.states), generator=generator).double())

    def log_sum(self, values: Tensor, known: Tensor) -> Tensor:
        """The log of the total probability of the states that agree with the known tokens, shape (B,)."""
        differ = ((self.states != values[:, None, :]) & known[:, None, :]).any(2)
        return torch.logsumexp(torch.log_softmax(self.logits, 0).masked_fill(differ, -torch.inf), 1)

    def log_conditionals(self, tokens: Tokens, masked: Tensor) -> Tensor:
        visible = tokens.visible(masked)
        alone = torch.eye(visible.shape[1], dtype=torch.bool)
        joint = [self.log_sum(tokens.values, visible | token) for token in alone]
        return torch.where(masked, torch.stack(joint, 1) - self.log_sum(tokens.values, visible)[:, None], 0.0)

    def log_evidence(self, tokens: Tokens) -> Tensor:
        return self.log_sum(tokens.values, tokens.maskable | tokens.context) - self.log_sum(
            tokens.values, tokens.context
        )


def _gaussian() -> torch.nn.Module:
    root = torch.randn(D, D, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    return me.models.Gaussian(torch.arange(D) / 10.0, root @ root.T + torch.eye(D))


def _factor_analysis() -> torch.nn.Module:
    loadings = torch.randn(D, 2, generator=torch.Generator().manual_seed(0))
    return me.models.FactorAnalysis.from_parameters(loadings, torch.linspace(0.2, 2.0, D))


def _kernel_gaussian() -> torch.nn.Module:
    x = _gaussian().sample(12, seed=3)
    x[::4, 1] = np.nan
    return me.models.KernelGaussian(D, 1).fit(x, shrinkage=0.3, bandwidth=0.5)


MODELS: dict[str, Callable[[], torch.nn.Module]] = {
    "Gaussian": _gaussian,
    "KernelGaussian": _kernel_gaussian,
    "PPCA": lambda: me.models.PPCA(D, 2, seed=1),
    "FactorAnalysis": _factor_analysis,
    "BernoulliPCA": lambda: me.models.BernoulliPCA(D, 2, seed=1),
    "BinaryTable": lambda: BinaryTable(D, seed=1),
}


def _vae(likelihood: str, conditioning: object) -> torch.nn.Module:
    options = {"n_features": D, "n_components": 2, "hidden": (4,), "dtype": torch.float64}
    return me.models.VAE(likelihood=likelihood, conditioning=conditioning, **options).eval()


_WEIGHTED, _CHAINS = (
    me.models.ImportanceSampling(64, 2),
    EncodingDecoding(16, 3),
)  # which is no rule of the package
APPROXIMATE: dict[str, Callable[[], torch.nn.Module]] = {
    "VAE, importance sampling": lambda: _vae("gaussian", _WEIGHTED),
    "VAE, encoding-decoding": lambda: _vae("gaussian", _CHAINS),
    "Bernoulli VAE, importance sampling": lambda: _vae("bernoulli", _WEIGHTED),
    "Bernoulli VAE, encoding-decoding": lambda: _vae("bernoulli", _CHAINS),
}
EXACT_ONES = pytest.mark.parametrize("model", sorted(MODELS), indirect=True)


@pytest.fixture(params=sorted(MODELS | APPROXIMATE))
def model(request: pytest.FixtureRequest) -> torch.nn.Module:
    return (MODELS | APPROXIMATE)[request.param]()


@pytest.fixture
def batch(model: torch.nn.Module) -> tuple[Tokens, Tensor]:
    """Observations with absent and context tokens, and a mask for each."""
    rng = np.random.default_rng(2)
    role = rng.choice(3, size=(30, D), p=[0.6, 0.2, 0.2])
    role[:, 0] = 0
    values = (
        rng.integers(2, size=role.shape)
        if isinstance(model, BinaryTable | me.models.BernoulliPCA)
        or getattr(model, "likelihood", None) == "bernoulli"
        else rng.normal(size=role.shape)
    )
    maskable = role == 0
    masked = maskable & (rng.random(role.shape) < 0.6)
    masked[~masked.any(1), 0] = True
    fields = (torch.from_numpy(part) for part in (values, maskable, role == 1))
    return Tokens(*fields, torch.arange(30)), torch.from_numpy(masked)


def replaced(tokens: Tokens, where: Tensor, seed: int = 0) -> Tokens:
    """The same tokens with different values in some places."""
    generator = torch.Generator().manual_seed(seed)
    if tokens.values.dtype.is_floating_point:
        other = 1e3 * torch.randn(where.shape, generator=generator, dtype=tokens.values.dtype)
    else:
        other = torch.randint(0, 2, where.shape, generator=generator)
    values = torch.where(where, other, tokens.values)
    return Tokens(values, tokens.maskable, tokens.context, tokens.ids)


def test_it_is_a_masked_model(model: torch.nn.Module) -> None:
    assert isinstance(model, me.MaskedModel)
    assert isinstance(model, torch.nn.Module)
    exact = hasattr(model, "log_evidence") and not isinstance(model, me.models.BernoulliPCA)
    assert model.conditionals == ("exact" if exact else "approximate")


def test_it_says_its_base_measure(model: torch.nn.Module) -> None:
    discrete = (
        not isinstance(model, me.models.VAE | GaussianFamily | me.models.KernelGaussian)
        or getattr(model, "likelihood", "") == "bernoulli"
    )
    assert me.model.base_measure_of(model) == (me.model.MASS if discrete else me.model.DENSITY)


@pytest.mark.filterwarnings("ignore::maskevidence.core.errors.CollapsedWeightsWarning")  # values far out
def test_the_referee_finds_no_fault(model, batch) -> None:
    """The package's own checks, up to rounding in float64; `tests/core/check` shows what they catch."""
    tokens, _ = batch
    report = me.check_model(model, tokens, tolerance=1e-11)
    assert report.ok, report
    skipped = {finding.check for finding in report.findings if finding.status == "skipped"}
    of_texts = {"bytes", "scored tokens", "unknown tokens", "length limit", "high rates", "mask token"}
    assert skipped <= of_texts | {"offset", "orders", "closed form"}


@pytest.mark.filterwarnings("ignore::maskevidence.core.errors.CollapsedWeightsWarning")  # values of 1e3
def test_it_does_depend_on_visible_values(model, batch) -> None:
    tokens, masked = batch
    visible = tokens.visible(masked)
    other = model.log_conditionals(replaced(tokens, visible), masked)
    changed = (other != model.log_conditionals(tokens, masked))[visible.any(1)]
    assert changed.any(1).double().mean() > 0.5


def test_absent_values_are_never_read(model, batch) -> None:
    tokens, masked = batch
    absent = ~(tokens.maskable | tokens.context)
    expected = model.log_conditionals(tokens, masked)
    garbage = [replaced(tokens, absent)]
    if tokens.values.dtype.is_floating_point:
        for value in (np.nan, np.inf):
            values = torch.where(absent, value, tokens.values)
            garbage.append(Tokens(values, tokens.maskable, tokens.context, tokens.ids))
    for other in garbage:
        found = model.log_conditionals(other, masked)
        torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)
        for gradient in torch.autograd.grad(found.sum(), list(model.parameters())):
            assert bool(torch.isfinite(gradient).all())
        if hasattr(model, "log_evidence"):
            expected_evidence = model.log_evidence(tokens)
            torch.testing.assert_close(model.log_evidence(other), expected_evidence, rtol=1e-12, atol=0)


@EXACT_ONES
def test_exhaustive_masks_give_the_evidence_exactly(model, batch) -> None:
    tokens, _ = batch
    estimate = me.estimate_evidence(model, tokens, me.Exhaustive())
    assert estimate.kind == model.conditionals
    expected = model.log_evidence(tokens).detach().numpy()
    np.testing.assert_allclose(estimate.per_observation, expected, rtol=1e-9)


def test_gradients_reach_every_parameter(model, batch) -> None:
    tokens, masked = batch
    for gradient in torch.autograd.grad(
        me.score_masks(model, tokens, masked).sum(), list(model.parameters())
    ):
        assert bool(torch.isfinite(gradient).all())
        assert bool((gradient != 0).any())


def test_a_table_of_probabilities_sums_to_one_over_the_states() -> None:
    """The user's model on its own: the evidences of all 2^D states add up to 1."""
    table = BinaryTable(D, seed=1)
    everything = torch.ones(len(table.states), D, dtype=torch.bool)
    tokens = Tokens(table.states, everything, ~everything, torch.arange(len(table.states)))
    assert table.log_evidence(tokens).exp().sum().item() == pytest.approx(1.0, rel=1e-12)
