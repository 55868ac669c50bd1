"""Coverage of intervals by simulation: a small version of benchmarks/coverage.py."""

from dataclasses import replace

import numpy as np
import pytest

import maskevidence as me
from _coverage import Cell, Setting, coverage, estimates
from stopping import lognormal, random_scores, rare_masks


def of(setting: Setting, design: me.MaskDesign, n_runs: int) -> Cell:
    return coverage(estimates(setting, design, n_runs))


@pytest.mark.parametrize(
    ("n", "n_tokens", "sharing"),
    [
        *((3, 5, "own"), (5, 5, "shared")),
        *(
            pytest.param(*each, marks=pytest.mark.slow)
            for each in ((5, 5, "own"), (3, 5, "shared"), (20, 2, "own"), (20, 2, "shared"))
        ),
    ],
)
def test_intervals_cover_the_true_value(n: int, n_tokens: int, sharing: str) -> None:
    """Of rows with missing values and ids with gaps; their curve is steep, or one size has the variance."""
    steep = Setting(n, n_tokens, "steep", sharing, ids="every 53rd", missing=True)
    n_draws = me.RandomSize(8).enough_draws(steep.observed.sum(1), sharing)
    for setting, design in (
        (replace(steep, model="one size"), me.EverySize(4)),
        (steep, me.RandomSize(n_draws, 8)),
    ):
        found = of(setting, design, 400)
        assert found.known > 0.95
        assert found.coverage >= 0.93 - 3.5 * found.se, (design, found)
        assert abs(found.z) < 4.5, (design, found)


def test_two_equal_masks_are_no_error_of_zero() -> None:
    """EverySize(2), one row of two tokens: independent masks would cover 50 %, and it has both of size 1."""
    now = of(Setting(1, 2, "one size", "own"), me.EverySize(2), 150)
    assert (now.coverage, now.zero, now.known) == (1.0, 1.0, 1.0)


def test_nearly_all_masks_of_a_single_row_have_no_interval() -> None:
    """EverySize(4), one row of four tokens: 4 of the 6 masks of size 2 covered 86 %."""
    setting = Setting(1, 5, "steep", "own", ids="every 53rd", missing=True)
    assert of(setting, me.EverySize(4), 20).known == 0
    assert of(setting, me.EverySize(6), 20).zero == 1


def test_too_few_shared_masks_have_no_interval() -> None:
    """RandomSize(8) covered less than 93 % of a steep curve of 30 tokens."""
    assert of(Setting(5, 30, "steep", "shared"), me.RandomSize(8), 10).known == 0


@pytest.mark.slow
def test_few_masks_have_no_curve_of_sizes_and_cover_the_true_value() -> None:
    """With curves fitted to 16 or 24 masks, Student's t intervals covered 90 % of 1,200 runs."""
    settings = [
        Setting(1, 2, "steep", "own"),
        Setting(1, 5, "one size", "own"),
        Setting(2, 5, "one size", "own"),
    ]
    covered = []
    for setting in settings:
        n_draws = me.RandomSize(8).enough_draws(setting.observed.sum(1), "own")
        covered.append(of(setting, me.RandomSize(n_draws, 8), 200).coverage)
    assert sum(covered) / 3 > 0.925, covered


@pytest.mark.slow
def test_intervals_allow_for_masks_too_rare_to_be_drawn() -> None:
    """Of 100 rows with 8 draws: Student's t interval lies too high in the runs that met few bad masks."""
    pool = random_scores(lognormal, 100, 2000)
    found = coverage((pool.fixed(seed, 8), pool.truth) for seed in range(600))
    assert found.coverage >= 0.95 - 2.5 * found.se > found.student
    assert found.wider < 1.45


def test_light_tails_hardly_widen_an_interval() -> None:
    """Normal scores: 100 rows with 8 draws."""
    pool = random_scores(lambda rng, *shape: rng.normal(size=shape), 100, 2000)
    found = coverage((pool.fixed(seed, 8), pool.truth) for seed in range(200))
    assert 1.0 <= found.wider < 1.03


@pytest.mark.slow
def test_runs_to_a_target_cover_the_true_value_where_bad_masks_are_rare() -> None:
    """60 rows, 1 % of whose masks are at -30: from 4 draws on, 87 % of the intervals held the truth."""
    pool = random_scores(rare_masks, 60, 2000)
    runs = [pool.run(seed, me.Precise(target_se=0.1, negligible=0))[0] for seed in range(400)]
    assert np.mean([run.covers(pool.truth) for run in runs]) >= 0.93
