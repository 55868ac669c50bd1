"""The plan of passes: its errors against those that are measured, limits, the command and its refusals."""

import itertools
import json
import math
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch

import maskevidence as me
from command_line import CommandLine
from maskevidence.masks import n_masks
from maskevidence.planning import MULTIPLE, PassPlan, _Pilot, _variance_every
from maskevidence.standard_errors import MeanWithErrors


@pytest.fixture(scope="module")
def ppca() -> me.models.PPCA:
    return me.models.PPCA.from_parameters(torch.from_numpy(np.random.default_rng(0).normal(size=(9, 2))), 0.3)


@pytest.fixture(scope="module")
def rows(ppca: me.models.PPCA) -> np.ndarray:
    return np.array(ppca.sample(300, seed=1))


@pytest.fixture(scope="module")
def plans(ppca: me.models.PPCA, rows: np.ndarray) -> list[PassPlan]:
    return [me.plan(ppca, rows, target_se=0.02, seed=seed) for seed in range(8)]


def test_errors_are_those_of_the_designs(
    ppca: me.models.PPCA, rows: np.ndarray, plans: list[PassPlan]
) -> None:
    """The squared error that the same number of masks has, on average over pilots.

    A plan counts on sizes of an observation that are independent, which a replicate for each draw has.
    """

    @cache
    def measured(design: me.MaskDesign) -> float:
        return me.estimate_evidence(ppca, rows, design, seed=1, check=False).mask_se ** 2

    for place, design in enumerate((me.RandomSize, me.EverySize)):
        ratios = []
        for plan in plans:
            one = plan.designs[place]
            count = int(one.options.split()[1])
            made = me.EverySize(count) if design is me.EverySize else me.RandomSize(count, count)
            assert (one.design, one.passes) == (made.name, n_masks(made, np.full(300, 9)).sum())
            assert one.memory == 64 * one.passes
            assert one.mask_se <= 0.02
            ratios.append(one.mask_se**2 / measured(made))
        assert abs(np.mean(ratios) - 1) < 4 * np.std(ratios, ddof=1) / math.sqrt(len(ratios)) + 0.05
        assert np.std(ratios, ddof=1) < 0.4
    assert all(int(plan.designs[0].options.split()[1]) % MULTIPLE == 0 for plan in plans)


def test_designs_without_masks_error(plans: list[PassPlan]) -> None:
    by_name = {one.design: one for one in plans[0].designs}
    assert list(by_name) == ["random-size", "every-size", "leave-one-out", "exhaustive"]
    assert [one.kind for one in by_name.values()] == ["unbiased", "unbiased", "pseudo", "exact"]
    assert (by_name["leave-one-out"].passes, by_name["exhaustive"].passes) == (2700, 300 * 511)
    assert by_name["exhaustive"].mask_se == 0
    assert by_name["exhaustive"].minutes > by_name["leave-one-out"].minutes > 0
    assert plans[0].pilot_passes == 512
    assert 0.05 < plans[0].uncertainty < 0.5
    assert plans[0].notes[-1].startswith("the pilot knows the passes of random-size and every-size to about ")
    assert "for a mask error of 0.02 nats\nrandom-size --draws" in repr(plans[0])


def test_precise_takes_about_as_many(ppca: me.models.PPCA, rows: np.ndarray, plans: list[PassPlan]) -> None:
    found = me.estimate_evidence(ppca, rows, me.Precise(target_se=0.02, negligible=0), seed=0)
    assert np.mean([one.designs[0].passes for one in plans]) == pytest.approx(found.n_masks, rel=0.15)


def test_the_uncertainty_covers_which_rows_the_pilot_saw(ppca: me.models.PPCA) -> None:
    """A quarter of the rows, none of which stands at an even distance, has nearly all of the variance."""
    x = np.array(ppca.sample(400, seed=2))
    x[np.setdiff1d(np.arange(400), np.arange(64) * 400 // 64)[::4]] *= 3
    truth = me.estimate_evidence(ppca, x, me.RandomSize(64), check=False)
    assert truth.mask_se is not None
    found = [me.plan(ppca, x, target_se=0.02, seed=seed) for seed in range(20)]
    variances = [one.designs[0].mask_se ** 2 * one.designs[0].passes for one in found]
    stated = math.sqrt(np.mean([one.uncertainty**2 for one in found]))
    assert stated > 0.3
    assert 0.5 < np.std(variances, ddof=1) / np.mean(variances) / stated < 1.6
    assert np.mean(variances) > 0.85 * truth.mask_se**2 * truth.n_masks
    assert ", if the 336 of 400 rows that it has not scored are like its own" in found[0].notes[-1]


def test_the_error_that_no_longer_matters_is_enough(ppca: me.models.PPCA, rows: np.ndarray) -> None:
    plans = [me.plan(ppca, rows, target_se=1e-5, seed=seed) for seed in range(8)]
    data_se = float(ppca.score_samples(rows).std()) / math.sqrt(300)
    assert np.mean([plan.data_se for plan in plans]) == pytest.approx(data_se, rel=0.2)
    plan = plans[0]
    assert plan.wanted == pytest.approx(0.1 * plan.data_se)
    assert "no longer matters beside that; the target is 1e-05" in plan.notes[0]


def test_a_target_that_no_run_reaches(ppca: me.models.PPCA, rows: np.ndarray) -> None:
    with pytest.raises(me.InputError, match="give a larger target, such as"):
        me.plan(ppca, rows[:1], target_se=1e-9)


def test_tokens_take_memory_and_save_passes(ppca: me.models.PPCA, rows: np.ndarray) -> None:
    less, more = (me.plan(ppca, rows, target_se=0.02, per_token=one).designs[0] for one in (True, False))
    assert less.passes <= more.passes
    assert less.memory == less.passes * (64 + 5 * 24)


@pytest.mark.parametrize(("n_rows", "n_tokens"), [(1, 1), (1, 6), (3, 1), (2, 30)])
def test_few_rows_and_tokens(n_rows: int, n_tokens: int) -> None:
    covariance = torch.ones(n_tokens, n_tokens).double() + torch.eye(n_tokens).double()
    model = me.models.Gaussian(torch.zeros(n_tokens).double(), covariance)
    plan = me.plan(model, np.array(model.sample(n_rows, seed=0)), target_se=0.1)
    assert plan.designs[0].mask_se <= plan.wanted
    assert plan.pilot_passes in (128, 132)
    assert ("exhaustive" in [one.design for one in plan.designs]) == (n_tokens <= 20)


def test_the_command(run: CommandLine, ppca: me.models.PPCA, rows: np.ndarray, tmp_path: Path) -> None:
    ppca.save(tmp_path / "model")
    np.save(tmp_path / "rows.npy", rows)
    words = ("plan", tmp_path / "model", tmp_path / "rows.npy", "--limit", 100, "--target-se", 0.05)
    result = run(*words, "--json", tmp_path / "plan.json")
    assert result.code == 0, result.err
    assert max(map(len, result.out.splitlines())) <= 80
    assert "pseudo" in result.out
    assert "--masks-per-size" in result.out
    written = json.loads((tmp_path / "plan.json").read_text())
    assert written["designs"][0]["design"] == "random-size"
    assert f"{written['designs'][0]['options']}  " in result.out
    assert written["wanted"] >= 0.05
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model", "plan.json", "rows.npy"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "plan needs the error that is wanted; give --target-se or --target-relative"),
        (("--max-passes", "10"), "--max-passes belongs to --target-se or --target-relative; add that"),
        (("--target-se", "1", "--max-passes", "10"), "--max-passes belongs to score"),
        (("--target-se", "nan"), "target_se=nan; give a number above 0"),
        (("--target-se", "1", "--text", "a"), "--text belongs to masked language models"),
    ],
)
def test_bad_input(run: CommandLine, words: tuple[str, ...], message: str) -> None:
    assert message in run("plan", "gaussian", "digits", *words).error


@pytest.mark.parametrize("masks_per_size", [1, 2, 3, 5])
def test_the_variance_of_masks_without_replacement_is_that_of_all_their_choices(masks_per_size: int) -> None:
    """Pairs of independent masks tell the variance over all masks of a size, here those of four tokens."""
    rng, expected, at_size = np.random.default_rng(0), 0.0, []
    for n_listed in (4, 6, 4, 1):
        scores, drawn = rng.normal(size=n_listed), min(masks_per_size, n_listed)
        expected += np.var([np.mean(chosen) for chosen in itertools.combinations(scores, drawn)])
        at_size.append(4 * scores.var())
    mean, size = MeanWithErrors(0.0, None, None, None), np.arange(1, 5)
    pilot = _Pilot(mean, 0.0, size, np.full(4, 4), np.array(at_size), 1.0, 8, 0.0)
    assert _variance_every(me.EverySize(masks_per_size), pilot) == pytest.approx(expected)
