"""Random numbers as vectorised, pure functions of their keys, and the copies among rows.

Each number is an output of SplitMix64 (Steele, Lea, Flood 2014), whose k-th output from start s is
mix(s + k·γ) with a bijective mix. Keys are absorbed one after another, so that two different tuples of keys
of the same length collide only by chance, with probability 2^-64.
"""

import math

import numpy as np
from jaxtyping import Bool, Float64, Int64, Integer, UInt64

FEW_VALUES = 20  # a column of more values tells rows apart
BY_CHANCE, SHARE = 1.0, 0.05  # most pairs due to chance: number, share of those found
_ONE_DIVISOR = 14.0  # log of 1 / the probability that the numbers of equal rows share a divisor by chance
_Rows = Float64[np.ndarray, "N D"]
_Ints = Int64[np.ndarray, " B"]
_Bits = UInt64[np.ndarray, " B"]
_Keys = Integer[np.ndarray, "B n_keys"]
_Matrix = Bool[np.ndarray, "B D"]
_GAMMA = np.uint64(0x9E3779B97F4A7C15)  # the golden ratio times 2^64, made odd
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)
_GROUP = 256  # most rows whose sizes are drawn together; larger groups are hardly more even
_SIZES = 0x53495A45  # key of the random numbers for sizes, as opposed to masks
_HALF = 2**32 - 1


def keyed_bits(*keys: Integer[np.ndarray, "..."] | int) -> UInt64[np.ndarray, "..."]:
    """64 random bits for every tuple of keys; the keys broadcast against each other.

    Example:
        >>> a = keyed_bits(7, np.arange(3))
        >>> bool((a == keyed_bits(7, np.array([0, 1, 2]))).all()), len(set(a.tolist()))
        (True, 3)
    """
    state = np.zeros((), dtype=np.uint64)
    with np.errstate(over="ignore"):  # overflow is intended: arithmetic modulo 2^64
        for key in keys:
            number = np.uint64(key % 2**64) if isinstance(key, int) else key.astype(np.uint64)
            state = state + _GAMMA * (number + np.uint64(1))
            state ^= state >> np.uint64(30)
            state *= _MIX_1
            state ^= state >> np.uint64(27)
            state *= _MIX_2
            state ^= state >> np.uint64(31)
    return np.asarray(state)


def keyed_ranks(seed: int, keys: _Keys, maskable: _Matrix) -> Int64[np.ndarray, "B D"]:
    """Rank the maskable tokens of each row in a uniformly random order.

    The order depends on the seed, the row's keys and the positions of the tokens alone, not on other rows.

    Returns:
        Shape (B, D): 0..n-1 over the n maskable tokens of a row, n..D-1 elsewhere. The tokens with ranks
        below M are a uniformly random subset of size M.

    Example:
        >>> keyed_ranks(0, np.array([[5]]), np.array([[True, False, True]]))[0, 1]
        np.int64(2)
    """
    bits, width = _token_bits(seed, keys, maskable), maskable.shape[1]
    order = np.argsort(bits, axis=1)
    ranks = np.empty_like(order)
    np.put_along_axis(ranks, order, np.arange(width)[None, :], axis=1)
    return ranks


def keyed_subset(seed: int, keys: _Keys, maskable: _Matrix, size: Integer[np.ndarray, " B"]) -> _Matrix:
    """The tokens with the `size` lowest ranks of `keyed_ranks`, found by sorting values only.

    NumPy sorts values by vector instructions, several times faster than it finds their order.

    Returns:
        Shape (B, D), True for `size` maskable tokens of each row.

    Example:
        >>> keyed_subset(0, np.array([[5]]), np.array([[True, False, True]]), np.array([2])).tolist()
        [[True, False, True]]
    """
    bits = _token_bits(seed, keys, maskable)
    largest = np.take_along_axis(np.sort(bits, axis=1), size[:, None] - 1, axis=1)
    subset = (bits <= largest) & maskable
    if not np.array_equal(np.count_nonzero(subset, axis=1), size):  # ties occur once in 2^64 pairs
        return (keyed_ranks(seed, keys, maskable) < size[:, None]) & maskable
    return subset


def _token_bits(seed: int, keys: _Keys, maskable: _Matrix) -> UInt64[np.ndarray, "B D"]:
    """Random bits that order the tokens; the largest integer for tokens that are not maskable."""
    columns = (keys[:, k, None] for k in range(keys.shape[1]))
    bits = keyed_bits(seed, *columns, np.arange(maskable.shape[1]))
    bits[~maskable] = np.iinfo(np.uint64).max
    return bits


def kronecker(offset: _Bits, index: _Ints, draw: _Ints) -> _Bits:
    """frac(U + α₁·i + α₂·k) as a fraction of 2^64, with α₁ = 1/g, α₂ = 1/g², g = 1.32471795… (g³ = g + 1).

    It is computed exactly, in whole numbers modulo 2^64: if `offset` is uniform, so is each value, for any
    i and k.
    """
    alpha_1, alpha_2 = np.uint64(13925035116211876495), np.uint64(10511698010929265437)
    with np.errstate(over="ignore"):
        return offset + alpha_1 * index.astype(np.uint64) + alpha_2 * draw.astype(np.uint64)


def stratified(seed: int, replicate: _Ints, turn: _Ints, row: _Ints, n_rows: int) -> _Bits:
    """Uniform numbers, spread evenly over rows and over turns, as fractions of 2^64.

    Rows are in groups of at most 256 that follow each other. For row i of the n in its group, and turn c,

        u = ((π_i + ⌊n·s_c⌋) mod n + (frac(n·s_c) xor v_i)) / n

    with a random order π of the group, an independent uniform v_i for each row, and the points s_c of
    `scrambled`. Each u is uniform. The u of a group in a turn are in the n intervals [k/n, (k+1)/n), one in
    each; those of a row are as even as s. Numbers of different replicates and groups are independent, and
    added turns change none of the others.

    No function is in resonance with these numbers. For any f_i, the variance of F_i = Σ_c f_i(u_ic) is at
    most that for independent numbers, because c → u_ic maps the points s_c by a function that preserves
    lengths. The variance of Σ_i F_i over the rows of a group is at most n/(n - 1) · Σ_i Var F_i, and at most
    Σ_i Var F_i if all f_i are equal. Proof: given s, F_i = g_i(π_i, v_i) has the expectation ḡ_i(π_i) over
    v_i, and the mean over π_i does not depend on s. With ‖·‖² the variance over the n values of π_i,

        Σ_{i≠j} Cov(F_i, F_j) = (Σ_i ‖ḡ_i‖² - ‖Σ_i ḡ_i‖²) / (n - 1) <= Σ_i Var F_i / (n - 1).

    Example:
        >>> zero, row = np.zeros(4, dtype=np.int64), np.arange(4)
        >>> sorted(scaled(stratified(7, zero, zero, row, 4), zero + 4).tolist())
        [0, 1, 2, 3]
        >>> sorted(scaled(stratified(7, zero, row, zero, 1), zero + 4).tolist())
        [0, 1, 2, 3]
    """
    own_seed, n_replicates = int(keyed_bits(seed, _SIZES)), int(replicate.max(initial=0)) + 1
    n_groups = -(-n_rows // _GROUP)
    of_row = row * n_groups // n_rows
    groups = np.arange(of_row.min(initial=n_groups), of_row.max(initial=-1) + 1)
    first, last = (-(-edge * n_rows // n_groups) for edge in (groups, groups + 1))
    size = last - first
    each = [grid.ravel() for grid in np.meshgrid(groups, np.arange(n_replicates), n_rows, indexing="ij")]
    inside = np.arange(size.max(initial=0)) < size[:, None]
    orders = keyed_ranks(own_seed, np.stack(each, axis=1), np.repeat(inside, n_replicates, axis=0))
    here = of_row - groups.min(initial=n_groups)
    order, n = orders[here * n_replicates + replicate, row - first[here]], size[here]

    offsets = keyed_bits(own_seed, np.arange(n_replicates))
    points = scrambled(offsets, int(turn.max(initial=0)) + 1)[replicate, turn]
    stretched = (points >> np.uint64(32)).astype(np.int64) * n  # in units of 2^-32, as all below
    within = (stretched & _HALF) ^ (keyed_bits(own_seed, replicate, row) >> np.uint64(32)).astype(np.int64)
    cell = (order + (stretched >> 32)) % n
    return (((cell << 32) | within) // n).astype(np.uint64) << np.uint64(32)


def scrambled(offsets: UInt64[np.ndarray, " R"], n: int) -> UInt64[np.ndarray, "R n"]:
    """The first n points of R scrambled van der Corput sequences, as fractions of 2^64.

    Point 0 is uniform. Point c = 2^t + p with p < 2^t has the first t binary digits of point p, not its next
    one, and random digits after it: where cells of width 2^-(t+1) are half full, the other halves are filled.
    For any f and n, the variance of Σ_c f(s_c) is at most the variance for independent points.

    Proof: which half of a cell of width 2^-k is filled first is decided at random, independently for all
    cells. Hence the variance is a sum over cells: the square of f's coefficient for the cell's Haar function
    times E (n₀ - n₁)², n₀ and n₁ the points in its halves. For independent points, E (n₀ + n₁) stands there;
    and |n₀ - n₁| <= min(1, n₀ + n₁).

    Source:
        Owen (1995), Randomly permuted (t, m, s)-nets and (t, s)-sequences.

    Example:
        >>> np.sort(scrambled(np.array([5], dtype=np.uint64), 4) >> np.uint64(62)).tolist()
        [[0, 1, 2, 3]]
    """
    points = keyed_bits(offsets.view(np.int64)[:, None], np.arange(n))
    for level in range((n - 1).bit_length()):
        new = slice(2**level, min(2 ** (level + 1), n))
        digit = np.uint64(1 << (63 - level))
        after = digit - np.uint64(1)
        parent = points[:, : new.stop - new.start]
        points[:, new] = ((parent ^ digit) & ~after) | (points[:, new] & after)
    return points


def scaled(bits: _Bits, n: _Ints) -> _Ints:
    """floor(u·n) for u = bits / 2^64, always in 0..n-1; uses the upper 32 bits and needs n < 2^31."""
    return (((bits >> np.uint64(32)) * n.astype(np.uint64)) >> np.uint64(32)).astype(np.int64)


def held_out_first(rows: _Rows, order: Int64[np.ndarray, " N"], n: int) -> tuple[np.ndarray, np.ndarray]:
    """Split off about n rows from the front of an order; copies of a row stay on one side.

    Copies move up to the first of them. If the cut would go through them, none of them is held out, or all
    if no other row is.

    Example:
        >>> x = np.random.default_rng(0).normal(size=(4, 4))
        >>> [part.tolist() for part in held_out_first(x[[0, 1, 2, 3, 1]], np.arange(5), 2)]
        [[0], [1, 4, 2, 3]]
    """
    rank, first = np.empty(len(order), dtype=np.int64), first_copies(rows)
    rank[order] = np.arange(len(order))
    lowest = np.full(len(order), len(order))
    np.minimum.at(lowest, first, rank)
    order = order[np.argsort(lowest[first[order]], kind="stable")]
    same = np.flatnonzero(first[order] == first[order[n]]) if 0 < n < len(order) else order[:0]
    if len(same) and same[0] < n:
        n = next((cut for cut in (same[0], same[-1] + 1) if 0 < cut < len(order)), n)
    return order[:n], order[n:]


def first_copies(rows: _Rows) -> Int64[np.ndarray, " N"]:
    """For each row, the first row that it is a copy of, itself if there is none; missing cells are equal.

    Where equal rows may be chance they are no copies, and each gets its own number: where independent columns
    with the values and the rounding of the different rows would have more than one pair of equal rows, or
    more than 5 % of the pairs there are; and, in a table whose columns have at most 20 values, where as many
    rows differ from another one in a single cell as stand more than once. But where every row stands k, 2k,
    3k, ... times, the table was repeated k times: of equal rows, all but the first k-th part are copies.

    Example:
        >>> x = np.random.default_rng(0).normal(size=(3, 4))
        >>> first_copies(x[[0, 1, 0, 2, 1]]).tolist(), first_copies((x[[0, 1, 0]] > 0).astype(float)).tolist()
        ([0, 1, 0, 3, 1], [0, 1, 2])
    """
    alone, (place, group, n_each) = np.arange(len(rows)), equal_rows(rows)
    if len(place) == len(rows):
        return alone
    k = int(np.gcd.reduce(n_each))
    if k > 1 and len(place) * math.log(k) > _ONE_DIVISOR:
        order, start = np.argsort(group, kind="stable"), np.repeat(np.cumsum(n_each) - n_each, n_each)
        alone[order] = order[start + (np.arange(len(rows)) - start) % np.repeat(n_each // k, n_each)]
    n_values, agree = values_of(rows)
    both = zip(agree, values_of(rows[place])[1], map(_by_rounding, rows.T), strict=True)
    agree = [min(of_all, max(of_different, rounded)) for of_all, of_different, rounded in both]
    chance, n_equal = math.comb(len(rows), 2) * math.prod(agree), float(n_each @ (n_each - 1.0)) / 2
    if chance > min(BY_CHANCE, SHARE * n_equal):
        return alone
    if max(n_values) <= FEW_VALUES and n_nearly_equal(rows) >= (n_each > 1).sum():
        return alone
    first = place[group]
    same = (rows == rows[first]) | (np.isnan(rows) & np.isnan(rows[first]))
    return np.where(same.all(axis=1), first, alone)


def equal_rows(
    rows: _Rows,
) -> tuple[Int64[np.ndarray, " n"], Int64[np.ndarray, " N"], Int64[np.ndarray, " n"]]:
    """The first of each set of equal rows, each row's set, and the sets' sizes; missing cells are equal.

    Example:
        >>> first, group, n = equal_rows(np.array([[2.0, np.nan], [1.0, 0.0], [2.0, np.nan]]))
        >>> first[group].tolist(), n[group].tolist()
        ([0, 1, 0], [2, 1, 2])
    """
    _, first, group, n = np.unique(_keys(rows), return_index=True, return_inverse=True, return_counts=True)
    return first, group, n


def n_nearly_equal(rows: _Rows) -> int:
    """Number of distinct rows that differ from an earlier row in exactly one cell.

    Example:
        >>> n_nearly_equal(np.array([[0.0, 1.0], [0.0, 1.0], [0.0, 2.0], [1.0, 3.0]]))
        1
    """
    keys = _keys(rows)
    keys, place = np.unique(keys, return_index=True)
    near, order = np.zeros(len(place), dtype=bool), np.argsort(place)
    for j, column in enumerate(rows[place[order]].T):
        near |= ~np.isin(np.arange(len(near)), np.unique(keys[order] - _key(j, column), return_index=True)[1])
    return int(near.sum())


def values_of(rows: _Rows) -> tuple[list[int], list[float]]:
    """For each column, the number of values and the share of pairs of rows that agree."""
    counts = [np.unique(column, return_counts=True)[1] for column in rows.T]
    n_pairs = max(math.comb(len(rows), 2), 1)
    return [len(n) for n in counts], [float(n @ (n - 1.0)) / 2 / n_pairs for n in counts]


def _by_rounding(column: Float64[np.ndarray, " N"]) -> float:
    """The share of pairs that agree by rounding to the smallest gap: gap / usual gap / number of values."""
    values = np.unique(column[~np.isnan(column)])
    gaps = np.diff(values)
    return float(gaps.min() / np.median(gaps)) / len(values) if len(gaps) else 1.0


def _keys(rows: _Rows) -> UInt64[np.ndarray, " N"]:
    """A 64-bit hash of each row, the sum of the hashes of its cells."""
    keys = np.zeros(len(rows), dtype=np.uint64)
    for j, column in enumerate(rows.T):
        keys += _key(j, column)
    return keys


def _key(j: int, column: Float64[np.ndarray, " N"]) -> UInt64[np.ndarray, " N"]:
    """A 64-bit hash of each cell of column j."""
    one_zero = np.where(np.isnan(column), np.nan, column.astype(np.float64)) + 0.0
    return keyed_bits(j, one_zero.view(np.int64))
