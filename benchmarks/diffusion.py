"""Speed and memory of diffusion language models: the vocabulary head at hidden places against full logits.

The same BERT with random weights is scored as a masked language model of transformers, as diffusion models of
three families (logits of the place itself, of the place before, without the mask token), and as a function
that gives full logits at every place. All hide the same 15 % of rows of 64 tokens, in calls of 1,024 tokens,
and must agree on every log-probability. Times are of the processor; peak memory is what a new process needs
beside its model. Takes about five minutes on one core.
"""

import argparse
import subprocess
import sys
from functools import partial
from pathlib import Path
from time import process_time
from typing import Any

from _timing import Target, arguments, finish, interleaved, machine, show, spread_of_ratio, times_faster

# isort: split
import torch

import maskevidence as me
from maskevidence.models.text.diffusion import DiffusionNetwork, named_diffusion
from maskevidence.tokens import Tokens

PARTS = ("head",)
LENGTH, RATE = 64, 0.15
# name -> hidden size, layers, heads, vocabulary, rows
SHAPES = {
    "2 layers of 128, 50,258 tokens": (128, 2, 2, 50_258, 32),
    "2 layers of 128, 126,464 tokens": (128, 2, 2, 126_464, 32),
    "6 layers of 384, 50,258 tokens": (384, 6, 6, 50_258, 16),
    "6 layers of 384, 126,464 tokens": (384, 6, 6, 126_464, 16),
}
QUICK = {"2 layers of 128, 500 tokens": (128, 2, 2, 500, 4)}
OWN, FULL = "transformers", "full logits"
FAMILIES = ("llada", "dream", "mdlm")


def main() -> int:
    parser = arguments(__doc__.splitlines()[0])
    parser.add_argument("--parts", default=",".join(PARTS), help=f"which parts, of {', '.join(PARTS)}")
    parser.add_argument("--memory", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.memory:
        shape, way = options.memory
        print(peak_memory((SHAPES | QUICK)[shape], way))
        return 0
    numbers, targets = {}, []
    for part in options.parts.split(","):
        numbers[part], of_part = {"head": head}[part](quick=options.quick)
        targets += of_part
    return finish(numbers, targets, options.json)


def head(*, quick: bool) -> tuple[dict[str, Any], list[Target]]:
    """Time and peak memory of every way, relative to transformers' own."""
    numbers, rows, targets = {}, [], []
    for name, shape in (QUICK if quick else SHAPES).items():
        answers, runs = {}, {}
        tokens, masked = some_rows(shape)
        bert = random_bert(shape)
        for way in (OWN, *FAMILIES, FULL):
            model = read_as(way, bert)
            answers[way] = scored(model, tokens, masked)[masked]
            runs[way] = partial(scored, model, tokens, masked)
        apart = float((answers["llada"] - answers[FULL]).abs().max())
        timings = interleaved(runs, rounds=7, clock=process_time)
        print(name, file=sys.stderr, flush=True)
        peaks = {way: in_new_process(name, way) for way in (OWN, *FAMILIES, FULL)}
        numbers[name] = {"largest difference": apart}
        for way in (*FAMILIES, FULL):
            time, memory = times_faster(timings, way, OWN), peaks[way] / peaks[OWN]
            numbers[name][way] = {"time": time, "memory": memory}
            spread = spread_of_ratio(timings, way, OWN)
            rows.append((name, way, f"{time:.2f} ({spread})", f"{memory:.2f}", f"{peaks[way]:,.0f}"))
            if way != FULL:
                targets.append(Target(f"time, {way}, {name}", time, high=1.05))
                targets.append(Target(f"memory, {way}, {name}", memory, high=1.2))
        targets.append(Target(f"largest difference, {name}", apart, high=1e-5))
    columns = ("BERT", "read as", "time over transformers' path (range)", "memory over it", "peak, MiB")
    show(f"{RATE:.0%} of {LENGTH} tokens hidden; {machine()}", columns, rows)
    return numbers, targets


def random_bert(shape: tuple[int, ...]) -> Any:
    from transformers import BertConfig, BertForMaskedLM

    hidden_size, layers, heads, n_ids, _ = shape
    sizes = {"num_hidden_layers": layers, "num_attention_heads": heads, "intermediate_size": 4 * hidden_size}
    torch.manual_seed(0)
    return BertForMaskedLM(BertConfig(vocab_size=n_ids, hidden_size=hidden_size, **sizes)).eval()


def read_as(way: str, bert: Any) -> me.models.MaskedLM:
    """The BERT, read in one of the ways; its last token is the mask."""
    mask = bert.config.vocab_size - 1
    if way == OWN:
        return me.models.MaskedLM(bert, mask_token_id=mask)
    if way == FULL:
        return me.models.MaskedLM.from_callable(lambda ids: bert(input_ids=ids).logits, mask_token_id=mask)
    network = WithTime(bert) if way == "mdlm" else bert
    return me.models.MaskedLM(DiffusionNetwork(network, named_diffusion(way), mask), mask_token_id=mask)


class WithTime(torch.nn.Module):
    """Takes a time, which changes nothing."""

    def __init__(self, network: torch.nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, input_ids: torch.Tensor, timesteps: torch.Tensor) -> Any:
        return self.network(input_ids=input_ids)


def some_rows(shape: tuple[int, ...]) -> tuple[Tokens, torch.Tensor]:
    """Rows of random tokens, and which of them are hidden."""
    generator = torch.Generator().manual_seed(0)
    n_rows, n_ids = shape[4], shape[3]
    values = torch.randint(n_ids - 1, (n_rows, LENGTH), generator=generator)
    every = torch.ones_like(values, dtype=torch.bool)
    masked = torch.rand(values.shape, generator=generator) < RATE
    return Tokens(values, every, ~every, torch.arange(n_rows)), masked


def scored(model: me.models.MaskedLM, tokens: Tokens, masked: torch.Tensor) -> torch.Tensor:
    with torch.no_grad():
        return model.log_conditionals(tokens, masked)


def peak_memory(shape: tuple[int, ...], way: str) -> float:
    """MiB that scoring adds to the memory of this process at its peak."""
    tokens, masked = some_rows(shape)
    model = read_as(way, random_bert(shape))
    few = tokens[torch.arange(1)]
    scored(model, few, masked[:1])  # what libraries allocate once
    Path("/proc/self/clear_refs").write_text("5")  # the peak from here on
    before = memory("VmRSS")
    scored(model, tokens, masked)
    return memory("VmHWM") - before


def memory(name: str) -> float:
    return int(Path("/proc/self/status").read_text().split(f"{name}:")[1].split()[0]) / 1024


def in_new_process(shape: str, way: str) -> float:
    command = [sys.executable, __file__, "--memory", shape, way]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()[-1])


if __name__ == "__main__":
    sys.exit(main())
