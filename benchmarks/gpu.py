"""Texts and a masked network on a GPU: how much of the time the network computes, and equal numbers.

Models with random weights in published shapes, BERT-base, ESM-2 650M, a diffusion model of MDLM's size and
LLaDA-8B (the last two are Llamas without the causal mask, read as `llada`), score random rows by random sizes
in calls of the size that the package takes. The calls of the network are kept and made again, one after the
other, by themselves: their time over that of the whole score is the share of the time that the network
computes. Weights are in float32, in float32 with products in TF32, and in bfloat16; LLaDA-8B is only measured
in bfloat16. Some rows are scored on the CPU, too. Then a masked network is fitted to a table on both devices.
It needs a GPU with 40 GiB or more and takes at most four minutes; `--cpu` measures BERT-base alone on the
processor, in float32 and bfloat16, beside the layers of transformers called on the same batches, and
`--quick` runs tiny shapes on any machine.
"""

import sys
import time
from collections.abc import Callable
from typing import Any, NamedTuple

from _timing import Target, arguments, finish, machine, show

# isort: split
import numpy as np
import torch

import maskevidence as me
from maskevidence.core.tokens import Tokens
from maskevidence.texts.diffusion import DiffusionNetwork, named_diffusion

PRECISIONS = ("float32", "TF32", "bfloat16")
N_MASKS, ON_CPU = 4, 4  # masks of a row; rows that are scored on the CPU, too


class Shape(NamedTuple):
    kind: str  # of transformers
    config: dict[str, Any]
    n_rows: int
    length: int
    precisions: tuple[str, ...] = PRECISIONS


def sizes(vocabulary: int, hidden: int, layers: int, heads: int, inner: int) -> dict[str, Any]:
    return {
        "vocab_size": vocabulary,
        "hidden_size": hidden,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "intermediate_size": inner,
    }


ESM = {
    "position_embedding_type": "rotary",
    "max_position_embeddings": 1026,
    "pad_token_id": 1,
    "mask_token_id": 32,
}
SHAPES = {
    "BERT-base, 25 tokens": Shape("Bert", sizes(30_522, 768, 12, 12, 3072), 4096, 25),
    "BERT-base, 256 tokens": Shape("Bert", sizes(30_522, 768, 12, 12, 3072), 512, 256),
    "ESM-2 650M, 512 tokens": Shape("Esm", sizes(33, 1280, 33, 20, 5120) | ESM, 32, 512),
    "diffusion of MDLM's size, 256 tokens": Shape("Llama", sizes(50_258, 768, 12, 12, 3072), 512, 256),
    "LLaDA-8B, 512 tokens": Shape("Llama", sizes(126_464, 4096, 32, 32, 12_288), 32, 512, PRECISIONS[2:]),
}
TINY = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 48}


def main() -> int:
    parser = arguments(__doc__.splitlines()[0])
    parser.add_argument("--cpu", action="store_true", help="BERT-base alone, on the processor")
    options = parser.parse_args()
    has_gpu = torch.cuda.is_available() and not options.cpu
    if not (options.quick or options.cpu or has_gpu):
        print("no GPU was found; --cpu and --quick run less on the CPU", file=sys.stderr)
        return 2
    device = torch.device("cuda" if has_gpu else "cpu")
    shapes = SHAPES
    if options.cpu:
        name, shape = next(iter(SHAPES.items()))
        shapes = {name: shape._replace(n_rows=ON_CPU, precisions=("float32", "bfloat16"))}
    where = torch.cuda.get_device_name() if device.type == "cuda" else machine()
    numbers: dict[str, Any] = {"device": where}
    targets: list[Target] = []
    columns = ("model", "dtype", "masks/s", "calls", "share", "peak, GiB", "from float32", "from the CPU")
    rows = []
    for name, shape in shapes.items():
        if options.quick:
            shape = shape._replace(config=shape.config | TINY, n_rows=4, length=16)
        alike: dict[str, np.ndarray] = {}
        for precision in shape.precisions:
            found = measured(shape, precision, device, alike)
            numbers[f"{name}, {precision}"] = found
            if device.type == "cuda":
                torch.cuda.empty_cache()
            shown = [f"{found['masks_per_second']:,.3g}", found["calls"], f"{found['share']:.2f}"]
            shown += [
                "–" if found[key] is None else f"{found[key]:.1e}" for key in ("float32_apart", "cpu_apart")
            ]
            shown.insert(3, "–" if found["peak_gib"] is None else f"{found['peak_gib']:.1f}")
            rows.append((name, precision, *map(str, shown)))
            targets.append(Target(f"{name}, {precision}: share of the network", found["share"], low=0.9))
            if precision == "float32":
                targets.append(Target(f"{name}: nats a token from the CPU", found["cpu_apart"], high=1e-4))
    show(f"Random weights, random-size:{N_MASKS}, nats a token; {where}", columns, rows)
    if options.cpu:
        parts = ("seconds", "calls_seconds", "layers_seconds")
        found = [[numbers[f"{name}, {precision}"][part] for part in parts] for precision in shape.precisions]
        titles = ("whole score", "calls of the network", "layers of transformers alone")
        cells = [
            (each, f"{a:.2f}", f"{b:.2f}", f"{a / b:.2f}") for each, a, b in zip(titles, *found, strict=True)
        ]
        show("CPU seconds", ("what", *shape.precisions, "times"), cells)
        return finish(numbers, targets, options.json)
    numbers["masked-net"] = fits = fitted(device, quick=options.quick)
    seconds = [f"{fits[name]:.1f}" for name in fits if name.endswith("seconds")]
    apart = f"{fits['same_model_apart']:.1e}"
    show(
        "A masked network",
        ("fit on the CPU, s", f"on {device.type}, s", "one model, nats apart"),
        [(*seconds, apart)],
    )
    targets.append(Target("masked-net: nats a row from the CPU", fits["same_model_apart"], high=1e-3))
    return finish(numbers, targets, options.json)


def random_model(shape: Shape, precision: str, device: torch.device) -> me.models.MaskedLM:
    """A model of a shape, on the device; a Llama becomes a diffusion language model."""
    import transformers

    torch.manual_seed(0)
    settings = getattr(transformers, f"{shape.kind}Config")(**shape.config)
    head = "ForCausalLM" if shape.kind == "Llama" else "ForMaskedLM"
    place = device if precision == "bfloat16" and len(shape.precisions) == 1 else torch.device("cpu")
    dtype = torch.bfloat16 if place != torch.device("cpu") or precision == "bfloat16" else torch.float32
    with torch.device(place):  # the same weights on every device, but for the largest model
        network = getattr(transformers, f"{shape.kind}{head}")._from_config(settings, dtype=dtype)
    mask = shape.config.get("mask_token_id", shape.config["vocab_size"] - 1)
    network = network.to(device).eval()
    if shape.kind != "Llama":
        return me.models.MaskedLM(network, mask_token_id=mask)
    for layer in network.model.layers:
        layer.self_attn.is_causal = False
    return me.models.MaskedLM(DiffusionNetwork(network, named_diffusion("llada"), mask), mask_token_id=mask)


def some_rows(shape: Shape, mask: int) -> Tokens:
    """Rows of random tokens."""
    generator = torch.Generator().manual_seed(0)
    values = torch.randint(4, mask, (shape.n_rows, shape.length), generator=generator)
    every = torch.ones_like(values, dtype=torch.bool)
    return Tokens(values, every, ~every, torch.arange(shape.n_rows))


def measured(
    shape: Shape, precision: str, device: torch.device, alike: dict[str, np.ndarray]
) -> dict[str, Any]:
    """Masks a second, the share of the network and distances of scores; those in float32 go to `alike`."""
    torch.set_float32_matmul_precision("high" if precision == "TF32" else "highest")
    on_gpu = device.type == "cuda"
    model = random_model(shape, precision, device)
    tokens = some_rows(shape, model.mask_token_id)

    def score(some: Tokens = tokens) -> np.ndarray:
        estimate = me.estimate_evidence(model, some, me.RandomSize(N_MASKS), check=False)
        return estimate.per_observation / some.values.shape[1]

    def replay() -> None:
        with torch.inference_mode():
            for inputs, ids, hidden in calls:
                log_probs(inputs, ids, hidden)

    calls: list[tuple[Any, ...]] = []
    log_probs = model._adapter.log_probs
    score(tokens[torch.arange(min(64, shape.n_rows))])  # kernels are loaded and chosen
    if on_gpu:
        torch.cuda.reset_peak_memory_stats()
    model._adapter.log_probs = lambda *call: (calls.append(call), log_probs(*call))[1]  # type: ignore[method-assign]
    per_token = score()
    model._adapter.log_probs = log_probs  # type: ignore[method-assign]
    peak = torch.cuda.max_memory_allocated() / 2**30 if on_gpu else None
    turns = [(seconds(score), seconds(replay)) for _ in range(2)]
    whole, network = (min(each) for each in zip(*turns, strict=True))
    alike.setdefault(precision, per_token)
    few = tokens[torch.arange(ON_CPU)]
    result = {
        "masks_per_second": N_MASKS * shape.n_rows / whole,
        "calls": len(calls),
        "share": network / whole,
        "peak_gib": peak,
        "float32_apart": float(abs(per_token - alike["float32"]).max()) if "float32" in alike else None,
        "cpu_apart": None,
    }
    layers = getattr(model._adapter.network, "base_model", None)
    if layers is not None and not on_gpu:
        with torch.inference_mode():
            alone = min(seconds(lambda: [layers(**inputs) for inputs, *_ in calls]) for _ in range(2))
        result |= {"seconds": whole, "calls_seconds": network, "layers_seconds": alone}
    calls.clear()
    if precision == "float32":
        here = score(few)
        model.to("cpu")
        result["cpu_apart"] = float(abs(score(few) - here).max())
    torch.set_float32_matmul_precision("highest")
    return result


def seconds(work: Callable[[], object]) -> float:
    """Of a piece of work and of what it has sent to the GPU; CPU seconds without one."""
    clock = time.perf_counter if torch.cuda.is_available() else time.process_time
    start = clock()
    work()
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return clock() - start


def fitted(device: torch.device, *, quick: bool) -> dict[str, float]:
    """Seconds of a fit on each device, and how far the scores of one model are apart on both."""
    n_rows, width = (60, 8) if quick else (5000, 256)
    x = me.models.PPCA(n_features=20, n_components=4, seed=1).sample(n_rows, seed=0)
    steps = {"epochs": 1 if quick else 20, "seed": 0}

    def network() -> me.models.MaskedNetwork:
        return me.models.MaskedNetwork(20, width)

    on_cpu, on_device = network(), network().to(device)
    spent = {"cpu_seconds": seconds(lambda: on_cpu.fit(x, **steps))}
    spent["device_seconds"] = seconds(lambda: on_device.fit(x, **steps))
    here = me.estimate_evidence(on_device, x[:50], me.EverySize(2)).log_evidence
    there = me.estimate_evidence(on_device.to("cpu"), x[:50], me.EverySize(2)).log_evidence
    return spent | {"same_model_apart": abs(here - there)}


if __name__ == "__main__":
    sys.exit(main())
