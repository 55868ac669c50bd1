"""Diffusion language models: the vocabulary head at hidden places, and the conventions of published numbers.

`head`: the same BERT with random weights is scored as a masked language model of transformers, as diffusion
models of three families (logits of the place itself, of the place before, without the mask token), and as a
function that gives full logits at every place. All hide the same 15 % of rows of 64 tokens, in calls of 1,024
tokens, and must agree on every log-probability. Times are of the processor; peak memory is what a new process
needs beside its model. Takes about five minutes on one core.

`recipes`: networks of two layers are trained a little on the characters of a play, each as its family is, and
score its end by the designs of `--recipe`. Each estimate is compared with the repository's own loss on the
same masks. What a convention changes is Σ over sizes of (w_M - 1)·S(x; M), from masks of every size; for
blocks of four tokens, from all masks. Mask variances are the means of mask_se² over seeds, at equal numbers
of passes. Takes about five minutes of one core and needs MASKEVIDENCE_DATA.
"""

import argparse
import math
import subprocess
import sys
from functools import partial
from pathlib import Path
from time import process_time
from typing import Any

from _timing import (
    Target,
    arguments,
    data,
    finish,
    interleaved,
    machine,
    random_bert,
    resident,
    show,
    spread_of_ratio,
    times_faster,
)

# isort: split
import numpy as np
import torch

import _recipes as public
import maskevidence as me
from maskevidence.core.masks.design import MaskDesign
from maskevidence.core.masks.design_words import parse_design
from maskevidence.core.tokens import Tokens
from maskevidence.texts.diffusion import DiffusionNetwork, named_diffusion
from maskevidence.texts.published import LLaDA, RandomTime
from maskevidence.texts.recipes import RECIPES

PARTS = ("head", "recipes")
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
IN_BLOCKS = 8  # texts of which every mask of every block is scored
SCORED = (16, 24, 33, 48)  # tokens of LLaDA's texts, after a context


def main() -> int:
    parser = arguments(__doc__.splitlines()[0])
    parser.add_argument("--parts", default=",".join(PARTS), help=f"which parts, of {', '.join(PARTS)}")
    parser.add_argument("--memory", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.memory:
        shape, way = options.memory
        print(peak_memory((SHAPES | QUICK)[shape], way))
        return 0
    if "recipes" in options.parts.split(","):
        data()  # ends here without data
    numbers, targets = {}, []
    for part in options.parts.split(","):
        numbers[part], of_part = {"head": head, "recipes": recipes}[part](quick=options.quick)
        targets += of_part
    return finish(numbers, targets, options.json)


def head(*, quick: bool) -> tuple[dict[str, Any], list[Target]]:
    """Time and peak memory of every way, relative to transformers' own."""
    numbers, rows, targets = {}, [], []
    for name, shape in (QUICK if quick else SHAPES).items():
        answers, runs = {}, {}
        tokens, masked = some_rows(shape)
        bert = bert_of(shape)
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


def recipes(*, quick: bool) -> tuple[dict[str, Any], list[Target]]:
    """Each convention: equal to its repository's loss, its errors, its bias, and its variance."""
    length, steps, n_texts, seeds = (16, 2, 12, range(2)) if quick else (128, 400, 32, range(16))
    text, networks = public.play(), {}
    numbers, rows, targets = {}, [], []
    for name, recipe in RECIPES.items():
        print(name, file=sys.stderr, flush=True)
        design = parse_design(recipe.design).design
        network = networks[name] = public.trained(name, text, length, steps, like=networks.get("mdlm"))
        model, tokens = public.read_as(network), rows_of_play(text, length, n_texts, name)
        estimate = me.estimate_evidence(model, tokens, design)
        losses = public.losses(network, design, tokens)
        n_tokens = tokens.n_tokens.double().numpy()
        apart = float(np.abs((estimate.per_observation + losses.pop("same")) / n_tokens).max())
        of_text, bias_se = bias_of(model, tokens, design, seeds)
        per_token = of_text.mean() / n_tokens.mean()
        ratio = variance_over_random_sizes(model, tokens, design, seeds)
        nats = f"{of_text.mean():+.3f} ± {bias_se:.3f}"
        numbers[name] = {
            "estimate": estimate.to_dict(),
            "largest difference": apart,
            "bias, nats per text": float(of_text.mean()),
            "bias_se": bias_se,
            "bias by text": of_text.tolist(),
            "variance over random sizes": ratio,
            "loss above ours, nats per token": {
                way: float((loss + estimate.per_observation).sum() / n_tokens.sum())
                for way, loss in losses.items()
            },
        }
        rows.append(
            (
                name,
                with_errors(estimate),
                f"{apart:.1e}",
                nats,
                f"{100 * math.expm1(-per_token):+.2f} %",
                "–" if ratio is None else f"{ratio:.2f}",
            )
        )
        targets.append(
            Target(f"largest difference from the loss of {name}, nats per token", apart, high=1e-5)
        )
    columns = (
        "recipe",
        "perplexity (masks, data)",
        "difference",
        "bias, nats a text",
        "of perplexity",
        "variance",
    )
    show(f"{n_texts} texts of at most {length} characters; {machine()}", columns, rows)
    above = numbers["sedd"]["loss above ours, nats per token"]
    show("SEDD's loss above ours", ("loss", "nats a token"), [(way, f"{x:+.1e}") for way, x in above.items()])
    return numbers, targets


def rows_of_play(text: public.Play, length: int, n_texts: int, name: str) -> Tokens:
    """Pieces of the end of the play; LLaDA scores their ends alone, BD3-LM all but the first token."""
    values = text.held_out[: n_texts * length].reshape(n_texts, length)
    scored = torch.full((n_texts, 1), length - RECIPES[name].visible)
    if name == "llada":
        scored = torch.tensor(SCORED).clamp(max=length).repeat(n_texts // len(SCORED))[:, None]
    context = torch.arange(length) < length - scored
    return Tokens(values, ~context, context, torch.arange(n_texts))


def with_errors(estimate: me.EvidenceEstimate) -> str:
    """exp(-nats per token) with the errors of masks and of texts."""
    unit = estimate.perplexity_bound * estimate.n_observations / estimate.n_tokens
    errors = [
        f"{unit * error:.3f}" if error is not None else "?" for error in (estimate.mask_se, estimate.data_se)
    ]
    return f"{estimate.perplexity_bound:.3f} ± {errors[0]} ± {errors[1]}"


def bias_of(
    model: me.models.MaskedLM, tokens: Tokens, design: MaskDesign, seeds: range
) -> tuple[np.ndarray, float]:
    """Σ over sizes of (w_M - 1)·S(x; M), nats, of each text; and the error of its mean over texts."""
    if isinstance(design, RandomTime) and design.blocks is not None:
        return bias_in_blocks(model, tokens, design), 0.0
    each = []
    for seed in seeds if isinstance(design, LLaDA) else seeds[:4]:
        scores = me.estimate_evidence(model, tokens, me.EverySize(1), seed=seed).scores
        weight = design.weight_by_size(scores.n_tokens, scores.size)
        assert weight is not None
        each.append(np.bincount(scores.id, (weight - 1) * scores.score))
    means = [of_seed.mean() for of_seed in each]
    return np.mean(each, axis=0), float(np.std(means, ddof=1) / math.sqrt(len(means)))


def bias_in_blocks(model: me.models.MaskedLM, tokens: Tokens, design: RandomTime) -> np.ndarray:
    """The same for blocks, from every mask of every block, for the first texts."""
    size, place = design.blocks or 0, torch.arange(tokens.width)
    subsets = (torch.arange(1, 2**size)[:, None] >> torch.arange(size)) % 2 == 1
    bias = np.zeros(min(len(tokens), IN_BLOCKS))
    for row, maskable in enumerate(tokens.maskable[:IN_BLOCKS]):
        hidden = [
            torch.zeros(len(subsets), tokens.width, dtype=torch.bool) for _ in range(tokens.width // size)
        ]
        for block, masks in enumerate(hidden):
            masks[:, block * size : (block + 1) * size] = subsets
        own = torch.cat(hidden)
        own = own[(own & ~maskable).sum(1) == 0]
        block = own.float().argmax(1) // size
        later = place >= (block[:, None] + 1) * size
        score = scored(model, tokens[torch.full((len(own),), row)], own | later)
        hidden_size, n = own.sum(1), (maskable & (place // size == block[:, None])).sum(1)
        mean = ((score * own).sum(1) / hidden_size).double().numpy()
        m, of_block = hidden_size.numpy(), n.numpy()
        weight = design.weight_by_size(of_block, m)
        assert weight is not None
        n_subsets = [math.comb(*pair) for pair in zip(of_block.tolist(), m.tolist(), strict=True)]
        bias[row] = float(((weight - 1) * mean / n_subsets).sum())
    return bias


def variance_over_random_sizes(
    model: me.models.MaskedLM, tokens: Tokens, design: MaskDesign, seeds: range
) -> float | None:
    """mask_se² of the design over that of uniform sizes with as many passes; None for blocks."""
    if isinstance(design, RandomTime) and design.blocks is not None:
        return None
    n = int(design.n_draws(np.array([1]))[0])
    seeds = seeds if n < 64 else seeds[:2]
    variance = []
    for each in (design, me.RandomSize(n)):
        errors = [me.estimate_evidence(model, tokens, each, seed=seed).mask_se for seed in seeds]
        variance.append(np.mean([error**2 for error in errors if error is not None]))
    return float(variance[0] / variance[1])


def bert_of(shape: tuple[int, ...]) -> Any:
    hidden_size, layers, heads, n_ids, _ = shape
    return random_bert(n_ids, hidden_size, layers, heads)


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
    model = read_as(way, bert_of(shape))
    few = tokens[torch.arange(1)]
    scored(model, few, masked[:1])  # what libraries allocate once
    Path("/proc/self/clear_refs").write_text("5")  # the peak from here on
    before = resident("VmRSS")
    scored(model, tokens, masked)
    return resident("VmHWM") - before


def in_new_process(shape: str, way: str) -> float:
    command = [sys.executable, __file__, "--memory", shape, way]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()[-1])


if __name__ == "__main__":
    sys.exit(main())
