"""The conventions of diffusion language models, against their repositories' losses on the same masks."""

import itertools
import json
import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import maskevidence as me
from command_line import CommandLine
from diffusion_networks import LENGTH, MASK, N_IDS, Bd3lm, Llada, Mdlm, Sedd, random_network
from maskevidence.core.errors import InputError
from maskevidence.core.masks.design import DrawnMasks, MaskDesign, MaskKey, drawn_masks
from maskevidence.core.masks.design_words import parse_design
from maskevidence.core.tokens import Tokens, positions
from maskevidence.texts.diffusion import DIFFUSIONS, DiffusionNetwork
from maskevidence.texts.encoding import Joining, encode_texts
from maskevidence.texts.masked_lm import MaskedLM
from maskevidence.texts.published import LLaDA, RandomTime
from maskevidence.texts.recipes import RECIPES
from maskevidence.texts.text_options import DiffusionName
from text_models import SENTENCES, save_bert, small_bert, small_tokenizer

EPS = 1e-3
REAL = [value for value in range(N_IDS) if value != MASK]


def model_of(name: DiffusionName, network: Any) -> MaskedLM:
    return MaskedLM(DiffusionNetwork(network, DIFFUSIONS[name], MASK), mask_token_id=MASK)


def tokens_of(n_rows: int, length: int, n_context: int = 0) -> Tokens:
    values = torch.randint(0, MASK, (n_rows, length), generator=torch.Generator().manual_seed(1))
    context = torch.arange(length).expand(n_rows, length) < n_context
    return Tokens(values, ~context, context, torch.arange(n_rows))


def masks_of(design: MaskDesign, tokens: Tokens) -> DrawnMasks:
    """The masks that `estimate_evidence` draws with seed 0."""
    ids = tokens.ids.numpy()
    return drawn_masks(design, MaskKey(), ids, tokens.maskable.numpy(), position=positions(ids))


def times_of(design: RandomTime, masks: DrawnMasks) -> tuple[Tensor, Tensor]:
    """The time of each mask, and whether it hides a token: the low bits of a draw number are the time."""
    bits = masks.draw & (2**32 - 1)
    return torch.from_numpy(design.eps + (1 - design.eps) * (bits + 0.5) / 2**32), torch.from_numpy(bits > 0)


def hidden_of(design: RandomTime, masks: DrawnMasks) -> tuple[Tensor, Tensor]:
    time, hides = times_of(design, masks)
    return time, torch.from_numpy(masks.masked()) & hides[:, None]


def test_mdlm_equals_its_loss_on_the_same_masks() -> None:
    """SUBS in continuous time: -log p dσ/expm1(σ), per token; kuleshov-group/mdlm, diffusion.py."""
    network, tokens = random_network(Mdlm), tokens_of(20, 16)
    design = parse_design(RECIPES["mdlm"].design).design
    assert isinstance(design, RandomTime)
    masks = masks_of(design, tokens)
    time, hidden = hidden_of(design, masks)
    x0 = tokens.values[torch.from_numpy(masks.row)]
    noised = torch.where(hidden, MASK, x0)
    sigma, d_sigma = -torch.log1p(-(1 - EPS) * time), (1 - EPS) / (1 - (1 - EPS) * time)
    with torch.no_grad():
        logits = network(noised, torch.zeros(len(x0))).logits
    logits[..., MASK] -= 1e6
    log_p = logits.log_softmax(-1).gather(-1, x0[..., None])[..., 0]
    log_p = torch.where(hidden, log_p, 0.0)
    loss = -(log_p * (d_sigma / torch.expm1(sigma))[:, None]).sum() / x0.numel()

    estimate = me.estimate_evidence(model_of("mdlm", network), tokens, design)
    assert -estimate.per_token == pytest.approx(loss.item(), abs=1e-5)
    assert estimate.kind == "pseudo"
    assert estimate.mask_se is not None


class Timeless(Sedd):
    """Log-scores that depend on the noise by a constant alone: the package takes it from the hidden share."""

    def forward(self, indices: Tensor, sigma: Tensor) -> Tensor:
        scores = self.logits(indices, 0 * sigma, torch.arange(indices.shape[1]))
        return scores - sigma.expm1().log()[:, None, None]


class Normalised(Timeless):
    """Log-scores whose sum over real tokens is 1/expm1(σ), as the true scores' is."""

    def forward(self, input_ids: Tensor, sigma: Tensor) -> Tensor:
        scores = super().forward(input_ids, sigma)
        return scores - scores[..., REAL].logsumexp(-1, keepdim=True) - sigma.expm1().log()[:, None, None]


@pytest.mark.parametrize(
    "network", [random_network(Normalised), random_network(Timeless)], ids=["normalised", "not normalised"]
)
def test_sedd_equals_its_score_entropy_on_the_same_masks(network: Timeless) -> None:
    """Σ_v s_v - r log s_x + r (log r - 1), r = 1/expm1(σ), times dσ; graph_lib.py and losses.py.

    With s = Z·r·p and p the softmax of the scores, the score entropy of a hidden token is (-log p + Z - 1 -
    log Z)·r: the score of a network whose scores are not normalised lies Z - 1 - log Z lower there.
    """
    tokens = tokens_of(6, 16)
    design = parse_design(RECIPES["sedd"].design).design
    assert isinstance(design, RandomTime)
    masks = masks_of(design, tokens)
    time, hidden = hidden_of(design, masks)
    x0 = tokens.values[torch.from_numpy(masks.row)]
    sigma, d_sigma = -torch.log1p(-(1 - EPS) * time), (1 - EPS) / (1 - (1 - EPS) * time)
    with torch.no_grad():
        log_score = network(torch.where(hidden, MASK, x0), sigma)
    ratio = (1 / torch.expm1(sigma))[:, None]
    positive = log_score[..., REAL].exp().sum(-1)
    entropy = positive - ratio * log_score.gather(-1, x0[..., None])[..., 0] + ratio * (ratio.log() - 1)
    z = positive / ratio
    excess = (ratio * (z - 1 - z.log()) * hidden * d_sigma[:, None]).sum() / design.draws / len(tokens)
    loss = (entropy * hidden * d_sigma[:, None]).sum() / design.draws / len(tokens)

    estimate = me.estimate_evidence(model_of("sedd", network), tokens, design)
    assert -estimate.log_evidence == pytest.approx((loss - excess).item(), abs=1e-5 * 16)
    assert excess >= -1e-9
    assert (excess.item() < 1e-5) == isinstance(network, Normalised)


def test_llada_equals_its_loss_on_the_same_masks() -> None:
    """Cross-entropy over the share of hidden tokens, summed, over the batch; ML-GSAI/LLaDA, eval_llada.py."""
    network, tokens = random_network(Llada), tokens_of(3, 14, n_context=4)
    design = LLaDA(32, batch=8)
    masks = masks_of(design, tokens)
    hidden = torch.from_numpy(masks.masked())
    x0 = tokens.values[torch.from_numpy(masks.row)]
    with torch.no_grad():
        logits = network(torch.where(hidden, MASK, x0)).logits
    share = torch.from_numpy(masks.size / 10)[:, None].expand_as(x0)
    losses = torch.zeros(3, dtype=torch.float64)
    for row, batch in itertools.product(range(3), range(4)):
        some = torch.from_numpy((masks.row == row) & (masks.draw // 8 == batch))
        mask = hidden & some[:, None]
        cross_entropy = torch.nn.functional.cross_entropy(logits[mask], x0[mask], reduction="none")
        losses[row] += (cross_entropy / share[mask]).sum() / 8 / 4
    estimate = me.estimate_evidence(model_of("llada", network), tokens, design)
    np.testing.assert_allclose(-estimate.per_observation, losses, atol=1e-5 * 10)
    assert estimate.mask_se is not None


@pytest.mark.parametrize(("n_tokens", "batch"), [(4, 8), (7, 8), (10, 16), (100, 8), (100, 32), (333, 32)])
def test_llada_has_the_sizes_of_its_repository(n_tokens: int, batch: int) -> None:
    """round(linspace(k, k + (b - 1)·n/b, b)), wrapped at n, for every k."""
    design, drawn = LLaDA(batch, batch=batch), {}
    for seed in range(40 * n_tokens):
        n = np.full(batch, n_tokens)
        size = design.plan(MaskKey(seed), np.zeros_like(n), n, np.arange(batch))[1]
        drawn[int(size[0])] = size.tolist()
        if len(drawn) == n_tokens:
            break
    assert sorted(drawn) == list(range(1, n_tokens + 1))
    counts = np.zeros(n_tokens + 1)
    for k, sizes in drawn.items():
        spaced = torch.linspace(float(k), k + (batch - 1) * (n_tokens / batch), steps=batch)
        expected = (torch.round(spaced).long() - 1) % n_tokens + 1
        assert sizes == expected.tolist()
        np.add.at(counts, sizes, 1 / batch)
    size = np.arange(1, n_tokens + 1)
    np.testing.assert_allclose(design.weight_by_size(np.full(n_tokens, n_tokens), size), counts[1:])


@pytest.mark.parametrize("offset", [0, 1])
def test_bd3lm_equals_its_loss_on_the_same_masks(offset: int) -> None:
    """One call on all noised blocks and a clean copy, a time for each block, 1/t; kuleshov-group/bd3lms."""
    network, tokens = random_network(Bd3lm), tokens_of(5, LENGTH, n_context=offset)
    design = RandomTime(4, eps=EPS, blocks=4, offset=offset)
    masks = masks_of(design, tokens)
    time, hidden = hidden_of(design, masks)
    own = torch.from_numpy(masks.scored(slice(None), masks.masked())) & hidden
    losses = torch.zeros(5, dtype=torch.float64)
    index = masks.draw >> 32
    for row, draw in itertools.product(range(5), range(4)):
        of_draw = torch.from_numpy((masks.row == row) & (index // 6 == draw))
        assert int(of_draw.sum()) == 6
        noised = own[of_draw].any(0)  # the hidden tokens of each block, at once
        scale = torch.cat([torch.full((4,), 1.0 / t, dtype=torch.float64) for t in time[of_draw].tolist()])
        x0 = tokens.values[row]
        with torch.no_grad():
            both = torch.cat([torch.where(noised, MASK, x0), x0])[None]
            logits = network(both, torch.zeros(1))[0][0]
        logits[:, MASK] = -1e6
        log_p = logits.log_softmax(-1).gather(-1, x0[:, None])[:, 0]
        losses[row] -= (log_p * scale * noised).sum() / 4
    estimate = me.estimate_evidence(model_of("bd3lm", network), tokens, design)
    np.testing.assert_allclose(-estimate.per_observation, losses, atol=1e-5 * LENGTH)


def scores_of_all_masks(model: MaskedLM, tokens: Tokens) -> Iterator[tuple[int, float]]:
    """Size and summed log p of each mask of one text."""
    n = tokens.width
    for hidden in itertools.product([False, True], repeat=n):
        if any(hidden):
            masked = torch.tensor([hidden])
            yield sum(hidden), float(model.log_conditionals(tokens, masked).detach().sum())


@pytest.fixture(scope="module")
def every_mask() -> list[tuple[int, float]]:
    return list(scores_of_all_masks(model_of("mdlm", random_network(Mdlm)), tokens_of(1, 6)))


def test_the_cut_times_are_missing_exactly(every_mask: list[tuple[int, float]]) -> None:
    """E of the public loss: by quadrature over time and all masks, by the weights of sizes, in the note."""
    n, eps, noise = 6, 0.02, 0.05
    u = (np.arange(200_000) + 0.5) / 200_000
    time = eps + (1 - eps) * u
    rate = (1 - noise) * time
    expected, area = 0.0, 0.0
    by_size = np.zeros(n + 1)
    for size, log_p in every_mask:
        expected += log_p * float((rate**size * (1 - rate) ** (n - size) / time).mean())
        by_size[size] += log_p / size / math.comb(n, size)
    area = float(by_size.sum())
    design = RandomTime(8, eps=eps, noise_eps=noise)
    size = np.arange(1, n + 1)
    weight = design.weight_by_size(np.full(n, n), size)
    assert weight is not None
    assert float(weight @ by_size[1:]) == pytest.approx(expected, rel=1e-6)
    bias = expected - area
    assert bias > 0.1  # nats: the public number is too good
    many = RandomTime(4096, eps=eps, noise_eps=noise)
    estimate = me.estimate_evidence(model_of("mdlm", random_network(Mdlm)), tokens_of(1, 6), many)
    assert estimate.mask_se is not None
    assert abs(estimate.log_evidence - expected) < 4 * estimate.mask_se
    note = next(note for note in estimate.notes if "the weights of random-time" in note)
    value, error = note.split(" by ")[1].split(" (masks)")[0].split(" ± ")
    rounding = 0.5 * 0.1 ** len(value.split(".")[1])
    assert abs(float(value) * n - bias) < n * (4 * float(error) + rounding)


def test_the_rounding_of_llada_is_biased_exactly(every_mask: list[tuple[int, float]]) -> None:
    """Sizes of 6 tokens in a batch of 12, for every k: even ones have 1.5 times their share."""
    n, batch = 6, 12
    by_size = np.zeros(n + 1)
    for size, log_p in every_mask:
        by_size[size] += log_p / size / math.comb(n, size)
    expected = 0.0
    for k in range(1, n + 1):
        spaced = torch.round(torch.linspace(float(k), k + (batch - 1) * 0.5, steps=batch)).long()
        expected += float(by_size[((spaced - 1) % n + 1).numpy()].mean())
    size = np.arange(1, n + 1)
    weight = LLaDA(batch, batch=batch).weight_by_size(np.full(n, n), size)
    assert weight.tolist() == [0.5, 1.5, 0.5, 1.5, 0.5, 1.5]
    assert float(weight @ by_size[1:]) == pytest.approx(expected)
    assert abs(expected - by_size.sum()) > 0.01
    assert not LLaDA(batch, batch=batch).covers_all_sizes(n)
    assert LLaDA(16, batch=16).covers_all_sizes(32)


def test_the_error_of_blocks_is_known_from_few_texts() -> None:
    """A text of 16 blocks has 64 masks of 4 sizes, as 16 texts of 4 tokens have."""
    blocks, texts = RandomTime(4, eps=0.001, blocks=4), RandomTime(4, eps=0.001)
    assert blocks.enough_draws(np.array([64]), "own") == texts.enough_draws(np.full(16, 4), "own") == 4
    assert texts.enough_draws(np.array([64]), "own") > 4
    assert blocks.unknown_error(np.array([64]), "own") is None
    assert "infinite variance" in RandomTime(4, blocks=4).unknown_error(np.array([64]), "own")


@pytest.mark.usefixtures("unchecked")
def test_blocks_in_continuous_time_estimate_their_sum_over_sizes() -> None:
    """Without eps: the mean over many draws is Σ over blocks and sizes of the mean score within the block."""
    tokens, n, size = tokens_of(1, 5), 5, 2
    model = model_of("mdlm", random_network(Mdlm))
    expected = 0.0
    for start in range(0, n, size):
        places = list(range(start, min(start + size, n)))
        for m in range(1, len(places) + 1):
            chosen = list(itertools.combinations(places, m))
            for some in chosen:
                masked = torch.tensor([[j in some or j >= start + size for j in range(n)]])
                log_p = model.log_conditionals(tokens, masked)[0].detach()
                expected += float(log_p[list(some)].mean()) / len(chosen)
    estimates = [
        me.estimate_evidence(model, tokens, RandomTime(256, blocks=size), seed=seed) for seed in range(16)
    ]
    assert {(each.mask_se, each.kind) for each in estimates} == {(None, "lower_bound")}
    found = np.array([each.log_evidence for each in estimates])
    assert abs(found.mean() - expected) < 4 * found.std(ddof=1) / 4


def test_joined_texts_are_cut_as_in_the_public_evaluations() -> None:
    """An end-of-text token after each text; blocks with ends, without, and with the first token seen."""
    tokenizer = small_tokenizer()
    model = MaskedLM(small_bert(tokenizer), tokenizer)
    texts = [SENTENCES[0], "", SENTENCES[1]]
    end = tokenizer.cls_token_id  # what encode(eos_token)[0] is for a tokenizer of BERT
    running = [i for text in texts for i in [*tokenizer(text, add_special_tokens=False)["input_ids"], end]]

    def blocks(joining: Joining) -> Tokens:
        options = replace(model.encoding, block_size=8, joining=joining)
        return encode_texts(tokenizer, texts, options).tokens

    wrapped = blocks(Joining(ends=True))
    expected = [[end, *running[i : i + 6], end] for i in range(0, len(running) - 5, 6)]
    assert wrapped.values.tolist() == expected
    assert bool(wrapped.maskable.all())
    plain = blocks(Joining())
    assert plain.values.tolist() == [running[i : i + 8] for i in range(0, len(running) - 7, 8)]
    seen = blocks(Joining(visible=1))
    assert seen.values.tolist() == plain.values.tolist()
    assert seen.maskable.sum(1).tolist() == [7] * len(plain)
    assert seen.context[:, 0].all()
    tokenizer.cls_token = tokenizer.sep_token = None
    with pytest.raises(InputError, match="no end-of-text token"):
        blocks(Joining())


def test_a_recipe_on_the_command_line(run: CommandLine, tmp_path: Path) -> None:
    model, texts = save_bert(tmp_path / "bert"), tmp_path / "texts.txt"
    texts.write_text("\n".join(SENTENCES * 12) + "\n")
    words = ("score", model, texts, "--recipe", "mdlm", "--block-size", "16", "--device", "cpu")
    result = run(*words, "--json", tmp_path / "a.json", "--out", tmp_path / "run")
    assert result.code == 0, result.err
    numbers = json.loads((tmp_path / "a.json").read_text())
    assert numbers["design"] == {
        "name": "random-time",
        **{"draws": 8, "replicates": 8, "eps": 0.001, "noise_eps": 0.001, "blocks": None, "offset": 0},
    }
    assert numbers["recipe"]["name"] == "mdlm"
    assert numbers["n_tokens"] == 16 * numbers["n_observations"]
    assert "perplexity bound" in result.out
    assert "as mdlm names it" in result.out
    assert any("the weights of random-time move the number by" in note for note in numbers["notes"])
    assert "blocks of 16 tokens in place of the recipe's 1024" in numbers["notes"]
    other = run(*words, "--design", "random-size:8")
    assert other.code == 0, other.err
    assert "as context" not in other.out  # the special tokens are scored on purpose
    other = run(*words, "--target-se", "9")
    assert "the masks of random-size in place of" in " ".join(other.out.split())
    assert "in place of the recipe's random-time:8,eps=0.001,noise-eps=0.001" in " ".join(other.out.split())


def test_llada_and_bd3lm_on_the_command_line(run: CommandLine, tmp_path: Path) -> None:
    model, texts = save_bert(tmp_path / "bert"), tmp_path / "texts.txt"
    texts.write_text("\n".join(SENTENCES[:2]) + "\n")
    result = run("score", model, texts, "--recipe", "llada", "--device", "cpu", "--json", tmp_path / "a.json")
    assert result.code == 0, result.err
    numbers = json.loads((tmp_path / "a.json").read_text())
    assert (numbers["n_masks"], numbers["n_observations"]) == (256, 2)
    assert numbers["mask_se"] is not None
    assert "perplexity" not in result.out
    texts.write_text("\n".join(SENTENCES) + "\n")
    block = ("--recipe", "bd3lm", "--block-size", "12", "--device", "cpu")
    result = run("score", model, texts, *block, "--json", tmp_path / "b.json")
    assert result.code == 0, result.err
    numbers = json.loads((tmp_path / "b.json").read_text())
    assert numbers["n_tokens"] == 11 * numbers["n_observations"]
    refused = run("score", model, texts, "--recipe", "bd3lm", "--block-size", "1")
    assert refused.code == 2
    assert "block_size=1 leaves no token to score after the first 1; give more" in refused.err
    refused = run("score", model, texts, "--recipe", "sedd", "--block-size", "60")
    assert refused.code == 2
    assert "too few for a block of 60; give a smaller --block-size" in refused.err
    printed = run("score", model, texts, "--recipe", "sedd", "--block-size", "12", "--device", "cpu")
    assert "SEDD's own number is its score entropy" in " ".join(printed.out.split())
    refused = run("score", model, texts, "--recipe", "sedd")
    assert refused.code == 2
    assert "block_size=1024, but the model reads 64 tokens" in refused.err
