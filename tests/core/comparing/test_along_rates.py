"""Which of two models is ahead at which mask rates."""

import re

import numpy as np
import pytest
import torch

import maskevidence as me
from maskevidence.core.show.pictures import Lines

TURN = "the difference changes its sign"


class ByRate(torch.nn.Module):
    """Learned conditionals whose score is `low` up to 40 % hidden and `high` from there, with some noise."""

    base_measure = me.model.MASS

    def __init__(self, low: float, high: float, conditionals: str = "learned") -> None:
        super().__init__()
        self.low, self.high, self.conditionals = low, high, conditionals

    def log_conditionals(self, tokens: me.Tokens, masked: torch.Tensor) -> torch.Tensor:
        rate = masked.sum(1, keepdim=True) / tokens.n_tokens[:, None]
        noise = 0.01 * torch.sin(
            tokens.ids[:, None] * 7.0 + torch.arange(masked.shape[1]) * masked.sum(1)[:, None]
        )
        return torch.where(masked, torch.where(rate <= 0.4, self.low, self.high) + noise, 0.0).double()


def compared(first: ByRate, second: ByRate, design: str = "random-size:16", width: int = 40) -> me.Comparison:
    tokens = me.Tokens.from_array(np.zeros((30, width)))
    models = {"first": first, "second": second}
    return me.compare(
        {name: me.estimate_evidence(model, tokens, design, check=False) for name, model in models.items()}
    )


def test_a_comparison_says_where_the_models_change_places() -> None:
    notes = compared(ByRate(-1.0, -5.0), ByRate(-2.0, -3.0)).all_notes()
    places = r"first is ahead by 1\.0.* per hidden token from 0 to 40 % hidden, second by .* from 40 to 100 %"
    assert any(re.fullmatch(places, note) for note in notes)
    assert any(note.startswith("at up to 20 % hidden, first is ahead of second by 1.0") for note in notes)


def test_the_picture_marks_where_the_models_change_places() -> None:
    """At the rate of the sentence, on the axis of the picture: here sizes of 40 tokens."""
    (behind,) = compared(ByRate(-1.0, -5.0), ByRate(-2.0, -3.0)).behind
    picture, _ = behind.picture()
    assert isinstance(picture, Lines)
    assert [line.turns for line in picture.lines] == [[pytest.approx(0.4 * 40)]]
    axes = behind.plot()
    assert [line.get_xdata()[0] for line in axes.lines if line.get_label() == TURN] == [pytest.approx(16.0)]
    (ahead,) = compared(ByRate(-1.0, -3.0), ByRate(-2.0, -8.0)).behind
    assert [line.turns for line in ahead.picture()[0].lines] == [[]]  # type: ignore[union-attr]


def test_one_model_ahead_everywhere_changes_no_place() -> None:
    notes = compared(ByRate(-1.0, -3.0), ByRate(-2.0, -8.0)).all_notes()
    assert not any("hidden, second by" in note for note in notes)
    assert any(re.match(r"[456]0 to [89]0 % hidden hold more than half of what", note) for note in notes)


def test_rates_say_nothing_of_one_joint_density_or_of_differences_within_their_errors() -> None:
    assert not any("hidden" in note for note in compared(*[ByRate(-1.0, -2.0, "exact")] * 2).all_notes())
    notes = compared(ByRate(-1.0, -2.0), ByRate(-1.0, -2.0)).all_notes()
    assert not any("is ahead by" in note for note in notes)


@pytest.mark.parametrize(("width", "design"), [(3, "every-size:2"), (40, "rates:0.5-0.9-0.2")])
def test_rates_that_no_mask_has_are_said(width: int, design: str) -> None:
    notes = compared(ByRate(-1.0, -2.0), ByRate(-1.5, -2.0), design, width).all_notes()
    assert any(note.startswith("no mask hides 20 % or less") for note in notes)


def test_a_lower_bound_shows_the_score_at_low_rates() -> None:
    tokens = me.Tokens.from_array(np.zeros((30, 40)))
    estimate = me.estimate_evidence(ByRate(-1.0, -5.0), tokens, "random-size:16", check=False)
    low = estimate.to_dict()["low_rates"]
    assert low["up_to"] == 0.2
    assert low["score"] == pytest.approx(-1.0, abs=0.02)
    assert "nats per hidden token, mean up to 20 % hidden" in " ".join(
        me.core.show.terminal.page_text(estimate.page()).split()
    )
    exact = me.estimate_evidence(ByRate(-1.0, -5.0, "exact"), tokens, "random-size:16", check=False)
    assert "low_rates" not in exact.to_dict()
