"""Texts: wrong bytes, prompts and special tokens that are scored, unknown tokens, and an ignored limit."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

import maskevidence as me
from maskevidence.core.tokens import Tokens
from maskevidence.texts.masked_lm import MaskedLM
from text_models import SENTENCES, small_bert, small_tokenizer

pytest.importorskip("transformers", reason="the extra hf is not installed")
MORE = """the sun and the rain; who is in the rain?; the dog sings; a cat sleeps in the sun
it is the sun on the roof; a dog falls on the roof; the cat sings and sleeps"""
TEXTS = [*SENTENCES, *(text.strip() for line in MORE.splitlines() for text in line.split(";"))]


@pytest.fixture(scope="module")
def model() -> MaskedLM:
    tokenizer = small_tokenizer()
    return MaskedLM(small_bert(tokenizer), tokenizer)


def failed(report: me.CheckReport) -> set[str]:
    return {finding.check for finding in report.failed}


def test_a_sound_model_has_no_fault(model: MaskedLM) -> None:
    report = me.check_model(model, TEXTS)
    assert report.ok, report
    applied = {finding.check for finding in report.findings if finding.status != "skipped"}
    assert {"bytes", "scored tokens", "unknown tokens", "length limit", "normalisation", "offset"} <= applied
    assert report["bytes"].found.startswith(f"{sum(map(len, TEXTS))} bytes")


@pytest.mark.parametrize(
    "options", [{"second": TEXTS[::-1]}, {"context": TEXTS[::-1]}, {"long": "split"}, {"block_size": 8}]
)
def test_other_ways_to_encode_have_no_fault(model: MaskedLM, options: dict[str, Any]) -> None:
    tokens = model.tokens(TEXTS, **options)
    texts = [*zip(TEXTS, options["second"], strict=True)] if "second" in options else TEXTS
    report = me.check_model(model, tokens, texts=texts)
    assert report.ok, report


def with_more_bytes(tokens: Tokens) -> Tokens:
    """4.3 bytes a token where there are 2.44."""
    return replace(tokens, n_bytes=(tokens.n_bytes * 4.3 / 2.44).long())


def with_special_tokens_scored(tokens: Tokens) -> Tokens:
    return replace(
        tokens, maskable=tokens.maskable | tokens.context, context=torch.zeros_like(tokens.context)
    )


def with_ninety_percent(tokens: Tokens) -> Tokens:
    last = tokens.maskable & (tokens.maskable.cumsum(1) > (0.9 * tokens.n_tokens[:, None]).ceil())
    return replace(tokens, maskable=tokens.maskable & ~last, context=tokens.context | last)


@pytest.mark.parametrize(
    ("change", "check"),
    [
        (with_more_bytes, "bytes"),
        (with_special_tokens_scored, "scored tokens"),
        (with_ninety_percent, "scored tokens"),
    ],
)
def test_wrong_tokens_are_caught(model: MaskedLM, change: Callable[[Tokens], Tokens], check: str) -> None:
    wrong = change(model.tokens(TEXTS))
    report = me.check_model(model, wrong, texts=TEXTS)
    assert failed(report) == {check}, report
    if check == "bytes":
        assert me.check_model(model, wrong)["bytes"].status == "skipped"


def test_tokens_of_the_prompt_are_caught(model: MaskedLM) -> None:
    """Prompt and answer are scored together, as a pair, though the answer alone was asked for."""
    prompts = [f"{text}" for text in TEXTS[::-1]]
    both = model.tokens(prompts, second=TEXTS)
    assert {"bytes", "scored tokens"} <= failed(me.check_model(model, both, texts=TEXTS))
    alone = model.tokens(TEXTS, context=prompts)
    assert me.check_model(model, alone, texts=TEXTS).ok


def test_many_unknown_tokens_are_caught(model: MaskedLM) -> None:
    with pytest.warns(me.errors.UnknownTokensWarning):
        few = model.tokens([*TEXTS, "1 2 3 4 5 6 7 8"])
    assert me.check_model(model, few)["unknown tokens"].status == "noted"
    with pytest.warns(me.errors.UnknownTokensWarning):
        many = model.tokens(["1 2 3 4 5 6 7 rain"] * 4, allow_unknown=True)
    assert failed(me.check_model(model, many)) == {"unknown tokens"}


class CutsInSilence(torch.nn.Module):
    """A network that reads eight tokens, and answers for longer rows as if they had ended there."""

    conditionals = "learned"
    max_tokens = 8

    def log_conditionals(self, tokens: Tokens, masked: Tensor) -> Tensor:
        return torch.where(masked, -torch.log(torch.tensor(4.0)), 0.0)


def test_a_limit_that_is_not_kept_is_caught() -> None:
    values = torch.randint(0, 4, (12, 8), generator=torch.Generator().manual_seed(0))
    every = torch.ones(12, 8, dtype=torch.bool)
    tokens = Tokens(values, every, ~every, torch.arange(12))
    assert "length limit" in failed(me.check_model(CutsInSilence(), tokens))


def test_a_mask_token_left_unmasked_is_a_leak() -> None:
    """The last hidden token keeps its own id in the input."""
    tokenizer = small_tokenizer()

    class LeavesOneUnmasked(MaskedLM):
        def log_conditionals(self, tokens: Tokens, masked: Tensor) -> Tensor:
            last = (
                masked & (masked.cumsum(1) == masked.sum(1, keepdim=True)) & (masked.sum(1, keepdim=True) > 1)
            )
            others = super().log_conditionals(tokens, masked & ~last)
            return others + super().log_conditionals(tokens, last)

    model = LeavesOneUnmasked(small_bert(tokenizer), tokenizer)
    assert "leak" in failed(me.check_model(model, TEXTS))


def test_logits_of_the_next_place_are_caught() -> None:
    """A model that knows what follows what is right until its logits are read one place off."""
    tokenizer = small_tokenizer()
    generator = torch.Generator().manual_seed(0)
    ids = torch.randint(6, 60, (40, 12), generator=generator)
    ids[:, 1:] = (ids[:, :1] + torch.arange(1, 12)) % 50 + 6

    def knows_the_order(shown: Tensor) -> Tensor:
        """Each token follows the one before it in the vocabulary: the first visible one tells all others."""
        position = torch.arange(shown.shape[1])
        seen = shown != tokenizer.mask_token_id
        start = torch.where(seen, (shown - 6 - position) % 50, 0).amax(1, keepdim=True)
        expected = (start + position) % 50 + 6
        return 3.0 * torch.nn.functional.one_hot(expected, len(tokenizer)).float()

    every = torch.ones(ids.shape, dtype=torch.bool)
    tokens = Tokens((ids[:, :1] - 6 + torch.arange(12)) % 50 + 6, every, ~every, torch.arange(40))
    right = MaskedLM.from_callable(knows_the_order, mask_token_id=tokenizer.mask_token_id)
    off = MaskedLM.from_callable(
        lambda shown: knows_the_order(shown).roll(1, 1), mask_token_id=tokenizer.mask_token_id
    )
    assert me.check_model(right, tokens)["offset"].status == "passed"
    assert "offset" in failed(me.check_model(off, tokens))
