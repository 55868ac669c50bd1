"""From log-conditionals to the score of a mask, and the record of a run."""

import numpy as np
import pytest
import torch

import maskevidence as me
import oracles
from maskevidence.tokens import Tokens


def random_masks(tokens: Tokens, seed: int) -> torch.Tensor:
    """A random non-empty subset of each row's maskable tokens."""
    rng = np.random.default_rng(seed)
    masked = tokens.maskable.numpy() & (rng.random(tokens.maskable.shape) < 0.5)
    for row in np.flatnonzero(~masked.any(1)):
        masked[row, rng.choice(np.flatnonzero(tokens.maskable[row].numpy()))] = True
    return torch.from_numpy(masked)


class Constant(torch.nn.Module):
    """A model that says the same of every token, masked or not."""

    conditionals = "learned"

    def __init__(self, value: float) -> None:
        super().__init__()
        self.value = torch.nn.Parameter(torch.tensor(value, dtype=torch.float64))

    def log_conditionals(self, tokens: Tokens, masked: torch.Tensor) -> torch.Tensor:
        return self.value.expand(masked.shape)


def test_scores_and_their_gradients_equal_the_block_matrices(build, mixed_tokens) -> None:
    model, tokens = build(6), mixed_tokens(8, 6)
    masked = random_masks(tokens, 1)
    scores = me.score_masks(model, tokens, masked)
    np.testing.assert_allclose(scores.detach(), oracles.scores(model, tokens, masked), rtol=1e-11)
    scores.sum().backward()
    for parameter in model.parameters():
        expected = oracles.numerical_gradient(
            lambda: float(oracles.scores(model, tokens, masked).sum()), parameter
        )
        np.testing.assert_allclose(parameter.grad, expected, rtol=1e-6, atol=1e-7)


def test_only_masked_tokens_count() -> None:
    tokens = Tokens.from_array(np.zeros((2, 4)))
    masked = torch.tensor([[True, False, False, False], [True, True, True, False]])
    assert me.score_masks(Constant(-2.0), tokens, masked).tolist() == [-2.0, -2.0]


@pytest.mark.parametrize(
    "masked",
    [
        [[True, False, False], [False, False, False]],  # an empty mask
        [[True, False, False], [False, True, False]],  # an absent token
        [[True, False, False], [False, False, True]],  # a context token
    ],
)
def test_a_mask_that_cannot_be_scored_is_refused(masked: list) -> None:
    tokens = Tokens(
        values=torch.zeros(2, 3),
        maskable=torch.tensor([[True, True, True], [True, False, False]]),
        context=torch.tensor([[False, False, False], [False, False, True]]),
        ids=torch.arange(2),
    )
    with pytest.raises(me.InputError, match="a mask is empty or hides a token that is not maskable"):
        me.score_masks(Constant(-1.0), tokens, torch.tensor(masked))


@pytest.mark.parametrize("value", [float("-inf"), float("nan"), float("inf")])
def test_a_probability_without_finite_logarithm_names_token_and_observation(value: float) -> None:
    tokens = Tokens.from_array(np.zeros((2, 3)), ids=[40, 41])
    masked = torch.tensor([[False, True, False], [False, False, True]])
    with pytest.raises(me.NumericalError, match=f"of token 1 of observation 40 is {value}"):
        me.score_masks(Constant(value), tokens, masked)


def test_a_record_is_sorted_by_observation_draw_and_size() -> None:
    rng = np.random.default_rng(0)
    keys = np.array([(i, k, m) for i in (2, 5, 9) for k in range(3) for m in (1, 2, 4)])
    order = rng.permutation(len(keys))
    shuffled = me.ScoreTable(*keys[order].T, np.full(len(keys), 4), order.astype(np.float64))
    table = shuffled.sorted()
    np.testing.assert_array_equal(np.stack([table.id, table.draw, table.size], axis=1), keys)
    np.testing.assert_array_equal(table.score, np.arange(len(keys)))
    assert len(table) == len(keys)
