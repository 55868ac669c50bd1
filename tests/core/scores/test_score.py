"""The score of a mask from log-conditionals, the record of a run, and tokens from a model's data."""

from collections.abc import Callable
from typing import ClassVar

import numpy as np
import pytest
import torch

import maskevidence as me
import oracles
from maskevidence.core.model import as_tokens
from maskevidence.core.tokens import Tokens


def random_masks(tokens: Tokens, seed: int) -> torch.Tensor:
    """A random non-empty subset of each row's maskable tokens."""
    rng = np.random.default_rng(seed)
    masked = tokens.maskable.numpy() & (rng.random(tokens.maskable.shape) < 0.5)
    for row in np.flatnonzero(~masked.any(1)):
        masked[row, rng.choice(np.flatnonzero(tokens.maskable[row].numpy()))] = True
    return torch.from_numpy(masked)


class Constant(torch.nn.Module):
    """A model with the same log-probability for every token, masked or not."""

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


@pytest.mark.parametrize("with_bytes", [(True, True), (True, False), (False, False)])
def test_records_are_joined_and_rows_selected(with_bytes: tuple[bool, bool]) -> None:
    parts = [
        me.ScoreTable(*np.arange(12).reshape(4, 3), np.arange(3) / 7, np.arange(3) if has_bytes else None)
        for has_bytes in with_bytes
    ]
    both = me.ScoreTable.join(parts)
    assert (both.n_bytes is not None) == all(with_bytes)
    for rows, part in ((np.arange(3), parts[0]), (np.arange(6) >= 3, parts[1])):
        again = both.select(rows)
        for name in ("id", "draw", "size", "n_tokens", "score"):
            np.testing.assert_array_equal(getattr(again, name), getattr(part, name))
    np.testing.assert_array_equal(both.select(np.array([5, 0])).score, [2 / 7, 0.0])


class TestAsTokens:
    table: ClassVar = [[1.0, float("nan")], [0.5, 2.0]]

    def test_tokens_stay_as_they_are(self) -> None:
        tokens = Tokens.from_array(self.table)
        assert as_tokens(me.models.PPCA(2, 1), tokens) is tokens

    def test_a_table_is_read_by_the_model(self) -> None:
        """A model in single precision casts the values after it has centred them."""
        single = me.models.PPCA(n_features=2, n_components=1).float()
        assert as_tokens(single, self.table).values.dtype == torch.float64
        estimate = me.estimate_evidence(single, self.table, me.Exhaustive())
        exact = me.estimate_evidence(single.double(), self.table, me.Exhaustive())
        np.testing.assert_allclose(estimate.log_evidence, exact.log_evidence, rtol=1e-6)

    def test_a_model_without_the_method_gets_double_precision(self) -> None:
        class WithEmbedding(torch.nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.tokens = torch.nn.Embedding(2, 1)

        for model in (Constant(-1.0), WithEmbedding()):
            tokens = as_tokens(model, self.table)
            assert tokens.values.dtype == torch.float64
            assert tokens.n_tokens.tolist() == [1, 2]


class Answers(Constant):
    """A model whose answer has a wrong form."""

    def __init__(self, change: Callable[[torch.Tensor], object]) -> None:
        super().__init__(-1.0)
        self.change = change

    def log_conditionals(self, tokens: Tokens, masked: torch.Tensor) -> torch.Tensor:
        return self.change(super().log_conditionals(tokens, masked))  # type: ignore[return-value]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda answer: answer[:, 0], r"shape \(4,\)"),
        (lambda answer: answer[:, :1], r"shape \(4, 1\)"),
        (lambda answer: answer[:1], r"shape \(1, 3\)"),
        (lambda answer: answer.detach().numpy(), "ndarray"),
        (lambda answer: None, "NoneType"),
    ],
)
def test_an_answer_of_another_form_is_refused(change: Callable[[torch.Tensor], object], words: str) -> None:
    tokens = Tokens.from_array(np.zeros((4, 3)))
    with pytest.raises(me.InputError, match=rf"Answers answers {words}; it must give a torch tensor"):
        me.score_masks(Answers(change), tokens, tokens.maskable)


def test_an_unknown_word_for_conditionals() -> None:
    model = Constant(-1.0)
    model.conditionals = "exakt"  # type: ignore[misc]
    with pytest.raises(me.InputError, match="conditionals of Constant, 'exakt'; did you mean 'exact'"):
        me.estimate_evidence(model, np.zeros((4, 3)))


def test_seeds_of_numpy_are_whole_numbers() -> None:
    model = me.models.PPCA(3, 1, seed=np.int64(1))  # type: ignore[arg-type]
    x = model.sample(5, seed=np.int64(2))  # type: ignore[arg-type]
    np.testing.assert_array_equal(x, me.models.PPCA(3, 1, seed=1).sample(5, seed=2))
    one, other = (me.estimate_evidence(model, x, seed=seed) for seed in (np.int64(7), 7))
    assert one.log_evidence == other.log_evidence
    assert type(one.seed) is int
    with pytest.raises(me.InputError, match=r"seed=1\.5; give a whole number"):
        me.estimate_evidence(model, x, seed=1.5)  # type: ignore[arg-type]


def test_a_model_in_half_precision_is_scored_in_single() -> None:
    """numpy has no bfloat16, and 2,000 terms of a sum have more digits than it."""

    class Constant:
        conditionals = "learned"

        def log_conditionals(self, tokens: me.Tokens, masked: torch.Tensor) -> torch.Tensor:
            return torch.where(masked, -1.25, 0.0).bfloat16()

    estimate = me.estimate_evidence(Constant(), np.zeros((8, 2_000)), me.RandomSize(4), check=False)
    assert estimate.log_evidence == pytest.approx(-2_500, rel=1e-6)
