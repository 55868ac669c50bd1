"""The plan of passes: its error against those that are measured, limits, the command and its refusals."""

import json
import math
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch

import maskevidence as me
from command_line import CommandLine
from maskevidence.evidence.planning import PassPlan

TARGET = me.Precise(target_se=0.02)


@pytest.fixture(scope="module")
def ppca() -> me.models.PPCA:
    return me.models.PPCA.from_parameters(torch.from_numpy(np.random.default_rng(0).normal(size=(9, 2))), 0.3)


@pytest.fixture(scope="module")
def rows(ppca: me.models.PPCA) -> np.ndarray:
    return np.array(ppca.sample(300, seed=1))


@pytest.fixture(scope="module")
def plans(ppca: me.models.PPCA, rows: np.ndarray) -> list[PassPlan]:
    return [me.plan(ppca, rows, TARGET, seed=seed) for seed in range(24)]


@pytest.mark.parametrize("replicates", [None, 2**20])
def test_its_error_is_that_of_the_run(
    ppca: me.models.PPCA, rows: np.ndarray, plans: list[PassPlan], replicates: int | None
) -> None:
    """The squared error that the same number of draws has, on average over pilots."""

    @cache
    def measured(draws: int) -> float:
        design = me.RandomSize(draws, replicates)
        return me.estimate_evidence(ppca, rows, design, seed=1, check=False).mask_se ** 2

    ratios = []
    for plan in plans:
        design = me.RandomSize(plan.draws, replicates)
        assert design.n_replicates >= 4, "so that the run knows its error"
        assert plan.design == f"random-size:{plan.draws}"
        assert (plan.passes, plan.memory) == (300 * plan.draws, 300 * plan.draws * 64)
        assert plan.mask_se <= plan.enough == 0.02
        ratios.append(plan.mask_se**2 / measured(plan.draws))
    assert abs(np.mean(ratios) - 1) < 4 * np.std(ratios, ddof=1) / math.sqrt(len(ratios)) + 0.05
    assert np.std(ratios, ddof=1) < 0.4


def test_says_how_well_the_pilot_knows_it(plans: list[PassPlan]) -> None:
    plan = plans[0]
    assert plan.pilot_passes == 512
    assert 0.05 < plan.uncertainty < 0.5
    assert plan.minutes > 0
    assert plan.notes[0].startswith("the number of passes is forecast from a pilot of 512, to about ")
    assert plan.notes[1].startswith("exhaustive scores every mask, 153,300 passes without an error")
    assert f"random-size:{plan.draws} reaches a mask error of 0.02 nats: {plan.passes:,} passes" in repr(plan)


@pytest.mark.parametrize("per_token", [False, True])
def test_the_pilot_of_few_rows_is_the_first_stage_of_the_run(
    ppca: me.models.PPCA, rows: np.ndarray, per_token: bool
) -> None:
    few, precise = rows[:40], me.Precise(target_se=0.15, negligible=0)
    stage = me.estimate_evidence(ppca, few, me.RandomSize(8, 8), seed=3, per_token=per_token, check=False)
    plan = me.plan(ppca, few, precise, seed=3, per_token=per_token)
    assert (plan.log_evidence, plan.data_se) == (stage.log_evidence, stage.data_se)
    assert plan.mask_se * math.sqrt(plan.draws / 8) == pytest.approx(stage.mask_se)
    following = precise.following(me.RandomSize(8, 100), stage)
    assert 8 < following.draws < 16
    between = range(following.draws, plan.draws)
    assert following.draws <= plan.draws
    assert all(me.RandomSize(draws).n_replicates < 4 for draws in between)


def test_precise_takes_about_as_many(ppca: me.models.PPCA, rows: np.ndarray, plans: list[PassPlan]) -> None:
    """benchmarks/forecast.py has more models."""
    found = me.estimate_evidence(ppca, rows, me.Precise(target_se=0.02, negligible=0), seed=0)
    assert np.mean([plan.passes for plan in plans]) == pytest.approx(found.n_masks, rel=0.15)


def test_the_uncertainty_covers_which_rows_the_pilot_saw(ppca: me.models.PPCA) -> None:
    """A quarter of the rows, none of which stands at an even distance, has nearly all of the variance."""
    x = np.array(ppca.sample(400, seed=2))
    x[np.setdiff1d(np.arange(400), np.arange(64) * 400 // 64)[::4]] *= 3
    truth = me.estimate_evidence(ppca, x, me.RandomSize(64), check=False)
    assert truth.mask_se is not None
    found = [me.plan(ppca, x, TARGET, seed=seed) for seed in range(60)]
    variances = [plan.mask_se**2 * plan.passes for plan in found]
    stated = math.sqrt(np.mean([plan.uncertainty**2 for plan in found]))
    assert stated > 0.3
    assert 0.5 < np.std(variances, ddof=1) / np.mean(variances) / stated < 1.6
    assert np.mean(variances) > 0.85 * truth.mask_se**2 * truth.n_masks
    assert ", if the 336 of 400 rows that the pilot left out are like its own" in " ".join(found[0].notes)


def test_the_error_that_no_longer_matters_is_enough(ppca: me.models.PPCA, rows: np.ndarray) -> None:
    plans = [me.plan(ppca, rows, me.Precise(target_se=1e-5), seed=seed) for seed in range(8)]
    data_se = float(ppca.score_samples(rows).std()) / math.sqrt(300)
    assert np.mean([plan.data_se for plan in plans]) == pytest.approx(data_se, rel=0.2)
    plan = plans[0]
    assert plan.enough == pytest.approx(0.1 * plan.data_se)
    assert "no longer matters beside that; the target is 1e-05" in plan.notes[0]


def test_refuses_what_no_plan_follows_from(ppca: me.models.PPCA, rows: np.ndarray) -> None:
    with pytest.raises(me.InputError, match="give a larger target, such as") as refused:
        me.plan(ppca, rows[:1], me.Precise(target_se=1e-9))
    larger = float(str(refused.value).split("such as ")[1].split(",")[0])
    assert me.plan(ppca, rows[:1], me.Precise(target_se=larger)).draws in range(90, 115)
    with pytest.raises(me.InputError, match="max_passes belongs to a run"):
        me.plan(ppca, rows, me.Precise(target_se=0.02, max_passes=10**6))


def test_tokens_take_memory_and_save_passes(ppca: me.models.PPCA, rows: np.ndarray) -> None:
    less, more = (me.plan(ppca, rows, TARGET, per_token=per_token) for per_token in (True, False))
    assert less.passes <= more.passes
    assert less.memory == less.passes * (64 + 5 * 24)


@pytest.mark.parametrize(("n_rows", "n_tokens"), [(1, 1), (1, 6), (3, 1), (2, 30)])
def test_few_rows_and_tokens(n_rows: int, n_tokens: int) -> None:
    covariance = torch.ones(n_tokens, n_tokens).double() + torch.eye(n_tokens).double()
    model = me.models.Gaussian(torch.zeros(n_tokens).double(), covariance)
    plan = me.plan(model, np.array(model.sample(n_rows, seed=0)), me.Precise(target_se=0.1))
    assert plan.mask_se <= plan.enough
    assert plan.pilot_passes == n_rows * me.Precise(target_se=0.1).first(np.full(n_rows, n_tokens)).draws
    assert ("exhaustive" in " ".join(plan.notes)) == (n_tokens <= 20)


def test_the_command(run: CommandLine, ppca: me.models.PPCA, rows: np.ndarray, tmp_path: Path) -> None:
    ppca.save(tmp_path / "model")
    np.save(tmp_path / "rows.npy", rows)
    words = ("plan", tmp_path / "model", tmp_path / "rows.npy", "--limit", 100, "--target-se", 0.05)
    result = run(*words, "--json", tmp_path / "plan.json")
    assert result.code == 0, result.err
    assert max(map(len, result.out.splitlines())) <= 80
    written = json.loads((tmp_path / "plan.json").read_text())
    assert written["passes"] == 100 * written["draws"]
    assert result.out.startswith(f"--design {written['design']} reaches a mask error of ")
    assert written["enough"] >= 0.05
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model", "plan.json", "rows.npy"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "plan needs the error that is to be reached; give --target-se"),
        (("--target-se", "1", "--max-passes", "10"), "No such option: --max-passes"),
        (("--target-se", "nan"), "--target-se 'nan'; give nats above 0"),
        (("--target-se", "1", "--text", "a"), "--text belongs to masked language models"),
    ],
)
def test_bad_input(run: CommandLine, words: tuple[str, ...], message: str) -> None:
    assert message in run("plan", "gaussian", "digits", *words).error
