"""Plots: the axes that were given, with labels, units, a title that answers, and bands that are explained."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import maskevidence as me

plt = pytest.importorskip("matplotlib.pyplot")
pytest.importorskip("matplotlib").use("Agg")

NAMES = ("estimate", "curve", "comparison", "difference", "imputation", "history")


@pytest.fixture(autouse=True)
def _close() -> Iterator[None]:
    yield
    plt.close("all")


@pytest.mark.parametrize("name", NAMES)
def test_they_draw_on_the_given_axes(shown: dict[str, Any], name: str) -> None:
    _, axes = plt.subplots()
    assert shown[name].plot(ax=axes) is axes
    assert shown[name].plot().figure is not axes.figure
    axes.figure.canvas.draw()
    units = ("nats", "tokens", "%", "size", "epoch", "column", "standard deviations")
    assert any(unit in axes.get_xlabel() + axes.get_ylabel() for unit in units)
    assert axes.get_xlabel()
    assert axes.get_legend() is not None


def legend(axes: Any) -> list[str]:
    box = axes.get_legend()
    return [text.get_text() for text in (*box.get_texts(), box.get_title())]


def test_the_plot_of_an_estimate_has_the_answer_above_and_explains_its_bands(shown: dict[str, Any]) -> None:
    estimate = shown["estimate"]
    axes = estimate.plot(label="ppca:2")
    title = axes.get_title().replace("\N{MINUS SIGN}", "-")
    assert f"Log evidence {estimate.log_evidence:.2f} nats per observation" in title
    assert f"± {estimate.mask_se:.2f} masks" in title
    assert f"± {estimate.data_se:.2f} data" in title
    assert {"95 % interval, data", "95 % interval, masks", "ppca:2"} <= set(legend(axes))
    np.testing.assert_array_equal(axes.lines[0].get_ydata(), estimate.curve.score)


def test_a_second_curve_gets_its_own_colour(shown: dict[str, Any]) -> None:
    axes = shown["estimate"].plot(label="one")
    title = axes.get_title()
    shown["comparison"].estimates["ppca:1"].plot(axes, label="other")
    assert axes.lines[0].get_color() != axes.lines[1].get_color()
    assert {"one", "other"} <= set(legend(axes))
    assert axes.get_title() == title


def test_a_comparison_is_drawn_best_first_at_the_right_places(shown: dict[str, Any]) -> None:
    comparison = shown["comparison"]
    axes = comparison.plot()
    assert [label.get_text() for label in axes.get_yticklabels()] == list(comparison.names)
    bottom, top = axes.get_ylim()
    assert bottom > top
    drawn = [line.get_xdata()[0] for line in axes.lines if line.get_marker() in ("o", "s")]
    np.testing.assert_allclose(drawn, [one.difference for one in comparison.behind])
    assert any("simultaneous 95 % intervals, for masks and data" in words for words in legend(axes))
    assert comparison.names[0] in axes.get_title()


def test_factors_are_drawn_by_their_correlations() -> None:
    model = me.models.PPCA(n_features=4, n_components=2, seed=1)
    model.columns = list("abcd")
    axes = model.plot()
    assert [label.get_text() for label in axes.get_yticklabels()] == model.columns
    values = axes.images[0].get_array()
    assert values.shape == (4, 2)
    share = 1 - (model.noise_variances / model.covariance.diagonal()).detach().numpy()
    np.testing.assert_allclose((values**2).sum(axis=1), share)
    assert f"2 factors explain {100 * share.mean():.0f} % of a column's variance" in axes.get_title()
    _, given = plt.subplots()
    assert me.models.PPCA(n_features=3, n_components=1).plot(given) is given
