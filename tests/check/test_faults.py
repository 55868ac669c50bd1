"""Every seeded fault is caught by the check that is meant for it, and a sound model has none."""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import maskevidence as me
from checked_models import Strings, strings
from maskevidence.tokens import Tokens

FAULTS: dict[str, tuple[str, Callable[[], tuple[Any, Any]]]] = {}


def fault(check: str) -> Callable[[type], type]:
    """Register a faulty model of strings, and the check that has to catch it."""

    def register(model: type) -> type:
        FAULTS[model.__name__] = (check, lambda: (model(), strings()))
        return model

    return register


def failed(report: me.CheckReport) -> set[str]:
    return {finding.check for finding in report.failed}


@fault("leak")
class PeeksAtHiddenValues(Strings):
    """The token on the left is read, hidden or not; the model calls itself exact."""

    def log_conditionals(self, tokens: Tokens, masked: Tensor) -> Tensor:
        every = torch.zeros_like(masked)
        answer = torch.zeros(masked.shape, dtype=torch.float64)
        for column in range(masked.shape[1]):
            one = every.clone()
            one[:, column : column + 2] = masked[:, column : column + 2]
            answer[:, column] = super().log_conditionals(tokens, one)[:, column]
        return torch.where(masked, answer, 0.0)


@fault("shape")
class AnswersOneColumn(Strings):
    def log_conditionals(self, tokens: Tokens, masked: Tensor) -> Tensor:
        return super().log_conditionals(tokens, masked).sum(1, keepdim=True)


@fault("shape")
class AnswersInHalfPrecision(Strings):
    def log_conditionals(self, tokens: Tokens, masked: Tensor) -> Tensor:
        return super().log_conditionals(tokens, masked).half()


@fault("word")
class SaysExakt(Strings):
    conditionals = "exakt"


@fault("zeros")
class ScoresVisibleTokens(Strings):
    def log_conditionals(self, tokens: Tokens, masked: Tensor) -> Tensor:
        return super().log_conditionals(tokens, masked) - 0.1 * tokens.context.double()


@fault("own value")
class AlwaysTakesColumnZero(Strings):
    def log_conditionals(self, tokens: Tokens, masked: Tensor) -> Tensor:
        first = replace(tokens, values=tokens.values[:, :1].expand(-1, tokens.width))
        return self.at_own(self.distributions(tokens, masked), first, masked)


@fault("own value")
class ScoresNinetyPercent(Strings):
    """Every tenth observation has its last hidden token left out; the sum looks a little better."""

    def log_conditionals(self, tokens: Tokens, masked: Tensor) -> Tensor:
        answer = super().log_conditionals(tokens, masked)
        kept = masked.cumsum(1) <= torch.ceil(0.9 * masked.sum(1, keepdim=True) - 0.5).clamp(min=1)
        return torch.where(kept, answer, 0.0)


@fault("cache")
class KeepsAStaleCache(Strings):
    def __init__(self) -> None:
        super().__init__()
        self.cache: dict[Any, Tensor] = {}

    def log_conditionals(self, tokens: Tokens, masked: Tensor) -> Tensor:
        key = (tuple(tokens.ids.tolist()), masked.numpy().tobytes())
        if key not in self.cache:
            self.cache[key] = super().log_conditionals(tokens, masked)
        return self.cache[key]


@fault("determinism")
class DropoutOn(Strings):
    def __init__(self) -> None:
        super().__init__()
        self.dropout = torch.nn.Dropout(0.1)

    def distributions(self, tokens: Tokens, masked: Tensor) -> Tensor:
        return torch.log_softmax(self.dropout(super().distributions(tokens, masked).clamp(min=-30)), 2)


@fault("determinism")
class DrawsAnew(Strings):
    conditionals = "approximate"

    def log_conditionals(self, tokens: Tokens, masked: Tensor) -> Tensor:
        answer = super().log_conditionals(tokens, masked)
        return torch.where(masked, answer - 0.01 * torch.rand(answer.shape), 0.0)


@fault("normalisation")
class HasAnUnnormalisedHead(Strings):
    """Logits in the place of log-probabilities."""

    def distributions(self, tokens: Tokens, masked: Tensor) -> Tensor:
        return super().distributions(tokens, masked) + 0.5


@fault("units")
class TakesLogarithmsToBaseTwo(Strings):
    def log_conditionals(self, tokens: Tokens, masked: Tensor) -> Tensor:
        return super().log_conditionals(tokens, masked) / math.log(2)


@fault("batch")
class NormalisesOverTheBatch(Strings):
    def log_conditionals(self, tokens: Tokens, masked: Tensor) -> Tensor:
        answer = super().log_conditionals(tokens, masked)
        return torch.where(masked, answer - 0.01 * answer.mean(), 0.0)


@fault("absent values")
class ReadsPadding(Strings):
    def distributions(self, tokens: Tokens, masked: Tensor) -> Tensor:
        absent = ~(tokens.maskable | tokens.context)
        log_p = super().distributions(tokens, masked)
        tilt = torch.where(absent, tokens.values, 0).sum(1)[:, None, None] * torch.arange(3)
        return torch.log_softmax(log_p + 0.1 * tilt, 2)


@fault("context")
class IgnoresContext(Strings):
    def distributions(self, tokens: Tokens, masked: Tensor) -> Tensor:
        return super().distributions(replace(tokens, context=torch.zeros_like(tokens.context)), masked)


@fault("closed form")
class CountsThePrompt(Strings):
    """The log evidence of tokens and prompt together."""

    def log_evidence(self, tokens: Tokens) -> Tensor:
        return self.log_sum(tokens.values, tokens.maskable | tokens.context)


@fault("one joint")
class LearnedButSaysExact(Strings):
    def distributions(self, tokens: Tokens, masked: Tensor) -> Tensor:
        return torch.log_softmax(1.1 * super().distributions(tokens, masked).clamp(min=-30), 2)


@fault("orders")
class AnotherJointPerSize(Strings):
    """Exact conditionals of two joints, one for small masks and one for large ones."""

    def distributions(self, tokens: Tokens, masked: Tensor) -> Tensor:
        log_p = super().distributions(tokens, masked)
        return torch.where(masked.sum(1)[:, None, None] > 3, torch.full_like(log_p, -math.log(3)), log_p)


@fault("finite")
class OverflowsAtTheEdge(Strings):
    def log_conditionals(self, tokens: Tokens, masked: Tensor) -> Tensor:
        answer = super().log_conditionals(tokens, masked)
        return torch.where(masked & (tokens.values == 2), torch.nan, answer)


@fault("units")
class SaysDensity(Strings):
    base_measure = me.model.DENSITY


class Normal(torch.nn.Module):
    """Independent standard normal tokens."""

    conditionals = "exact"

    def log_conditionals(self, tokens: Tokens, masked: Tensor) -> Tensor:
        answer = -0.5 * math.log(2 * math.pi) - 0.5 * tokens.values**2
        return torch.where(masked, answer, 0.0)


class ReturnsOneOverP(Normal):
    def log_conditionals(self, tokens: Tokens, masked: Tensor) -> Tensor:
        return -super().log_conditionals(tokens, masked)


class ReadsOnePlaceOff(torch.nn.Module):
    """The density of the next column is taken at each value; that of a visible column is narrow."""

    conditionals = "learned"

    def __init__(self) -> None:
        super().__init__()
        self.right = steep()

    def log_conditionals(self, tokens: Tokens, masked: Tensor) -> Tensor:
        moved = torch.where(masked, tokens.values.roll(1, 1), tokens.values)
        of_next = self.right.log_conditionals(replace(tokens, values=moved), masked).roll(-1, 1)
        of_visible = 1.4 - 50 * (tokens.values - tokens.values.roll(-1, 1)) ** 2
        return torch.where(masked, torch.where(masked.roll(-1, 1), of_next, of_visible), 0.0)


def steep() -> me.models.Gaussian:
    """Columns that rise steadily, each around a level of its own."""
    place = torch.arange(10.0, dtype=torch.float64)
    covariance = 0.5 * torch.exp(-(place[:, None] - place).abs() / 5) + 0.1 * torch.eye(10)
    return me.models.Gaussian(place, covariance)


def one_place_off() -> tuple[Any, Any]:
    return ReadsOnePlaceOff(), steep().sample(40)


FAULTS["ReadsOnePlaceOff"] = ("offset", one_place_off)


def normal_rows() -> np.ndarray:
    return np.random.default_rng(0).normal(size=(40, 5))


FAULTS["ReturnsOneOverP"] = ("normalisation", lambda: (ReturnsOneOverP(), normal_rows()))


@pytest.mark.parametrize("name", sorted(FAULTS))
def test_each_fault_is_caught_by_its_own_check(name: str) -> None:
    check, build = FAULTS[name]
    model, data = build()
    report = me.check_model(model, data)
    assert check in failed(report), report
    assert report[check].found
    with pytest.raises(me.InputError, match=check):
        report.raise_if_failed()


@pytest.mark.parametrize("seed", range(5))
def test_sound_models_have_none(seed: int) -> None:
    for model, data in ((Strings(), strings(seed=seed)), (Normal(), normal_rows())):
        report = me.check_model(model, data, seed=seed)
        assert report.ok, report
        report.raise_if_failed()


class Vectors(torch.nn.Module):
    """Tokens of four numbers, correlated with each other or not, and a constant to add."""

    conditionals = "exact"

    def __init__(self, correlation: float, constant: float) -> None:
        super().__init__()
        covariance = (1 - correlation) * torch.eye(4, dtype=torch.float64) + correlation
        self.density = torch.distributions.MultivariateNormal(torch.zeros(4, dtype=torch.float64), covariance)
        self.constant = constant

    def log_conditionals(self, tokens: Tokens, masked: Tensor) -> Tensor:
        values = torch.where(masked[:, :, None], tokens.values, 0.0)
        return torch.where(masked, self.density.log_prob(values) + self.constant, 0.0)


@pytest.mark.parametrize(
    ("correlation", "constant", "status"),
    [
        (0.0, 0.0, "passed"),
        (0.3, 0.0, "noted"),
        (0.0, 0.1, "failed"),
        (0.3, 2 * math.log(2 * math.pi), "failed"),
    ],
)
def test_the_total_probability_of_vectors(correlation: float, constant: float, status: str) -> None:
    values = torch.from_numpy(np.random.default_rng(0).standard_normal((40, 6, 4)))
    every = torch.ones(40, 6, dtype=torch.bool)
    tokens = Tokens(values, every, ~every, torch.arange(40))
    report = me.check_model(Vectors(correlation, constant), tokens)
    assert report["normalisation"].status == status, report
    assert failed(report) <= {"normalisation"}
