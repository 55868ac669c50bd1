"""Seconds of `wild-type-fill` against the loop of the public scripts, and what the passes take by themselves.

    python benchmarks/variant_seconds.py

The loop has one call of the network for each token of the sequence, with full logits, whatever the mutants.
The passes by themselves are the layers of the network without its head on the same contexts, in calls of the
best size. Networks with random weights: a BERT with 2 layers of 64 on 125 residues, with mutants of all sites
and of 60 sites; and the shape of ESM-2 with 8 million parameters (6 layers of 320, 20 heads) on TEM-1, where
both sides are measured on the same 40 of the 286 sites. The rounds of the contestants take turns.
"""

import sys
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from _timing import Target, arguments, finish, interleaved, machine, show, spread_of_ratio, times_faster

# isort: split
import numpy as np
import torch

import maskevidence as me
from maskevidence.texts.fasta import read_fasta
from maskevidence.texts.vocabulary import letter_tokenizer
from variants import FAMILIES, RESIDUES, bert, proteins, single_mutants

CALLS = (1, 4, 32)  # rows


def main() -> int:
    parser = arguments(__doc__.splitlines()[0])
    parser.add_argument("--sites", type=int, default=40, help="of TEM-1; 0 leaves it out")
    parser.add_argument("--threads", type=int, action="append", help="by default 1, and then 2")
    parser.add_argument("--cpu", action="store_true", help="seconds of computing, for a busy machine")
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    clock = time.process_time if options.cpu else time.perf_counter
    tem1 = read_fasta(proteins("blat_ecolx_wild_type.fasta")).sequences[0]
    first = read_fasta(proteins(f"{FAMILIES[0]}.fasta")).sequences[0][: 4 if options.quick else None]
    tokenizer = letter_tokenizer([RESIDUES])
    sites = np.linspace(0, len(tem1) - 1, 2 if options.quick else options.sites).astype(int)
    every = range(-1, len(first) + 1)
    small, large = bert(tokenizer, 64, 2, 320), esm2(tokenizer, 320, 6, 20)
    cases = {
        "BERT, 2 layers of 64, all sites": Case(small, first, range(len(first)), every),
        "BERT, 2 layers of 64, 60 sites": Case(small, first, range(min(60, len(first))), every),
    }
    if len(sites):
        cases["ESM-2 with 8M, the same sites"] = Case(large, tem1, sites.tolist(), sites.tolist())
    numbers, targets, rows = {}, [], []
    for threads in options.threads or ((1,) if options.quick else (1, 2)):
        torch.set_num_threads(threads)
        for title, case in cases.items():
            found = seconds(case, options.rounds, clock)
            numbers[f"{title}, {threads} threads"] = found
            rows.append((title, str(threads), *found["cells"]))
            targets.append(Target(f"times faster, {title}, {threads} threads", found["ratio"], low=3))
            targets.append(Target("largest difference, nats", found["difference"], high=1e-5))
    show(
        f"wild-type-fill of all single mutants, seconds; {machine()}",
        ("network", "threads", "loop", "ours", "the passes alone", "times faster", "difference"),
        rows,
    )
    return finish(numbers, targets, options.json)


def esm2(tokenizer: Any, hidden: int, layers: int, heads: int) -> me.models.MaskedLM:
    """ESM-2's architecture with random weights."""
    from transformers import EsmConfig, EsmForMaskedLM

    config = EsmConfig(
        vocab_size=len(tokenizer),
        hidden_size=hidden,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        intermediate_size=4 * hidden,
        max_position_embeddings=1026,
        position_embedding_type="rotary",
        token_dropout=True,
        pad_token_id=tokenizer.pad_token_id,
        mask_token_id=tokenizer.mask_token_id,
    )
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return me.models.MaskedLM(EsmForMaskedLM(config).eval(), tokenizer)


class Case(NamedTuple):
    """A network and a wild type, the mutated sites, and the places that the loop hides, both from 0."""

    model: me.models.MaskedLM
    wild_type: str
    sites: Sequence[int]
    hidden: Sequence[int]


def seconds(case: Case, rounds: int, clock: Callable[[], float]) -> dict[str, Any]:
    """Both sides in turn, and the passes without the head in calls of the best size."""
    model, wild_type, sites, hidden = case
    chosen = set(sites)
    singles = [one for one in single_mutants(wild_type) if int(one[1:-1]) - 1 in chosen]
    tokens = model.tokens([wild_type])
    ids = tokens.values.repeat(len(sites), 1)
    ids[torch.arange(len(sites)), torch.tensor(sites) + 1] = model.mask_token_id
    found: dict[str, Any] = {}

    def ours() -> None:
        found["ours"] = me.variants(model, wild_type, singles, ["wild-type-fill"])["wild-type-fill"]

    def loop() -> None:
        found["loop"] = public_loop(model, wild_type, hidden, singles)

    def passes(rows: int) -> None:
        with torch.inference_mode():
            for part in ids.split(rows):
                model.network.base_model(part)

    contestants = {"loop": loop, "ours": ours}
    contestants |= {f"calls of {k}": lambda k=k: passes(k) for k in CALLS if k <= len(sites)}
    timings = interleaved(contestants, rounds, clock=clock)
    best = min((name for name in timings if name.startswith("calls")), key=lambda name: timings[name].median)
    difference = float(abs(found["ours"] - found["loop"]).max())
    ratio = times_faster(timings, "loop", "ours")
    return {
        "ratio": ratio,
        "difference": difference,
        "seconds": {name: one.median for name, one in timings.items()},
        "cells": (
            f"{timings['loop'].median:.3f}",
            f"{timings['ours'].median:.3f}",
            f"{timings[best].median:.3f} ({best})",
            f"{ratio:.2f} ({spread_of_ratio(timings, 'loop', 'ours')})",
            f"{difference:.0e}",
        ),
    }


def public_loop(
    model: me.models.MaskedLM, wild_type: str, hidden: Sequence[int], mutants: Sequence[str]
) -> np.ndarray:
    """As the public scripts do it: one call with full logits for each place that is hidden."""
    tokenizer = model.tokenizer
    ids = torch.tensor([tokenizer(wild_type)["input_ids"]])
    log_p = {}
    for site in hidden:
        masked = ids.clone()
        masked[0, site + 1] = tokenizer.mask_token_id
        with torch.no_grad():
            log_p[site] = torch.log_softmax(model.network(masked).logits, dim=-1)[0, site + 1].numpy()
    number = {letter: tokenizer.convert_tokens_to_ids(letter) for letter in RESIDUES}
    values = []
    for one in mutants:
        row = log_p[int(one[1:-1]) - 1]
        values.append(row[number[one[-1]]] - row[number[one[0]]])
    return np.array(values, dtype=np.float64)


if __name__ == "__main__":
    sys.exit(main())
