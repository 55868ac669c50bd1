"""Small diffusion language models of characters, and the losses by which public repositories score them.

The losses are written again from the repositories: masks and times are ours, all else is theirs.
"""

from functools import partial
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import maskevidence as me
from _timing import data
from maskevidence.core.masks.design import DrawnMasks, MaskDesign, drawn_masks
from maskevidence.core.tokens import positions
from maskevidence.texts.diffusion import DiffusionNetwork, named_diffusion
from maskevidence.texts.published import LLaDA, RandomTime

BLOCK, WIDTH, HEADS = 4, 64, 4  # tokens of a block of BD3-LM; entries of a hidden state
EPS = 1e-3  # of noise_lib.py and noise_schedule.py
LEAST_VISIBLE = 1e-3  # where every token is hidden, our noise is that of this share
HELD_OUT = 0.1  # of the play, at the end


class Play(NamedTuple):
    """The play as numbers of characters; the mask token has the number `mask`."""

    train: Tensor
    held_out: Tensor
    mask: int


def play() -> Play:
    text = data("tiny_shakespeare", "tiny_shakespeare.txt").read_text()
    known = {character: number for number, character in enumerate(sorted(set(text)))}
    ids = torch.tensor([known[character] for character in text])
    cut = round(len(ids) * (1 - HELD_OUT))
    return Play(ids[:cut], ids[cut:], len(known))


def rotated(x: Tensor, place: Tensor) -> Tensor:
    """Pairs of entries, turned by angles that grow with the place: attention learns distances."""
    first, second = x.chunk(2, dim=-1)
    angle = place[:, None] * 100.0 ** -torch.linspace(0, 1, first.shape[-1])
    cos, sin = angle.cos(), angle.sin()
    return torch.cat([first * cos - second * sin, first * sin + second * cos], dim=-1)


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.joined = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.dense = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))

    def forward(self, x: Tensor, place: Tensor, allowed: Tensor | None) -> Tensor:
        q, k, v = self.qkv(self.norm1(x)).unflatten(-1, (3, HEADS, -1)).permute(2, 0, 3, 1, 4)
        q, k = rotated(q, place), rotated(k, place)
        attended = F.scaled_dot_product_attention(q, k, v, attn_mask=allowed)
        x = x + self.joined(attended.transpose(1, 2).flatten(2))
        return x + self.dense(self.norm2(x))


class Network(nn.Module):
    """Logits of every place for texts of at most `length` tokens, called as its family is."""

    def __init__(self, family: str, length: int, mask: int) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.family, self.mask = family, mask
        self.config = SimpleNamespace(model_length=length)
        self.embed, self.noise = nn.Embedding(mask + 1, WIDTH), nn.Linear(1, WIDTH)
        self.layers = nn.ModuleList([Layer(), Layer()])
        self.norm, self.out = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, mask + 1)
        nn.init.normal_(self.out.weight, std=0.02)
        nn.init.constant_(self.out.bias, -float(np.log(mask)))  # SEDD's scores: nearly normalised at first

    def logits(self, ids: Tensor, sigma: Tensor | None = None) -> Tensor:
        length = self.config.model_length
        place, clean = torch.arange(ids.shape[1]) % length, torch.arange(ids.shape[1]) >= length
        x, allowed = self.embed(ids), None
        if sigma is not None:
            x = x + self.noise((-torch.expm1(-sigma))[:, None, None])
        if self.family == "bd3lm":
            block = place // BLOCK
            allowed = (block[:, None] == block) & (clean[:, None] == clean)
            allowed = allowed | ((block[:, None] > block) & clean)
        for layer in self.layers:
            x = layer(x, place, allowed)
        return self.out(self.norm(x))


class Timed(Network):
    def forward(self, input_ids: Tensor, timesteps: Tensor) -> Any:
        return SimpleNamespace(logits=self.logits(input_ids))


class Untimed(Network):
    def forward(self, input_ids: Tensor) -> Any:
        return SimpleNamespace(logits=self.logits(input_ids))


class Scores(Network):
    def forward(self, indices: Tensor, sigma: Tensor) -> Tensor:
        scores = self.logits(indices, sigma) - torch.expm1(sigma).log()[:, None, None]
        return torch.scatter(scores, -1, indices[..., None], torch.zeros_like(scores[..., :1]))


NETWORKS = {"mdlm": Timed, "llada": Untimed, "sedd": Scores, "bd3lm": Timed}


def trained(family: str, text: Play, length: int, steps: int, like: Network | None) -> Network:
    """A network of two layers, by AdamW at 5e-3 with a warm-up and a linear decay, 32 texts a step.

    LLaDA takes the weights of MDLM's network, which is trained in the same way.
    """
    network = NETWORKS[family](family, length, text.mask)
    if family == "llada" and like is not None:
        network.load_state_dict(like.state_dict())
        return network.eval()
    generator = torch.Generator().manual_seed(0)
    optimizer = torch.optim.AdamW(network.parameters(), lr=5e-3)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda i: min((i + 1) / 50, 1 - i / steps))
    for _ in range(steps):
        start = torch.randint(len(text.train) - length, (32, 1), generator=generator)
        x0 = text.train[start + torch.arange(length)]
        blocks = length // BLOCK if family == "bd3lm" else 1
        time = EPS + (1 - EPS) * torch.rand((32, blocks), generator=generator)
        time = time.repeat_interleave(length // blocks, dim=1)
        hidden = torch.rand(x0.shape, generator=generator) < (1 - EPS) * time
        shown = torch.where(hidden, text.mask, x0)
        if family == "sedd":
            logits = network.logits(shown, -torch.log1p(-(1 - EPS) * time[:, 0]))
            z = logits[..., : text.mask].logsumexp(-1).exp()
            loss = z - 1 - logits.gather(-1, x0[..., None])[..., 0]
        else:
            given = torch.cat([shown, x0], dim=1) if family == "bd3lm" else shown
            logits = network.logits(given)[:, :length]
            loss = F.cross_entropy(logits.transpose(1, 2), x0, reduction="none")
        optimizer.zero_grad()
        (loss * hidden / time.clamp(min=0.05)).mean().backward()
        nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        optimizer.step()
        schedule.step()
    return network.eval()


def read_as(network: Network) -> me.models.MaskedLM:
    """The network as `maskevidence` scores it."""
    diffusion = DiffusionNetwork(network, named_diffusion(network.family), network.mask)
    return me.models.MaskedLM(diffusion, mask_token_id=network.mask)


def losses(network: Network, design: MaskDesign, tokens: me.Tokens) -> dict[str, np.ndarray]:
    """The repository's loss on our masks, nats per text; "same" is the loss that ours has to equal."""
    masks = masks_of(design, tokens)
    if isinstance(design, LLaDA):
        return {"same": loss_of_llada(network, design, masks)}
    assert isinstance(design, RandomTime)
    if network.family != "sedd":
        loss = loss_of_bd3lm if network.family == "bd3lm" else loss_of_mdlm
        return {"same": loss(network, design, masks)}
    entropy = partial(score_entropy, network, design, masks)
    return {
        "same": entropy(normalised=True, at_share=True),
        "normalised, at the noise of its time": entropy(normalised=True, at_share=False),
        "as published": entropy(normalised=False, at_share=False),
    }


class Masks(NamedTuple):
    """The masks of an estimate with seed 0, as the repositories need them: one row per mask.

    `hidden` (n, L) are the tokens that a pass hides and scores, `time` (n,) is what it drew.
    """

    drawn: DrawnMasks
    x0: Tensor
    hidden: Tensor
    time: Tensor


def masks_of(design: MaskDesign, tokens: me.Tokens) -> Masks:
    ids = tokens.ids.numpy()
    drawn = drawn_masks(design, me.MaskKey(), ids, tokens.maskable.numpy(), position=positions(ids))
    hidden = torch.from_numpy(drawn.scored(slice(None), drawn.masked()))
    time = torch.ones(len(hidden), dtype=torch.float64)
    if isinstance(
        design, RandomTime
    ):  # the low bits of a draw number are the time, 0 where nothing is hidden
        bits = torch.from_numpy(drawn.draw & (2**32 - 1))
        hidden = hidden & (bits > 0)[:, None]
        time = design.eps + (1 - design.eps) * (bits + 0.5) / 2**32
    return Masks(drawn, tokens.values[torch.from_numpy(drawn.row)], hidden, time)


def sum_by_text(masks: Masks, values: Tensor) -> np.ndarray:
    return np.bincount(masks.drawn.row, weights=values.double().numpy())


def logits_of(network: Network, ids: Tensor, *given: Tensor) -> Tensor:
    """In calls of 128 texts, float64."""
    with torch.no_grad():
        calls = zip(*(part.split(128) for part in (ids, *given)), strict=True)
        answers = [network(*call) for call in calls]
    return torch.cat([getattr(answer, "logits", answer) for answer in answers]).double()


def loss_of_mdlm(network: Network, design: RandomTime, masks: Masks) -> np.ndarray:
    """-log p·dσ/expm1(σ) of hidden tokens, nats per text; kuleshov-group/mdlm, diffusion.py."""
    sigma, d_sigma = -torch.log1p(-(1 - EPS) * masks.time), (1 - EPS) / (1 - (1 - EPS) * masks.time)
    shown = torch.where(masks.hidden, network.mask, masks.x0)
    logits = logits_of(network, shown, torch.zeros(len(shown)))
    logits[..., network.mask] += -1e6
    log_p = logits.log_softmax(-1).gather(-1, masks.x0[..., None])[..., 0]
    of_mask = (log_p * masks.hidden).sum(1) * d_sigma / torch.expm1(sigma)
    return -sum_by_text(masks, of_mask) / design.draws


def score_entropy(
    network: Network, design: RandomTime, masks: Masks, *, normalised: bool, at_share: bool
) -> np.ndarray:
    """Σ_v s_v - r·log s_x + r·(log r - 1), r = 1/expm1(σ), times dσ, nats per text.

    louaaron/Score-Entropy-Discrete-Diffusion, graph_lib.py and losses.py.

    Args:
        network: the model.
        design: the masks' design.
        masks: its masks.
        normalised: whether the scores are divided by Z, so that they add up to r.
        at_share: whether the network hears the noise of the share of hidden tokens, not that of its time.
    """
    sigma, d_sigma = -torch.log1p(-(1 - EPS) * masks.time), (1 - EPS) / (1 - (1 - EPS) * masks.time)
    shown = torch.where(masks.hidden, network.mask, masks.x0)
    visible = 1 - masks.hidden.double().mean(1)
    heard = -visible.clamp(LEAST_VISIBLE, 1 - 1e-6).log() if at_share else sigma
    log_score = logits_of(network, shown, heard.float())[..., : network.mask]
    if normalised:
        log_score = log_score.log_softmax(-1) - torch.expm1(sigma).log()[:, None, None]
    ratio = (1 / torch.expm1(sigma))[:, None]
    of_text = log_score.gather(-1, masks.x0[..., None])[..., 0]
    entropy = log_score.exp().sum(-1) - ratio * of_text + ratio * (ratio.log() - 1)
    return sum_by_text(masks, (entropy * masks.hidden).sum(1) * d_sigma) / design.draws


def loss_of_llada(network: Network, design: LLaDA, masks: Masks) -> np.ndarray:
    """Cross-entropy over the share of hidden tokens, nats per text; ML-GSAI/LLaDA, eval_llada.py."""
    logits = logits_of(network, torch.where(masks.hidden, network.mask, masks.x0))
    loss = F.cross_entropy(logits.transpose(1, 2), masks.x0, reduction="none")
    share = masks.hidden.sum(1) / torch.from_numpy(masks.drawn.maskable.sum(1)[masks.drawn.row])
    return sum_by_text(masks, (loss * masks.hidden).sum(1) / share) / design.draws


def loss_of_bd3lm(network: Network, design: RandomTime, masks: Masks) -> np.ndarray:
    """All blocks noised in one call beside a clean copy, -log p/t, nats per text; kuleshov-group/bd3lms."""
    n_blocks = network.config.model_length // BLOCK
    turn = masks.drawn.row * design.draws + (masks.drawn.draw >> 32) // n_blocks
    order = torch.from_numpy(np.argsort(turn, kind="stable"))
    hidden, x0 = masks.hidden[order].unflatten(0, (-1, n_blocks)), masks.x0[order][::n_blocks]
    weight = (hidden / masks.time[order].unflatten(0, (-1, n_blocks))[..., None]).sum(1)
    both = torch.cat([torch.where(hidden.any(1), network.mask, x0), x0], dim=1)
    logits = logits_of(network, both, torch.zeros(len(both)))[:, : x0.shape[1]]
    logits[..., network.mask] = -1e6
    log_p = logits.log_softmax(-1).gather(-1, x0[..., None])[..., 0]
    return -(log_p * weight).sum(1).unflatten(0, (-1, design.draws)).mean(1).numpy()
