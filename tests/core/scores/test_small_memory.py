"""A call that does not fit into the memory of the device is halved; the answers are the same."""

from collections.abc import Callable

import numpy as np
import pytest
import torch

import maskevidence as me
from maskevidence.core.scores.ask import Asker, MaskedRows, Reads
from maskevidence.core.tokens import Tokens


class SmallMemory:
    """A function from ids to logits that fails above some tokens in a call, as a GPU does."""

    def __init__(self, most: float) -> None:
        self.most, self.n_failures, self.n_calls = most, 0, 0
        self.table = torch.randn(9, 8, generator=torch.Generator().manual_seed(0))

    def __call__(self, ids: torch.Tensor) -> torch.Tensor:
        self.n_calls += 1
        if ids.numel() > self.most:
            self.n_failures += 1
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB")
        return self.table[ids] + self.table[ids].mean(1, keepdim=True)


def rows(n: int, length: int) -> Tokens:
    values = torch.randint(0, 8, (n, length), generator=torch.Generator().manual_seed(1))
    every = torch.ones_like(values, dtype=torch.bool)
    return Tokens(values, every, ~every, torch.arange(n))


def score(network: SmallMemory) -> np.ndarray:
    model = me.models.MaskedLM.from_callable(network, mask_token_id=8, batch_tokens=200)
    return me.estimate_evidence(model, rows(40, 10), me.RandomSize(4)).scores.score


def distributions(network: SmallMemory) -> np.ndarray:
    model = me.models.MaskedLM.from_callable(network, mask_token_id=8, batch_tokens=200)
    reads = Reads(8)
    for row in rows(40, 10).values.numpy():
        for value in range(2):
            reads.ask(row, np.array([1, 4]), np.array([1]), np.array([value]))
    return reads.answers(Asker(model))


def test_a_call_is_under_way_before_an_answer_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = score(SmallMemory(np.inf))
    monkeypatch.setattr("maskevidence.core.scores.ask.computes_ahead", lambda _: True)
    network = SmallMemory(np.inf)
    np.testing.assert_array_equal(score(network), wanted)
    model = me.models.MaskedLM.from_callable(network, mask_token_id=8, batch_tokens=50)
    masked = torch.ones(40, 10, dtype=torch.bool)
    contexts = MaskedRows(rows(40, 10), np.arange(40), np.full(40, 10), masked.__getitem__)
    network.n_calls = 0
    begun = [network.n_calls for _ in Asker(model).conditionals(contexts)]
    assert begun == [2, 3, 4, 5, 6, 7, 8, 8]


@pytest.mark.parametrize("answers", [score, distributions])
@pytest.mark.parametrize("most", [199, 64, 20])
def test_the_numbers_are_those_of_a_larger_memory(
    answers: Callable[[SmallMemory], np.ndarray], most: int
) -> None:
    small, large = SmallMemory(most), SmallMemory(np.inf)
    np.testing.assert_allclose(answers(small), answers(large), rtol=1e-6)
    halvings = {199: 1, 64: 2, 20: 4}
    assert 1 <= small.n_failures <= halvings[most]  # later calls are small from the start
    assert small.n_calls > large.n_calls


def test_a_row_that_does_not_fit_alone_is_an_error_of_memory() -> None:
    with pytest.raises(torch.OutOfMemoryError):
        score(SmallMemory(9))
