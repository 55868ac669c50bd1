"""Masks that leave the same tokens visible are one pass: the same scores, with fewer passes."""

from typing import Any

import numpy as np
import pytest
import torch

import maskevidence as me
from maskevidence.core.errors import InputError

VOCABULARY, WIDTH = 9, 6


class Counted:
    """Log-probabilities that depend on all visible tokens; counts the rows that it is asked."""

    conditionals, base_measure = "learned", "probability mass of a token"

    def __init__(self) -> None:
        self.n_passes, self.contexts = 0, set[tuple[int, ...]]()
        self.weight = torch.randn(
            WIDTH, VOCABULARY + 1, VOCABULARY, generator=torch.Generator().manual_seed(0)
        )

    def log_distributions(self, tokens: me.Tokens, masked: torch.Tensor) -> torch.Tensor:
        self.n_passes += len(masked)
        shown = tokens.values.masked_fill(masked, VOCABULARY)
        self.contexts |= {tuple(row) for row in shown.tolist()}
        logits = self.weight.double()[torch.arange(WIDTH), shown].sum(1)
        return torch.log_softmax(logits[:, None] * torch.linspace(1, 2, WIDTH)[:, None], -1)[masked]

    def log_conditionals(self, tokens: me.Tokens, masked: torch.Tensor) -> torch.Tensor:
        own = self.log_distributions(tokens, masked).gather(1, tokens.values[masked][:, None])[:, 0]
        return torch.zeros(masked.shape, dtype=torch.float64).masked_scatter(masked, own)


class WholeWords(Counted):
    """A model that hides more than it is asked for."""

    widened = "by the row"


class Blind:
    """A model that lists no values."""

    conditionals, base_measure = "learned", "probability mass of a token"

    def log_conditionals(self, tokens: me.Tokens, masked: torch.Tensor) -> torch.Tensor:
        raise AssertionError("asked")


def choices(n_tokens: int) -> me.Tokens:
    """Five prompts with four answers of so many tokens each."""
    rng = np.random.default_rng(3)
    values = torch.from_numpy(rng.integers(0, VOCABULARY, (20, WIDTH)))
    values[:, : WIDTH - n_tokens] = values[::4, : WIDTH - n_tokens].repeat_interleave(4, 0)
    answers = (torch.arange(WIDTH) >= WIDTH - n_tokens).expand(20, WIDTH)
    return me.Tokens(values, answers, ~answers, torch.arange(20))


@pytest.mark.parametrize(
    ("n_tokens", "design", "masks"),
    [
        (1, me.Exhaustive(), "own"),
        (2, me.Exhaustive(), "own"),
        (3, me.Exhaustive(order_mixture=True), "own"),
        (3, me.RandomSize(8), "own"),
        (3, me.RandomSize(8), "shared"),
        (2, me.Orderings(4, bound="importance"), "own"),
        (3, me.LeaveOneOut(), "own"),
    ],
)
def test_scores_are_the_same_in_a_pass_for_each_distinct_context(
    n_tokens: int, design: Any, masks: Any
) -> None:
    plain, sharing, tokens = Counted(), Counted(), choices(n_tokens)
    how = {"masks": masks, "check": False}
    wanted = me.estimate_evidence(plain, tokens, design, **how)
    found = me.estimate_evidence(sharing, tokens, design, share_contexts=True, **how)
    np.testing.assert_allclose(found.per_observation, wanted.per_observation, rtol=1e-12)
    assert plain.n_passes == wanted.n_masks
    assert sharing.n_passes == len(sharing.contexts) == len(plain.contexts)
    assert sharing.contexts == plain.contexts


def test_four_answers_of_one_token_are_a_quarter_of_the_passes() -> None:
    plain, sharing = Counted(), Counted()
    for model, share in ((plain, False), (sharing, True)):
        me.estimate_evidence(model, choices(1), me.Exhaustive(), check=False, share_contexts=share)
    assert (plain.n_passes, sharing.n_passes) == (20, 5)


@pytest.mark.parametrize(
    ("model", "data", "design", "message"),
    [
        (me.models.PPCA(2, 1), [[0.5, 1.5]], None, "PPCA has no log_distributions; leave it out"),
        (Counted(), [[0.5, 1.5]], None, "share_contexts needs tokens that are whole numbers"),
        (Blind(), choices(1), None, "Blind has no log_distributions"),
        (Counted(), choices(1), me.Policy("left-to-right"), "share_contexts belongs to masks"),
        (WholeWords(), choices(1), None, "WholeWords hides whole words"),
    ],
)
def test_what_cannot_be_shared_is_refused_before_the_model_is_asked(
    model: Any, data: Any, design: Any, message: str
) -> None:
    with pytest.raises(InputError, match=message):
        me.estimate_evidence(model, data, design, share_contexts=True)
    assert not getattr(model, "n_passes", 0)


def test_moments_have_no_contexts_to_share() -> None:
    model = me.models.PPCA(3, 1)
    moments = me.GaussianMoments.from_rows(model.sample(5))
    with pytest.raises(InputError, match="not to moments"):
        me.estimate_evidence(model, moments, me.RandomSize(16), share_contexts=True)
