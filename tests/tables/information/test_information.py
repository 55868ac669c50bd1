"""Information from one model: against block matrices, as statistics, and what is refused."""

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from torch import Tensor, nn

import maskevidence as me
from maskevidence.tables.information.gains import _alike, fitted
from maskevidence.tables.information.information import FEW_ROWS, _exchanged
from maskevidence.tables.information.information_result import errors_of
from refusals import one_line

RNG = np.random.default_rng(0)
W = RNG.normal(size=(9, 3))
COVARIANCE = W @ W.T + 0.5 * np.eye(9)


def log_normal(x: np.ndarray, covariance: np.ndarray, places: list[int]) -> np.ndarray:
    """log N(x_places; 0, Σ_places) of each row."""
    if not places:
        return np.zeros(len(x))
    part, values = covariance[np.ix_(places, places)], x[:, places]
    square = (values @ np.linalg.inv(part) * values).sum(1)
    return -0.5 * (square + np.linalg.slogdet(part)[1] + len(places) * np.log(2 * np.pi))


def entropy(places: list[int]) -> float:
    return 0.5 * float(np.linalg.slogdet(2 * np.pi * np.e * COVARIANCE[np.ix_(places, places)])[1])


def truth(a: list[int], b: list[int], c: list[int] | None = None) -> float:
    c = c or []
    return entropy(a + c) + entropy(b + c) - entropy(a + b + c) - (entropy(c) if c else 0.0)


def rows(n: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).multivariate_normal(np.zeros(9), COVARIANCE, n)


def gaussian() -> me.models.Gaussian:
    return me.models.Gaussian(torch.zeros(9), torch.from_numpy(COVARIANCE))


class WithoutClosedForm(nn.Module):
    """A Gaussian that gives conditionals alone."""

    def __init__(self, conditionals: str = "exact") -> None:
        super().__init__()
        self.model, self.conditionals = gaussian(), conditionals

    def log_conditionals(self, tokens: me.Tokens, masked: Tensor) -> Tensor:
        return self.model.log_conditionals(tokens, masked)


@pytest.mark.parametrize("c", [[], [5], [5, 8]])
@pytest.mark.parametrize(("a", "b"), [([0], [1]), ([0, 1], [2, 3, 4])])
def test_the_numbers_of_a_known_density_are_those_of_block_matrices(
    a: list[int], b: list[int], c: list[int]
) -> None:
    x = rows(60, 1)
    log_p = partial(log_normal, x, COVARIANCE)
    oracle = log_p(a + b + c) - log_p(b + c) - log_p(a + c) + log_p(c)
    for model in (gaussian(), WithoutClosedForm(), WithoutClosedForm("learned")):
        found = me.information(model, x, a, b, c)
        assert found.nats == pytest.approx(oracle.mean(), abs=1e-9)
        assert found.data_se == pytest.approx(oracle.std(ddof=1) / 60**0.5)
        assert (found.mask_se, found.fit_se) == (0, None)
        assert found.bits == pytest.approx(oracle.mean() / np.log(2))


def test_total_correlation_and_o_information_of_a_known_density() -> None:
    x, s = rows(60, 2), [0, 1, 2, 3]
    log_p = partial(log_normal, x, COVARIANCE)
    rest = sum(log_p(s) - log_p([j for j in s if j != k]) for k in s)
    alone = sum(log_p([k]) for k in s)
    for model in (gaussian(), WithoutClosedForm()):
        assert me.total_correlation(model, x, s).nats == pytest.approx((log_p(s) - alone).mean(), abs=1e-9)
        assert me.o_information(model, x, s).nats == pytest.approx(
            (2 * log_p(s) - alone - rest).mean(), abs=1e-9
        )
    given = log_p([*s, 8]) - sum(log_p([k, 8]) for k in s) + 3 * log_p([8])
    assert me.total_correlation(gaussian(), x, s, 8).nats == pytest.approx(given.mean(), abs=1e-9)


@pytest.mark.slow
def test_drawn_masks_have_an_error_that_holds() -> None:
    x, a, b = rows(40, 3), [0, 1, 2, 3, 4, 5, 6], [7, 8]
    exact, z = me.information(gaussian(), x, b, a).nats, []
    for seed in range(12):
        found = me.information(WithoutClosedForm("learned"), x, a, b, seed=seed)
        assert found.mask_se > 0
        z.append((found.nats - exact) / found.mask_se)
    assert np.abs(z).max() < 5
    assert 0.4 < np.std(z) < 2.2
    assert abs(np.mean(z)) < 1.2


MODELS = [
    lambda: gaussian(),
    lambda: me.models.PPCA(9, 2, seed=1),
    lambda: me.models.FactorAnalysis(9, 2, seed=1),
    lambda: me.models.KernelGaussian(9, n_centres=1).fit(rows(50, 4)),
    lambda: me.models.BernoulliPCA(9, 2, seed=1),
    lambda: me.models.MaskedNetwork(9, 8, 1).fit(rows(60, 4), epochs=1),
]


@pytest.mark.parametrize("build", MODELS)
def test_a_cell_that_is_hidden_and_not_asked_is_an_absent_one(build: Any) -> None:
    """The third role needs no protocol: hiding B beside A, or taking B away, gives the same log p(A)."""
    model, x = build(), rows(5, 5)
    x = (x > 0).astype(float) if isinstance(model, me.models.BernoulliPCA) else x
    tokens = model.tokens(x)
    column = torch.arange(9)
    masked = (column < 4).expand(5, 9)
    both = model.log_conditionals(tokens, masked)[:, 0]
    absent = me.Tokens(tokens.values, (column < 1) | (column > 3).expand(5, 9), tokens.context, tokens.ids)
    alone = model.log_conditionals(absent, (column < 1).expand(5, 9))[:, 0]
    torch.testing.assert_close(both, alone, rtol=1e-5, atol=1e-5)


@pytest.mark.slow
def test_intervals_hold_and_nothing_is_found_where_nothing_is() -> None:
    """In 200 data sets of each of seven settings (benchmarks/information.py): .95 to 1."""
    dependent, null, above = 0, 0, 0
    for seed in range(24):
        x = rows(150, 100 + seed)
        low, high = me.information("gaussian", x, [0, 1], [2, 3], [4], seed=seed).interval()
        dependent += low <= truth([0, 1], [2, 3], [4]) <= high
        found = me.information("gaussian", np.column_stack([x[:, 0], rows(150, 900 + seed)[:, 1]]), 0, 1)
        low, high = found.interval()
        null, above = null + (low <= 0 <= high), above + (found.p_value < 0.05)
    assert dependent >= 20
    assert null >= 22
    assert above <= 3


def test_holes_cost_no_bias() -> None:
    z = []
    for seed in range(8):
        x = rows(300, 200 + seed)
        x[np.random.default_rng(seed).random(x.shape) < 0.3] = np.nan
        found = me.information("gaussian", x, [0, 1], [2, 3], seed=seed)
        z.append((found.nats - truth([0, 1], [2, 3])) / found.standard_error)
    assert abs(np.mean(z)) < 1.0
    assert np.abs(z).max() < 4


def test_the_error_of_fits_is_their_variance() -> None:
    """Five models, whose numbers are off by a normal error each, answer for the rows of two folds."""
    estimated, means = [], []
    for seed in range(300):
        rng = np.random.default_rng(seed)
        off, g = rng.normal(0, 0.2, 5), rng.normal(size=(5, 1, 40))
        out = [g[k] + off[k] + 0.01 * rng.normal(size=(1, 40)) for k in range(5)]
        saw = [g[k] + off[k - 1] + 0.01 * rng.normal(size=(1, 40)) for k in range(5)]
        errors = errors_of(out, saw, [40] * 5)
        estimated.append(errors["fit_se"] ** 2)
        means.append(np.concatenate(out, 1).mean())
        of_both = errors["fit_se"] ** 2 + (errors["data_se"] or 0) ** 2
        assert errors["standard_error"] ** 2 == pytest.approx(of_both)
    assert np.mean(estimated) == pytest.approx(0.2**2 / 5, rel=0.15)
    assert np.mean(estimated) + 1 / 200 == pytest.approx(np.var(means), rel=0.25)


def test_a_network_says_the_same_both_ways_and_bounds_words_from_below() -> None:
    rng = np.random.default_rng(0)
    a = rng.integers(0, 3, 400)
    b = np.where(rng.random(400) < 0.7, a, rng.integers(0, 3, 400))
    frame = pd.DataFrame({"a": np.array(list("xyz"))[a], "b": np.array(list("uvw"))[b]})
    model = me.models.MaskedNetwork(2, 16, 1).fit(frame, epochs=30)
    there, back = me.information(model, frame, "a", "b"), me.information(model, frame, "b", "a")
    assert there.nats == pytest.approx(back.nats, abs=1e-6)
    joint = np.histogram2d(a, b, 3)[0] / 400
    plug_in = (joint * np.log(joint / joint.sum(1, keepdims=True) / joint.sum(0))).sum()
    assert there.lower_bound is not None
    assert there.symmetric_uncertainty is not None
    assert 0.5 * plug_in < there.lower_bound < plug_in  # q(a | b) is at best the shares of these rows
    assert there.symmetric_uncertainty == pytest.approx(2 * there.nats / (2 * np.log(3)), rel=0.02)
    assert any("came fitted" in note for note in there.notes)


def test_a_word_is_fitted_to_the_columns_in_question_without_the_rows_it_is_asked() -> None:
    x = pd.DataFrame(rows(120, 6), columns=list("abcdefghi"))
    fit = fitted("gaussian", x, [["c"], ["a", 8], None], (4, 0))
    assert fit.table.columns == ("c", "a", "i")
    assert fit.groups == [[0], [1, 2], []]
    assert sorted(np.concatenate([fold.out for fold in fit.folds]).tolist()) == list(range(120))
    for fold in fit.folds:
        mean = np.delete(fit.table.values, fold.out, axis=0).mean(0)
        np.testing.assert_allclose(fold.model.mean.detach().numpy(), mean)
        np.testing.assert_allclose(fold.again(fit.table.values).mean.detach().numpy(), mean)
    found = me.information("gaussian", x, "c", ["a", "i"], "h")
    assert found.groups == (("c",), ("a", "i"), ("h",))
    assert found.zero is not None
    assert "mutual information of c and a, i, given h" in found.page().headline


def test_the_zero_is_that_of_independent_columns() -> None:
    x = rows(400, 7)
    x[:, 3] += x[:, 0]
    for found in (me.information("gaussian", x, 0, 3, [5]), me.total_correlation("gaussian", x, [0, 3])):
        assert found.nats > 5 * found.standard_error
        assert abs(found.zero) < 0.03  # type: ignore[arg-type]


def square(n: int, seed: int) -> np.ndarray:
    """b = a² + noise, which have .803 nats on each other and no linear correlation."""
    rng = np.random.default_rng(seed)
    a = rng.normal(size=n)
    return np.column_stack([a, a**2 + 0.5 * rng.normal(size=n)])


@pytest.mark.parametrize("word", ["gaussian", pytest.param("kernel-gaussian", marks=pytest.mark.slow)])
def test_increasing_maps_of_the_columns_change_nothing(word: str) -> None:
    x = rows(150, 9)[:, :3]
    bent = np.column_stack([x[:, 0] ** 3, np.exp(x[:, 1]), 1e6 * x[:, 2]])
    straight, other = (me.information(word, each, 0, 1, 2) for each in (x, bent))
    assert (other.nats, other.zero) == pytest.approx((straight.nats, straight.zero), abs=1e-6)


@pytest.mark.slow
def test_kernels_find_a_dependence_without_a_line() -> None:
    """.49 by kernels that are as wide as fills want them, .75 by one bandwidth, and .80 by KSG."""
    found = me.information("kernel-gaussian", square(1000, 0), 0, 1)
    assert found.nats == pytest.approx(0.803, abs=0.05)
    assert found.interval()[0] < 0.803 < found.interval()[1]
    others = np.random.default_rng(1).normal(size=(300, 2))
    matrix = me.information_matrix("auto", np.column_stack([square(300, 0), others]))
    assert np.triu(matrix.found).nonzero() == (0, 1)
    assert matrix.nats[0, 1] > 0.3
    assert any("one bandwidth" in note for note in matrix.notes)


@pytest.mark.slow
def test_a_column_of_numbers_gives_a_bound_from_below() -> None:
    """E log q(a | b) + H(a), where H(a) is that of a normal."""
    x = square(300, 1)
    found = me.information("kernel-gaussian", x, 0, 1)
    fit = fitted("kernel-gaussian", x, [0, 1], (5, 0))
    log_q = []
    for fold in fit.folds:
        some = fit.table.values[fold.out]
        both, other = (
            fold.model.log_evidence(me.Tokens.from_array(np.where([[hide, False]], np.nan, some)))
            for hide in (False, True)
        )
        log_q += (both - other).tolist()
    assert found.lower_bound == pytest.approx(np.mean(log_q) + 0.5 * np.log(2 * np.pi * np.e), abs=1e-9)
    assert found.symmetric_uncertainty is None
    assert not any("no lower bound" in note for note in found.notes)
    assert me.information("gaussian", rows(60, 2), [0, 1], [2, 3]).lower_bound is None


def test_the_interval_reaches_what_more_rows_would_find() -> None:
    """A fit to two of five folds has half the rows of the others: it lacks √2 times as much."""
    x = square(200, 3)
    found, fit = me.information("kernel-gaussian", x, 0, 1), fitted("kernel-gaussian", x, [0, 1], (5, 0))
    rise = [
        me.information(model, fit.table.values[fold.out], 0, 1).nats * len(fold.out) * sign
        for fold in fit.folds[2:]
        for model, sign in ((fold.model, 1), (fit.half, -1))
    ]
    expected = found.held_out + max(0.0, sum(rise) / 120) / (2**0.5 - 1)
    assert found.with_more_rows == pytest.approx(expected, abs=1e-9)
    assert found.with_more_rows > found.held_out + 0.02
    assert found.seen is not None
    assert found.nats == pytest.approx((found.held_out + found.seen) / 2)
    assert found.interval()[1] > found.with_more_rows
    assert FEW_ROWS in found.notes
    assert FEW_ROWS not in me.information("gaussian", rows(400, 12), 0, 3).notes
    half = set(np.concatenate([fold.out for fold in fit.folds[2:]]).tolist())
    assert len(half) == 120  # which the half model has not seen


def test_what_a_model_misses_of_given_columns_is_its_zero() -> None:
    """|x| tells nothing about x² beside x, but a Gaussian cannot see either in x."""
    x, rng = square(600, 3), np.random.default_rng(4)
    x = np.column_stack([x, np.abs(x[:, 0]) + 0.3 * rng.normal(size=600)])
    found = me.information("gaussian", x, 1, 2, 0)
    assert found.held_out > 0.2
    assert found.interval()[0] < 0.0 < 0.1 < found.zero  # type: ignore[operator]
    assert any("fits these rows badly" in note for note in found.notes)


@pytest.mark.slow
def test_a_mixture_knows_that_the_sign_of_x_tells_nothing_beside_x() -> None:
    """.046 by kernels, which know the sign better than x."""
    x = square(400, 3)
    found = me.information("kernel-gaussian", np.column_stack([x, np.sign(x[:, 0])]), 1, 2, 0)
    assert found.nats == pytest.approx(0, abs=0.015)
    assert found.interval()[0] < 0


def test_rows_are_exchanged_among_those_of_the_same_given_columns() -> None:
    rng = np.random.default_rng(0)
    x = np.column_stack([rng.normal(size=(300, 3)), rng.integers(0, 3, 300)])
    fit = fitted("kernel-gaussian", x, [0, 1, [2, 3]], (5, 0))
    x, other = fit.table.values, _exchanged(fit, rng)
    assert (np.array(other) != np.arange(300)).all()
    assert (x[other, 3] == x[:, 3]).all()
    assert np.abs(x[other, 2] - x[:, 2]).mean() < 0.2
    assert len(set(other)) > 250
    alone = _exchanged(fitted("kernel-gaussian", x, [0, 1, None], (5, 0)), rng)
    assert sorted(alone) == list(range(300))
    assert np.abs(x[alone, 2] - x[:, 2]).mean() > 0.8


def test_an_interval_is_wider_on_both_sides_where_a_number_may_be_below_0() -> None:
    found = me.o_information("gaussian", rows(60, 11), [0, 1, 2])
    found = replace(found, held_out=-0.4, seen=-0.5, with_more_rows=-0.6, zero=0.0)
    width = -0.6 - found.interval()[0]
    assert width > 0
    assert found.interval() == pytest.approx((-0.6 - width, -0.4 + width))
    assert replace(found, quantity="total correlation").interval()[0] == pytest.approx(-0.4 - width)


def test_columns_that_tell_nothing_new_are_left_out_of_a_matrix() -> None:
    found = me.information_matrix("gaussian", THRICE.assign(one=1.0))
    assert found.names == ("c", "a")
    assert [note for note in found.notes if "left out" in note] == [
        "column 'one' has one value or none in all rows of a fit: left out",
        "column 'b' is 'a', by another name or unit: left out",
        "column 'd e' is 'c', by another name or unit: left out",
    ]
    assert me.information_matrix("gaussian", WORDS[["b", "c"]].assign(z=X[:, 1]), "z").names == ("b", "z")


@pytest.mark.parametrize(
    ("n", "k"), [(60, 5), *(pytest.param(*each, marks=pytest.mark.slow) for each in ((60, 2), (100, 3)))]
)
def test_copies_of_rows_count_once(n: int, k: int) -> None:
    """Else 2.7 nats in independent columns of 60 rows that stand five times, and errors by √k too small."""
    rng = np.random.default_rng(n)
    for x in (rng.normal(size=(n, 2)), rng.normal(size=(n, 2)).round(1)):
        once, found = (me.information("gaussian", each, 0, 1) for each in (x, np.tile(x, (k, 1))))
        assert (found.nats, found.interval()) == (once.nats, once.interval())
        assert any("copies count once" in note for note in found.notes)
    for x in (rng.normal(size=(n, 2)), rng.normal(size=(n, 2)).round(1)):  # of rounded rows none is a copy
        resampled = x[rng.integers(0, n, n * k)]
        low, high = me.information("kernel-gaussian", resampled, 0, 1, folds=3).interval()
        assert low < 0 < high < 1  # 149 where fits to a part of the rows part equal ones
    matrix = me.information_matrix("gaussian", np.tile(x, (k, 1)))
    assert matrix.p_values[0, 1] == me.information_matrix("gaussian", x).p_values[0, 1]
    model = me.models.Gaussian(n_features=2).fit(x)
    of_copies, once = (me.information(model, each, 0, 1) for each in (np.tile(x, (k, 1)), x))
    assert (of_copies.standard_error, of_copies.df) == (once.standard_error, once.df)


@pytest.mark.parametrize("fit", [False, True])
def test_the_order_of_the_rows_changes_nothing(*, fit: bool) -> None:
    """Upper ends of .462 and .353 of one table, whose folds and draws went by the positions of the rows."""
    rng, x = np.random.default_rng(1), np.column_stack([square(60, 0), np.arange(60) % 3])
    x[::5, 0] = np.nan
    model = me.models.Gaussian(n_features=3).fit(x) if fit else "kernel-gaussian"
    tables = (x, x[rng.permutation(60)], rng.permuted(x, axis=0))
    found, shuffled, other = (me.information(model, each, 0, [1, 2]) for each in tables)
    assert (
        (shuffled.nats, shuffled.interval())
        == (found.nats, found.interval())
        != (other.nats, other.interval())
    )
    matrices = [me.information_matrix(model, each).nats for each in (x, x[::-1])]
    np.testing.assert_array_equal(*matrices)


def test_equal_rows_of_rounded_numbers_are_in_one_fold() -> None:
    """2.90 (2.51 to 3.98) with equal rows parted; 2.231 by the shares of 3,000,000 rows."""
    x = np.random.default_rng(0).normal(size=(2, 1000))
    x = np.column_stack([x[0], x[0] + 0.1 * x[1]]).round(1)
    low, high = me.information("kernel-gaussian", x, 0, 1, folds=3, seed=1).interval()
    assert 2 < low < 2.231 < high < 2.5
    values = np.array(
        [[0.0, 1.0], [0.0, np.nan], [0.0, 1.0], [0.0, np.nan], *np.arange(100, 180).reshape(40, 2)]
    )
    assert _alike(values)[:4].tolist() == [0, 1, 0, 1]
    assert _alike(values.round(-1)[:, :1]).tolist() == list(range(44))


def test_columns_are_judged_as_they_were_asked_of_a_wide_table() -> None:
    """A patient's numbers stand in each visit; a few rows for each column are told."""
    rng = np.random.default_rng(0)
    patient = np.repeat(rng.normal(size=(80, 2)), rng.integers(1, 9, 80), axis=0)
    visits = np.column_stack([patient, rng.normal(size=(len(patient), 2))])
    found = me.information("kernel-gaussian", visits, 0, 1, folds=3)
    assert found.n_rows == 80
    assert found.interval()[0] < 0 < found.interval()[1]
    assert FEW_ROWS in me.information("gaussian", rows(30, 1), [0, 1, 2, 3], [4, 5, 6, 7]).notes


def test_more_rows_find_no_more_in_a_yes_or_no_than_it_has() -> None:
    """2.1 nats at the upper end before."""
    x = rows(100, 9)[:, :1]
    found = me.information("kernel-gaussian", np.column_stack([x, x > 0]), 0, 1, folds=3)
    assert found.with_more_rows is not None
    assert found.interval()[0] < np.log(2) < found.interval()[1] < np.log(2) + 4 * found.standard_error


def test_weighted_sums_are_told() -> None:
    x = X[:, :3]
    sums = pd.DataFrame({"a": x[:, 0], "b": x[:, 1], "c": x[:, 2], "sum": 2 * x[:, 0] - 100 * x[:, 1] + 5})
    said = "one is a weighted sum of the others, so groups that part them have infinite information"
    found = me.information("gaussian", sums, "sum", ["a", "b", "c"])
    assert f"sum, a, b: {said}" in found.notes
    assert f"a, b, sum: {said}" in me.information_matrix("gaussian", sums, "c").notes
    for other in (
        me.information("gaussian", sums, "sum", ["a", "c"]),
        me.information_matrix("gaussian", sums),
    ):
        assert not any(said in note for note in other.notes)


def test_a_column_that_others_of_its_group_determine_is_left_out() -> None:
    """Indicators that sum to 1 were refused, and made .20 to .44 by kernels .12 to .68."""
    rng = np.random.default_rng(0)
    kind, z = rng.integers(0, 3, 300), rng.normal(size=(300, 2))
    frame = pd.DataFrame({"x": z[:, 0] + kind, "z": z[:, 1], "w": z.sum(1)})
    colours = ["red", "green", "blue"]
    frame[colours] = (kind[:, None] == np.arange(3)).astype(float)
    note = "column 'blue' is a weighted sum of others beside it: left out"
    for model in ("gaussian", "kernel-gaussian"):
        for a, b, given in (("x", colours, None), (colours, "x", None), ("x", "w", colours)):
            groups = [colours[:2] if each == colours else each for each in (a, b, given)]
            found, once = (me.information(model, frame, *each) for each in ((a, b, given), groups))
            assert (found.nats, found.interval()) == (once.nats, once.interval())
            assert note in found.notes
            assert not any("weighted sum of the others" in each for each in found.notes)
    beside_given = me.information("gaussian", frame, "x", ["green", "blue", "z"], "red")
    assert beside_given.groups == (("x",), ("green", "z"), ("red",))
    with pytest.raises(me.InputError, match="the given columns determine blue: the information is 0"):
        me.information("gaussian", frame, "x", "blue", ["red", "green"])
    for parted in (("red", ["green", "blue"]), ("red", "green", "blue")):
        with pytest.raises(me.InputError, match="one is a weighted sum of the others"):
            me.information("gaussian", frame, *parted)
    with pytest.raises(me.InputError, match="one is a weighted sum of the others"):
        me.total_correlation("gaussian", frame, colours)


def test_functions_are_told() -> None:
    """2.9 nats, 2.7 to 4.5, of an infinite information, without a word."""
    x, noise = rows(300, 0)[:, 0], rows(300, 1)[:, 0]
    told = pd.DataFrame({"x": x, "square": x**2, "noisy": x**2 + 0.05 * noise, "other": noise, "few": x > 1})
    said = "square of x: a function, as far as rows tell: the information"
    for found in (
        me.information("kernel-gaussian", told[["x", "square"]], 0, 1, folds=3),
        me.information_matrix("gaussian", told.astype(float)),
    ):
        (note,) = (note for note in found.notes if "function" in note)
        assert note.startswith(said)
    without = me.information_matrix("gaussian", told.drop(columns="square").astype(float))
    assert not any("function" in note for note in without.notes)


def test_folds_of_several_sizes_have_an_error() -> None:
    """The shapes of a checked call named one size for all folds."""
    folds = [np.arange(float(n))[None] for n in (3, 4, 5)]
    assert errors_of(folds, folds, [3, 4, 5])["fit_se"] == 0


def test_auto_finds_what_two_words_tell_together() -> None:
    """0 by counts, which add up what each column tells; all of it by a mixture."""
    bits = np.random.default_rng(0).integers(0, 2, (300, 2))
    found = me.information("auto", np.column_stack([bits, bits.sum(1) % 2]), [0, 1], 2, folds=3)
    assert 0.6 < found.nats < found.interval()[1] < 0.8


TEXTS = me.models.MaskedLM.from_callable(lambda ids: torch.zeros(*ids.shape, 9), mask_token_id=8)
X = rows(120, 8)
COPIES = pd.DataFrame({"c": X[:, 1], "a": X[:, 0], "b": 32 - 1.8 * X[:, 0]})
THRICE = COPIES.assign(**{"d e": X[:, 1] ** 3})
WORDS = pd.DataFrame({"a": ["x", "y"] * 60, "b": X[:, 0], "c": 1.0})


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: me.information("gaussian", X, 0, 0), "column 'c0' is given twice"),
        (lambda: me.information("gaussian", X, [], 0), "a or b names no column"),
        (lambda: me.information("gaussian", X, 0, 9), "there is no column 9; the columns are c0, c1"),
        (lambda: me.information("gaussian", X, 0, 9), "a number is a position, from 0"),
        (lambda: me.information("gaussian", X, 0, "z"), "there is no column 'z'"),
        (lambda: me.information("gaussian", X[:12], 0, 1), "12 different rows for 5 folds; give 15 or more"),
        (lambda: me.information("gaussian", X, 0, 1, folds=2), "folds=2; give a whole number of 3 or more"),
        (lambda: me.information("gaussian", WORDS, "a", "b"), "holds words, which gaussian cannot take"),
        (lambda: me.information("gaussian", WORDS, "b", "c"), "column 'c' has one value or none in all rows"),
        (lambda: me.information("gaussain", X, 0, 1), "gaussain"),
        (lambda: me.information("gaussian", COPIES, "a", "b"), "column 'b' is 'a', by another name or unit"),
        (lambda: me.information_matrix("gaussian", COPIES, "a"), "two copies of a number have infinite"),
        (lambda: me.information_matrix("gaussian", WORDS[["b", "c"]], "c"), "column 'c' has one value"),
        (lambda: me.total_correlation("gaussian", X, [0]), "total correlation of 1 column; give two"),
        (lambda: me.information_matrix("gaussian", X, rate=0), "rate=0; give a share"),
        (lambda: me.information_matrix("gaussian", X[:, :1]), "one column; give two or more"),
        (
            lambda: me.information(TEXTS, me.Tokens.from_array(X).__class__(**text_tokens()), 0, 1),
            "does not read rows: no check finds a model of texts calibrated",
        ),
    ],
)
def test_what_cannot_be_used_is_one_line(call: Any, said: str) -> None:
    one_line(call, said)


def text_tokens() -> dict[str, Tensor]:
    present = torch.ones(3, 4, dtype=torch.bool)
    ids = torch.arange(3)
    return {"values": torch.ones(3, 4), "maskable": present, "context": ~present, "ids": ids, "n_bytes": ids}
