"""The masked objective: its value and gradient, against the exhaustive sum and the exact likelihood."""

import math
from collections.abc import Callable, Iterable
from dataclasses import replace

import numpy as np
import pytest
import torch

import maskevidence as me
import oracles
from builders import BuildModel
from maskevidence.core.tokens import Tokens
from refusals import one_line

D = 6
COVERING = [
    me.EverySize(1),
    me.RandomSize(1, 1),
    me.Orderings(1),
    me.Rates(tuple(m / D for m in range(1, D + 1)), 1),
]
ONE_SIZE = [me.FixedRate(2 / D, 1), me.Rates((1 / D, 0.5), 1)]


def flat_gradient(loss: torch.Tensor, model: torch.nn.Module) -> np.ndarray:
    """The gradient of a loss in all parameters, as one vector."""
    gradients = torch.autograd.grad(loss, list(model.parameters()), materialize_grads=True)
    return torch.cat([g.flatten() for g in gradients]).numpy()


def exhaustive_loss(model: me.models.PPCA, tokens: Tokens, sizes: Iterable[int]) -> torch.Tensor:
    """-Σ over the sizes of the mean score of all masks of the size, averaged over rows, mask by mask."""
    total = torch.zeros((), dtype=torch.float64)
    for row in range(len(tokens)):
        one = tokens[torch.tensor([row])]
        masks = oracles.every_mask(one.maskable[0].numpy())
        for size in sizes:
            of_size = [torch.from_numpy(mask)[None] for mask in masks if mask.sum() == size]
            scores = [model.log_conditionals(one, mask).sum() / size for mask in of_size]
            total = total - torch.stack(scores).mean()
    return total / len(tokens)


@pytest.fixture(scope="module")
def example() -> tuple[me.models.PPCA, Tokens]:
    """A PPCA model with D=6, and rows from another distribution."""
    rng = np.random.default_rng(5)
    loadings = torch.from_numpy(rng.normal(size=(D, 2)))
    model = me.models.PPCA.from_parameters(loadings, 0.5, torch.from_numpy(rng.normal(size=D)))
    return model, Tokens.from_array(rng.normal(size=(4, D)) * 1.5)


def test_exhaustive_is_the_likelihood(build: BuildModel, mixed_tokens: Callable[..., Tokens]) -> None:
    model, tokens = build(D), mixed_tokens(n_rows=7, n_features=D)
    loss, likelihood = me.MaskedObjective(me.Exhaustive())(model, tokens), me.Likelihood()(model, tokens)
    torch.testing.assert_close(loss, likelihood, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(
        flat_gradient(loss, model), flat_gradient(likelihood, model), rtol=1e-9, atol=1e-11
    )


@pytest.mark.parametrize(
    ("design", "sizes", "factor"), [(me.Exhaustive(), range(1, D + 1), 1), (me.LeaveOneOut(), [1], D)]
)
def test_designs_without_chance_are_the_sum_over_their_masks(
    design: me.MaskDesign, sizes: Iterable[int], factor: int, example: tuple[me.models.PPCA, Tokens]
) -> None:
    """The sum over all masks is the likelihood's, that of single hidden tokens the pseudolikelihood's."""
    model, tokens = example
    loss, slow = me.MaskedObjective(design)(model, tokens), factor * exhaustive_loss(model, tokens, sizes)
    torch.testing.assert_close(loss, slow, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(flat_gradient(loss, model), flat_gradient(slow, model), rtol=1e-9, atol=1e-11)


def z_scores(draws: np.ndarray, expected: np.ndarray) -> np.ndarray:
    return (draws.mean(0) - expected) / (draws.std(0, ddof=1) / math.sqrt(len(draws)))


def draws_of(objective: me.MaskedObjective, model: torch.nn.Module, tokens: Tokens) -> np.ndarray:
    """Gradient and loss of independent steps, shape (n_steps, n_parameters + 1), 500 draws or more.

    Own masks are drawn for 32 copies of the rows at once, whose mean is that of 32 draws. Shared masks are
    scored on the moments of the rows, which give the loss of the rows, except for orders.
    """
    data: Tokens | me.GaussianMoments = tokens
    n_steps = 500
    if objective.key.masks == "own":
        copies = tokens[torch.arange(len(tokens)).repeat(32)]
        data, n_steps = replace(copies, ids=torch.arange(len(copies))), 64
    elif not isinstance(objective.design, me.Orderings):
        data = me.GaussianMoments.from_rows(tokens.values)
    losses = (objective(model, data, step=step) for step in range(n_steps))
    return np.stack([np.append(flat_gradient(loss, model), loss.item()) for loss in losses])


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(
    ("design", "masks"),
    [
        *((design, "own") for design in COVERING),
        *(pytest.param(design, "shared", marks=pytest.mark.slow) for design in COVERING),
    ],
    ids=str,
)
def test_the_gradient_is_unbiased_for_the_likelihood(
    design: me.MaskDesign, masks: str, example: tuple[me.models.PPCA, Tokens]
) -> None:
    """Of 19 numbers, |z| < 4 fails by chance once in 300 runs."""
    model, tokens = example
    exact = me.Likelihood()(model, tokens)
    expected = np.append(flat_gradient(exact, model), exact.item())
    draws = draws_of(me.MaskedObjective(design, seed=11, masks=masks), model, tokens)
    assert np.abs(z_scores(draws, expected)).max() < 4


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("design", ONE_SIZE, ids=repr)
def test_one_size_is_unbiased_for_its_own_sum_and_not_for_the_likelihood(
    design: me.FixedRate | me.Rates, example: tuple[me.models.PPCA, Tokens]
) -> None:
    model, tokens = example
    sizes = [2] if isinstance(design, me.FixedRate) else [1, 3]
    slow = D / len(sizes) * exhaustive_loss(model, tokens, sizes)
    expected = np.append(flat_gradient(slow, model), slow.item())
    exact = me.Likelihood()(model, tokens)
    evidence = np.append(flat_gradient(exact, model), exact.item())
    draws = draws_of(me.MaskedObjective(design, seed=3), model, tokens)
    assert np.abs(z_scores(draws, expected)).max() < 4
    assert np.abs(z_scores(draws, evidence)).max() > 10


@pytest.mark.parametrize(
    "design", [me.EverySize(3), me.RandomSize(4, 4), me.FixedRate(0.4), me.LeaveOneOut()]
)
def test_moments_give_the_loss_of_their_rows(design: me.MaskDesign, build: BuildModel) -> None:
    model = build(D)
    rows = np.random.default_rng(1).normal(size=(30, D))
    objective = me.MaskedObjective(design, masks="shared", seed=2)
    whole = objective(model, rows, step=5)
    fast = objective(model, me.GaussianMoments.from_rows(rows), step=5)
    torch.testing.assert_close(fast, whole, rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(flat_gradient(fast, model), flat_gradient(whole, model), rtol=1e-8, atol=1e-9)


def test_each_call_draws_new_masks_and_a_step_draws_its_own_again(
    example: tuple[me.models.PPCA, Tokens],
) -> None:
    model, tokens = example
    objective = me.MaskedObjective(me.RandomSize(1, 1), seed=9)
    losses = [objective(model, tokens).item() for _ in range(4)]
    assert len(set(losses)) == 4
    assert losses == [objective(model, tokens, step=step).item() for step in range(4)]
    assert losses != [me.MaskedObjective(objective.design, seed=10)(model, tokens).item() for _ in range(4)]


def test_a_row_has_the_same_masks_in_any_batch(example: tuple[me.models.PPCA, Tokens]) -> None:
    model, tokens = example
    objective = me.MaskedObjective(me.RandomSize(1, 1), seed=9)
    whole = objective(model, tokens, step=3).item()
    parts = [objective(model, tokens[torch.tensor([row])], step=3).item() for row in (2, 0, 3, 1)]
    assert np.mean(parts) == pytest.approx(whole, rel=1e-12)


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda m, x: me.MaskedObjective("every-size"), "give a MaskDesign"),
        (lambda m, x: me.MaskedObjective(me.EverySize())(torch.nn.Linear(1, 1), x), "Linear lacks"),
        (
            lambda m, x: me.MaskedObjective(me.EverySize())(m, me.GaussianMoments.from_rows(x)),
            "masks='shared'",
        ),
        (lambda m, x: me.Likelihood()(torch.nn.Linear(1, 1), x), "no closed form"),
        (lambda m, x: me.Likelihood()(m, me.GaussianMoments.from_rows(x)), "the rows themselves"),
        (lambda m, x: me.MaskedObjective(me.Exhaustive())(m, np.ones((2, 21))), "too many to enumerate"),
    ],
)
def test_what_cannot_be_computed_is_one_clear_line(
    call: Callable[[torch.nn.Module, np.ndarray], object], message: str
) -> None:
    model = me.models.PPCA(D, 2)
    one_line(lambda: call(model, np.random.default_rng(0).normal(size=(5, D))), match=message)
