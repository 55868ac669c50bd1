"""The tests' own check of shapes and types sees nested functions, too, and each with its own surroundings."""

import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from beartype.roar import BeartypeCallHintParamViolation, BeartypeCallHintReturnViolation

import maskevidence as me
from checked_calls import check_calls_of

SOURCE = """
from collections.abc import Iterator
import numpy as np
from jaxtyping import Float64

def adder(number):
    def add(other: int, times: int = 1) -> int:
        return answer(number + other) if times == 1 else add(other) + add(other, times - 1)
    return add

def answer(value):
    return "many" if value > 10 else value

def halves_of(x: Float64[np.ndarray, " n"]) -> list[Float64[np.ndarray, " half"]]:
    return [half for part in (x[::2], x[1::2]) for half in parts_of(part)]

def later(names: list["Unknown"]) -> int:
    return len(names)

def parts_of(part: Float64[np.ndarray, " n"]) -> Iterator[Float64[np.ndarray, " n"]]:
    yield part
"""


@pytest.fixture
def adder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[int], Callable[..., int]]:
    (tmp_path / "some_adder.py").write_text(SOURCE)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    check_calls_of("some_adder")
    import some_adder  # type: ignore[import-not-found]

    assert isinstance(some_adder, ModuleType)
    monkeypatch.delitem(sys.modules, "some_adder")
    return some_adder.adder


def test_a_nested_function_has_its_own_surroundings(adder: Callable[[int], Callable[..., int]]) -> None:
    one, two = adder(1), adder(2)
    assert [one(1), two(1), one(2), two(1, times=3)] == [2, 3, 3, 9]


def test_its_arguments_and_its_answer_are_checked(adder: Callable[[int], Callable[..., int]]) -> None:
    adder(1)(1)
    with pytest.raises(BeartypeCallHintParamViolation, match=r"adder\.add"):
        adder(5)("1")
    with pytest.raises(BeartypeCallHintReturnViolation, match=r"adder\.add"):
        adder(5)(6)
    assert adder(5)(1) == 6


def test_shapes_are_those_of_one_call() -> None:
    """A letter stands for one size in the arguments and the answer, and for another one in the next call."""
    tokens = me.Tokens.from_array(np.zeros((3, 2)))
    model = me.models.Gaussian(torch.zeros(2), torch.eye(2))
    assert len(me.score_masks(model, tokens, torch.ones(3, 2, dtype=torch.bool))) == 3
    assert len(me.score_masks(model, tokens[0:1], torch.ones(1, 2, dtype=torch.bool))) == 1
    both = torch.ones(3, 2, dtype=torch.bool), torch.ones(2, 2, dtype=torch.bool)
    with pytest.raises(BeartypeCallHintParamViolation, match="scored"):
        me.score_masks(model, tokens, *both)
    with pytest.raises(BeartypeCallHintParamViolation, match="masked"):
        me.score_masks(model, tokens, torch.ones(3, 2))  # not of bool


def test_an_answer_of_another_shape_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    tokens = me.Tokens.from_array(np.zeros((3, 2)))
    model = me.models.Gaussian(torch.zeros(2), torch.eye(2))
    monkeypatch.setattr("maskevidence.scores.score.mean_score", lambda *_: torch.zeros(2))
    with pytest.raises(BeartypeCallHintReturnViolation, match="score_masks"):
        me.score_masks(model, tokens, torch.ones(3, 2, dtype=torch.bool))


def test_a_generator_has_sizes_of_its_own(adder: Any) -> None:
    halves_of = adder.__wrapped__.__globals__["halves_of"]
    assert [len(half) for half in halves_of(np.zeros(4))] == [2, 2]


def test_names_that_are_not_known_at_run_time_are_not_checked(adder: Any) -> None:
    assert adder.__wrapped__.__globals__["later"]([1, 2]) == 2
