"""Diffusion language models: bias and variance of the conventions of published numbers.

Networks of two layers are trained a little on the characters of a play, each as its family is, and score its
end by the designs of `--recipe` (tests/texts/test_recipes.py holds each design to its repository's loss on
the same masks). What a convention changes is Σ over sizes of (w_M - 1)·S(x; M), from masks of every size; for
blocks of four tokens, from all masks. Mask variances are the means of mask_se² over seeds, at equal numbers
of passes. Takes about five minutes of one core and needs MASKEVIDENCE_DATA.
"""

import math
import sys
from typing import Any

from _timing import arguments, data, finish, machine, show_results

# isort: split
import numpy as np
import torch

import _recipes as public
import maskevidence as me
from maskevidence.core.masks.design import MaskDesign
from maskevidence.core.masks.design_words import parse_design
from maskevidence.core.tokens import Tokens
from maskevidence.texts.published import LLaDA, RandomTime
from maskevidence.texts.recipes import RECIPES

IN_BLOCKS = 8  # texts of which every mask of every block is scored
SCORED = (16, 24, 33, 48)  # tokens of LLaDA's texts, after a context


def main() -> int:
    options = arguments(__doc__.splitlines()[0]).parse_args()
    data()  # ends here without data
    return finish(recipes(quick=options.quick), [], options.json)


def recipes(*, quick: bool) -> dict[str, Any]:
    """Of each convention its errors, its bias, and its variance."""
    length, steps, n_texts, seeds = (16, 2, 12, range(2)) if quick else (128, 400, 32, range(16))
    text, networks = public.play(), {}
    numbers: dict[str, Any] = {}
    for name, recipe in RECIPES.items():
        print(name, file=sys.stderr, flush=True)
        design = parse_design(recipe.design).design
        network = networks[name] = public.trained(name, text, length, steps, like=networks.get("mdlm"))
        model, tokens = public.read_as(network), rows_of_play(text, length, n_texts, name)
        estimate = me.estimate_evidence(model, tokens, design)
        of_text, bias_se = bias_of(model, tokens, design, seeds)
        ratio = variance_over_random_sizes(model, tokens, design, seeds)
        numbers[name] = {
            "perplexity": with_errors(estimate),
            "estimate": estimate.to_dict(),
            "bias": float(of_text.mean()),
            "bias_se": bias_se,
            "bias by text": of_text.tolist(),
            "share": math.expm1(-of_text.mean() / tokens.n_tokens.double().mean().item()),
            "variance": math.nan if ratio is None else ratio,
        }
    columns = {
        "perplexity (masks, data)": "{perplexity}",
        "bias, nats a text": "{bias:+.3f} ± {bias_se:.3f}",
        "of perplexity": "{share:+.2%}",
        "variance": "{variance:.2f}",
    }
    show_results(f"{n_texts} texts of at most {length} characters; {machine()}", "recipe", columns, numbers)
    return numbers


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


def scored(model: me.models.MaskedLM, tokens: Tokens, masked: torch.Tensor) -> torch.Tensor:
    with torch.no_grad():
        return model.log_conditionals(tokens, masked)


if __name__ == "__main__":
    sys.exit(main())
