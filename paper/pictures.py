"""How the figures look: colours, panels and legends."""

import io
from collections.abc import Sequence
from typing import Any

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")  # Okabe and Ito
BLUE, ORANGE, GREEN, PINK, YELLOW, SKY, BLACK = COLOURS


def new_figure(n_panels: int, width: float, height: float, n_rows: int = 1) -> tuple[Any, Sequence[Any]]:
    """An empty figure, in inches, and its panels row by row; an ImportError without matplotlib."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    axes = list(figure.subplots(n_rows, n_panels, squeeze=False).ravel())
    for ax in axes:
        ax.grid(alpha=0.25, linewidth=0.6)
        ax.spines[["top", "right"]].set_visible(False)
        ax.tick_params(labelsize=8)
        ax.xaxis.label.set_fontsize(9)
        ax.yaxis.label.set_fontsize(9)
    return figure, axes


def legend_below(figure: Any, ax: Any, **settings: Any) -> None:
    """Put the legend of a panel below all panels."""
    handles, labels = ax.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", frameon=False, **settings)


def picture(figure: Any, kind: str) -> bytes:
    """The figure as the bytes of a "png" or "pdf" file, which do not depend on when it is drawn."""
    buffer = io.BytesIO()
    metadata = {"Software": None} if kind == "png" else {"CreationDate": None}
    figure.savefig(buffer, format=kind, dpi=150, metadata=metadata)
    return buffer.getvalue()
