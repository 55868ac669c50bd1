"""Table 1: the sum of scores over mask sizes and the true log evidence of a PPCA model."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool
from torch import Tensor

import maskevidence as me
from maskevidence.core.show import Table
from paper.figures import SEEDS, PaperFigure, put, shown
from paper.known_noise import published_ppca_data

PRINTED_TRUE = -60.34
PRINTED = {1: (-60.44, 0.47), 10: (-60.22, 0.12), 100: (-60.34, 0.03)}  # P: mean, sd
QUICK = {"masks_per_size": (1, 10)}
N_ROWS, N_FEATURES, N_COMPONENTS = 1000, 200, 5
_SIZES_AT_ONCE = 50


class Table1(PaperFigure):
    """The table, whose JSON is its numbers."""

    def to_dict(self) -> dict[str, Any]:
        """The numbers alone."""
        return self.numbers


def table_1(seeds: Sequence[int] = SEEDS, *, masks_per_size: Sequence[int] = tuple(PRINTED)) -> Table1:
    """The paper's Table 1, with the same draws of data and masks as the published code.

    The data have N=1000, D=200, K=5, β=5 and seed 1991. For each mask seed, size M = 1..D and p = 1..P, a
    mask hides the first M tokens of a `torch.randperm(D)`. Its score is the mean over its tokens and all
    rows. The sum over sizes of the mean over p is one estimate (Eq. 2). The table holds the mean and the
    standard deviation (n - 1) of the estimates over the seeds, for each P.

    Returns:
        Its `numbers` are {"true": closed form, "paper_true", "rows": [{"masks_per_size", "mean", "sd",
        "paper_mean", "paper_sd", "estimates"}]}, in nats per observation; None for a P not in the paper.
    """
    x, model = published_ppca_data(N_ROWS, N_FEATURES, N_COMPONENTS)
    model = put(model)
    moments = put(me.GaussianMoments.from_rows(x))
    rows: list[dict[str, Any]] = []
    with torch.no_grad():
        true = float(model.log_evidence(put(me.Tokens.from_array(x))).mean())
        for p in masks_per_size:
            estimates = [_estimate(model, moments, p, seed) for seed in shown(seeds, f"Table 1, P = {p}")]
            printed = PRINTED.get(p, (None, None))
            mean, sd = np.mean(estimates), np.std(estimates, ddof=1) if len(estimates) > 1 else None
            here = {"masks_per_size": p, "mean": float(mean), "sd": None if sd is None else float(sd)}
            rows.append(here | {"paper_mean": printed[0], "paper_sd": printed[1], "estimates": estimates})
    cells = [
        (f"P = {row['masks_per_size']}", *(_cell(row[f"{of}mean"], row[f"{of}sd"]) for of in ("", "paper_")))
        for row in rows
    ]
    cells.append(("closed form", f"{true:.2f}", f"{PRINTED_TRUE:.2f}"))
    title = f"Table 1: log evidence, nats per observation, mean ± sd over {len(seeds)} mask seeds"
    table = Table(["masks per size", "here", "printed"], cells)
    numbers = {"true": true, "paper_true": PRINTED_TRUE, "seeds": list(seeds), "rows": rows}
    in_file = [{name: row[name] for name in row if name != "estimates"} for row in rows]
    return Table1("table_1", title, [], in_file, numbers, tables=[table])


def _cell(mean: float | None, sd: float | None) -> str:
    """A mean and its standard deviation in words."""
    if mean is None:
        return "–"
    return f"{mean:.2f}" if sd is None else f"{mean:.2f} ± {sd:.2f}"


def _estimate(model: me.models.PPCA, moments: me.GaussianMoments, masks_per_size: int, seed: int) -> float:
    """The sum over sizes of the mean score of the masks of a seed."""
    scores = [model.score_moments(moments, put(masked)) for masked in _published_masks(masks_per_size, seed)]
    return float(torch.cat(scores).sum()) / masks_per_size


def _published_masks(masks_per_size: int, seed: int) -> Iterator[Bool[Tensor, "P D"]]:
    """All masks of one seed in the order of the published code, in batches of sizes."""
    generator = torch.Generator().manual_seed(seed)
    for first in range(1, N_FEATURES + 1, _SIZES_AT_ONCE):
        sizes = np.repeat(np.arange(first, first + _SIZES_AT_ONCE), masks_per_size).tolist()
        masked = torch.zeros(len(sizes), N_FEATURES, dtype=torch.bool)
        for row, size in enumerate(sizes):
            masked[row, torch.randperm(N_FEATURES, generator=generator)[:size]] = True
        yield masked
