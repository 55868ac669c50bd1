"""High rates: a model that was trained at low rates alone is noted, one that knows the frequencies is not."""

import math
from collections.abc import Callable
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import Tensor

from maskevidence.core.check.findings import Finding
from maskevidence.core.check.trial import new_trial
from maskevidence.core.tokens import Tokens
from maskevidence.texts import high_rates

N_VALUES, N_TEXTS = 50, 60
SHARES = 1 / np.arange(1, N_VALUES + 1) / (1 / np.arange(1, N_VALUES + 1)).sum()
TOKENIZER = range(N_VALUES)  # of which the check reads the length

Answers = Callable[[Tokens, Tensor], Tensor]


def texts(rng: np.random.Generator, shares: np.ndarray = SHARES) -> Tokens:
    """Texts of 20 to 40 tokens, drawn independently."""
    values = torch.from_numpy(rng.choice(N_VALUES, size=(N_TEXTS, 40), p=shares))
    present = torch.arange(40) < torch.from_numpy(rng.integers(20, 41, size=(N_TEXTS, 1)))
    return Tokens(values, present, torch.zeros_like(present), torch.arange(N_TEXTS))


def found(answers: Answers, tokens: Tokens, seed: int = 0, **attributes: object) -> Finding:
    """The finding on a model that answers log-probabilities of hidden tokens."""

    def log_conditionals(tokens: Tokens, masked: Tensor) -> Tensor:
        return torch.where(masked, answers(tokens, masked), 0.0)

    model = SimpleNamespace(conditionals="learned", tokenizer=TOKENIZER, log_conditionals=log_conditionals)
    vars(model).update(attributes)
    return high_rates.high_rates(new_trial(model, tokens, seed=seed, tolerance=0.0))


def log_frequencies(rng: np.random.Generator) -> Tensor:
    """Of the tokens of other texts, with noise of a tenth, as a trained network knows them."""
    noisy = torch.from_numpy(np.log(SHARES) + 0.1 * rng.normal(size=N_VALUES))
    return torch.log_softmax(noisy, 0)


def of_frequencies(rng: np.random.Generator) -> Answers:
    log_p = log_frequencies(rng)
    return lambda tokens, masked: log_p[tokens.values]


def of_low_rates(rng: np.random.Generator) -> Answers:
    """Knows a token well among visible ones; answers by chance where three quarters are hidden."""
    log_p = log_frequencies(rng)

    def answers(tokens: Tokens, masked: Tensor) -> Tensor:
        rate = (masked.sum(1) / tokens.n_tokens)[:, None]
        return torch.where(rate < 0.75, log_p[tokens.values] / 2, -math.log(N_VALUES))

    return answers


def test_a_model_of_low_rates_is_noted() -> None:
    for seed in range(20):
        rng = np.random.default_rng(seed)
        finding = found(of_low_rates(rng), texts(rng), seed)
        assert finding.status == "noted"
        assert "% hidden, the answers (-3.91 nats a token) are worse than the token" in finding.found
        assert finding.found.endswith("the model was not trained there")
        assert "leave-one-out" in finding.look_at


def test_a_model_that_knows_the_frequencies_up_to_noise_is_not() -> None:
    for seed in range(40):
        rng = np.random.default_rng(seed)
        finding = found(of_frequencies(rng), texts(rng), seed)
        assert finding.status == "passed", finding


def test_a_model_of_other_texts_is_told_so() -> None:
    rng = np.random.default_rng(0)
    finding = found(lambda tokens, masked: torch.full(masked.shape, -9.0), texts(rng))
    assert finding.status == "noted"
    assert finding.found.endswith("the model was not trained on such texts")


@pytest.mark.slow
def test_the_level_is_kept_at_the_margin() -> None:
    """A model that is worse by exactly the margin on average has z with the distribution of Student's t."""
    shares, z = np.full(N_VALUES, 1 / N_VALUES), []
    for seed in range(300):
        rng = np.random.default_rng(seed)
        of_row = torch.from_numpy(rng.normal(scale=0.3, size=(N_TEXTS, 1)))

        def answers(tokens: Tokens, masked: Tensor, of_row: Tensor = of_row) -> Tensor:
            return -math.log(N_VALUES) - 0.1 + of_row[tokens.ids] + torch.zeros(masked.shape)

        finding = found(answers, texts(rng, shares), seed)
        assert finding.status == "passed"
        z.append(finding.z)
    below = np.mean(np.array(z) < -1.696)  # 5 % of Student's t with 31 degrees of freedom
    assert below < 0.05 + 3 * math.sqrt(0.05 * 0.95 / 300)
    assert below > 0.01  # both rates see the same rows, whose numbers are nearly equal


def test_the_tokens_of_a_text_are_not_among_its_frequencies() -> None:
    """Each text repeats a token of its own: its frequencies, seen with the text, would be far better."""
    values = torch.arange(40)[:, None].expand(40, 30).clone()
    every = torch.ones_like(values, dtype=torch.bool)
    tokens = Tokens(values, every, ~every, torch.arange(40))
    uniform = found(lambda tokens, masked: torch.full(masked.shape, -math.log(N_VALUES)), tokens)
    assert uniform.status == "passed"
    smoothed = (39 / N_VALUES) / (39 * 30 + 39)
    assert f"({math.log(smoothed):.2f})" in uniform.found


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"tokenizer": None}, "no tokenizer"),
        ({"conditionals": "exact"}, "no learned conditionals"),
        ({"widened": True}, "no learned conditionals"),
    ],
)
def test_other_models_are_skipped(change: dict[str, object], why: str) -> None:
    rng = np.random.default_rng(0)
    finding = found(of_frequencies(rng), texts(rng), **change)
    assert finding.status == "skipped"
    assert why in finding.found


def test_few_texts_and_answers_of_no_probability_are_skipped() -> None:
    rng = np.random.default_rng(0)
    tokens = texts(rng)
    few = found(of_frequencies(rng), tokens[torch.arange(7)])
    assert few.status == "skipped"
    assert "fewer than 8 texts" in few.found
    impossible = found(lambda tokens, masked: torch.full(masked.shape, -math.inf), tokens)
    assert impossible.status == "skipped"


def test_the_smoothed_frequencies_add_up_to_one() -> None:
    """Each of 50 values is in each of 60 texts; 10 more values of the vocabulary are in none."""
    every = torch.ones(N_TEXTS, N_VALUES, dtype=torch.bool)
    tokens = Tokens(torch.arange(N_VALUES).expand(N_TEXTS, -1), every, ~every, torch.arange(N_TEXTS))
    trial = new_trial(SimpleNamespace(), tokens, tolerance=0.0)
    log_p = high_rates._log_frequencies(trial, np.arange(4), N_VALUES + 10)
    unseen = (N_VALUES / (N_VALUES + 10)) / (59 * N_VALUES + N_VALUES)
    assert np.allclose(np.exp(log_p).sum(1) + 10 * unseen, 1)
