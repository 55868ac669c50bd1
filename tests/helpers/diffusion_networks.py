"""Small diffusion language models with random weights, built and called like the public repositories' models.

LLaDA: a head `transformer.ff_out`, or the tied embeddings, and an attention mask of 0 and 1 that is added to
the scores. Dream: `lm_head`, and a boolean mask for `scaled_dot_product_attention`. MDLM, SEDD and BD3-LM:
blocks modulated by a time, with a final `output_layer.linear`; SEDD scales by its noise and scatters zeros,
BD3-LM reads a noisy and a clean copy.
"""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

N_IDS, MASK, PAD, WIDTH, LENGTH = 40, 39, 3, 16, 24


def output(logits: Tensor) -> Any:
    return SimpleNamespace(logits=logits)


class Block(nn.Module):
    """Attention and a dense layer, each with a residual, modulated if there is a condition."""

    def __init__(self, condition: int = 0) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.attn_out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 2 * WIDTH), nn.GELU(), nn.Linear(2 * WIDTH, WIDTH))
        self.modulation = nn.Linear(condition, 2 * WIDTH) if condition else None

    def forward(self, x: Tensor, mask: Tensor | None = None, c: Tensor | None = None) -> Tensor:
        q, k, v = self.qkv(self.norm1(x)).unflatten(-1, (3, 2, -1)).permute(2, 0, 3, 1, 4)
        attended = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        x = x + self.attn_out(attended.transpose(1, 2).flatten(2))
        inner = self.norm2(x)
        if self.modulation is not None:
            shift, scale = self.modulation(c)[:, None].chunk(2, dim=2)
            inner = inner * (1 + scale) + shift
        return x + self.mlp(inner)


class Llada(nn.Module):
    """LLaDA; with `hears=False` like its first published code, which ignores the attention mask."""

    def __init__(self, *, tied: bool = False, hears: bool = True) -> None:
        super().__init__()
        self.config = SimpleNamespace(max_sequence_length=LENGTH, pad_token_id=PAD)
        self.transformer = nn.ModuleDict(
            {"wte": nn.Embedding(N_IDS, WIDTH), "wpe": nn.Embedding(LENGTH, WIDTH)}
        )
        self.transformer["blocks"] = nn.ModuleList([Block(), Block()])
        self.transformer["ln_f"] = nn.LayerNorm(WIDTH)
        if not tied:
            self.transformer["ff_out"] = nn.Linear(WIDTH, N_IDS)
        self.tied, self.hears = tied, hears

    def get_output_embeddings(self) -> nn.Module:
        return self.transformer["wte" if self.tied else "ff_out"]

    def forward(self, input_ids: Tensor, attention_mask: Tensor | None = None) -> Any:
        x = self.transformer["wte"](input_ids) + self.transformer["wpe"].weight[: input_ids.shape[1]]
        if attention_mask is not None and self.hears:
            least = torch.finfo(x.dtype).min
            attention_mask = (1 - attention_mask.to(x.dtype))[:, None, None] * least
        for block in self.transformer["blocks"]:
            x = block(x, attention_mask if self.hears else None)
        x = self.transformer["ln_f"](x)
        return output(
            F.linear(x, self.transformer["wte"].weight) if self.tied else self.transformer["ff_out"](x)
        )


class Dream(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.config = SimpleNamespace(max_position_embeddings=LENGTH, pad_token_id=PAD)
        self.embed_tokens, self.places = nn.Embedding(N_IDS, WIDTH), nn.Embedding(LENGTH, WIDTH)
        self.layers = nn.ModuleList([Block(), Block()])
        self.lm_head = nn.Linear(WIDTH, N_IDS, bias=False)

    def get_output_embeddings(self) -> nn.Module:
        return self.lm_head

    def forward(self, input_ids: Tensor, attention_mask: Tensor | str | None = None) -> Any:
        x = self.embed_tokens(input_ids) + self.places.weight[: input_ids.shape[1]]
        for layer in self.layers:
            x = layer(x, attention_mask if isinstance(attention_mask, Tensor) else None)
        return output(self.lm_head(x))


class FinalLayer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm_final, self.linear = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, N_IDS)
        self.modulation = nn.Linear(WIDTH, 2 * WIDTH)

    def forward(self, x: Tensor, c: Tensor) -> Tensor:
        shift, scale = self.modulation(c)[:, None].chunk(2, dim=2)
        return self.linear(self.norm_final(x) * (1 + scale) + shift)


class DiT(nn.Module):
    """The network of MDLM, SEDD and BD3-LM; its vocabulary is a bare parameter, so only shapes reveal the
    head.
    """

    def __init__(self) -> None:
        super().__init__()
        self.vocab_embed = nn.Parameter(torch.zeros(N_IDS, WIDTH))
        self.places, self.sigma_map = nn.Embedding(LENGTH, WIDTH), nn.Linear(1, WIDTH)
        self.blocks = nn.ModuleList([Block(WIDTH), Block(WIDTH)])
        self.output_layer = FinalLayer()

    def logits(self, ids: Tensor, sigma: Tensor, places: Tensor, mask: Tensor | None = None) -> Tensor:
        x = self.vocab_embed[ids] + self.places(places)
        c = F.silu(self.sigma_map(sigma[:, None].to(x.dtype)))
        for block in self.blocks:
            x = block(x, mask, c)
        return self.output_layer(x, c)


class Mdlm(DiT):
    """MDLM; with `low=True` it computes under its own bfloat16 autocast."""

    def __init__(self, *, low: bool = False) -> None:
        super().__init__()
        self.config, self.low = SimpleNamespace(model_length=LENGTH), low

    def forward(self, input_ids: Tensor, timesteps: Tensor) -> Any:
        with torch.autocast("cpu", torch.bfloat16, enabled=self.low):
            return output(self.logits(input_ids, timesteps, torch.arange(input_ids.shape[1])))


class Sedd(DiT):
    def forward(self, indices: Tensor, sigma: Tensor) -> Tensor:
        x = self.logits(indices, sigma, torch.arange(indices.shape[1]))
        x = x - torch.expm1(sigma).log().to(x.dtype)[:, None, None] - torch.tensor(N_IDS - 1.0).log()
        return torch.scatter(x, -1, indices[..., None], torch.zeros_like(x[..., :1]))


class Bd3lm(DiT):
    """BD3-LM with blocks of four tokens, each attending to itself and to clean copies of earlier blocks."""

    def __init__(self) -> None:
        super().__init__()
        self.config = SimpleNamespace(model_length=LENGTH)

    def forward(self, input_ids: Tensor, timesteps: Tensor) -> tuple[Tensor]:
        assert input_ids.shape[1] == 2 * LENGTH
        place, clean = torch.arange(2 * LENGTH) % LENGTH, torch.arange(2 * LENGTH) >= LENGTH
        block = place // 4
        own = (block[:, None] == block) & (clean[:, None] == clean)
        mask = own | ((block[:, None] > block) & clean)
        return (self.logits(input_ids, timesteps, place, mask)[:, :LENGTH],)


# name -> family and constructor
NETWORKS: dict[str, tuple[str, Callable[[], nn.Module]]] = {
    "llada": ("llada", Llada),
    "llada, tied": ("llada", lambda: Llada(tied=True)),
    "llada, deaf": ("llada", lambda: Llada(hears=False)),
    "dream": ("dream", Dream),
    "mdlm": ("mdlm", Mdlm),
    "sedd": ("sedd", Sedd),
    "bd3lm": ("bd3lm", Bd3lm),
}


def random_network(make: Callable[[], nn.Module], dtype: torch.dtype = torch.float64) -> nn.Module:
    """A network with large random weights, so that its predictions differ strongly between tokens."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        network = make()
        for parameter in network.parameters():
            parameter.data.normal_(0.0, 0.4)
    return network.to(dtype).eval()
