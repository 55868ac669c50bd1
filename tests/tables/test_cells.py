"""The mass of a cell over its step: normalised, stable in both tails, and the measure beside a network."""

import json
import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from scipy.integrate import quad
from scipy.stats import norm

import maskevidence as me
from command_line import CommandLine
from maskevidence.tables.cell_mass import CellMass
from maskevidence.tables.gaussian.family import normal_log_cell
from maskevidence.tables.network.network_columns import Column

RARE = np.array([0.02, 0.03, 0.05, 0.02])


def rare_and_whole(n: int, seed: int = 0) -> np.ndarray:
    """Four rare yes/no columns and a column of whole numbers, all independent."""
    rng = np.random.default_rng(seed)
    return np.column_stack([(rng.random((n, 4)) < RARE), np.round(rng.normal(50, 10, n))]).astype(float)


def truth(x: np.ndarray) -> float:
    """Mean log probability under the distribution of `rare_and_whole`."""
    yes_no = (x[:, :4] * np.log(RARE) + (1 - x[:, :4]) * np.log1p(-RARE)).sum(1)
    whole = norm.cdf((x[:, 4] + 0.5 - 50) / 10) - norm.cdf((x[:, 4] - 0.5 - 50) / 10)
    return float((yes_no + np.log(whole)).mean())


def related(n: int = 60) -> np.ndarray:
    """A count, a number with one decimal, a yes/no and a number without steps, which depend on each other."""
    rng = np.random.default_rng(1)
    z = rng.normal(size=n)
    count, tenths = rng.poisson(np.exp(1 + 0.5 * z)), np.round(z + rng.normal(size=n), 1)
    return np.column_stack([count, tenths, z + rng.normal(size=n) > 0.5, z + 0.1 * rng.normal(size=n)])


WORDS = "gaussian,masked-net:8x1,bernoulli-pca:1"
X = related()
MODELS: dict[str, Callable[[], torch.nn.Module]] = {
    "Gaussian": lambda: me.models.Gaussian(n_features=4).fit(X),
    "PPCA": lambda: me.models.PPCA(4, 2).fit(X),
    "FactorAnalysis": lambda: me.models.FactorAnalysis(4, 1).fit(X),
    "KernelGaussian": lambda: me.models.KernelGaussian(4, 1).fit(X, shrinkage=0.3, bandwidth=0.4),
    "VAE": lambda: me.models.VAE(n_features=4, n_components=2, hidden=(4,), dtype=torch.float64).fit(
        X, epochs=2
    ),
}
every_model = pytest.mark.parametrize("name", MODELS)


@every_model
def test_the_masses_of_all_cells_sum_to_one_whatever_is_visible(name: str) -> None:
    model = CellMass(MODELS[name](), X)
    steps = model.step.tolist()
    assert steps[:3] == [1.0, pytest.approx(0.1), 1.0]
    for column, visible in ((0, []), (0, [1, 2, 3]), (1, [0]), (2, [0, 3])):
        k = np.arange(-1200, 1200)
        rows = np.repeat(X[:1], len(k), 0)
        rows[:, column] = X[0, column] + steps[column] * k
        tokens = me.Tokens.from_array(rows, ids=np.zeros(len(k), dtype=np.int64))  # equal draws of a VAE
        masked = torch.tensor([[j not in visible for j in range(4)]]).expand(len(k), -1)
        log_mass = model.log_conditionals(tokens, masked).detach()
        total = log_mass[:, column].exp().sum().item() * steps[column]
        assert total == pytest.approx(1.0, abs=1e-9)
        assert (log_mass[:, visible] == 0).all()


@every_model
def test_narrow_cells_are_the_density_and_hidden_values_are_not_read(name: str) -> None:
    inner = MODELS[name]().eval()
    tokens = me.Tokens.from_array(X[:9])
    masked = torch.from_numpy(np.random.default_rng(0).random((9, 4)) < 0.6)
    masked[:, 0] = True
    density, narrow = inner.log_conditionals(tokens, masked), CellMass(inner, [Column(step=1e-7)] * 4)
    torch.testing.assert_close(narrow.log_conditionals(tokens, masked), density, rtol=1e-9, atol=1e-9)
    wide = CellMass(inner, X)
    report = me.check_model(wide, tokens)
    assert not {finding.check for finding in report.failed} & {"leak", "zeros", "absent values", "batch"}, (
        report
    )
    gradients = torch.autograd.grad(wide.log_conditionals(tokens, masked).sum(), [*inner.parameters()])
    assert all(bool(torch.isfinite(gradient).all()) for gradient in gradients)


def log_cell(z: float, step: float) -> torch.Tensor:
    one = torch.ones(1, dtype=torch.float64)
    return normal_log_cell(z * one, one, step * one)


def integral(z: float, step: float) -> float:
    """log of the integral of the standard normal density over a cell, over its step, by quadrature."""
    nearest = max(abs(z) - step / 2, 0.0)  # where the density is highest, to which it is relative
    ends = (abs(z) - step / 2, min(abs(z) + step / 2, nearest + 50.0))
    middle = [0.0] if ends[0] < 0 else None
    mass, _ = quad(lambda x: math.exp((nearest**2 - x**2) / 2), *ends, points=middle, epsabs=0, limit=200)
    return math.log(mass / step) - nearest**2 / 2 - 0.5 * math.log(2 * math.pi)


@pytest.mark.parametrize("step", [1e-6, 1e-4, 3e-3, 0.013, 0.04, 0.5, 7.0, 200.0])
def test_a_cell_is_the_integral_of_the_density_in_both_tails(step: float) -> None:
    """Values and slopes up to 40 standard deviations away."""
    for z in (-40.0, -8.0, -1.0, 0.0, 0.3, 3.0, 40.0):
        assert log_cell(z, step).item() == pytest.approx(integral(z, step), rel=1e-9, abs=1e-9)
        at = torch.tensor(z, dtype=torch.float64, requires_grad=True)
        (slope,) = torch.autograd.grad(log_cell(at, step), at)
        expected = (log_cell(z + 1e-5, step) - log_cell(z - 1e-5, step)) / 2e-5
        assert slope.item() == pytest.approx(expected.item(), rel=1e-4, abs=1e-4)


def test_the_steps_are_those_of_a_network_fitted_to_the_same_rows() -> None:
    network = me.models.MaskedNetwork(4, 8, 1).fit(X, epochs=1)
    gaussian = MODELS["Gaussian"]()
    torch.testing.assert_close(CellMass(gaussian, X).step, CellMass(gaussian, network.cells.columns).step)
    assert CellMass(gaussian, X).base_measure == network.base_measure == me.model.CELLS
    numbers = me.estimate_evidence(gaussian, X), me.estimate_evidence(network, X)
    with pytest.raises(me.InputError, match="no common scale; score 'g' with --cells, in Python"):
        me.compare(dict(zip("gn", numbers, strict=True)))


@pytest.mark.slow
def test_beside_a_network_a_gaussian_is_below_the_truth() -> None:
    """By its density, per unit, it would be 1.3 nats above, which no distribution can be."""
    x = rare_and_whole(200)
    frame = pd.DataFrame(x, columns=list("abcde"))
    selection = me.select(frame, "gaussian,masked-net:8x1", folds=2)
    network, gaussian = selection.candidates
    assert selection.choice == "masked-net:8x1"
    assert (selection.kind, selection.base_measure) == ("lower_bound", me.model.CELLS)
    assert gaussian.log_evidence < truth(x) - 0.1
    assert abs(network.log_evidence - truth(x)) < 0.2
    assert me.models.Gaussian(n_features=5).fit(x).score_samples(x).mean() > truth(x) + 1
    assert (
        "every candidate is scored by the mass of each cell over its step, as masked-net:8x1 is"
        in selection.notes
    )


def test_a_table_of_yes_and_no_has_probabilities(few_steps: None) -> None:
    x = (np.random.default_rng(0).random((120, 4)) < 0.3).astype(float)
    measures = me.select(x, WORDS, folds=2)
    assert measures.base_measure == me.model.MASS
    assert {each.name for each in measures.candidates if each.log_evidence < 0} == set(WORDS.split(","))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: CellMass(me.models.BernoulliPCA(4, 1), X),
            "BernoulliPCA gives no mass of cells; give a density",
        ),
        (
            lambda: CellMass(MODELS["PPCA"](), [Column("category", (0.0, 1.0), 0.25)] * 4),
            "a column holds categories",
        ),
    ],
)
def test_what_has_no_cells_is_refused(call: Callable[[], object], message: str) -> None:
    with pytest.raises(me.InputError, match=message):
        call()


def test_runs_by_cells_on_the_command_line(run: CommandLine, tmp_path: Path, few_steps: None) -> None:
    """`score --cells` of a new and of a saved model; with it, runs of a density and of a network compare."""
    table = tmp_path / "t.csv"
    pd.DataFrame(rare_and_whole(150), columns=list("abcde")).to_csv(table, index=False)
    runs = {name: tmp_path / name for name in ("density", "cells", "net", "saved")}
    me.models.PPCA(5, 1).fit(rare_and_whole(300, seed=1)).save(tmp_path / "model")
    for name, words in (
        ("density", ("gaussian",)),
        ("cells", ("gaussian", "--cells")),
        ("net", ("masked-net:8x1", "--cells")),
        ("saved", (tmp_path / "model", "--cells", "--test-fraction", 0.2)),
    ):
        model, *options = words
        done = run("score", model, table, *options, "--design", "random-size:4", "--out", runs[name])
        assert done.code == 0, done.err
    assert "density' with --cells, in Python as" in run("compare", runs["density"], runs["net"]).error
    compared = run("compare", runs["cells"], runs["net"], runs["saved"], "--json", "-")
    assert compared.code == 0, compared.err
    entries = json.loads(compared.out)["ranking"]
    assert {entry["base_measure"] for entry in entries} == {me.model.CELLS}
    assert {entry["kind"] for entry in entries} == {"lower_bound"}
    again = run("score", "gaussian", table, "--design", "random-size:4", "--out", runs["cells"])
    assert "holds another run" in again.error
    assert "gives no mass of cells" in run("score", "bernoulli-pca:1", table, "--cells").error
