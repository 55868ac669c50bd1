"""Speed, memory and bfloat16 of large masked language models, with random weights in published shapes.

ESM-2 650M, ModernBERT-large and LLaDA-8B (a Llama without the causal mask, read as `llada`) score random rows
with 15 % hidden: tokens per second, the share of the time that the model's own layers take without a head,
peak memory, and how far bfloat16 weights move the mean log-probability of a row. LLaDA-8B is only measured in
bfloat16. It needs a GPU with 40 GiB or more; `--quick` runs tiny shapes on any machine. Takes a few minutes.
"""

import sys
from typing import Any

from _timing import arguments, finish, interleaved, machine, show

# isort: split
import numpy as np
import torch

import maskevidence as me
from maskevidence.core.scores.ask import Asker, MaskedRows
from maskevidence.core.tokens import Tokens
from maskevidence.texts.diffusion import DiffusionNetwork, named_diffusion

RATE, DTYPES = 0.15, ("float32", "bfloat16")
# name -> class of transformers, entries of its configuration, rows, tokens of a row, dtypes
SHAPES: dict[str, tuple[str, dict[str, Any], int, int, tuple[str, ...]]] = {
    "ESM-2 650M": (
        "Esm",
        {
            "vocab_size": 33,
            "hidden_size": 1280,
            "num_hidden_layers": 33,
            "num_attention_heads": 20,
            "intermediate_size": 5120,
            "position_embedding_type": "rotary",
            "max_position_embeddings": 1026,
            "pad_token_id": 1,
            "mask_token_id": 32,
        },
        256,
        512,
        DTYPES,
    ),
    "ModernBERT-large": (
        "ModernBert",
        {
            "vocab_size": 50368,
            "hidden_size": 1024,
            "num_hidden_layers": 28,
            "num_attention_heads": 16,
            "intermediate_size": 2624,
        },
        256,
        512,
        DTYPES,
    ),
    "LLaDA-8B": (
        "Llama",
        {
            "vocab_size": 126464,
            "hidden_size": 4096,
            "num_hidden_layers": 32,
            "num_attention_heads": 32,
            "intermediate_size": 12288,
            "max_position_embeddings": 4096,
        },
        64,
        512,
        DTYPES[1:],
    ),
}
TINY = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 48}


def main() -> int:
    options = arguments(__doc__.splitlines()[0]).parse_args()
    if not options.quick and not torch.cuda.is_available():
        print("no GPU was found; --quick runs tiny shapes on the CPU", file=sys.stderr)
        return 2
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    numbers, rows = {}, []
    for name, (kind, config, n_rows, length, dtypes) in SHAPES.items():
        if options.quick:
            config, n_rows, length, dtypes = config | TINY, 4, 16, DTYPES
        scores: dict[str, np.ndarray] = {}
        for dtype in dtypes:
            model = random_model(kind, config, dtype, device)
            result = measured(model, *some_rows(n_rows, length, model.mask_token_id), scores, dtype)
            numbers[f"{name}, {dtype}"] = result
            apart = abs(scores[dtype] - scores["float32"]).mean() if "float32" in scores else None
            result["from_float32"] = apart
            shown = "–" if apart is None or dtype == "float32" else f"{apart:.1e}"
            peak = "–" if result["peak_gib"] is None else f"{result['peak_gib']:.1f}"
            share = f"{result['share']:.2f}"
            rows.append((name, dtype, f"{result['tokens_per_second']:,.0f}", share, peak, shown))
            del model
    where = torch.cuda.get_device_name() if device.type == "cuda" else machine()
    columns = ("model", "dtype", "tokens/s", "share of its layers", "peak, GiB", "from float32, nats a token")
    show(f"Random weights, {RATE:.0%} hidden; {where}", columns, rows)
    return finish({"models": numbers}, [], options.json)


def random_model(kind: str, config: dict[str, Any], dtype: str, device: torch.device) -> me.models.MaskedLM:
    """A model of a shape, on the device; a Llama becomes a diffusion language model."""
    import transformers

    torch.manual_seed(0)
    settings = getattr(transformers, f"{kind}Config")(**config)
    head = "ForCausalLM" if kind == "Llama" else "ForMaskedLM"
    with torch.device(device):
        network = getattr(transformers, f"{kind}{head}")._from_config(settings, dtype=getattr(torch, dtype))
    mask = config.get("mask_token_id", config["vocab_size"] - 1)
    if kind != "Llama":
        return me.models.MaskedLM(network.eval(), mask_token_id=mask)
    for layer in network.model.layers:
        layer.self_attn.is_causal = False
    return me.models.MaskedLM(
        DiffusionNetwork(network.eval(), named_diffusion("llada"), mask), mask_token_id=mask
    )


def some_rows(n_rows: int, length: int, mask: int) -> tuple[Tokens, torch.Tensor]:
    """Rows of random tokens and masks of them."""
    generator = torch.Generator().manual_seed(0)
    values = torch.randint(4, mask, (n_rows, length), generator=generator)
    every = torch.ones_like(values, dtype=torch.bool)
    masked = torch.rand(values.shape, generator=generator) < RATE
    masked[:, 0] = True
    return Tokens(values, every, ~every, torch.arange(n_rows)), masked


def measured(
    model: me.models.MaskedLM, tokens: Tokens, masked: torch.Tensor, scores: dict[str, np.ndarray], dtype: str
) -> dict[str, Any]:
    """Tokens per second, the share of the layers, peak memory; the mean of each row goes to `scores`."""
    on_gpu = model.device.type == "cuda"
    n_hidden = masked.sum(1).numpy()
    contexts = MaskedRows(tokens, np.arange(len(tokens)), n_hidden, masked.__getitem__)

    def score() -> None:
        found = np.empty(len(tokens))
        for answer in Asker(model).conditionals(contexts):
            found[answer.part] = answer.log_probs.double().sum(1).cpu().numpy() / n_hidden[answer.part]
        scores[dtype] = found

    network = getattr(model.network, "network", model.network)

    def layers() -> None:
        with torch.no_grad():
            for part in model.batches(np.full(len(tokens), tokens.width)):
                network.base_model(tokens.values[torch.from_numpy(part)].to(model.device))
        if on_gpu:
            torch.cuda.synchronize()

    if on_gpu:
        torch.cuda.reset_peak_memory_stats()
    score()
    peak = torch.cuda.max_memory_allocated() / 2**30 if on_gpu else None
    timings = interleaved({"score": score, "layers": layers}, rounds=5)
    seconds = timings["score"].median
    return {
        "tokens_per_second": tokens.values.numel() / seconds,
        "share": timings["layers"].median / seconds,
        "peak_gib": peak,
    }


if __name__ == "__main__":
    sys.exit(main())
