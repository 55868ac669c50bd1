"""Pairs under one model: differences, their errors over masks, ties, and the interval of the accuracy."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.stats import binomtest
from scipy.stats import t as student

import maskevidence as me
from learned_conditionals import Learned, rows
from maskevidence.core.comparing.pairs import pair_texts, subtract_sets

N, D, V = 5, 6, 3
MODEL = Learned(D, V)


def two_sets(seed: int = 0) -> tuple[me.Tokens, me.Tokens]:
    """Rows, and the same with another last token and the first two tokens absent in the first row."""
    first = rows(N, D, V, seed)
    values = first.values.clone()
    values[:, -1] = (values[:, -1] + 1) % V
    maskable = first.maskable.clone()
    maskable[0, :2] = False
    return first, replace(first, values=values, maskable=maskable)


@pytest.mark.parametrize("design", [me.LeaveOneOut(), me.Exhaustive(), me.Exhaustive(order_mixture=True)])
def test_enumerated_masks_have_no_error(design: me.MaskDesign) -> None:
    estimates = [me.estimate_evidence(MODEL, each, design) for each in two_sets()]
    pairs = pair_texts(estimates[0], estimates[1], ("good", "bad"))
    wanted = estimates[0].per_observation - estimates[1].per_observation
    np.testing.assert_allclose(pairs.difference, wanted)
    assert (pairs.mask_se == 0).all()
    assert pairs.mean.mask_se == 0
    assert pairs.call.tolist() == np.sign(wanted).astype(int).tolist()
    assert pairs.mean.mean == pytest.approx(wanted.mean())


@pytest.mark.parametrize("design", [me.RandomSize(16), me.EverySize(3), me.Orderings(8)], ids=str)
@pytest.mark.parametrize("row", [0, 1], ids=["other length", "same length"])
def test_the_error_of_a_pair_is_the_spread_over_masks(design: me.MaskDesign, row: int) -> None:
    """The same pair 400 times, each with other masks. Both texts share them: their errors do not add up."""
    copies = torch.full((400,), row)
    ids = torch.arange(400)
    exact, drawn = [], []
    for each in two_sets():
        exact.append(me.estimate_evidence(MODEL, each, me.Exhaustive()).per_observation[row])
        drawn.append(me.estimate_evidence(MODEL, replace(each[copies], ids=ids), design, seed=3))
    pairs, truth = pair_texts(drawn[0], drawn[1]), exact[0] - exact[1]
    spread = pairs.difference.std(ddof=1)
    assert abs(pairs.difference.mean() - truth) < 4 * spread / 20
    assert np.sqrt(np.mean(pairs.mask_se**2)) == pytest.approx(spread, rel=0.15)
    assert (pairs.call == -np.sign(truth)).mean() < 0.02


def test_equal_texts_are_ties_whatever_their_order() -> None:
    first, _ = two_sets()
    for design in (me.LeaveOneOut(), me.RandomSize(16)):
        estimate = me.estimate_evidence(MODEL, first, design)
        rounded = replace(estimate, per_observation=estimate.per_observation + 1e-6)
        for a, b in ((estimate, rounded), (rounded, estimate)):
            pairs = pair_texts(a, b)
            assert pairs.accuracy == pairs.accuracy_by_sign == 0.5
            assert pairs.equal.all()
            assert pairs.mask_se.tolist() == [0.0] * N
        apart = replace(estimate, per_observation=estimate.per_observation + 0.04 * (2 * D) ** 0.5)
        assert not pair_texts(estimate, apart, dtypes=("float32", None)).equal.any()
        half = pair_texts(estimate, apart, dtypes=("float32", "bfloat16"))
        assert half.equal.all()
        assert not pair_texts(estimate, apart, dtypes=("float16", "float16")).equal.any()
    assert "tie" in str(pairs.page().parts[1])
    assert {row["more_probable"] for row in pairs.to_dict()["pairs"]} == {"tie"}


def test_the_interval_is_wilsons() -> None:
    estimates = [me.estimate_evidence(MODEL, each, me.LeaveOneOut()) for each in two_sets()]
    pairs = pair_texts(estimates[0], estimates[1])
    for wins, ties, losses in ((7, 0, 3), (10, 0, 0), (0, 0, 4), (6, 2, 2)):
        call = np.repeat([1, 0, -1], [wins, ties, losses])
        numbers = {name: call.astype(float) for name in ("difference", "mask_se", "mask_df")}
        counted = replace(pairs, call=call, equal=call == 0, **numbers)
        assert counted.accuracy == (wins + ties / 2) / (wins + ties + losses)
        wanted = binomtest(wins + ties // 2, len(call)).proportion_ci(method="wilson")
        assert counted.interval() == pytest.approx(tuple(wanted))


def test_texts_with_the_same_name_are_a_pair() -> None:
    first, second = two_sets()
    names = [f"sentence {number}" for number in range(N)]
    a, b = (me.estimate_evidence(MODEL, each, me.LeaveOneOut()) for each in (first, second))
    order = torch.tensor([3, 1, 4, 0, 2])
    shuffled = replace(second[order], ids=second.ids + 100)
    c = replace(
        me.estimate_evidence(MODEL, shuffled, me.LeaveOneOut()),
        labels=tuple(names[k] for k in order.tolist()),
    )
    wanted, found = pair_texts(a, b), pair_texts(replace(a, labels=tuple(names)), c)
    np.testing.assert_allclose(found.difference, wanted.difference)
    assert found.labels == tuple(names)
    assert found.mean.mean == pytest.approx(wanted.mean.mean)
    with pytest.raises(me.InputError, match="are not pairs: only one of them has a text '1'"):
        pair_texts(a, c)
    with pytest.raises(me.InputError, match="a name stands twice"):
        pair_texts(replace(a, labels=("x",) * N), c)
    with pytest.raises(me.InputError, match="these are different quantities"):
        pair_texts(a, me.estimate_evidence(MODEL, second, me.Exhaustive()))
    drawn = [me.estimate_evidence(MODEL, each, me.RandomSize(n)) for each, n in ((first, 8), (second, 16))]
    with pytest.raises(me.InputError, match="have different masks"):
        pair_texts(drawn[0], drawn[1])


def test_shared_masks_move_all_pairs_together() -> None:
    """400 copies of a pair with shared masks: the mean has the error of one pair, own masks 1/20 of it."""
    copies = torch.zeros(400, dtype=torch.long)
    for masks, share in (("shared", 1.0), ("own", 1 / 20)):
        sets = [replace(each[copies], ids=torch.arange(400)) for each in two_sets()]
        pairs = pair_texts(*(me.estimate_evidence(MODEL, x, me.EverySize(4), masks=masks) for x in sets))
        each = np.sqrt(np.mean(pairs.mask_se**2))
        assert pairs.mean.mask_se == pytest.approx(share * each, rel=1e-9)


def test_equal_texts_with_other_masks_are_ties_within_the_masks_error() -> None:
    """Equal numbers but for the masks: about 5 % may be called different, and far ones are decided."""
    x = rows(200, D, V, 0)
    a, b = (me.estimate_evidence(MODEL, x, me.RandomSize(16), seed=seed) for seed in (0, 1))
    pairs = pair_texts(a, b)
    assert not pairs.equal.any()
    assert (pairs.call != 0).mean() < 0.08
    far = pair_texts(a, replace(b, per_observation=b.per_observation - 100.0))
    assert (far.call == 1).all()


def sets(**options: object) -> list[me.EvidenceEstimate]:
    """Two sets of texts that are not pairs."""
    both = rows(30, D, V, 0), rows(40, D, V, 1)
    return [me.estimate_evidence(MODEL, x, seed=seed, **options) for seed, x in enumerate(both)]


def test_the_difference_of_unpaired_sets_has_the_errors_of_both() -> None:
    """The rows' spread has n - 1 degrees of freedom, what masks add their own; rare masks move the ends
    crosswise."""
    a, b = (
        replace(each, per_observation=np.arange(n) * math.sqrt(12 * square / (n + 1)))
        for each, n, square in zip(sets(design=me.RandomSize(8)), (30, 40), (0.04, 0.05), strict=True)
    )
    a, b = (
        replace(a, mask_se=0.3, mask_df=3.0, data_se=0.1),
        replace(b, mask_se=0.5, mask_df=5.0, data_se=0.2),
    )
    a, b = replace(a, tails=(0.01, 0.02)), replace(b, tails=(0.1, 0.2))
    found = subtract_sets(a, b, ("a", "b"))
    assert "wider below because masks that were not drawn" in str(found.page().parts[1])
    v, df = np.array([0.04, 0.05, 0.1 - 0.04, 0.29 - 0.05]), np.array([29, 39, 3, 5])
    half = student.ppf(0.975, v.sum() ** 2 / (v**2 / df).sum()) * np.sqrt(v.sum())
    wanted = [
        found.difference - half + np.log(0.05) * 0.21,
        found.difference + half - np.log(0.05) * 0.12,
    ]
    assert found.standard_error == pytest.approx(np.sqrt(v.sum()))
    assert found.interval_95 == pytest.approx(wanted)


@pytest.mark.parametrize(
    ("design", "masks", "known"),
    [
        (me.EverySize(1), "shared", False),  # shared masks move a whole set, and replicates are missing
        (me.RandomSize(2), "shared", False),
        (me.EverySize(1), "own", True),  # the data error holds the error of own masks
        (me.RandomSize(2), "own", True),
    ],
)
def test_unpaired_sets_with_an_unknown_error_have_no_interval(
    design: me.MaskDesign, masks: str, known: bool
) -> None:
    a, b = sets(design=design, masks=masks)
    found = subtract_sets(a, b, ("a", "b"))
    assert a.mask_se is b.mask_se is None
    assert (found.standard_error is not None) == (found.interval_95 is not None) == known
    assert any("no interval: a: mask_se is not known" in note for note in found.page().notes) != known


class Rare:
    """Conditionals that are hopeless for 2 % of the masks of a text; every text has a log p of -7 exactly."""

    conditionals = "exact"

    def __init__(self, seed: int) -> None:
        self.score = -30.0 * (np.random.default_rng(seed).random((100, 128)) < 0.02)
        self.score += 0.05 * np.random.default_rng(seed + 100).normal(size=self.score.shape)
        size = np.bitwise_count(np.arange(128))
        for n in range(1, 8):
            self.score[:, size == n] -= self.score[:, size == n].mean(1, keepdims=True) + 1.0

    def log_conditionals(self, tokens: me.Tokens, masked: torch.Tensor) -> torch.Tensor:
        code = (masked.long() * 2 ** torch.arange(7)).sum(1)
        return torch.where(masked, torch.from_numpy(self.score)[tokens.ids, code][:, None], 0.0)


@pytest.mark.parametrize("design", [me.RandomSize(8), me.EverySize(4)], ids=str)
def test_rare_bad_masks_of_some_pairs_are_an_error_of_all(design: me.MaskDesign) -> None:
    """Equal pairs are called different in at most 5 % of cases, 35 % if each knows its own masks alone."""
    x = me.Tokens.from_array(np.zeros((100, 7)))
    called = 0
    for seed in range(3):
        each = [
            me.estimate_evidence(Rare(2 * seed + k), x, design, seed=2 * seed + k, check=False)
            for k in (0, 1)
        ]
        called += int((pair_texts(*each).call != 0).sum())
    assert called <= 0.05 * 300
