"""Decoding policies: equal to enumeration, proper probabilities, and what their own decoder writes."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy import stats
from torch import Tensor

import maskevidence as me
from learned_conditionals import Learned, every_row, rows
from maskevidence.core.errors import InputError
from maskevidence.core.tokens import Tokens

POLICIES = {
    "left-to-right": me.Policy("left-to-right"),
    "right-to-left": me.Policy("right-to-left"),
    "order": me.Policy("order", order=(2, 0, 3, 1)),
    "confidence": me.Policy("confidence"),
    "margin": me.Policy("margin"),
    "entropy": me.Policy("entropy"),
    "blocks": me.Policy("confidence", blocks=2),
    "two at once": me.Policy("entropy", tokens_per_step=2),
    "three at once in blocks": me.Policy("margin", blocks=3, tokens_per_step=2),
    "threshold": me.Policy("confidence", threshold=0.6),
    "threshold in blocks": me.Policy("confidence", blocks=3, threshold=0.5),
    "bound": me.Policy("entropy", bound=1.0),
    "bound in blocks": me.Policy("entropy", blocks=2, bound=1.0),
}


def urgency_of(policy: me.Policy, p: np.ndarray, place: int) -> float:
    """How much a policy wants to show a token next."""
    known = {"left-to-right": -place, "right-to-left": place}
    if policy.policy in known:
        return known[policy.policy]
    if policy.order is not None:
        return -policy.order.index(place)
    largest = np.sort(p)[::-1]
    measures = {"confidence": largest[0], "margin": largest[0] - largest[1], "entropy": (p * np.log(p)).sum()}
    return float(measures[policy.policy])


def shown_together(policy: me.Policy, urgency: list[float]) -> int:
    """How many tokens a step shows, of those in a block with these urgencies in descending order."""
    if policy.threshold is not None:
        return max(1, sum(confidence >= policy.threshold for confidence in urgency))
    if policy.bound is None:
        return policy.tokens_per_step
    entropies = [-value for value in urgency]
    prefixes = [entropies[:n] for n in range(1, len(entropies) + 1)]
    return max(len(some) for some in prefixes if sum(some) - max(some) <= policy.bound)


def step_by_step(model: Learned, tokens: Tokens, policy: me.Policy) -> float:
    """log p of one observation along a policy, the slow way: one token's distribution at a time."""
    places = torch.nonzero(tokens.maskable[0]).flatten().tolist()
    size = policy.blocks or len(places)
    total = 0.0
    for first in range(0, len(places), size):
        left = places[first : first + size]
        hidden_later = places[first + size :]
        while left:
            hidden = torch.zeros_like(tokens.maskable)
            hidden[0, left + hidden_later] = True
            listed = model.log_distributions(tokens, hidden).detach().exp().numpy()
            p = dict(zip(sorted(left + hidden_later), listed, strict=True))
            urgency = {j: round(urgency_of(policy, p[j], places.index(j)), 12) for j in left}
            chosen = [j for _, j in sorted((-value, j) for j, value in urgency.items())]
            chosen = chosen[: shown_together(policy, [urgency[j] for j in chosen])]
            total += sum(math.log(p[j][int(tokens.values[0, j])]) for j in chosen)
            left = [j for j in left if j not in chosen]
    return total


@pytest.mark.parametrize("name", POLICIES)
def test_a_policy_equals_the_chain_rule_along_its_order(name: str) -> None:
    model, tokens = Learned(4, 3), rows(6, 4, 3)
    maskable = tokens.maskable.clone()
    maskable[1, 2] = maskable[2, 0] = False
    context = torch.zeros_like(maskable)
    context[1, 2] = True
    tokens = replace(tokens, maskable=maskable, context=context)
    estimate = me.estimate_evidence(model, tokens, POLICIES[name], batch_size=4)
    expected = [step_by_step(model, tokens[row : row + 1], POLICIES[name]) for row in range(6)]
    np.testing.assert_allclose(estimate.per_observation, expected, atol=1e-10)
    assert (estimate.kind, estimate.mask_se) == ("policy", 0.0)
    n_steps = POLICIES[name].n_draws(tokens.n_tokens.numpy()).sum()
    fewer = name.startswith(("threshold", "bound"))
    assert (estimate.n_masks < n_steps) == fewer
    assert estimate.n_masks <= n_steps


class Rounded(Learned):
    """Conditionals of two values with few different probabilities: places are often equally certain."""

    def _log_probs(self, tokens: Tokens, masked: Tensor) -> Tensor:
        logits = super()._log_probs(tokens, masked).diff().round()
        return torch.cat([logits, -logits], -1).log_softmax(-1)


@pytest.mark.parametrize("name", [name for name in POLICIES if name != "order"])
def test_ties_go_to_the_earlier_token(name: str) -> None:
    model, tokens = Rounded(8, 2), rows(40, 8, 2)
    estimate = me.estimate_evidence(model, tokens, POLICIES[name])
    expected = [step_by_step(model, tokens[row : row + 1], POLICIES[name]) for row in range(40)]
    np.testing.assert_allclose(estimate.per_observation, expected, atol=1e-10)
    assert np.exp(
        me.estimate_evidence(model, every_row(8, 2), POLICIES[name]).per_observation
    ).sum() == pytest.approx(1.0, abs=1e-12)


def test_thresholds_and_bounds_from_one_token_to_all_tokens_a_step() -> None:
    model, tokens = Learned(5, 3), rows(20, 5, 3)
    one = me.estimate_evidence(model, tokens, "policy:confidence")
    every = me.estimate_evidence(model, tokens, "policy:left-to-right,tokens-per-step=5")
    highest = me.estimate_evidence(model, tokens, "policy:confidence,threshold=1")
    np.testing.assert_array_equal(highest.per_observation, one.per_observation)
    assert (one.n_masks, highest.n_masks, every.n_masks) == (100, 100, 20)
    for word in ("policy:confidence,threshold=0", "policy:entropy,bound=100"):
        lowest = me.estimate_evidence(model, tokens, word)
        np.testing.assert_allclose(lowest.per_observation, every.per_observation, atol=1e-12)
        assert lowest.n_masks == 20
    assert lowest.kind == highest.kind == "policy"


@pytest.mark.parametrize("name", POLICIES)
def test_the_probabilities_of_a_policy_add_up_to_one(name: str) -> None:
    estimate = me.estimate_evidence(Learned(4, 3), every_row(4, 3), POLICIES[name])
    assert np.exp(estimate.per_observation).sum() == pytest.approx(1.0, abs=1e-12)


@pytest.mark.parametrize(
    "name",
    ["right-to-left", "confidence", "margin", "three at once in blocks", "threshold", "bound in blocks"],
)
def test_the_decoder_of_a_policy_writes_with_its_probabilities(name: str) -> None:
    model, every = Learned(4, 2), every_row(4, 2)
    expected = np.exp(me.estimate_evidence(model, every, POLICIES[name]).per_observation)
    n = 20_000
    blank = rows(n, 4, 2)
    written = me.decode(model, blank, POLICIES[name], torch.Generator().manual_seed(0)).values
    counts = np.bincount((written * torch.tensor([8, 4, 2, 1])).sum(1).numpy(), minlength=16)
    assert stats.chisquare(counts, n * expected).pvalue > 1e-3
    other = np.exp(me.estimate_evidence(model, every, me.Policy("left-to-right")).per_observation)
    assert stats.chisquare(counts, n * other).pvalue < 1e-6


def test_decoding_keeps_what_is_given() -> None:
    tokens = rows(5, 4, 3)
    maskable = torch.tensor([[True, False, True, True]]).expand(5, 4)
    given = replace(tokens, maskable=maskable, context=~maskable)
    written = me.decode(Learned(4, 3), given, me.Policy(), torch.Generator().manual_seed(1))
    assert torch.equal(written.values[:, 1], tokens.values[:, 1])
    assert int(written.values.max()) < 3


class Peeking(Learned):
    """A model whose distributions read the values that they predict."""

    def log_distributions(self, tokens: Tokens, masked: Tensor) -> Tensor:
        listed = super().log_distributions(tokens, masked)
        own = torch.nn.functional.one_hot(tokens.values[masked], self.n_values)
        return (listed + 3.0 * own).log_softmax(-1)


def test_a_model_that_peeks_gains_nothing() -> None:
    every = every_row(4, 3)
    estimate = me.estimate_evidence(Peeking(4, 3), every, me.Policy("confidence"), check=False)
    assert np.exp(estimate.per_observation).sum() == pytest.approx(1.0, abs=1e-12)


def test_a_model_that_peeks_is_found_by_its_check() -> None:
    report = me.check_model(Peeking(4, 3), rows(20, 4, 3))
    assert report["distributions"].status == "failed"
    assert me.check_model(Learned(4, 3), rows(20, 4, 3))["distributions"].status == "passed"


@pytest.mark.parametrize(
    ("policy", "message"),
    [
        ("confidence", r"confidence needs the distributions .* Gaussian has no"),
        ("order=1+0", "lists 2 places, an observation has 3 tokens"),
    ],
)
def test_policies_that_cannot_be_followed_are_refused(policy: str, message: str) -> None:
    model, tokens = me.models.Gaussian(n_features=3), [[0.0, 1.0, 2.0]]
    with pytest.raises(InputError, match=message):
        me.estimate_evidence(model, tokens, f"policy:{policy}")
    with pytest.raises(InputError, match="decoding needs the distributions"):
        me.decode(model, Tokens.from_array(tokens), me.Policy("left-to-right"))


def test_a_policy_of_several_tokens_is_no_evidence_even_of_exact_conditionals() -> None:
    model, tokens = me.models.Gaussian(n_features=4), [[0.0, 1.0, 2.0, 0.5]]
    kinds = [
        me.estimate_evidence(model, tokens, me.Policy("left-to-right", tokens_per_step=k)).kind
        for k in (1, 2)
    ]
    assert kinds == ["exact", "policy"]
