"""Points of the curve of random sizes: bands without spikes whose errors are those that occur."""

import numpy as np
import pytest

import maskevidence as me
from maskevidence.core.evidence.control_variates import fitted_curves
from maskevidence.core.evidence.curve import Curve, curve_from_scores
from maskevidence.core.masks.design import MaskKey, drawn_masks
from maskevidence.core.tokens import positions

DESIGN = me.RandomSize(8)


def curve_of(lengths: np.ndarray, seed: int, *, heavy: bool = False) -> Curve:
    """A curve of rows that differ by a level each, with noise that falls off with the size of a mask."""
    ids, rng = np.arange(len(lengths)), np.random.default_rng(seed)
    drawn = drawn_masks(
        DESIGN, MaskKey(seed), ids, np.arange(lengths.max()) < lengths[:, None], position=positions(ids)
    )
    noise = rng.normal(size=len(drawn)) ** (3 if heavy else 1)
    rate = drawn.size / lengths[drawn.row]
    score = rng.normal(size=len(lengths))[drawn.row] * 0.5 - rate**2 + noise / np.sqrt(drawn.size)
    table = me.ScoreTable(drawn.row, drawn.draw, drawn.size, lengths[drawn.row], score).sorted()
    return curve_from_scores(table, DESIGN, "own", fitted_curves(table, table.draw % 8, 8))


@pytest.mark.parametrize("varying", [False, True])
def test_the_bands_have_no_spikes(*, varying: bool) -> None:
    """A few unlikely values: from one point to the next, the error changes as the sizes do."""
    lengths = np.random.default_rng(0).integers(25, 41, 120) if varying else np.full(120, 40)
    for seed in range(3):
        curve = curve_of(lengths, seed, heavy=True)
        for name in ("mask_se", "data_se"):
            values = getattr(curve, name) * (1.0 if name == "data_se" else np.sqrt(curve.rate))
            steps = np.abs(np.diff(np.log(values)))
            assert steps.max() < 0.6, name
        low, high = curve.band()
        assert np.abs(np.diff(np.log((high - low) * np.sqrt(curve.rate)))).max() < 0.6


@pytest.mark.parametrize("varying", [False, True])
def test_the_errors_are_those_that_occur(*, varying: bool) -> None:
    """Over runs with new rows and new masks, data_se is the spread of each point."""
    lengths = np.random.default_rng(0).integers(8, 17, 80) if varying else np.full(80, 16)
    curves = [curve_of(lengths, seed) for seed in range(60)]
    points = slice(2, None) if varying else slice(None)  # short rows have no sizes in the first bins
    spread = np.std([curve.score[points] for curve in curves], axis=0)
    expected = np.sqrt(np.mean([curve.data_se[points] ** 2 for curve in curves], axis=0))
    ratio = spread / expected
    assert 0.8 < ratio.mean() < 1.1
    assert ratio.min() > 0.65
    assert ratio.max() < 1.3
    assert all((curve.mask_se < curve.data_se).all() for curve in curves)


def test_the_degrees_of_freedom_are_those_of_the_errors() -> None:
    """Over runs, mask_se² has the variance 2·mean²/df, for normal scores and away from the ends."""
    curves = [curve_of(np.full(80, 16), seed) for seed in range(100)]
    squares = np.array([curve.mask_se[5:12] ** 2 for curve in curves])
    stated = np.mean([curve.mask_df[5:12] for curve in curves], axis=0)
    occurs = 2 * squares.mean(0) ** 2 / squares.var(axis=0, ddof=1)
    assert 0.7 < (stated / occurs).mean() < 1.4
