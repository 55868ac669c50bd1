"""The picture of one or more curves."""

import io
import math
import textwrap
from collections.abc import Mapping

import numpy as np

from maskevidence.curve import Curve
from maskevidence.errors import import_extra
from maskevidence.standard_errors import student_t_quantile

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")  # Okabe and Ito
_TITLE_WIDTH = 84  # characters


def draw_curves(curves: Mapping[str, Curve], title: str, *, level: float = 0.95, kind: str = "png") -> bytes:
    """S(x; M) against the mask size or rate, with the Student-t band of the masks and that of the data.

    Args:
        curves: by label.
        title: above the picture.
        level: of the bands.
        kind: "png", "pdf" or "svg".

    Returns:
        The picture's bytes.

    Raises:
        MissingExtraError: matplotlib is not installed.

    Example:
        >>> import maskevidence as me
        >>> model = me.models.PPCA(n_features=4, n_components=1)
        >>> estimate = me.estimate_evidence(model, model.sample(20))
        >>> draw_curves({"ppca:1": estimate.curve}, "a curve")[1:4]
        b'PNG'
    """
    figures = import_extra("matplotlib.figure", "plots", "drawing a curve")
    figure = figures.Figure(figsize=(7.0, 4.6), layout="constrained")
    axes = figure.subplots()
    normal = student_t_quantile(0.5 + level / 2, math.inf)
    by_size = all(curve.n_tokens is not None for curve in curves.values()) and (
        len({curve.n_tokens for curve in curves.values()}) == 1
    )
    for (label, curve), colour in zip(curves.items(), COLOURS * len(curves), strict=False):
        x = curve.size if by_size else 100 * curve.rate
        marker = "o" if len(x) < 40 else None
        low, high = curve.band(level)
        if not np.isnan(curve.data_se).all():
            axes.fill_between(
                x,
                curve.score - normal * curve.data_se,
                curve.score + normal * curve.data_se,
                color=colour,
                alpha=0.15,
                linewidth=0,
                label=f"{level:.0%} band, sampling of the observations",
            )
        if np.nanmax(np.where(np.isnan(high), 0.0, high - low), initial=0.0) > 0:
            axes.fill_between(
                x,
                low,
                high,
                color=colour,
                alpha=0.45,
                linewidth=0,
                label=f"{level:.0%} band, drawing of the masks",
            )
        axes.plot(x, curve.score, color=colour, linewidth=1.4, marker=marker, markersize=3, label=label)
    axes.set_xlabel("mask size M (hidden tokens)" if by_size else "mask rate (% of tokens hidden)")
    axes.set_ylabel("score S(x; M)  (nats per hidden token)")
    if by_size:
        n_tokens = next(iter(curves.values())).n_tokens
        assert n_tokens is not None
        axes.set_xlim(min(1, n_tokens - 1), n_tokens)
        to_rate = axes.secondary_xaxis(
            "top", functions=(lambda m: 100 * m / n_tokens, lambda r: r * n_tokens / 100)
        )
        to_rate.set_xlabel("mask rate (% of tokens hidden)", fontsize=8)
        to_rate.tick_params(labelsize=8)
    n_lines = math.ceil(len(title) / _TITLE_WIDTH)
    width = _TITLE_WIDTH if n_lines == 1 else math.ceil(len(title) / n_lines) + 6  # lines of about one length
    axes.set_title(textwrap.fill(title, width), fontsize=10)
    axes.grid(alpha=0.25)
    axes.spines[["top", "right"]].set_visible(by_size)
    axes.legend(fontsize=8, frameon=False, loc="best")
    buffer = io.BytesIO()
    figure.savefig(buffer, format=kind, dpi=150, metadata={"Software": None} if kind == "png" else None)
    return buffer.getvalue()
