"""The size of a call: fixed, or the fastest of a trial, which costs no pass and changes no score."""

import numpy as np
import pytest
import torch

import maskevidence as me
from maskevidence.core.masks.design import MaskKey
from maskevidence.core.scores.score_masks import Scoring, score_repeats
from maskevidence.texts import call_sizes
from maskevidence.texts.call_sizes import CallSizes
from maskevidence.texts.masked_lm import MaskedLM
from maskevidence.texts.whole_words import WholeWords
from text_models import SENTENCES, small_bert, small_tokenizer

CPU = torch.device("cpu")
SIZES = (1024, 2048, 4096, 8192)
MANY = np.full(2000, 100)


class Clock:
    """A clock that moves by what a call would take."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 0.0
        monkeypatch.setattr(call_sizes.time, "perf_counter", lambda: self.now)

    def run(
        self, sizes: CallSizes, cost: dict[int, float], lengths: np.ndarray = MANY
    ) -> list[tuple[int, np.ndarray]]:
        """The rows of each call, and the size that was tried; `cost` is that of a token, by size."""
        calls = []
        for part in sizes.timed(lengths, CPU, pads=True):
            n_tokens = int(lengths[part].sum())
            size = next((size for size in SIZES if n_tokens <= size), SIZES[-1])
            self.now += n_tokens * cost[size]
            calls.append((n_tokens, part))
        return calls


@pytest.mark.parametrize(
    ("cost", "fastest"),
    [
        ({1024: 4.0, 2048: 3.0, 4096: 2.0, 8192: 3.0}, 4096),
        ({1024: 1.0, 2048: 0.98, 4096: 0.99, 8192: 1.5}, 1024),  # not clearly faster than the default
    ],
)
def test_the_trial_keeps_the_fastest_size(
    monkeypatch: pytest.MonkeyPatch, cost: dict[int, float], fastest: int
) -> None:
    clock, sizes = Clock(monkeypatch), CallSizes(None)
    calls = clock.run(sizes, cost)
    assert sorted(np.concatenate([part for _, part in calls]).tolist()) == list(range(len(MANY)))
    assert [n_tokens for n_tokens, _ in calls[:8]] == [size // 100 * 100 for size in SIZES] * 2
    assert all(fastest - 200 < n_tokens <= fastest for n_tokens, _ in calls[8:])  # equal parts
    assert f"called on {fastest:,} tokens at a time" in str(sizes.note)
    assert {n_tokens for n_tokens, _ in clock.run(sizes, cost)[:-1]} == {fastest // 100 * 100}
    assert [len(part) for part in sizes.fixed(MANY[:30], CPU, pads=True)] == [10, 10, 10]


def test_without_need_there_is_no_trial(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, cost = Clock(monkeypatch), dict.fromkeys(SIZES, 1.0) | {4096: 0.5}
    asked, short = CallSizes(3000), CallSizes(None)
    assert all(2800 < n_tokens <= 3000 for n_tokens, _ in clock.run(asked, cost))
    assert {n_tokens for n_tokens, _ in clock.run(short, cost, MANY[:1000])} == {1000}
    assert asked.note is short.note is None
    with pytest.raises(me.InputError, match="batch_tokens=0"):
        CallSizes(0)


def test_a_trial_costs_no_pass_and_changes_scores_by_rounding(monkeypatch: pytest.MonkeyPatch) -> None:
    tokenizer = small_tokenizer()
    monkeypatch.setattr(call_sizes, "_CANDIDATES", {"cpu": (16, 64, 32)})
    monkeypatch.setattr(call_sizes, "_TOKENS", {"cpu": 16})
    n_rows = []
    network = small_bert(tokenizer)
    network.base_model.register_forward_pre_hook(
        lambda _m, given, _k: n_rows.append(given[0].shape[0]), with_kwargs=True
    )
    timed, fixed = MaskedLM(network, tokenizer), MaskedLM(network, tokenizer, batch_tokens=16)
    tokens = timed.tokens(SENTENCES * 3)
    n_rows.clear()
    first = me.estimate_evidence(timed, tokens, me.LeaveOneOut(), check=False)
    assert sum(n_rows) == first.n_masks
    assert first.n_model_calls == len(n_rows)  # a call is not cut again
    assert "tokens at a time, as a trial suggests" in first.notes[-1]
    exact = me.estimate_evidence(fixed, tokens, me.LeaveOneOut())
    assert not any("trial" in note for note in exact.notes)
    np.testing.assert_allclose(first.scores.score, exact.scores.score, atol=1e-4, rtol=0)
    # the blocks of a run are scored in calls of a fixed size: resumed, sharded or not
    scoring = Scoring(me.LeaveOneOut(), MaskKey(0))
    table, _ = score_repeats(timed, tokens, scoring, range(1), lambda *_: None)
    np.testing.assert_array_equal(table.score, exact.scores.score)
    words = WholeWords(MaskedLM(network, tokenizer), timed.encode(SENTENCES * 3))
    assert "as a trial suggests" in me.estimate_evidence(words, tokens, me.LeaveOneOut()).notes[-1]


def test_rows_of_one_length_do_not_share_calls_with_others_unless_they_are_few() -> None:
    lengths = np.array([100] * 25 + [90] * 2 + [80] * 3)
    calls = CallSizes(1000).fixed(lengths, torch.device("cpu"), pads=True)
    assert [sorted(set(lengths[part].tolist())) for part in calls] == [[100], [100], [100], [80, 90]]
    calls = CallSizes(1000).fixed(lengths, torch.device("cpu"), pads=False)
    assert [len(part) for part in calls] == [9, 8, 8, 2, 3]
