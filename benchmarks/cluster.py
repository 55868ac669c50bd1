"""Scoring on Ray: speed of 1 and 2 workers on this machine, and what Ray adds.

The same blocks of a run are scored in turn by a single process and by Ray's workers, with one thread each.
Rates are measured while all workers are busy: after a third of the blocks, and before fewer blocks are left
than there are workers. The time until the first block is reported separately. Takes about five minutes.
"""

import os
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from _timing import Target, arguments, finish, machine, random_bert, show, show_results

# isort: split
import numpy as np
import torch

import maskevidence as me
from maskevidence.core.masks.design import MaskKey, n_masks
from maskevidence.core.scores.score_masks import Scoring
from maskevidence.core.support.progress import silent
from maskevidence.ray import RayEngine
from maskevidence.runs.blocks import Piece, Scorer, Work, local_engine

CPUS = os.cpu_count() or 1
WORKERS = (1, 2)
MIN_EFFICIENCY = 0.9
SECONDS_A_CALL = 0.05
NAMES = {"local": "a single process", "ray": "Ray"}


def main() -> int:
    options = arguments(__doc__.splitlines()[0]).parse_args()
    import ray

    torch.set_num_threads(1)
    os.environ |= {"RAY_USAGE_STATS_ENABLED": "0", "RAY_worker_niceness": "0"}
    start = time.perf_counter()
    quiet = {"include_dashboard": False, "log_to_driver": False, "logging_level": "error"}
    ray.init(address="local", num_cpus=max(WORKERS), **quiet)
    seconds = {"Ray on this machine, start": time.perf_counter() - start}
    numbers: dict[str, Any] = {}
    targets: list[Target] = []
    for name, (model, work, scoring) in subjects(options.quick).items():
        if name.startswith("Gaussian") or not options.quick:
            numbers[name], asked = throughput(name, model, work, scoring, options.quick)
            targets += asked
    if not options.quick:
        numbers["handing_out"] = {str(n): seconds for n, seconds in handing_out().items()}
    start = time.perf_counter()
    ray.shutdown()
    seconds["Ray on this machine, stop"] = time.perf_counter() - start
    show("Once per run", ("what", "seconds"), [(name, f"{value:.1f}") for name, value in seconds.items()])
    print(f"\n{machine()}, Ray {ray.__version__}, {CPUS} cores")
    return finish(numbers | {"seconds": seconds}, targets, options.json)


def subjects(quick: bool) -> dict[str, tuple[Any, list[Work], Scoring]]:
    """A 4-layer BERT with random weights on texts of 40 tokens, and a Gaussian on rows of 20 numbers."""
    rng = np.random.default_rng(0)
    n_blocks, n_texts, n_rows = (12, 2, 100) if quick else (48, 4, 400)
    shape = (n_blocks * n_texts, 40)
    texts = me.Tokens(
        values=torch.from_numpy(rng.integers(1000, 30_000, size=shape)),
        maskable=torch.ones(shape, dtype=torch.bool),
        context=torch.zeros(shape, dtype=torch.bool),
        ids=torch.arange(shape[0]),
    )
    root = rng.normal(size=(20, 20))
    gaussian = me.models.Gaussian(torch.zeros(20).double(), torch.from_numpy(root @ root.T + np.eye(20)))
    rows = me.Tokens.from_array(rng.normal(size=(n_blocks * n_rows, 20)))
    by_size = me.EverySize(2)
    return {
        "BERT, 4 layers of 256": (
            bert(4, 256),
            blocks(texts, n_texts, 8),
            Scoring(me.RandomSize(8), MaskKey()),
        ),
        "Gaussian of 20": (gaussian, blocks(rows, n_rows, 2), Scoring(by_size, MaskKey())),
    }


def bert(layers: int, width: int) -> Any:
    from maskevidence.texts.masked_lm import MaskedLM

    network = random_bert(30_522, width, layers, width // 64, max_position_embeddings=128)
    return MaskedLM(network, mask_token_id=103)


def blocks(tokens: me.Tokens, n_rows: int, n_repeats: int) -> list[Work]:
    return [
        Work(Piece(k, k + 1, 0, n_repeats), tokens[torch.arange(k * n_rows, (k + 1) * n_rows)])
        for k in range(len(tokens) // n_rows)
    ]


def masks_of(work: Work, scoring: Scoring) -> int:
    """The number of masks of a piece."""
    return int(n_masks(scoring.design, work.rows.n_tokens.numpy(), work.piece.repeats()).sum())


def throughput(
    name: str, model: Any, work: Sequence[Work], scoring: Scoring, quick: bool
) -> tuple[dict[str, Any], list[Target]]:
    """Measure the masks per second while all workers are busy; the contestants take turns in each round."""
    contestants: dict[tuple[str, int], Callable[[], tuple[float, float]]] = {
        ("local", 1): lambda: by_engine(local_engine, 1, model, work, scoring)
    }
    for n in WORKERS[:1] if quick else WORKERS:
        contestants["ray", n] = lambda n=n: by_engine(  # type: ignore[misc]
            RayEngine(workers=n), n, model, work, scoring
        )
    rates: dict[tuple[str, int], list[float]] = {key: [] for key in contestants}
    first: dict[tuple[str, int], list[float]] = {key: [] for key in contestants}
    work[0].score(model, scoring, silent)
    for _ in range(1 if quick else 3):
        for key, run in contestants.items():
            rate, until_first = run()
            rates[key].append(rate)
            first[key].append(until_first)
    numbers, targets = {}, []
    local = rates["local", 1]
    for (kind, n), values in rates.items():
        possible = min(n, CPUS)
        shares = [rate / (possible * alone) for rate, alone in zip(values, local, strict=True)]
        efficiency = statistics.median(shares)
        numbers[f"{NAMES[kind]}, {n}"] = {
            "rates": values,
            "rate": statistics.median(values),
            "efficiency": efficiency,
            "range": f"{min(shares):.0%} to {max(shares):.0%}",
            "until_first": statistics.median(first[kind, n]),
        }
        if kind == "ray" and n <= CPUS:
            targets.append(Target(f"efficiency, {name}, {n} workers", efficiency, low=MIN_EFFICIENCY))
    columns = {
        "masks per second": "{rate:,.0f}",
        "efficiency": "{efficiency:.0%}",
        "range": "{range}",
        "first block": "{until_first:.1f} s",
    }
    title = f"{name}: {len(work)} blocks of {masks_of(work[0], scoring):,} masks"
    show_results(title, "scored by, processes", columns, numbers)
    return numbers, targets


def by_engine(engine: Any, n: int, model: Any, work: Sequence[Work], scoring: Scoring) -> tuple[float, float]:
    """Masks per second while all workers are busy, and seconds until the first block is finished."""
    start, moments = time.perf_counter(), []
    score_all: Scorer
    with engine() as score_all:
        score_all(model, work, scoring, silent, lambda *_: moments.append(time.perf_counter()))
    return _rate(moments, n, masks_of(work[0], scoring)), moments[0] - start


def _rate(moments: list[float], n: int, masks: int) -> float:
    begin, end = len(moments) // 3, len(moments) - n
    return (end - begin) * masks / (moments[end] - moments[begin])


class Waiting(torch.nn.Module):
    """A model that takes 50 ms for a call, as a graphics card would, and no processor."""

    conditionals = "learned"

    def log_conditionals(self, tokens: me.Tokens, masked: torch.Tensor) -> torch.Tensor:
        time.sleep(SECONDS_A_CALL)
        return -masked.double()


def handing_out() -> dict[int, float]:
    """Seconds that Ray adds to each 1,000 texts of blocks of 128, while this process takes 10 ms for each."""
    _, texts, _ = subjects(True)["BERT, 4 layers of 256"]
    rows = texts[0].rows[torch.zeros(128 * 100, dtype=torch.int64)]
    scoring = Scoring(me.RandomSize(8), MaskKey())
    work = blocks(replace(rows, ids=torch.arange(len(rows))), 128, 8)
    found = {}
    for n in (1, 2):
        moments: list[float] = []

        def done(*_: Any, moments: list[float] = moments) -> None:
            moments.append(time.perf_counter())
            time.sleep(0.01)

        with RayEngine(workers=n)() as score_all:
            score_all(Waiting(), work, scoring, silent, done)
        begin, end = 10, len(moments) - 1 - n
        each = (moments[end] - moments[begin]) / (end - begin)
        found[n] = (each - SECONDS_A_CALL / n) * 1000 / 128
    rows_shown = [(str(n), f"{seconds:.3f} s") for n, seconds in found.items()]
    show("Handing out, beside the work itself", ("workers", "for 1,000 texts"), rows_shown)
    return found


if __name__ == "__main__":
    sys.exit(main())
