"""What ArviZ reads and draws, by its installed packages."""

import dataclasses
from inspect import signature
from typing import Any

import numpy as np
import pytest

import maskevidence as me

arviz_stats = pytest.importorskip("arviz_stats")

pytest.importorskip("matplotlib").use("Agg")


# ArviZ's own use of pandas, in its versions for Python 3.11
pytestmark = pytest.mark.filterwarnings("ignore:The inplace keyword")


def compared(comparison: me.Comparison) -> Any:
    """ArviZ's table without its rounding, which came with version 1."""
    rounding = {"round_to": "none"} if "round_to" in signature(arviz_stats.compare).parameters else {}
    return arviz_stats.compare(comparison.to_arviz(), **rounding)


def test_an_estimate_has_the_group_log_likelihood(shown: dict[str, Any]) -> None:
    estimate = shown["estimate"]
    tree = estimate.to_arviz()
    group = tree["log_likelihood"]
    assert dict(group["x"].sizes) == {"chain": 1, "draw": 1, "observation": 150}
    np.testing.assert_array_equal(group["x"].values.ravel(), estimate.per_observation)
    np.testing.assert_array_equal(group["observation"], estimate.ids)
    assert group.attrs["mask_se"] == estimate.mask_se
    assert group.attrs["data_se"] == estimate.data_se
    assert group.attrs["kind"] == "unbiased"
    assert arviz_stats.utils.get_log_likelihood(tree).sizes["observation"] == 150


def test_arviz_ranks_the_models_as_we_do(shown: dict[str, Any]) -> None:
    """elpd is the sum over observations, and dse is our standard error where each has its own masks."""
    comparison = shown["comparison"]
    n = comparison.behind[0].n_observations
    table = compared(comparison)
    assert table.index.tolist() == list(comparison.names)
    np.testing.assert_allclose(table["elpd"], n * np.array(comparison.log_evidence))
    for one in comparison.behind:
        assert abs(table.loc[one.second, "elpd_diff"]) == pytest.approx(n * one.difference)
        assert table.loc[one.second, "dse"] == pytest.approx(n * one.standard_error, rel=0.01)


def test_arviz_draws_the_comparison(shown: dict[str, Any]) -> None:
    import matplotlib.pyplot as plt

    arviz_plots = pytest.importorskip("arviz_plots")

    table = compared(shown["comparison"])
    drawn = arviz_plots.plot_compare(table, backend="matplotlib")
    axes = drawn.viz["plot"].item()
    assert [label.get_text() for label in axes.get_yticklabels()] == list(shown["comparison"].names)
    plt.close("all")


def test_a_comparison_per_byte_has_no_place_in_arviz(shown: dict[str, Any]) -> None:
    comparison = dataclasses.replace(shown["comparison"], unit="nats per byte")
    with pytest.raises(me.InputError, match="compared in nats per byte"):
        comparison.to_arviz()
