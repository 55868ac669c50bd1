"""What `estimate_evidence` checks before it scores, and how little that costs."""

import numpy as np
import pytest
import torch
from torch import Tensor

import maskevidence as me
from checked_models import Strings, strings
from maskevidence.scores.first_batch import check_first_batch
from maskevidence.tokens import Tokens


class Counted(Strings):
    def __init__(self) -> None:
        super().__init__()
        self.passes = 0

    def log_conditionals(self, tokens: Tokens, masked: Tensor) -> Tensor:
        self.passes += len(masked)
        return super().log_conditionals(tokens, masked)


class PeeksToTheLeft(Strings):
    def log_conditionals(self, tokens: Tokens, masked: Tensor) -> Tensor:
        answer = super().log_conditionals(tokens, masked)
        return torch.where(masked, answer - 0.1 * tokens.values.roll(1, 1), 0.0)


class AnswersEverywhere(Strings):
    def log_conditionals(self, tokens: Tokens, masked: Tensor) -> Tensor:
        return super().log_conditionals(tokens, torch.ones_like(masked))


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (PeeksToTheLeft(), "changes from .* with the values of other hidden tokens"),
        (AnswersEverywhere(), "exactly 0"),
    ],
)
def test_a_fault_is_refused_in_one_line(model: Strings, message: str) -> None:
    with pytest.raises(me.InputError, match=message) as caught:
        me.estimate_evidence(model, strings(), me.EverySize(4))
    assert "\n" not in str(caught.value)
    assert me.estimate_evidence(model, strings(), me.EverySize(4), check=False).n_masks > 200


@pytest.mark.parametrize(("n_rows", "passes"), [(1, 0), (8, 2), (16, 2), (40, 4), (400, 4)])
def test_it_takes_at_most_one_pass_in_twenty(n_rows: int, passes: int) -> None:
    model, tokens = Counted(), strings(n_rows)
    design = me.EverySize(4)
    check_first_batch(model, tokens, design)
    n_masks = int(design.n_draws(tokens.n_tokens.numpy()).sum())
    assert model.passes == passes <= n_masks / 20
    estimate = me.estimate_evidence(model, tokens, design)
    assert estimate.log_evidence == me.estimate_evidence(Strings(), tokens, design, check=False).log_evidence


def test_dropout_in_training_mode_is_named() -> None:
    """A network that was built and not loaded is in training mode, and was called one that peeks."""

    class Network(torch.nn.Module):
        conditionals = "learned"

        def __init__(self) -> None:
            super().__init__()
            layers = torch.nn.Linear(6, 64), torch.nn.Dropout(0.5), torch.nn.Linear(64, 6)
            self.layers = torch.nn.Sequential(*layers)

        def log_conditionals(self, tokens: me.Tokens, masked: torch.Tensor) -> torch.Tensor:
            visible = torch.where(masked, 0.0, tokens.values).float()
            return -torch.where(masked, self.layers(visible).exp(), 0.0).double()

    network, x = Network(), np.random.default_rng(0).normal(size=(200, 6))
    with pytest.raises(me.InputError, match=r"Network is in training mode, .* call eval\(\) first"):
        me.estimate_evidence(network, x)
    assert me.estimate_evidence(network.eval(), x).kind == "lower_bound"
