"""Comparisons of records that share some of their masks, or what is known beside the scores."""

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

import maskevidence as me
from command_line import CommandLine
from maskevidence.core.evidence.result import HowScored, summarize_scores
from maskevidence.core.evidence.standard_errors import t_half_width

D, MANY = 8, 2**20


def model(seed: int, change: float = 0.0) -> me.models.PPCA:
    """Loadings of a seed, and what differs from them."""
    loadings = np.random.default_rng(seed).normal(size=(D, 2))
    loadings = loadings + change * np.random.default_rng(99).normal(size=loadings.shape)
    return me.models.PPCA.from_parameters(torch.from_numpy(loadings), 0.4)


@pytest.fixture(scope="module")
def rows() -> np.ndarray:
    return np.array(model(0).sample(60, seed=1))


def between(
    rows: np.ndarray, first: object, second: object, **options: object
) -> tuple[me.Difference, me.Difference]:
    """The difference of two similar models by their designs, and the one of the first design for both."""
    a, b = model(0), model(0, change=0.05)
    one = me.estimate_evidence(a, rows, first, **options)
    common = {"a": one, "b": me.estimate_evidence(b, rows, first, **options)}
    found = me.compare(common | {"b": me.estimate_evidence(b, rows, second, **options)})
    return found.between("a", "b"), me.compare(common).between("a", "b")


@pytest.mark.parametrize(
    ("fewer", "more"),
    [
        (me.RandomSize(5, MANY), me.RandomSize(8, MANY)),
        (me.RandomSize(8, 4), me.RandomSize(12, 4)),
        (me.RandomSize(8), me.RandomSize(11, MANY)),
        (me.Rates((0.2, 0.9), 4), me.Rates((0.2, 0.9), 6)),
        (me.FixedRate(0.5, 4), me.FixedRate(0.5, 6)),
        (me.EverySize(3), me.EverySize(4)),
        (me.Orderings(5), me.Orderings(6)),
    ],
    ids=lambda design: f"{design.name}:{design.n_repeats}",
)
def test_the_masks_that_both_have_are_subtracted(
    rows: np.ndarray, fewer: me.MaskDesign, more: me.MaskDesign
) -> None:
    found, wanted = between(rows, fewer, more)
    assert found.pairing == "masks"
    assert (found.difference, found.mask_se, found.mask_df, found.data_se) == (
        wanted.difference,
        wanted.mask_se,
        wanted.mask_df,
        wanted.data_se,
    )
    what = f"{fewer.n_repeats} {fewer.extended_by.replace('_', ' ')}"
    assert f"paired by the first {what} of {fewer.n_repeats} and {more.n_repeats}" in found.notes[0]


@pytest.mark.parametrize("per_token", [False, True])
def test_two_targets_are_compared_by_their_common_draws(rows: np.ndarray, per_token: bool) -> None:
    exact = model(0).score_samples(rows).mean() - model(0, change=0.05).score_samples(rows).mean()
    fine, coarse = (me.Precise(target_se=target, negligible=0) for target in (0.12, 0.16))
    found, _ = between(rows, coarse, fine, per_token=per_token)
    assert found.pairing == "masks"
    assert found.mask_se < 0.16 / 2
    assert abs(found.difference - exact) < 4 * found.mask_se


def test_other_numbers_are_paired_by_observation_where_that_is_better(rows: np.ndarray) -> None:
    """A model that varies little with 4 draws, and another one with 64: the common draws tell less."""
    flat = me.models.Gaussian(torch.zeros(D).double(), 9.0 * torch.eye(D).double())
    found = me.compare(
        {
            "flat": me.estimate_evidence(flat, rows, me.RandomSize(4, MANY)),
            "b": me.estimate_evidence(model(0), rows, me.RandomSize(64, MANY)),
        }
    ).between("flat", "b")
    assert found.pairing == "observations"


@pytest.mark.slow
def test_differences_with_everything_cover(rows: np.ndarray) -> None:
    """Targets and tokens at once: 30 pairs of runs, whose draws end at different numbers."""
    one, other = model(0), model(0, change=0.4)
    rows = rows[:20]
    truth = float((one.score_samples(rows) - other.score_samples(rows)).mean())
    precise, n_runs = me.Precise(target_se=0.25, negligible=0), 30
    held, z, unequal = 0, [], 0
    for seed in range(n_runs):
        a, b = (
            me.estimate_evidence(m, rows, precise, seed=seed, check=False, per_token=True)
            for m in (one, other)
        )
        found = me.compare([a, b]).between("1", "2")
        unequal += a.design != b.design
        z.append((found.difference - truth) / found.mask_se)
        half = t_half_width(1.0, found.mask_df or math.inf, 0.95)
        held += abs(z[-1]) <= half
    assert unequal > n_runs / 4
    assert held / n_runs >= 0.95 - 3.5 * math.sqrt(0.95 * 0.05 / n_runs)
    assert abs(np.mean(z)) < 3.5 * np.std(z, ddof=1) / math.sqrt(n_runs)


def test_records_in_another_order_of_stages_are_the_same(rows: np.ndarray) -> None:
    found = me.estimate_evidence(model(0), rows, me.Precise(target_se=0.2, negligible=0))
    at = np.random.default_rng(0).permutation(len(found.scores))
    shuffled = summarize_scores(
        found.scores.select(at), HowScored(me.RandomSize(**_numbers(found.design)), me.MaskKey(0), "exact"), 1
    )
    assert me.compare([found, replace(shuffled, data_fingerprint=None)]).behind[0].difference == 0.0


def _numbers(design: dict[str, object]) -> dict[str, object]:
    return {name: value for name, value in design.items() if name != "name"}


def test_the_command_compares_runs_with_targets(tmp_path: Path, run: CommandLine) -> None:
    table, rows = tmp_path / "rows.npy", np.array(model(0).sample(40, seed=1))
    np.save(table, rows)
    for name, change, target in (("a", 0.0, "0.08"), ("b", 0.05, "0.06")):
        model(0, change).save(tmp_path / f"model-{name}")
        words = ("--target-se", target, "--design", "random-size:per-token", "--out", tmp_path / name)
        assert run("score", tmp_path / f"model-{name}", table, *words).code == 0
    found = run("compare", tmp_path / "a", tmp_path / "b", "--json", tmp_path / "c.json")
    assert found.code == 0, found.err
    assert "paired by observation" not in found.out
    (difference,) = json.loads((tmp_path / "c.json").read_text())["differences"]
    assert difference["pairing"] == "masks"
    assert "draws" in difference["notes"][0]
