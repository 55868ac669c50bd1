"""Limits such as <0.5: scored by the probability of their half-line, listed where they are far off."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from jaxtyping import Float64
from scipy.stats import multivariate_normal, norm

import maskevidence as me
from command_line import CommandLine
from maskevidence.core.table import Table
from maskevidence.core.tokens import Tokens
from maskevidence.tables.base import TableModel
from maskevidence.tables.by_name import parse_model
from maskevidence.tables.limits import WithLimits
from maskevidence.tables.wrong_cells.far_limits import far_limits

LIMITS = {"a": {0: (0.0, 0.5)}, "b": {1: (3.0, np.inf)}}
ROWS = Table(
    "t", np.array([[np.nan, 2.5], [0.2, np.nan], [0.3, 1.0]]), ("a", "b"), np.arange(3), limits=LIMITS
)


def built(word: str) -> TableModel:
    """A new model of two columns."""
    build, _ = parse_model(word)
    assert build is not None
    return build(2)


def drawn(n: int) -> Float64[np.ndarray, "N 2"]:
    """Rows of two columns that say something of each other."""
    mix = np.array([[1, 0.8], [0, 0.6]])
    return np.random.default_rng(0).normal(size=(n, 2)) @ mix + [1.0, 2.0]


def test_the_area_is_the_mean_over_orders() -> None:
    """Against scipy: each order of two cells, where a visible limit is hidden."""
    mean, cov = np.array([1.0, 2.0]), np.array([[1.0, 0.8], [0.8, 1.0]])
    model = me.models.Gaussian(torch.from_numpy(mean), torch.from_numpy(cov))

    def given(j: int, x: float) -> tuple[float, float]:
        return mean[j] + cov[0, 1] / cov[1 - j, 1 - j] * (x - mean[1 - j]), np.sqrt(0.36)

    first = norm(2, 1).logpdf(2.5) + (norm(*given(0, 2.5)).logcdf(0.5) + norm(1, 1).logcdf(0.5)) / 2
    second = norm(1, 1).logpdf(0.2) + (norm(*given(1, 0.2)).logsf(3) + norm(2, 1).logsf(3)) / 2
    whole = multivariate_normal(mean, cov).logpdf([0.3, 1.0])
    estimate = me.estimate_evidence(model, ROWS)
    assert estimate.log_evidence == pytest.approx(np.mean([first, second, whole]), abs=1e-7)
    assert (estimate.kind, estimate.n_tokens) == ("lower_bound", 6)
    assert "2 limits are scored by the probability of the interval" in estimate.notes
    assert estimate.base_measure == "density per unit of each column, of limits a probability"


@pytest.mark.parametrize(
    "kind", ["gaussian", "ppca:1", "kernel-gaussian", "mixed", "masked-net:8x1", "vae:1"]
)
def test_below_a_limit_and_above_it_is_one(kind: str) -> None:
    """P(X < 0.5 | visible) and the density above 0.5 sum to 1, and the two half-lines do."""
    rows = drawn(50)
    model = me.models.MixedKernelGaussian(2) if kind == "mixed" else built(kind)
    if isinstance(model, me.models.MaskedNetwork | me.models.VAE):
        model.fit(rows, epochs=2)
    else:
        model.fit(rows)
    above = Table("t", ROWS.values[:1], ROWS.columns, np.arange(1), limits={"a": {0: (0.5, np.inf)}})
    masked = torch.tensor([[True, False]])
    with torch.no_grad():
        both = []
        for table in (ROWS.take(np.arange(1)), above):
            scored = WithLimits(model, table)
            both.append(scored.log_conditionals(scored.tokens(table), masked)[0, 0].exp().item())
        grid = np.linspace(0.5, 12, 1001 if kind == "vae:1" else 20001)
        tokens = Tokens.from_array(
            np.column_stack([grid, np.full_like(grid, 2.5)]), ids=np.zeros(len(grid), int)
        )
        parts = [tokens[k : k + 2000] for k in range(0, len(grid), 2000)]
        density = torch.cat(
            [model.log_conditionals(each, masked.expand(len(each), 2))[:, 0] for each in parts]
        )
    total = both[0] + np.trapezoid(density.double().exp().numpy(), grid)
    assert sum(both) == pytest.approx(1, abs=1e-5)
    assert total == pytest.approx(1, abs=2e-3 if kind == "masked-net:8x1" else 1e-4)


def test_a_model_without_intervals_says_so() -> None:
    rows = (drawn(60) > 1).astype(float)
    table = Table("t", rows, ("a", "b"), np.arange(60), limits={"a": {0: (0.0, 0.5)}})
    model = me.models.BernoulliPCA(2, 1).fit(rows)
    found = me.estimate_evidence(model, table)
    assert any("limits such as <0.5 are not scored: BernoulliPCA" in note for note in found.notes)


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A laboratory's table with values below detection; one of them, in line 9, is wrong."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(6)
    a = rng.normal(size=120)
    crp, sodium = (
        np.maximum(2 + 1.5 * a + rng.normal(size=120) / 2, 0.05),
        140 + 3 * a + rng.normal(size=120) / 2,
    )
    rows = [f"{'<0.5' if x < 0.5 else f'{x:.1f}'},{y:.1f}" for x, y in zip(crp, sodium, strict=True)]
    rows[7] = "<0.5,145.0"
    (tmp_path / "lab.csv").write_text("\n".join(["crp,sodium", *rows]))
    return tmp_path


def test_the_commands_score_and_judge_limits(lab: Path, run: CommandLine) -> None:
    assert run("score", "gaussian", "lab.csv", "--out", "run").code == 0
    with_limits = json.loads((lab / "run" / "estimate.json").read_text())
    assert with_limits["n_tokens"] == 2 * with_limits["n_observations"]
    assert run("report", "run", "--out", "r.html").code == 0
    found = me.wrong_cells("gaussian", me.data.read_table("lab.csv"))
    assert (found.cells[0].row, found.cells[0].value, found.cells[0].called) == (7, "<0.5", False)
    assert sum(cell.value == "<0.5" for cell in found.cells) <= 2
    selection = me.select(me.data.read_table("lab.csv"), ["gaussian", "ppca:1"], folds=3)
    assert "limits such as <0.5 are scored by the probability of their half-line, by masks" in selection.notes
    assert selection.design is not None


def test_every_command_says_that_fits_hide_limits(lab: Path, run: CommandLine) -> None:
    for words in (
        ("score", "gaussian"),
        ("train", "gaussian", "--epochs", 1, "--out", "model"),
        ("select", "gaussian,ppca:1", "--folds", 3),
        ("impute", "gaussian", "--out", "filled.csv"),
        ("cells", "gaussian"),
    ):
        command, model, *options = words
        said = run(command, model, "lab.csv", *options)
        assert said.code == 0, said.err
        assert "are limits, intervals: filled within, hidden from fits" in " ".join(said.out.split()), command


def test_a_fold_without_rows_to_judge_is_passed_over() -> None:
    """As by `look` if time for few rows is left."""
    model = me.models.Gaussian(torch.zeros(2), torch.eye(2))
    judges = [(model, np.arange(0)), (model, np.arange(3))]
    found, notes = far_limits(ROWS, judges, np.zeros((3, 2)))
    assert len(found) <= 2
    assert notes == []
