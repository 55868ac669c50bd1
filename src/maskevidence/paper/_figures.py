"""What all figures of the paper share: claims with their numbers, pictures, CSV."""

import io
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from maskevidence.data.synthetic import published_ppca_data
from maskevidence.errors import MissingExtraError, import_extra
from maskevidence.gaussian_moments import GaussianMoments
from maskevidence.models import PPCA
from maskevidence.runs.curve_picture import COLOURS as COLOURS
from maskevidence.support.files import csv_text, write_atomic

SEEDS = (4, 44, 444, 4444, 44444)
PRECISION = 5.0
DATA_SEED = 1991
BLUE, ORANGE, GREEN, PINK, YELLOW, SKY, BLACK = COLOURS


@dataclass(frozen=True)
class Claim:
    """One claim of a figure, and the number that supports or refutes it.

    Attributes:
        claim: in words.
        measured: the numbers, in words.
        holds: whether they support it; None for a number that is reported without a verdict.
    """

    claim: str
    measured: str
    holds: bool | None


class ResultTable(NamedTuple):
    """Numbers of a figure as a small table of text.

    Attributes:
        title: one line.
        columns: their names.
        rows: cells.
    """

    title: str
    columns: Sequence[str]
    rows: list[list[str]]


@dataclass(frozen=True)
class PaperFigure:
    """A figure: what it claims, its numbers, and how to draw it.

    Attributes:
        name: of the files, such as "figure_1".
        title: one line.
        claims: the figure's claims.
        columns: the numbers behind the panels, long form: one list per column, all of one length.
        numbers: further numbers for `--json`.
        figure: the matplotlib figure; None without matplotlib.
        missing: one line on what could not be drawn, or None.
        tables: numbers to be printed as they are.
    """

    name: str
    title: str
    claims: list[Claim]
    columns: dict[str, list[Any]]
    numbers: dict[str, Any] = field(default_factory=dict)
    figure: Any = None
    missing: str | None = None
    tables: list[ResultTable] = field(default_factory=list)

    def to_csv(self) -> str:
        """The numbers behind the panels as CSV text; None and NaN are empty."""
        return csv_text(self.columns, zip(*self.columns.values(), strict=True))

    def write(self, out: Path) -> list[str]:
        """Write the CSV, and the picture as PNG and PDF where it could be drawn; the names of the files."""
        write_atomic(out / f"{self.name}.csv", self.to_csv())
        names = [f"{self.name}.csv"]
        if self.figure is not None:
            for kind in ("png", "pdf"):
                write_atomic(out / f"{self.name}.{kind}", picture(self.figure, kind))
                names.append(f"{self.name}.{kind}")
        return names

    def to_dict(self) -> dict[str, Any]:
        """Title, claims, tables and numbers, as `--json` gives them."""
        claims = [{"claim": c.claim, "measured": c.measured, "holds": c.holds} for c in self.claims]
        tables = [table._asdict() for table in self.tables]
        named = {"figure": self.name, "title": self.title, "claims": claims}
        return named | ({"tables": tables} if tables else {}) | {"numbers": self.numbers}


def new_figure(
    n_panels: int, width: float, height: float, n_rows: int = 1
) -> tuple[Any, Sequence[Any], str | None]:
    """A figure with panels side by side, row by row; (None, (), why not) where matplotlib is missing."""
    try:
        module = import_extra("matplotlib.figure", "plots", "drawing a figure")
    except MissingExtraError as error:
        return None, (), f"the picture was not drawn: {error}"
    figure = module.Figure(figsize=(width, height), layout="constrained")
    axes = list(figure.subplots(n_rows, n_panels, squeeze=False).ravel())
    for ax in axes:
        ax.grid(alpha=0.25, linewidth=0.6)
        ax.spines[["top", "right"]].set_visible(False)
        ax.tick_params(labelsize=8)
    return figure, axes, None


def picture(figure: Any, kind: str) -> bytes:
    """The figure's bytes as "png" or "pdf", the same whenever it is drawn."""
    buffer = io.BytesIO()
    metadata = {"Software": None} if kind == "png" else {"CreationDate": None}
    figure.savefig(buffer, format=kind, dpi=150, metadata=metadata)
    return buffer.getvalue()


def long_form(rows: Sequence[Mapping[str, Any]]) -> dict[str, list[Any]]:
    """Rows as columns."""
    return {name: [row[name] for row in rows] for name in rows[0]}


def published(n_rows: int, n_features: int, n_components: int, seed: int = DATA_SEED) -> tuple[Tensor, PPCA]:
    """The published generator's rows in float64, and the model with its parameters."""
    x, model = published_ppca_data(n_rows, n_features, n_components, PRECISION, seed)
    return x.double(), model


def best_with_known_noise(moments: GaussianMoments, n_components: int) -> PPCA:
    """Maximum likelihood loadings where the noise variance 1/β and the mean 0 are known.

    W = U_K (Λ_K - σ²)^½ from the leading eigenvectors of the second moments about 0 (Tipping and Bishop
    1999, Eq. 7).
    """
    noise = 1.0 / PRECISION
    values, vectors = torch.linalg.eigh(second_moments(moments))
    scale = (values[-n_components:] - noise).clamp(min=0.0).sqrt()
    return PPCA.from_parameters(vectors[:, -n_components:] * scale, noise)


def initial_loadings(n_features: int, n_components: int, seeds: Sequence[int]) -> Float[Tensor, "R D K"]:
    """W = randn(D, K) from each seed."""
    draws = [
        torch.randn(n_features, n_components, generator=torch.Generator().manual_seed(seed)) for seed in seeds
    ]
    return torch.stack(draws).double()


def moment_scores(
    loadings: Float[Tensor, "R D K"], second: Float[Tensor, "D D"], masked: Bool[Tensor, "R P D"]
) -> Float[Tensor, "R P"]:
    """Scores of PPCA with mean 0 and known noise for R loadings at once, each with P masks of its own.

    `PPCA.score_moments` with one more dimension in front, so that small problems do not pay for each
    operation R times over.

    Args:
        loadings: W, shape (R, D, K).
        second: shape (D, D); the rows' second moments about 0.
        masked: shape (R, P, D).

    Returns:
        Score of each mask averaged over the rows, nats, shape (R, P).

    Example:
        >>> import maskevidence as me
        >>> model = me.models.PPCA.from_parameters(torch.randn(3, 1), 1 / PRECISION)
        >>> moments = me.GaussianMoments.from_rows(model.sample(9))
        >>> masked = torch.tensor([[True, False, False], [True, True, True]])
        >>> with torch.no_grad():
        ...     scores = moment_scores(model.loadings[None], second_moments(moments), masked[None])
        ...     bool(torch.allclose(scores[0], model.score_moments(moments, masked)))
        True
    """
    noise, k = 1.0 / PRECISION, loadings.shape[2]
    hidden = masked.to(loadings.dtype)
    outer = (loadings[:, :, :, None] * loadings[:, :, None, :]).flatten(2)
    identity = torch.eye(k, dtype=loadings.dtype).flatten()
    precision = torch.add(identity, (1.0 - hidden) @ outer, alpha=PRECISION)
    inverse = torch.linalg.inv_ex(
        precision.reshape(*precision.shape[:2], k, k)
    ).inverse  # its eigenvalues are 1 or more
    variance = noise + inverse.flatten(2) @ outer.mT
    weight = hidden / variance
    seen = loadings[:, None] * ((1.0 - hidden) * PRECISION)[..., None]  # V, shape (R, P, D, K)
    projected = seen.mT @ second
    inner = inverse @ (projected @ seen) @ inverse
    cross = inverse @ projected  # row j of its transpose, times w_j, is the part of x_j that is explained
    linear = (cross.mT * loadings[:, None]).sum(3)
    quadratic = inner.flatten(2) @ outer.mT
    residual = torch.diagonal(second) - 2 * linear + quadratic
    total = (weight * residual + hidden * torch.log(variance)).sum(2)
    return -0.5 * (math.log(2 * math.pi) + total / hidden.sum(2))


def second_moments(moments: GaussianMoments) -> Float[Tensor, "D D"]:
    """The second moments of the rows about 0."""
    return moments.about(torch.zeros_like(moments.mean))


def log_evidences(loadings: Float[Tensor, "R D K"], moments: GaussianMoments) -> Float[Tensor, " R"]:
    """Mean exact log evidence of the rows behind the moments for each loadings, nats per observation.

    -½ (D log 2π + log|C| + tr C⁻¹ S), C = W Wᵀ + I/β, S the second moments about 0.
    """
    width = loadings.shape[1]
    noise = torch.eye(width, dtype=loadings.dtype) / PRECISION
    factor = torch.linalg.cholesky(loadings @ loadings.mT + noise)
    second = second_moments(moments)
    distance = torch.cholesky_solve(second.expand_as(factor), factor).diagonal(dim1=1, dim2=2).sum(1)
    log_determinant = 2 * torch.log(factor.diagonal(dim1=1, dim2=2)).sum(1)
    return -0.5 * (width * math.log(2 * math.pi) + log_determinant + distance)
