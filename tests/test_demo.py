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
