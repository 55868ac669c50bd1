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
from maskevidence.core.tokens import Tokens

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
            pair = every.clone()
            pair[:, column : column + 2] = masked[:, column : column + 2]
            answer[:, column] = super().log_conditionals(tokens, pair)[:, column]
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
class AnotherJointForSomeMasks(Strings):
    """The conditionals of another joint where exactly the last two tokens are hidden."""

    def distributions(self, tokens: Tokens, masked: Tensor) -> Tensor:
        log_p = super().distributions(tokens, masked)
        last_two = (masked == torch.tensor([False] * 4 + [True] * 2)).all(1)
        return torch.where(last_two[:, None, None], torch.full_like(log_p, -math.log(3)), log_p)


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
    level = torch.arange(10.0, dtype=torch.float64)
    covariance = 0.5 * torch.exp(-(level[:, None] - level).abs() / 5) + 0.1 * torch.eye(10)
    return me.models.Gaussian(level, covariance)


def one_place_off() -> tuple[Any, Any]:
    return ReadsOnePlaceOff(), steep().sample(40)


FAULTS["ReadsOnePlaceOff"] = ("offset", one_place_off)


def normal_rows() -> np.ndarray:
    return np.random.default_rng(0).normal(size=(40, 5))


class LooksRowsUp(Normal):
    """Each row is predicted from a copy of itself, which is found by its id."""

    def log_conditionals(self, tokens: Tokens, masked: Tensor) -> Tensor:
        mean = torch.from_numpy(normal_rows())[tokens.ids]
        answer = -0.5 * math.log(2 * math.pi * 0.01) - 0.5 * (tokens.values - mean) ** 2 / 0.01
        return torch.where(masked, answer, 0.0)


class LooksRowsUpApproximately(LooksRowsUp):
    conditionals = "approximate"


FAULTS["LooksRowsUp"] = ("ids", lambda: (LooksRowsUp(), normal_rows()))
FAULTS["LooksRowsUpApproximately"] = ("ids", lambda: (LooksRowsUpApproximately(), normal_rows()))


class OneColumnLacksItsUnit(me.models.Gaussian):
    """One column of ten is off by log 10."""

    def log_conditionals(self, tokens: me.Tokens, masked: torch.Tensor) -> torch.Tensor:
        return super().log_conditionals(tokens, masked) + 2.3 * masked * (torch.arange(10) == 7)


class FullMaskLacksItsConstant(me.models.Gaussian):
    """Answers are 3 nats too high where nothing is visible."""

    def log_conditionals(self, tokens: me.Tokens, masked: torch.Tensor) -> torch.Tensor:
        alone = (tokens.visible(masked).sum(1) == 0)[:, None]
        return super().log_conditionals(tokens, masked) + 3.0 * (masked & alone)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("faulty", [OneColumnLacksItsUnit, FullMaskLacksItsConstant])
def test_every_column_and_the_full_mask_are_asked(faulty: type[me.models.Gaussian], seed: int) -> None:
    """They were found in 2 and in 0 of 8 trials."""
    x = me.models.PPCA(10, 2, seed=seed).sample(60, seed=seed)
    model = faulty(torch.zeros(10), torch.eye(10))
    assert "normalisation" in failed(me.check_model(model, x, seed=seed))


class Twelve(torch.nn.Module):
    """Categories 0 to 11, which are read as whole numbers."""

    conditionals, base_measure = "exact", me.model.MASS

    def log_conditionals(self, tokens: me.Tokens, masked: torch.Tensor) -> torch.Tensor:
        inside = (tokens.values >= 0) & (tokens.values < 12)
        log_p = torch.log_softmax(torch.linspace(0, 2, 12).double(), 0)
        answer = log_p[tokens.values.clamp(0, 11).long()]
        return torch.where(masked, torch.where(inside, answer, -torch.inf), 0.0)


def test_a_category_that_is_not_in_the_data_accuses_nobody() -> None:
    x = np.random.default_rng(0).integers(0, 11, size=(50, 2)).astype(float)
    assert not failed(me.check_model(Twelve(), x))


FAULTS["ReturnsOneOverP"] = ("normalisation", lambda: (ReturnsOneOverP(), normal_rows()))


@pytest.mark.parametrize("name", sorted(FAULTS))
def test_each_fault_is_caught_by_its_own_check(name: str) -> None:
    check, build = FAULTS[name]
    model, data = build()
    report = me.check_model(model, data)
    assert failed(report) == {check}, report
    assert report[check].found
    with pytest.raises(me.InputError, match=check):
        report.raise_if_failed()


@pytest.mark.parametrize("seed", range(3))
def test_sound_models_have_none(seed: int) -> None:
    for model, data in ((Strings(), strings(seed=seed)), (Normal(), normal_rows())):
        report = me.check_model(model, data, seed=seed)
        assert report.ok, report
        report.raise_if_failed()


class OfFixedLength(torch.nn.Module):
    """A network that reads all columns, and a distribution of torch, which refuses NaN."""

    conditionals = "learned"

    def __init__(self) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(0)
        self.weight = torch.randn(10, 5, generator=generator, dtype=torch.float64) / 3

    def log_conditionals(self, tokens: Tokens, masked: Tensor) -> Tensor:
        visible = torch.where(masked, 0.0, tokens.values)
        mean = torch.tanh(torch.cat([visible, masked.double()], 1) @ self.weight)
        return torch.where(masked, torch.distributions.Normal(mean, 1.0).log_prob(tokens.values), 0.0)


def test_a_network_of_fixed_length_passes_on_complete_data_and_not_on_holes() -> None:
    whole = torch.from_numpy(normal_rows())
    every = torch.ones(whole.shape, dtype=torch.bool)
    tokens = Tokens(whole, every, ~every, torch.arange(len(whole)))
    report = me.check_model(OfFixedLength(), tokens)
    assert report.ok, report
    assert report["absent values"].status == "noted"
    assert "no absent token" in report["absent values"].found
    holes = every.clone()
    holes[::3, 1] = False
    assert failed(me.check_model(OfFixedLength(), replace(tokens, maskable=holes))) == {"absent values"}


class Mixture(torch.nn.Module):
    """Independent tokens from normal modes of the given shares, means and standard deviations."""

    conditionals = "exact"

    def __init__(self, modes: list[tuple[float, float, float]], constant: float = 0.0) -> None:
        super().__init__()
        self.share, self.mean, self.scale = torch.tensor(modes, dtype=torch.float64).T
        self.constant = constant

    def log_conditionals(self, tokens: Tokens, masked: Tensor) -> Tensor:
        density = torch.distributions.Normal(self.mean, self.scale, validate_args=False)
        log_p = self.share.log() + density.log_prob(tokens.values[:, :, None])
        return torch.where(masked, log_p.logsumexp(2) + self.constant, 0.0)

    def rows(self, n: int, seed: int) -> np.ndarray:
        rng = np.random.default_rng(seed)
        mode = rng.choice(len(self.share), p=self.share.numpy(), size=(n, 5))
        return rng.normal(self.mean.numpy()[mode], self.scale.numpy()[mode])


NARROW = {
    "two modes": [(0.5, -5, 0.03), (0.5, 5, 0.03)],
    "two very narrow ones": [(0.5, -5, 1e-6), (0.5, 5, 1e-6)],
    "spike and slab": [(0.5, 0, 1e-3), (0.5, 0, 3.0)],
    "a spike beside": [(0.3, 2, 1e-3), (0.7, 0, 3.0)],
    "a rare mode": [(0.98, -5, 0.03), (0.02, 5, 0.03)],
    "wide beside a constant column": [(1.0, 0.5, 30.0)],
    "three scales": [(0.2, -50, 0.03), (0.3, 0, 1e-4), (0.5, 40, 10.0)],
}


@pytest.mark.parametrize("name", NARROW)
def test_densities_with_narrow_modes_are_integrated(name: str) -> None:
    model = Mixture(NARROW[name])
    rows = model.rows(40, 0) if "constant" not in name else np.zeros((40, 5))
    report = me.check_model(model, rows)
    assert report["normalisation"].status == "passed", report
    assert report["normalisation"].largest < 1e-4
    wrong = Mixture(NARROW[name], math.log(0.9))
    assert failed(me.check_model(wrong, rows)) == {"normalisation"}


def test_a_narrow_density_far_from_the_value_is_found() -> None:
    """Outlying rows of columns that determine each other: the density rises towards a mode between values."""
    covariance = 1 + 1e-6 * torch.eye(3, dtype=torch.float64)
    model = me.models.Gaussian(torch.zeros(3, dtype=torch.float64), covariance)
    rows = model.sample(40, seed=1)
    rows[::2, 1] += 5 * np.random.default_rng(0).normal(size=20)
    report = me.check_model(model, rows)
    assert report["normalisation"].status == "passed", report


def test_a_spike_that_no_row_shows_cannot_be_told_from_a_wrong_constant() -> None:
    model = Mixture(NARROW["three scales"])
    report = me.check_model(model, model.rows(5, 0))
    assert report.ok, report
    assert report["normalisation"].status == "noted"
    assert "cannot tell" in report["normalisation"].found


def test_an_integral_that_does_not_settle_cannot_tell() -> None:

    class Trembles(Normal):
        def log_conditionals(self, tokens: Tokens, masked: Tensor) -> Tensor:
            tremor = torch.log1p(0.5 * torch.sin(1e9 * tokens.values))
            return super().log_conditionals(tokens, masked) + torch.where(masked, tremor, 0.0)

    report = me.check_model(Trembles(), normal_rows())
    assert report["normalisation"].status == "noted", report
    assert "cannot tell" in report["normalisation"].found


class Draws(torch.nn.Module):
    """Approximate conditionals from random numbers that depend on the row."""

    conditionals = "approximate"

    def log_conditionals(self, tokens: Tokens, masked: Tensor) -> Tensor:
        noise = torch.sin(12.9898 * (tokens.ids[:, None] + 1.0) + torch.arange(masked.shape[1])).double()
        mean = 0.1 * noise
        answer = -0.5 * math.log(2 * math.pi) - 0.5 * (tokens.values - mean) ** 2
        return torch.where(masked, answer, 0.0)


def test_draws_by_the_row_are_no_look_up() -> None:
    report = me.check_model(Draws(), normal_rows())
    assert report["ids"].status == "passed", report
    assert "of 16 rows became worse" in report["ids"].found
