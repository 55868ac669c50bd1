"""Small diffusion language models of characters, each trained and called as its family is."""

from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import maskevidence as me
from _timing import data
from maskevidence.texts.diffusion import DiffusionNetwork, named_diffusion

BLOCK, WIDTH, HEADS = 4, 64, 4  # tokens of a block of BD3-LM; entries of a hidden state
EPS = 1e-3  # of noise_lib.py and noise_schedule.py
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
