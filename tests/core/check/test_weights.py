"""Objectives and collators: a wrong size, weight or mean is caught, and the package's own pass."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import maskevidence as me
from checked_models import Strings, strings
from maskevidence.core.check.weights import weights
from maskevidence.core.masks.design import Integers, MaskKey, Plan, Positions, drawn_masks
from maskevidence.core.tokens import Tokens
from text_models import small_tokenizer


def findings(objective: Any, seed: int = 0) -> dict[str, me.Finding]:
    with torch.random.fork_rng(devices=[]):
        return {finding.check: finding for finding in weights(objective, seed)}


def one_mask_each(tokens: Tokens, step: int | None) -> tuple[Tensor, Tensor, Tensor]:
    """A random mask for each row, its size, and the number of tokens."""
    ids, maskable = tokens.ids.numpy(), tokens.maskable.numpy()
    masked = torch.from_numpy(drawn_masks(me.RandomSize(1, 1), MaskKey(step or 0), ids, maskable).masked())
    return masked, masked.sum(1), tokens.n_tokens


def right(model: Any, tokens: Tokens, *, step: int | None = None) -> Tensor:
    """-(1/B) Σ_i D_i/M_i Σ_{j masked} log p(x_ij)."""
    masked, size, n = one_mask_each(tokens, step)
    return -(n / size * model.log_conditionals(tokens, masked).sum(1)).mean()


def missing_weight(model: Any, tokens: Tokens, *, step: int | None = None) -> Tensor:
    masked, _, n = one_mask_each(tokens, step)
    return -(n * model.log_conditionals(tokens, masked).sum(1)).mean()


def averaged_over_the_batch(model: Any, tokens: Tokens, *, step: int | None = None) -> Tensor:
    masked, size, n = one_mask_each(tokens, step)
    return -model.log_conditionals(tokens, masked).sum() / size.sum() * n.double().mean()


def ninety_percent(model: Any, tokens: Tokens, *, step: int | None = None) -> Tensor:
    return 0.9 * right(model, tokens, step=step)


@dataclass(frozen=True)
class OffByOne(me.RandomSize):
    """Sizes from 0 to D - 1, where 0 becomes 1."""

    def plan(
        self,
        key: MaskKey,
        ids: Integers,
        n_tokens: Integers,
        index: Integers,
        position: Positions | None = None,
    ) -> Plan:
        draw, size = super().plan(key, ids, n_tokens, index, position)
        return draw, np.maximum(size - 1, 1)


FAULTS: list[Callable[..., Tensor] | me.MaskedObjective] = [
    missing_weight,
    averaged_over_the_batch,
    ninety_percent,
    me.MaskedObjective(OffByOne(1, 1)),
]


@pytest.mark.parametrize("objective", FAULTS)
def test_a_wrong_objective_is_caught(objective: Any) -> None:
    report = me.check_model(Strings(), strings(), objective=objective)
    assert {finding.check for finding in report.failed} == {"weights"}
    assert report["weights"].z is not None
    assert abs(report["weights"].z) > 4


SOUND = [
    right,
    *map(me.MaskedObjective, (me.RandomSize(1, 1), me.EverySize(1), me.Orderings(1), me.Exhaustive())),
    me.MaskedObjective(me.RandomSize(4, 2), masks="shared"),
]


@pytest.mark.parametrize("objective", SOUND)
def test_the_packages_own_objectives_pass(objective: Any) -> None:
    assert findings(objective)["weights"].status == "passed"


@pytest.mark.parametrize(
    "objective",
    [
        me.MaskedObjective(me.FixedRate(0.15)),
        me.MaskedObjective(me.LeaveOneOut()),
        me.Likelihood(),
        me.Elbo(),
    ],
)
def test_what_does_not_estimate_the_evidence_by_masks_is_skipped(objective: Any) -> None:
    assert findings(objective)["weights"].status == "skipped"


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    pytest.importorskip("transformers", reason="the extra hf is not installed")
    return small_tokenizer()


class TestCollators:
    def test_the_packages_own_passes(self, tokenizer: Any) -> None:
        from maskevidence.huggingface.collator import MaskSizeCollator

        results = findings(MaskSizeCollator(tokenizer))
        assert {name: finding.status for name, finding in results.items()} == {
            "mask tokens": "passed",
            "weights": "passed",
        }
        at_one_rate = findings(MaskSizeCollator(tokenizer, mlm_probability=0.15))
        assert at_one_rate["weights"].status == "skipped"

    def test_a_mask_token_left_unmasked_is_caught(self, tokenizer: Any) -> None:
        from maskevidence.huggingface.collator import MaskSizeCollator

        results = findings(MaskSizeCollator(tokenizer, mask_replace_prob=0.9))
        assert results["mask tokens"].status == "failed"
        assert "of the tokens to predict are not replaced" in results["mask tokens"].found
        assert results["weights"].status == "passed"

    def test_transformers_own_collator_is_no_evidence(self, tokenizer: Any) -> None:
        from transformers import DataCollatorForLanguageModeling

        results = findings(DataCollatorForLanguageModeling(tokenizer))
        assert {name: finding.status for name, finding in results.items()} == {
            "mask tokens": "failed",
            "weights": "failed",
        }
        assert "no weights" in results["weights"].found
