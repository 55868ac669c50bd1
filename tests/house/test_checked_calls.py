"""The second step of `make test` checks shapes and types of every call of the package."""

import os

import numpy as np
import pytest
import torch
from jaxtyping import TypeCheckError

import maskevidence as me

pytestmark = pytest.mark.skipif(
    "CHECK_CALLS" not in os.environ, reason="CHECK_CALLS is not set: no run-time checks"
)


@pytest.fixture
def tokens() -> me.Tokens:
    return me.Tokens.from_array(np.zeros((3, 2)))


@pytest.fixture
def model() -> me.models.Gaussian:
    return me.models.Gaussian(torch.zeros(2), torch.eye(2))


def test_shapes_are_those_of_one_call(model: me.models.Gaussian, tokens: me.Tokens) -> None:
    """A letter stands for one size in the arguments and the answer, and for another one in the next call."""
    assert len(me.score_masks(model, tokens, torch.ones(3, 2, dtype=torch.bool))) == 3
    assert len(me.score_masks(model, tokens[0:1], torch.ones(1, 2, dtype=torch.bool))) == 1
    with pytest.raises(TypeCheckError, match="scored"):
        me.score_masks(model, tokens, torch.ones(3, 2, dtype=torch.bool), torch.ones(2, 2, dtype=torch.bool))
    with pytest.raises(me.InputError, match=r"masked=.*give a Tensor of bool"):
        me.score_masks(model, tokens, torch.ones(3, 2))


def test_an_answer_of_another_shape_is_seen(
    model: me.models.Gaussian, tokens: me.Tokens, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("maskevidence.core.scores.score_masks.mean_score", lambda *_: torch.zeros(2))
    with pytest.raises(TypeCheckError, match="score_masks"):
        me.score_masks(model, tokens, torch.ones(3, 2, dtype=torch.bool))
