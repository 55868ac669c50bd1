"""What `estimate_evidence` checks before it scores, and how little that costs."""

import numpy as np
import pytest
import torch
from torch import Tensor

import maskevidence as me
from checked_models import Strings, strings
from maskevidence.core.scores.score_masks import check_first_batch
from maskevidence.core.tokens import Tokens
from refusals import one_line


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
    one_line(lambda: me.estimate_evidence(model, strings(), me.EverySize(4)), match=message)
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


class Network(torch.nn.Module):
    """A network as it was built: in training mode."""

    conditionals = "learned"

    def __init__(self, part: torch.nn.Module) -> None:
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.Linear(6, 64), part, torch.nn.Linear(64, 6))

    def log_conditionals(self, tokens: Tokens, masked: Tensor) -> Tensor:
        visible = torch.where(masked, 0.0, tokens.values).float()
        return -torch.where(masked, self.layers(visible).exp(), 0.0).double()


@pytest.mark.parametrize("part", [torch.nn.Dropout(0.5), torch.nn.BatchNorm1d(64)])
def test_training_mode_is_refused_by_its_flags(part: torch.nn.Module) -> None:
    """Not by answers that differ, which would depend on chance and on the number of masks."""
    network, x = Network(part), np.random.default_rng(0).normal(size=(200, 6))
    uses = (
        lambda: me.estimate_evidence(network, x),
        lambda: me.estimate_evidence(network, x[:1], me.EverySize(1), check=False),
    )
    for use in uses:
        with pytest.raises(
            me.InputError, match=r"Network is in training mode, in which .* call eval\(\) first"
        ):
            use()
    network.eval()
    assert [use().kind for use in uses] == ["lower_bound"] * 2
    assert me.estimate_evidence(Network(torch.nn.Dropout(0.0)), x[:20]).kind == "lower_bound"
