"""Draw the identity on both axes of a table: hidden columns of one row, and hidden rows of one data set.

    python tools/two_axes.py [docs/images/two_axes.png]

Needs matplotlib. Below each table is the curve whose area is the log evidence: of a row under a PPCA, and of
a data set under a regression whose parameters are integrated out.
"""

import sys
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.patches import Patch

import maskevidence as me

HIDDEN, VISIBLE, GIVEN = "#c1440e", "#8fa3bf", "#dfe4ea"
COLOURS = {"hidden": HIDDEN, "visible": VISIBLE}


def table(ax: Any, cells: list[list[str]], title: str, words: str) -> None:
    """A grid of coloured cells."""
    for i, row in enumerate(cells):
        for j, colour in enumerate(row):
            ax.add_patch(plt.Rectangle((j, -i), 0.94, 0.9, color=colour))
    ax.set_xlim(-0.2, len(cells[0]) + 0.2)
    ax.set_ylim(-len(cells) + 0.7, 1.3)
    ax.set_aspect("equal")
    ax.axis("off")
    ax.set_title(title, fontsize=12)
    ax.text(len(cells[0]) / 2, -len(cells) + 0.5, words, ha="center", va="top", fontsize=9)


def hidden_columns() -> list[list[str]]:
    cells = [[GIVEN] * 9 for _ in range(7)]
    cells[3] = [HIDDEN if j in (1, 4, 5, 8) else VISIBLE for j in range(9)]
    return cells


def hidden_rows() -> list[list[str]]:
    return [[GIVEN] * 8 + [HIDDEN if i in (0, 3, 4) else VISIBLE] for i in range(7)]


def curves() -> tuple[me.EvidenceEstimate, me.EvidenceEstimate]:
    model = me.models.PPCA(n_features=20, n_components=3, seed=1)
    of_rows = me.estimate_evidence(model, model.sample(1, seed=3), me.EverySize(64))
    rng = np.random.default_rng(0)
    x = rng.normal(size=(120, 5))
    y = x @ np.array([1.0, -0.7, 0.4, 0.3, 0.2]) + rng.normal(size=120)
    return of_rows, me.evidence_of_rows(me.models.BayesianRegression(), x, y, me.LogSizes(120, orders=8))


def main() -> int:
    file = Path(sys.argv[1] if len(sys.argv) > 1 else "docs/images/two_axes.png")
    figure, axes = plt.subplots(2, 2, figsize=(10.5, 8), height_ratios=(0.9, 1), layout="constrained")
    figure.get_layout_engine().set(h_pad=0.12, w_pad=0.1)
    words = "p(hidden cell | visible cells), of a fitted model"
    table(axes[0, 0], hidden_columns(), "Hide columns: the tokens of one row", words)
    words = "p(hidden response | visible rows), parameters integrated out"
    table(axes[0, 1], hidden_rows(), "Hide rows: the tokens of one data set", words)
    patches = [Patch(color=colour, label=name) for name, colour in COLOURS.items()]
    axes[0, 0].legend(handles=patches, loc="center right", bbox_to_anchor=(0.02, 0.5), frameon=False)
    for ax, estimate in zip(axes[1], curves(), strict=True):
        estimate.plot(ax)
    figure.savefig(file, dpi=110)
    print(f"wrote {file}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
