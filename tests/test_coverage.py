"""Coverage of intervals by simulation: a small version of benchmarks/coverage.py."""

from dataclasses import replace

import pytest

import maskevidence as me
from _coverage import Setting, coverage

pytestmark = pytest.mark.usefixtures("unchecked")


@pytest.mark.parametrize("sharing", ["own", "shared"])
@pytest.mark.parametrize(("n", "n_tokens"), [(3, 5), (5, 5), (20, 2)])
def test_intervals_cover_the_true_value(n: int, n_tokens: int, sharing: str) -> None:
    """Of rows with missing values and ids with gaps; their curve is steep, or one size has the variance."""
    steep = Setting(n, n_tokens, "steep", sharing, ids="every 53rd", missing=True)
    n_draws = me.RandomSize(8).enough_draws(steep.observed.sum(1), sharing)
    for setting, design in (
        (replace(steep, model="one size"), me.EverySize(4)),
        (steep, me.RandomSize(n_draws, 8)),
    ):
        found = coverage(setting, design, 400)
        assert found.known > 0.95
        assert found.coverage >= 0.93 - 3.5 * found.se, (design, found)
        assert abs(found.z) < 4.5, (design, found)


def test_two_equal_masks_are_no_error_of_zero() -> None:
    """EverySize(2), one row of two tokens: it covered 50 %, and has both masks of size 1 now."""
    setting = Setting(1, 2, "one size", "own")
    before = coverage(setting, me.EverySize(2, max_listed=0), 150, before=True)
    assert before.coverage < 0.7
    now = coverage(setting, me.EverySize(2), 150)
    assert (now.coverage, now.zero, now.known) == (1.0, 1.0, 1.0)


def test_nearly_all_masks_of_a_single_row_have_no_interval() -> None:
    """EverySize(4), one row of four tokens: 4 of the 6 masks of size 2 covered 86 %."""
    setting = Setting(1, 5, "steep", "own", ids="every 53rd", missing=True)
    assert coverage(setting, me.EverySize(4), 20).known == 0
    assert coverage(setting, me.EverySize(6), 20).zero == 1


def test_too_few_shared_masks_have_no_interval() -> None:
    """RandomSize(8) covered less than 93 % of a steep curve of 30 tokens."""
    setting = Setting(5, 30, "steep", "shared")
    before = coverage(setting, me.RandomSize(8, 4, "id"), 150, before=True)
    assert before.coverage < 0.93 - 2 * before.se
    assert coverage(setting, me.RandomSize(8), 10).known == 0


def test_few_masks_have_no_curve_of_sizes_and_cover_the_true_value() -> None:
    """With curves fitted to 16 or 24 masks, the intervals covered 90 % of 1,200 runs."""
    settings = [
        Setting(1, 2, "steep", "own"),
        Setting(1, 5, "one size", "own"),
        Setting(2, 5, "one size", "own"),
    ]
    covered = []
    for setting in settings:
        n_draws = me.RandomSize(8).enough_draws(setting.observed.sum(1), "own")
        covered.append(coverage(setting, me.RandomSize(n_draws, 8), 400).coverage)
    assert sum(covered) / 3 > 0.925, covered
