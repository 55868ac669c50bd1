"""Filled values that a column can hold: moments against quadrature, ranges, limits, decimals."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.integrate import quad
from scipy.stats import norm

import maskevidence as me
from maskevidence.tables.filling import fill_table
from maskevidence.tables.possible_values import cut_off, within
from maskevidence.tables.reading.numbers import decimals_of
from maskevidence.tables.table_options import ImputeOptions


@pytest.mark.parametrize(
    ("low", "high"), [(0, np.inf), (-np.inf, 0.5), (0, 0.5), (3, 4), (-9, -7), (6, np.inf)]
)
@pytest.mark.parametrize("mean", [-1.0, 0.3, 2.0])
def test_moments_between_two_ends(mean: float, low: float, high: float) -> None:
    """Against numerical integrals."""
    sd = 0.7
    ends = max(low, mean - 40 * sd), min(high, mean + 40 * sd)
    scale = norm(mean, sd).pdf(np.clip(mean, low, high))  # keeps digits in the tails

    def moment(power: int) -> float:
        near = np.clip(mean, *ends)
        return quad(
            lambda x: x**power * norm(mean, sd).pdf(x) / scale,
            *ends,
            points=[near, near + 0.1, near - 0.1],
            limit=400,
        )[0]

    mass, first, second = map(moment, range(3))
    found = within(np.array([mean]), np.array([sd]), low, high)
    assert found.mean[0] == pytest.approx(first / mass, rel=1e-5)
    assert found.sd[0] == pytest.approx(np.sqrt(second / mass - (first / mass) ** 2), rel=1e-2)


@pytest.mark.parametrize("mean", [-2.0, 0.0, 1.5])
def test_moments_of_what_is_cut_off(mean: float) -> None:
    drawn = np.maximum(np.random.default_rng(0).normal(mean, 1.2, 400_000), 0)
    found = cut_off(np.array([mean]), np.array([1.2]))
    assert found.mean[0] == pytest.approx(drawn.mean(), abs=4 * drawn.std() / 632)
    assert found.sd[0] == pytest.approx(drawn.std(), rel=0.02)


def rain(folder: Path, zeros: bool) -> Path:
    """A skewed column that is never below 0, with holes, and what it depends on."""
    rng = np.random.default_rng(3)
    x = rng.normal(size=300)
    wet = np.exp(1.2 * x + 0.4 * rng.normal(size=300))
    wet = np.where(x < 0, 0.0, wet) if zeros else np.maximum(wet, 0.1)
    frame = pd.DataFrame({"wet": wet.round(1), "x": x.round(2), "n": rng.integers(0, 400, 300)})
    frame.to_csv(folder / "truth.csv", index=False)
    frame.loc[rng.random(300) < 0.25, "wet"] = np.nan
    frame.loc[7, "n"] = np.nan
    frame.astype({"n": "Int64"}).to_csv(folder / "t.csv", index=False)
    return folder / "t.csv"


@pytest.mark.parametrize(
    ("zeros", "said"), [(True, "from 0 on as no value is below, and some are 0"), (False, "on a log scale")]
)
@pytest.mark.parametrize("draws", [None, 2])
def test_no_value_is_below_0_where_none_was(
    tmp_path: Path, zeros: bool, said: str, draws: int | None
) -> None:
    result = fill_table(
        "gaussian", str(rain(tmp_path, zeros)), ImputeOptions(tmp_path / "f.csv", draws=draws)
    )
    filled, holes = pd.read_csv(tmp_path / "f.csv"), pd.read_csv(tmp_path / "t.csv")["wet"].isna()
    assert (filled["wet"] >= 0).all()
    assert any("range kept: wet is filled" in note and said in note for note in result["notes"])
    assert ((filled["wet"] * 10).round(6) % 1 == 0).all()  # one decimal, as in the column
    assert filled["n"].dtype == "int64"
    if draws is None:
        truth = pd.read_csv(tmp_path / "truth.csv")["wet"]
        table = pd.read_csv(tmp_path / "t.csv").astype(float)
        plain = me.impute(me.models.Gaussian(n_features=3).fit(table), table).values[:, 0]
        errors = [(values - truth)[holes] ** 2 for values in (filled["wet"], plain)]
        assert errors[0].mean() < errors[1].mean()


def test_limits_are_filled_within(tmp_path: Path) -> None:
    rng = np.random.default_rng(6)
    a = rng.normal(size=200)
    crp = np.maximum(0.05, 2 + 1.5 * a + rng.normal(0, 0.8, 200))
    cells = ["<0.5" if x < 0.5 else ">5" if x > 5 else f"{x:.1f}" for x in crp]
    (tmp_path / "t.csv").write_text(
        "crp,sodium\n" + "".join(f"{c},{140 + 2 * x:.1f}\n" for c, x in zip(cells, a, strict=True))
    )
    for draws in (None, 3):
        options = ImputeOptions(tmp_path / "f.csv", draws=draws, overwrite=True)
        result = fill_table("gaussian", str(tmp_path / "t.csv"), options)
        assert any("limits, intervals: filled within" in note for note in result["notes"])
        filled = pd.read_csv(tmp_path / "f.csv")["crp"]
        given = pd.Series(cells * (draws or 1))
        assert filled[given == "<0.5"].between(0, 0.5).all()
        assert filled[given == ">5"].ge(5).all()
        assert (filled.astype(str) == given)[~given.isin(["<0.5", ">5"])].all()


@pytest.mark.parametrize(
    ("limit", "cells"),
    [("<0.01", ["0.25", "0.5", "0.75"]), (">5", ["3", "4", "5"]), ("<1", ["1", "2", "3"])],
)
def test_decimals_and_values_that_exist_stay_within_limits(
    tmp_path: Path, limit: str, cells: list[str]
) -> None:
    lines = [f"{cells[k % 3]},{k % 7}" for k in range(60)] + [f"{limit},{k}" for k in range(3)]
    (tmp_path / "t.csv").write_text("a,b\n" + "\n".join(lines) + "\n")
    fill_table("gaussian", str(tmp_path / "t.csv"), ImputeOptions(out=tmp_path / "f.csv"))
    filled, end = pd.read_csv(tmp_path / "f.csv")["a"][60:].to_numpy(), float(limit[1:])
    assert (filled < end if limit[0] == "<" else filled > end).all()


def test_decimals_against_text() -> None:
    rng = np.random.default_rng(0)
    for places in range(7):
        assert decimals_of(rng.normal(size=200).round(places) * 1.0) == places
    assert decimals_of(rng.normal(size=9)) is None
