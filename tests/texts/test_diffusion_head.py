"""Diffusion language models: their vocabulary head at hidden places gives what their full logits give."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from diffusion_networks import LENGTH, MASK, N_IDS, NETWORKS, Mdlm, random_network
from maskevidence.core.tokens import Tokens
from maskevidence.texts.diffusion import DIFFUSIONS, DiffusionNetwork
from maskevidence.texts.masked_lm import MaskedLM

PADDED = {"llada", "llada, tied", "dream", "bd3lm"}  # take a mask; BD3-LM is always filled up


def rows(lengths: list[int], seed: int = 0) -> tuple[Tokens, torch.Tensor]:
    """Rows of different lengths, whose last token is context, and masks with the first two places of each."""
    generator = torch.Generator().manual_seed(seed)
    values = torch.randint(5, MASK, (len(lengths), max(lengths)), generator=generator)
    present = torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]
    context = torch.arange(max(lengths)) == torch.tensor(lengths)[:, None] - 1
    maskable = present & ~context
    masked = maskable & (torch.rand(values.shape, generator=generator) < 0.4)
    masked[:, :2] = maskable[:, :2]
    return Tokens(values, maskable, context, torch.arange(len(lengths))), masked


def both(name: str, dtype: torch.dtype = torch.float64) -> tuple[nn.Module, MaskedLM, MaskedLM]:
    """A network, read by its head at hidden places and by its full logits."""
    family, make = NETWORKS[name]
    network = random_network(make, dtype)
    short = DiffusionNetwork(network, DIFFUSIONS[family], MASK)  # type: ignore[index]
    full = MaskedLM.from_callable(lambda ids: short(ids), mask_token_id=MASK)
    return network, MaskedLM(short, mask_token_id=MASK), full


@pytest.mark.parametrize(("dtype", "error"), [(torch.float64, 1e-10), (torch.float32, 1e-5)])
@pytest.mark.parametrize("name", NETWORKS)
def test_equal_to_full_logits(name: str, dtype: torch.dtype, error: float) -> None:
    network, short, full = both(name, dtype)
    tokens, masked = rows([3, 24, 9, 9, 17, 9, 4])
    widths: list[int] = []
    head = short._adapter.head
    assert head is not None
    last = head.module
    last.register_forward_pre_hook(lambda _m, given: widths.append(given[0].shape[1]))
    found = short.log_conditionals(tokens, masked)
    hidden = widths[1::2]  # the first call of a pair is the network's own, which ends there
    assert sum(hidden) == int(masked.sum())
    expected = full.log_conditionals(tokens, masked)
    torch.testing.assert_close(found, expected, atol=error, rtol=0)
    listed = [model.log_distributions(tokens, masked) for model in (short, full)]
    torch.testing.assert_close(*listed, atol=error, rtol=0)
    assert found[masked].std() > 0.5  # the answers do differ between tokens
    if dtype == torch.float64:
        answers = (short.log_conditionals(tokens, masked), full.log_conditionals(tokens, masked))
        gradients = [gradients_of(network, answer.sum()) for answer in answers]
        torch.testing.assert_close(*gradients, atol=1e-9, rtol=1e-9)


def gradients_of(network: nn.Module, value: torch.Tensor) -> dict[str, Any]:
    names = dict(network.named_parameters())
    found = torch.autograd.grad(value, list(names.values()), allow_unused=True)
    return {name: g for name, g in zip(names, found, strict=True) if g is not None}


@pytest.mark.parametrize("name", NETWORKS)
def test_rows_of_different_lengths_share_calls_where_padding_changes_nothing(name: str) -> None:
    _, short, _ = both(name)
    lengths = np.array([9, 24, 9, 17])
    calls = [lengths[part].tolist() for part in short.batches(lengths)]
    assert calls == ([[24, 17, 9, 9]] if name in PADDED else [[24], [17], [9, 9]])


def test_the_end_of_the_last_layer_is_short_where_no_time_modulates_it() -> None:
    cuts = {}
    for name in NETWORKS:
        head = both(name)[1]._adapter.head
        assert head is not None
        cuts[name] = head.cut is not None
    assert cuts == {name: name.startswith(("llada", "dream")) for name in NETWORKS}


def test_a_training_step_gives_the_gradients_of_the_full_logits() -> None:
    network, short, full = both("dream")
    tokens, masked = rows([LENGTH] * 3)
    inputs = {"input_ids": tokens.values.masked_fill(masked, MASK)}
    losses = [model.hidden_log_probs(inputs, tokens.values, masked).mean() for model in (short, full)]
    torch.testing.assert_close(*[gradients_of(network, loss) for loss in losses], atol=1e-9, rtol=1e-9)


def test_the_head_computes_in_the_precision_of_the_network() -> None:
    """MDLM's own code computes in bfloat16 autocast; its head alone has to do so, too."""
    own = random_network(lambda: Mdlm(low=True), torch.float32)
    own.get_parameter("vocab_embed").data.mul_(5)  # answers that differ by more than bfloat16 rounds
    network = DiffusionNetwork(own, DIFFUSIONS["mdlm"], MASK)
    short = MaskedLM(network, mask_token_id=MASK)
    assert short._adapter.head is not None
    tokens, masked = rows([LENGTH] * 3)
    expected = network(tokens.values.masked_fill(masked, MASK))
    assert expected.dtype == torch.bfloat16
    expected = torch.log_softmax(expected.float(), -1)[masked]
    torch.testing.assert_close(short.log_distributions(tokens, masked), expected, atol=2e-2, rtol=1e-2)
    assert expected.shape[1] == N_IDS
