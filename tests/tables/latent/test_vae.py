"""VAEs: with a linear decoder against PPCA, and their networks, units and error messages."""

import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import maskevidence as me
from latent_models import D, K, LinearDecoder, LinearEncoder, linear_vae, loadings, rows_and_masks
from maskevidence.core.errors import CollapsedWeightsWarning
from maskevidence.models import VAE, ImportanceSampling
from refusals import one_line


def small(likelihood: str = "gaussian", **options: object) -> VAE:
    settings = {"n_features": D, "n_components": K, "hidden": (5,), "dtype": torch.float64} | options
    return VAE(likelihood=likelihood, **settings)


def binary(n: int = 12, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(2, size=(n, D)).astype(np.float64)


# Against the closed form


@pytest.mark.parametrize("steps", [0, 1, 3])
@pytest.mark.parametrize(("skill", "wider"), [(1.0, 1.0), (0.8, 1.3)])
def test_importance_sampling_gives_the_exact_conditionals(steps: int, skill: float, wider: float) -> None:
    rule = ImportanceSampling(draws=2000, steps=steps, prior_draws=500)
    vae, ppca = linear_vae(loadings(), skill=skill, wider=wider, conditioning=rule)
    tokens, masked = rows_and_masks(ppca)
    with torch.no_grad():
        found, exact = vae.log_conditionals(tokens, masked), ppca.log_conditionals(tokens, masked)
    error = (found - exact)[masked]
    assert error.abs().max() < 0.35  # a token far from its mean has few draws near it
    assert error.square().mean().sqrt() < 0.06
    assert abs(error.mean()) < 0.012
    assert bool((found[~masked] == 0).all())


@pytest.mark.filterwarnings("ignore::maskevidence.core.errors.CollapsedWeightsWarning")
def test_the_importance_weighted_bound_is_below_the_evidence_and_rises_to_it() -> None:
    vae, ppca = linear_vae(loadings(), skill=0.8, wider=1.3)
    tokens, _ = rows_and_masks(ppca, n=200)
    exact = ppca.log_evidence(tokens).detach().numpy()
    bounds = [vae.importance_evidence(tokens, samples=samples) for samples in (1, 4, 16, 4096)]
    means, bound = [bound.mean for bound in bounds], bounds[-1]
    assert means[0] < means[1] < means[2] < exact.mean() + 3 * bound.draw_se
    assert abs(bound.mean - exact.mean()) < 3 * bound.draw_se + (bound.standard_error**2).mean() / 2
    z = (bound.log_evidence - exact) / bound.standard_error
    assert 0.85 < z.std() < 1.15  # the standard errors describe the errors
    assert bound.samples == 4096


def test_the_bounds_of_the_evidence_are_ordered() -> None:
    """ELBO <= importance-weighted bound <= log evidence, on average over draws."""
    vae, ppca = linear_vae(loadings(), skill=0.8, wider=1.3)
    tokens, _ = rows_and_masks(ppca, n=300)
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        elbo = vae.elbo(tokens, generator=generator, samples=50).mean()
        weighted = vae.importance_bound(tokens, generator=generator, samples=10).mean()
        exact = ppca.log_evidence(tokens).mean()
    assert elbo < weighted - 0.05 < exact - 0.05


def test_the_elbo_is_the_evidence_less_the_divergence_from_the_posterior() -> None:
    vae, ppca = linear_vae(loadings(), wider=1.3)
    x = ppca.sample(50, seed=1)
    tokens = me.Tokens.from_array(x)
    with torch.no_grad():
        elbo = vae.elbo(tokens, generator=torch.Generator().manual_seed(0), samples=20_000)
    divergence = K * (0.5 * (1.3**2 - 1) - math.log(1.3))
    gap = ppca.log_evidence(tokens) - elbo
    assert gap.mean().item() == pytest.approx(divergence, abs=0.01)


def test_imputation_is_that_of_ppca() -> None:
    vae, ppca = linear_vae(
        loadings(), conditioning=ImportanceSampling(draws=4_000, steps=2, prior_draws=1_000)
    )
    x = ppca.sample(20, seed=4)
    x[np.random.default_rng(0).random(x.shape) < 0.3] = np.nan
    x[:, 0] = 0.5
    found, exact = vae.impute(x), ppca.impute(x)
    hole = np.isnan(x)
    np.testing.assert_allclose(found.values, exact.values, atol=0.15)
    np.testing.assert_allclose(found.variance[hole], exact.variance[hole], rtol=0.1)
    assert (found.values[~hole] == x[~hole]).all()
    assert (found.variance[~hole] == 0).all()


def test_samples_have_the_models_moments() -> None:
    vae, ppca = linear_vae(loadings())
    x = vae.sample(20_000, seed=1)
    np.testing.assert_allclose(x.mean(0), ppca.mean.detach().numpy(), atol=0.1)
    np.testing.assert_allclose(np.cov(x.T), ppca.covariance.detach().numpy(), atol=0.4)
    assert (vae.sample(5, seed=1) == vae.sample(5, seed=1)).all()


def test_probabilities_of_zero_and_one_sum_to_one() -> None:
    vae = small("bernoulli", conditioning=ImportanceSampling(16, steps=2, prior_draws=4))
    tokens = me.Tokens.from_array(binary())
    masked = torch.from_numpy(np.random.default_rng(1).random((12, D)) < 0.5)
    masked[:, 0] = True
    flipped = me.Tokens(
        torch.where(masked, 1 - tokens.values, tokens.values), tokens.maskable, tokens.context, tokens.ids
    )
    with torch.no_grad():
        total = vae.log_conditionals(tokens, masked).exp() + vae.log_conditionals(flipped, masked).exp()
    torch.testing.assert_close(total[masked], torch.ones_like(total[masked]))


def test_a_bernoulli_evidence_is_that_of_the_integral() -> None:
    """The reference is the sum over a fine grid of the single latent dimension."""
    vae = small("bernoulli", n_components=1)
    with torch.no_grad():
        for p in vae.decoder.parameters():
            p.mul_(3)
    x = binary(6)
    z = torch.linspace(-8, 8, 4001, dtype=torch.float64)[:, None]
    with torch.no_grad():
        logits = vae.decoder(z)
        each = nn.functional.logsigmoid((2 * torch.from_numpy(x)[:, None] - 1) * logits).sum(2)
        prior = torch.log_softmax(-0.5 * z[:, 0] ** 2, 0)
    exact = torch.logsumexp(each + prior, 1).numpy()
    bound = vae.importance_evidence(x, samples=8192)
    assert np.abs((bound.log_evidence - exact) / bound.standard_error).max() < 4


# Draws


@pytest.mark.parametrize("likelihood", ["gaussian", "bernoulli"])
def test_scores_depend_on_the_seed_the_observation_and_the_mask_alone(
    likelihood: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    vae = small(likelihood, conditioning=ImportanceSampling(8, steps=2, prior_draws=2))
    tokens = me.Tokens.from_array(binary(20), ids=np.arange(20) + 5)
    masked = torch.from_numpy(np.random.default_rng(1).random((20, D)) < 0.5)
    masked[:, 0] = True
    with torch.no_grad():
        answer = vae.log_conditionals(tokens, masked)
        order = torch.randperm(20, generator=torch.Generator().manual_seed(0))
        torch.testing.assert_close(vae.log_conditionals(tokens[order], masked[order]), answer[order])
        torch.testing.assert_close(vae.log_conditionals(tokens[3:4], masked[3:4]), answer[3:4])
        monkeypatch.setattr("maskevidence.tables.latent.latent_model._MAX_ELEMENTS", 3 * 8 * 8)
        torch.testing.assert_close(vae.log_conditionals(tokens, masked), answer)
        torch.manual_seed(1)
        torch.testing.assert_close(vae.log_conditionals(tokens, masked), answer)
        other = me.Tokens(tokens.values, tokens.maskable, tokens.context, tokens.ids + 1)
        assert bool((vae.log_conditionals(other, masked)[masked] != answer[masked]).all())
        vae.seed = 1
        assert bool((vae.log_conditionals(tokens, masked)[masked] != answer[masked]).all())


def test_bounds_depend_on_the_seed_and_the_observation_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    vae = small()
    x = np.random.default_rng(0).normal(size=(9, D))
    tokens = me.Tokens.from_array(x, ids=np.arange(9) + 5)
    bound = vae.importance_evidence(tokens, samples=100)
    alone = vae.importance_evidence(tokens[4:5], samples=100)
    assert alone.log_evidence[0] == pytest.approx(bound.log_evidence[4], rel=1e-12)
    monkeypatch.setattr("maskevidence.tables.latent.latent_model._MAX_ELEMENTS", 2 * 64 * 64)
    np.testing.assert_allclose(
        vae.importance_evidence(tokens, samples=100).log_evidence, bound.log_evidence, rtol=1e-12
    )
    assert vae.importance_evidence(tokens, samples=100, seed=1).mean != bound.mean


def test_keyed_draws_are_standard_normal_and_uniform() -> None:
    from maskevidence.tables.noise import KeyedNoise, row_keys

    keys = row_keys(0, np.arange(50), np.zeros((50, 70), dtype=bool))
    for dtype in (torch.float32, torch.float64):
        noise = KeyedNoise(keys, torch.zeros((), dtype=dtype))
        first, second = noise.normal(100, 10).double(), noise.normal(1001).double()
        both = torch.cat([first.flatten(), second.flatten()])
        n = len(both)
        assert abs(both.mean()) < 4 / math.sqrt(n)
        assert abs(both.var() - 1) < 4 * math.sqrt(2 / n)
        assert abs((both**4).mean() - 3) < 4 * math.sqrt(96 / n)
        assert abs((first.flatten(1)[:, :500] * first.flatten(1)[:, 500:]).mean()) < 4 / math.sqrt(25_000)
        uniform = noise.uniform(2000).double()
        assert 0 < uniform.min() <= uniform.max() <= 1
        assert abs(uniform.mean() - 0.5) < 4 * math.sqrt(1 / 12 / 100_000)


def test_training_draws_come_from_torchs_random_state() -> None:
    vae = small()
    tokens = me.Tokens.from_array(np.random.default_rng(0).normal(size=(4, D)))
    masked = torch.ones(4, D, dtype=torch.bool)
    torch.manual_seed(0)
    first = vae.log_conditionals(tokens, masked)
    second = vae.log_conditionals(tokens, masked)
    torch.manual_seed(0)
    assert bool((first != second).all())
    torch.testing.assert_close(vae.log_conditionals(tokens, masked), first)
    vae.conditioning = ImportanceSampling(8, steps=0, prior_draws=1)  # fewer draws, by default
    torch.manual_seed(0)
    torch.testing.assert_close(vae.log_conditionals(tokens, masked), first)
    torch.testing.assert_close(
        vae.eval().log_conditionals(tokens, masked), vae.log_conditionals(tokens, masked)
    )


# Training


@pytest.mark.parametrize("likelihood", ["gaussian", "bernoulli"])
def test_every_parameter_has_a_gradient(likelihood: str) -> None:
    """Every parameter has a finite gradient that is not 0, with the draws held fixed."""
    vae = small(likelihood, conditioning=ImportanceSampling(6, steps=1, prior_draws=2)).eval()
    tokens = me.Tokens.from_array(binary(5))
    masked = torch.ones(5, D, dtype=torch.bool)
    masked[:, :2] = False
    parameters = [p for name, p in vae.named_parameters() if likelihood == "gaussian" or "noise" not in name]
    value = vae.log_conditionals(tokens, masked).sum()
    gradients = torch.autograd.grad(value, parameters, allow_unused=True)
    assert all(g is not None and bool(torch.isfinite(g).all()) and bool((g != 0).any()) for g in gradients)


def test_the_gradient_of_an_importance_sampled_conditional_is_that_of_finite_differences() -> None:
    vae = small(conditioning=ImportanceSampling(6, steps=0, prior_draws=2)).eval()
    tokens = me.Tokens.from_array(binary(3))
    masked = torch.ones(3, D, dtype=torch.bool)
    masked[:, :2] = False
    parameters = list(vae.parameters())
    gradients = torch.autograd.grad(vae.log_conditionals(tokens, masked).sum(), parameters)
    generator = torch.Generator().manual_seed(0)
    for p, gradient in zip(parameters, gradients, strict=True):
        direction = torch.randn(p.shape, generator=generator, dtype=p.dtype)
        with torch.no_grad():
            p.add_(1e-5 * direction)
            above = vae.log_conditionals(tokens, masked).sum()
            p.sub_(2e-5 * direction)
            below = vae.log_conditionals(tokens, masked).sum()
            p.add_(1e-5 * direction)
        expected = (above - below) / 2e-5
        assert (gradient * direction).sum().item() == pytest.approx(expected.item(), rel=1e-5, abs=1e-7)


@pytest.mark.parametrize(
    "objective",
    [me.Elbo(), me.Elbo(samples=5, weighted=True), me.RandomSize(1, 1), me.FixedRate(0.33, 1)],
    ids=["elbo", "importance-weighted", "random-size", "fixed-rate"],
)
def test_training_raises_the_evidence(objective: object) -> None:
    x = me.models.PPCA.from_parameters(loadings(), 0.5).sample(300, seed=5)
    vae = small(hidden=(), conditioning=ImportanceSampling(8, steps=0, prior_draws=2), seed=1)
    vae.set_units(x)
    before = vae.importance_evidence(x, samples=256).mean
    history = me.fit(vae, x, objective, epochs=25, batch_size=100, learning_rate=0.02)
    assert np.isfinite(history.objective).all()
    assert vae.importance_evidence(x, samples=256).mean > before + 0.5


def test_training_resumes_from_a_checkpoint_bit_by_bit(tmp_path: Path) -> None:
    x = np.random.default_rng(0).normal(size=(40, D))
    runs = []
    for parts in ((4,), (2, 4)):
        folder = tmp_path / str(len(parts))
        for epochs in parts:
            vae = small(conditioning=ImportanceSampling(4, steps=1, prior_draws=1))
            me.fit(vae, x, me.RandomSize(1, 1), epochs=epochs, batch_size=16, checkpoint=folder)
        runs.append(torch.cat([p.detach().flatten() for p in vae.parameters()]))
    assert bool((runs[0] == runs[1]).all())


def test_fit_with_missing_values() -> None:
    x = me.models.PPCA.from_parameters(3 * loadings(), 0.5).sample(300, seed=5) + 100.0
    x[np.random.default_rng(0).random(x.shape) < 0.1] = np.nan
    x[:, 0] = np.nan_to_num(x[:, 0], nan=100.0)
    vae = small(seed=1).fit(x, epochs=5)
    early = vae.score_samples(x).mean()
    assert vae.fit(x, epochs=40).score_samples(x).mean() > early + 0.5
    assert np.abs(vae.impute(x).values - 100.0).max() < 30


def test_a_loss_that_is_not_finite_stops_training() -> None:
    vae = small()
    with torch.no_grad():
        next(vae.decoder.parameters()).fill_(float("inf"))
    with pytest.raises(
        me.NumericalError, match=r"training stopped in epoch 1, step 0: .*lower the learning rate"
    ):
        me.fit(vae, np.random.default_rng(0).normal(size=(40, D)), me.Elbo(), epochs=2)


# Saved models


@pytest.mark.parametrize("likelihood", ["gaussian", "bernoulli"])
def test_a_saved_model_scores_as_before(likelihood: str, tmp_path: Path) -> None:
    vae = small(likelihood, conditioning=ImportanceSampling(32, 2), seed=7)
    if likelihood == "gaussian":
        vae.set_units(binary(20) * 3 + 1)
    vae.save(tmp_path)
    again = me.models.load(tmp_path)
    assert again.conditioning == vae.conditioning
    x = binary()
    for rule in (me.EverySize(1), me.FixedRate(0.5, 1)):
        found = me.estimate_evidence(again, x, rule).log_evidence
        assert found == me.estimate_evidence(vae, x, rule).log_evidence
    assert again.importance_evidence(x, samples=64).mean == vae.importance_evidence(x, samples=64).mean


def test_your_own_networks_are_given_to_load(tmp_path: Path) -> None:
    vae, _ = linear_vae(loadings())
    vae.save(tmp_path)
    with pytest.raises(
        me.InputError, match=r"built with your own networks \(LinearEncoder, LinearDecoder\).*encoder=\.\.\."
    ):
        me.models.load(tmp_path)
    encoder = LinearEncoder(torch.zeros(K, D).double(), torch.ones(K).double())
    again = me.models.load(tmp_path, encoder=encoder, decoder=LinearDecoder(torch.zeros(D, K).double()))
    x = binary()
    assert again.importance_evidence(x, samples=64).mean == vae.importance_evidence(x, samples=64).mean
    small().save(tmp_path)
    with pytest.raises(me.InputError, match="takes no networks"):
        me.models.load(tmp_path, encoder=encoder, decoder=LinearDecoder(torch.zeros(D, K).double()))


# Bad input


def _pair(n_out: int, n_in: int, d: int = D) -> tuple[nn.Module, nn.Module]:
    return nn.Linear(D, n_out), nn.Linear(n_in, d)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: VAE(), "n_features=None, n_components=None.*default networks"),
        (lambda: VAE(nn.Linear(3, 2)), "one network alone"),
        (lambda: VAE(*_pair(3, 1)), r"the encoder turned \(1, 6\) into \(1, 3\).*\(1, 2 K\)"),
        (lambda: VAE(*_pair(4, 3)), "gives 2 latent dimensions, which the decoder cannot take"),
        (lambda: VAE(*_pair(4, 2, d=5)), r"the decoder turned shape \(1, 2\) into \(1, 5\)"),
        (lambda: VAE(*_pair(4, 2), n_features=7), "cannot take rows of 7 features"),
        (lambda: VAE(*_pair(4, 2), n_components=3), "n_components=3, but the encoder gives 2"),
        (lambda: VAE(nn.Identity(), nn.Identity()), "cannot be seen from its layers; give n_features"),
        (lambda: small("gausian"), "unknown likelihood 'gausian'; did you mean 'gaussian'"),
        (lambda: ImportanceSampling(draws=4, prior_draws=4), "fewer draws from the prior"),
        (
            lambda: small("bernoulli").importance_evidence(binary() / 2),
            "observation 0 has 0.5 in column 0; a Bernoulli likelihood takes 0 and 1",
        ),
        (lambda: small("bernoulli").fit(np.full((5, D), -1.0)), "takes 0 and 1.*binarise"),
        (lambda: small().importance_evidence(np.zeros((2, 3))), "3 columns, the model has 6"),
        (lambda: small().importance_evidence(np.zeros((2, D)), samples=0), "samples=0"),
        (lambda: small().fit(np.ones((5, D))), "every column is constant"),
        (lambda: small().tokens_given_latent.set_noise_variance(0.0), "a noise variance of 0"),
        (
            lambda: me.Elbo(3, weighted=True)(me.models.BernoulliPCA(D, 1, encoder=True), binary()),
            "BernoulliPCA has no importance_bound",
        ),
    ],
)
def test_bad_input_gets_one_line(unchecked: None, build: Callable[[], object], message: str) -> None:
    one_line(build, match=message)


def test_a_bound_with_context_is_refused() -> None:
    tokens = me.Tokens.from_array(binary())
    context = torch.zeros_like(tokens.maskable)
    context[:, 0] = True
    tokens = me.Tokens(tokens.values, tokens.maskable & ~context, context, tokens.ids)
    with pytest.raises(me.InputError, match="without context"):
        small().elbo(tokens)
    assert bool(torch.isfinite(small().log_conditionals(tokens, tokens.maskable)).all())


def test_collapsed_weights_give_a_warning() -> None:
    vae, ppca = linear_vae(loadings(), noise=1e-4, skill=0.5)
    x = ppca.sample(20, seed=1) * 3
    with pytest.warns(CollapsedWeightsWarning, match=r"of 20 observations collapsed: .* of 64 \(median"):
        vae.importance_evidence(x, samples=64)
    vae.eval().conditioning = ImportanceSampling(8, steps=0, prior_draws=0)
    masked = torch.zeros(20, D, dtype=torch.bool)
    masked[:, 0] = True
    with pytest.warns(CollapsedWeightsWarning, match="these conditionals rest on one draw each"):
        vae.log_conditionals(me.Tokens.from_array(x), masked)
    vae.log_conditionals(me.Tokens.from_array(x), masked)  # one warning per model, or this would be an error
