"""The BERT of the demonstration, trained for a few steps."""

from types import SimpleNamespace

import numpy as np
import pytest

from maskevidence.demo import BERT_RATES, TrainedBert, train_bert


def test_a_few_steps_bring_the_bert_to_word_frequencies() -> None:
    bert = train_bert(steps=12, vocabulary_size=256, limit=8)
    assert bert.before.kind == "lower_bound"
    assert (bert.before.ids == bert.after.ids).all()
    assert bert.after.log_evidence > bert.before.log_evidence + 10
    assert len(bert.curve_before.score) == len(bert.curve_after.score) == len(BERT_RATES)
    assert np.ptp(bert.curve_before.score) < 0.1  # flat
    assert not bert.shaped
    assert -6 < bert.unigram < -3


@pytest.mark.parametrize(
    ("scores", "shaped"), [((-4.0, -5.0), True), ((-4.8, -5.0), False), ((-4.6, -5.5), False)]
)
def test_what_shaped_means(scores: tuple[float, float], shaped: bool) -> None:
    bert = object.__new__(TrainedBert)
    object.__setattr__(bert, "curve_after", SimpleNamespace(score=scores))
    object.__setattr__(bert, "unigram", -4.5)
    assert bert.shaped is shaped


@pytest.mark.parametrize(
    ("scores", "said", "unsaid"),
    [
        (
            (-4.10, -4.08, -4.07, -4.06, -4.06, -4.1, -4.18, -4.6, -5.30),
            "of the tokens are hidden and -5.30 where all are. Up to 85 % hidden the curve is almost flat",
            "the fewer",
        ),
        ((-2.0, -2.4, -2.9, -3.3, -3.8, -4.2, -4.6, -4.9, -5.3), "Visible tokens help: a hidden", "flat"),
        ((-4.9, -4.9, -4.9, -5.0, -5.0, -5.0, -5.0, -5.0, -5.0), "Visible tokens help little", "flat"),
    ],
)
def test_the_sentence_says_what_the_curve_shows(scores: tuple[float, ...], said: str, unsaid: str) -> None:
    bert = object.__new__(TrainedBert)
    object.__setattr__(bert, "curve_after", SimpleNamespace(score=scores))
    object.__setattr__(bert, "unigram", -4.94)
    assert said in bert.in_words()
    assert unsaid not in bert.in_words()
