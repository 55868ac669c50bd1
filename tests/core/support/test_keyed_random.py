"""The counter-based generator: published outputs, exact integer arithmetic, and uniformity."""

import itertools
from decimal import Decimal, getcontext

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy.stats import chisquare

from maskevidence.core.support.keyed_random import (
    keyed_bits,
    keyed_ranks,
    keyed_subset,
    kronecker,
    scaled,
    scrambled,
    stratified,
)
from oracles import TWO_64, splitmix64

KEYS = st.integers(-(2**63), 2**63 - 1)


def test_one_key_gives_the_published_splitmix64_sequence() -> None:
    published = [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F]
    assert [int(keyed_bits(k)) for k in range(3)] == published


@given(st.lists(KEYS, min_size=1, max_size=5))
def test_bits_equal_the_generator_in_whole_numbers(keys: list[int]) -> None:
    assert int(keyed_bits(*keys)) == splitmix64(keys)
    assert int(keyed_bits(*(np.array([key]) for key in keys))[0]) == splitmix64(keys)


def test_single_keys_beyond_64_bits_count_modulo() -> None:
    assert keyed_bits(2**64 + 5, 1) == keyed_bits(5, 1)
    assert keyed_bits(-1) == keyed_bits(2**64 - 1)


def test_bits_broadcast_and_every_key_and_their_order_matter() -> None:
    grid = keyed_bits(9, np.arange(4)[:, None], np.arange(6))
    assert grid.shape == (4, 6)
    assert len(np.unique(grid)) == 24
    assert grid[2, 5] == keyed_bits(9, 2, 5)
    assert len({int(keyed_bits(*order)) for order in itertools.permutations((1, 2, 3))}) == 6


@pytest.mark.parametrize("shift", [0, 8, 28, 56])
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_bytes_are_uniform_and_independent_along_consecutive_keys(shift: int, axis: int) -> None:
    keys: list = [11, 12, 13]
    keys[axis] = np.arange(100_000)
    byte = (keyed_bits(*keys) >> np.uint64(shift)) & np.uint64(0xFF)
    assert chisquare(np.bincount(byte.astype(np.int64), minlength=256)).pvalue > 1e-3
    pair = (byte[:-1] >> np.uint64(4)) * np.uint64(16) + (byte[1:] >> np.uint64(4))
    assert chisquare(np.bincount(pair.astype(np.int64), minlength=256)).pvalue > 1e-3


maskables = hnp.arrays(bool, st.tuples(st.integers(1, 5), st.integers(1, 12)))


@given(maskables, st.integers(0, 99))
def test_ranks_order_the_maskable_tokens_of_each_row(maskable: np.ndarray, seed: int) -> None:
    keys = np.arange(len(maskable))[:, None] * 3
    ranks = keyed_ranks(seed, keys, maskable)
    for row, (rank, allowed) in enumerate(zip(ranks, maskable, strict=True)):
        assert sorted(rank[allowed]) == list(range(allowed.sum()))
        assert sorted(rank) == list(range(len(rank)))
        alone = keyed_ranks(seed, keys[row : row + 1], maskable[row : row + 1])
        np.testing.assert_array_equal(rank, alone[0])  # independent of the other rows


@given(maskables, st.integers(1, 4))
def test_ranks_do_not_depend_on_padding_columns(maskable: np.ndarray, padding: int) -> None:
    keys = np.arange(len(maskable))[:, None]
    wide = np.concatenate([maskable, np.zeros((len(maskable), padding), dtype=bool)], axis=1)
    narrow_ranks = np.where(maskable, keyed_ranks(1, keys, maskable), -1)
    wide_ranks = np.where(wide, keyed_ranks(1, keys, wide), -1)
    np.testing.assert_array_equal(wide_ranks[:, : maskable.shape[1]], narrow_ranks)


@pytest.mark.parametrize("key", [0, 1])
def test_every_order_is_equally_likely(key: int) -> None:
    n = 48_000
    keys = np.full((n, 2), 5)
    keys[:, key] = np.arange(n)
    maskable = np.tile([True, True, False, True, True], (n, 1))
    ranks = keyed_ranks(3, keys, maskable)[:, [0, 1, 3, 4]]
    _, counts = np.unique(ranks @ [64, 16, 4, 1], return_counts=True)
    assert len(counts) == 24
    assert chisquare(counts).pvalue > 1e-3


def test_the_constants_of_the_kronecker_sequence_are_the_powers_of_1_over_g() -> None:
    getcontext().prec = 60
    g = Decimal("1.3")
    for _ in range(200):  # Newton on g³ = g + 1
        g -= (g**3 - g - 1) / (3 * g**2 - 1)
    none, one = np.zeros(1, dtype=np.uint64), np.ones(1, dtype=np.int64)
    zero = np.zeros(1, dtype=np.int64)
    assert abs(int(kronecker(none, one, zero)[0]) - TWO_64 / g) <= 1
    assert abs(int(kronecker(none, zero, one)[0]) - TWO_64 / g**2) <= 1


@given(st.integers(0, TWO_64 - 1), KEYS, st.integers(0, 10**9))
def test_the_kronecker_sequence_is_exact_modulo_2_64(offset: int, index: int, draw: int) -> None:
    none = np.zeros(1, dtype=np.uint64)
    one, zero = np.ones(1, dtype=np.int64), np.zeros(1, dtype=np.int64)
    alpha_1, alpha_2 = int(kronecker(none, one, zero)[0]), int(kronecker(none, zero, one)[0])
    value = kronecker(np.array([offset], dtype=np.uint64), np.array([index]), np.array([draw]))
    assert int(value[0]) == (offset + alpha_1 * index + alpha_2 * draw) % TWO_64


@given(st.integers(0, TWO_64 - 1), st.integers(1, 2**31 - 1))
@example(0, 1)
@example(TWO_64 - 1, 200)
@example(TWO_64 - 1, 2**31 - 1)
def test_scaled_is_the_floor_of_u_n_and_never_n(bits: int, n: int) -> None:
    value = int(scaled(np.array([bits], dtype=np.uint64), np.array([n]))[0])
    assert value == (bits >> 32) * n >> 32
    assert 0 <= value < n


@given(maskables, st.integers(0, 99), st.data())
def test_subsets_are_the_lowest_ranks(maskable: np.ndarray, seed: int, data: st.DataObject) -> None:
    maskable[:, 0] |= ~maskable.any(1)
    size = np.array([data.draw(st.integers(1, int(count))) for count in maskable.sum(1)])
    keys = np.arange(len(maskable))[:, None] * 3
    expected = (keyed_ranks(seed, keys, maskable) < size[:, None]) & maskable
    np.testing.assert_array_equal(keyed_subset(seed, keys, maskable, size), expected)


def test_subsets_of_tokens_with_equal_bits_still_have_their_size(monkeypatch: pytest.MonkeyPatch) -> None:
    equal = np.zeros((3, 4), dtype=np.uint64)
    monkeypatch.setattr("maskevidence.core.support.keyed_random._token_bits", lambda *_: equal)
    subset = keyed_subset(0, np.zeros((3, 1), np.int64), np.ones((3, 4), np.bool_), np.array([1, 2, 3]))
    assert subset.sum(1).tolist() == [1, 2, 3]


def one_replicate(seed: int, n_rows: int, turns: int, replicate: int = 0) -> np.ndarray:
    """The numbers of all rows in some turns, shape (n_rows, turns), in [0, 1)."""
    row, turn = (grid.ravel() for grid in np.indices((n_rows, turns)))
    found = stratified(seed, np.full_like(row, replicate), turn, row, n_rows)
    return found.reshape(n_rows, turns) / 2.0**64


class TestStratified:
    @pytest.mark.parametrize("n_rows", [1, 2, 7, 256, 257, 1000])
    def test_each_turn_has_one_number_in_each_interval_of_a_group(self, n_rows: int) -> None:
        """Groups of neighbours have at most 256 rows, and differ in size by at most one row."""
        n_groups = -(-n_rows // 256)
        which = np.arange(n_rows) * n_groups // n_rows
        assert np.ptp(np.bincount(which)) <= 1
        for group in range(n_groups):
            u = one_replicate(3, n_rows, 3)[which == group]
            assert (np.sort(np.floor(u * len(u)), axis=0) == np.arange(len(u))[:, None]).all()

    def test_every_number_is_uniform_and_neighbours_take_every_order(self) -> None:
        u = np.array([one_replicate(seed, 3, 2) for seed in range(3000)])
        for row, turn in np.ndindex(3, 2):
            assert chisquare(np.bincount((10 * u[:, row, turn]).astype(int))).pvalue > 1e-4
        orders = np.argsort(u, axis=1).transpose(0, 2, 1).reshape(-1, 3) @ [9, 3, 1]
        assert chisquare(np.unique(orders, return_counts=True)[1]).pvalue > 1e-4
        assert len(np.unique(orders)) == 6

    def test_a_row_is_even_over_the_turns(self) -> None:
        """Without other rows, 2^t turns have one number in each of 2^t intervals."""
        for turns in (2, 8, 32):
            found = np.sort(np.floor(one_replicate(1, 1, turns)[0] * turns))
            assert (found == np.arange(turns)).all()

    def test_turns_rows_and_replicates_can_be_asked_for_alone(self) -> None:
        whole = one_replicate(5, 600, 6, replicate=2)
        rows, turns = np.array([599, 3, 300]), np.array([5, 0, 2])
        some = stratified(5, np.full(3, 2), turns, rows, 600) / 2.0**64
        np.testing.assert_array_equal(some, whole[rows, turns])
        np.testing.assert_array_equal(one_replicate(5, 600, 2, replicate=2), whole[:, :2])
        assert not np.isin(whole, one_replicate(5, 600, 6, replicate=1)).any()

    @pytest.mark.parametrize("n_rows", [2, 20])
    @pytest.mark.parametrize("turns", [1, 3, 8])
    def test_rows_with_opposite_functions_have_at_most_the_variance_of_the_proof(
        self, n_rows: int, turns: int
    ) -> None:
        """Every other row has the opposite function, as where pairs are compared."""
        n_seeds = 1500
        sign = np.where(np.arange(n_rows) % 2 == 0, 1.0, -1.0)[:, None]
        each = [(sign * (one_replicate(seed, n_rows, turns) - 0.5)).sum(1) for seed in range(n_seeds)]
        of_row, of_sum = np.var(each, axis=0), np.var(np.sum(each, axis=1))
        assert of_row.max() < turns / 12 * (1 + 5 / np.sqrt(n_seeds))
        assert of_sum < n_rows / (n_rows - 1) * of_row.sum() * (1 + 5 / np.sqrt(n_seeds))


@pytest.mark.parametrize("n", [1, 2, 3, 5, 12, 16])
def test_scrambled_points_fill_the_halves_of_every_cell_evenly(n: int) -> None:
    points = scrambled(np.arange(200, dtype=np.uint64), n) / 2.0**64
    for level in range(1, 6):
        counts = np.array([np.bincount((one * 2**level).astype(int), minlength=2**level) for one in points])
        halves = counts.reshape(200, -1, 2)
        assert (np.abs(halves[:, :, 0] - halves[:, :, 1]) <= 1).all()
    np.testing.assert_array_equal(points, scrambled(np.arange(200, dtype=np.uint64), 40)[:, :n] / 2.0**64)


def test_the_second_scrambled_point_leaves_the_first_half_for_the_other_at_random() -> None:
    points = scrambled(np.arange(4000, dtype=np.uint64), 4) / 2.0**64
    quarters = np.floor(4 * points) @ [64, 16, 4, 1]  # 8 of the 24 orders of the quarters can occur
    assert len(np.unique(quarters)) == 8
    assert chisquare(np.unique(quarters, return_counts=True)[1]).pvalue > 1e-4
