"""What the paper's pictures share: colours, panels, axes and legends."""

from collections.abc import Sequence
from typing import Any

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")  # Okabe and Ito
BLUE, ORANGE, GREEN, PINK, YELLOW, SKY, BLACK = COLOURS
SCORE = "score S(x; M)  (nats per hidden token)"


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


def name_axes(
    ax: Any, x: str, y: str = "", title: str = "", limits: tuple[float, float] | None = None
) -> None:
    """What a panel and its axes show, and where its horizontal axis ends."""
    ax.set_title(title, fontsize=10)
    ax.set_xlabel(x)
    ax.set_ylabel(y)
    if limits is not None:
        ax.set_xlim(*limits)


def legend_below(figure: Any, ax: Any, **settings: Any) -> None:
    """Put the legend of a panel below all panels."""
    handles, labels = ax.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", frameon=False, **settings)
