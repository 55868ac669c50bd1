"""Small versions of the paper's figures: numbers against slow computations, files, and commands."""

import csv
import io
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

import maskevidence as me
from command_line import Result
from maskevidence.core.moments import GaussianMoments
from maskevidence.core.tokens import Tokens
from paper import __main__ as main
from paper import figure_1, figure_2, figure_4, figure_5_left
from paper.__main__ import ENTRIES
from paper.figures import SEEDS
from paper.known_noise import (
    best_with_known_noise,
    initial_loadings,
    log_evidences,
    moment_scores,
    published,
    second_moments,
)


@pytest.mark.parametrize("n_components", [1, 2, 4])
def test_scores_of_several_loadings_are_those_of_each_model(n_components: int) -> None:
    x, _ = published(50, 8, 2)
    moments = GaussianMoments.from_rows(x)
    loadings = initial_loadings(8, n_components, (1, 2, 3)).requires_grad_()
    masked = torch.rand(3, 7, 8, generator=torch.Generator().manual_seed(0)) < 0.5
    masked[:, 0], masked[:, 1:, 0] = True, True
    together = moment_scores(loadings, second_moments(moments), masked)
    gradient = torch.autograd.grad(together.square().sum(), loadings)[0]
    for r in range(3):
        model = me.models.PPCA.from_parameters(loadings[r].detach(), 0.2)
        alone = model.score_moments(moments, masked[r])
        torch.testing.assert_close(together[r], alone, rtol=1e-10, atol=1e-10)
        expected = torch.autograd.grad(alone.square().sum(), model.loadings)[0]
        torch.testing.assert_close(gradient[r], expected, rtol=1e-8, atol=1e-8)


def test_no_loadings_are_better_than_the_best() -> None:
    moments = GaussianMoments.from_rows(published(300, 10, 2)[0])
    best = best_with_known_noise(moments, 2).loadings.detach()
    at_best = float(log_evidences(best[None], moments))
    for seed in range(20):
        noise = torch.randn(10, 2, generator=torch.Generator().manual_seed(seed)).double()
        assert float(log_evidences((best + 0.01 * noise)[None], moments)) < at_best


def test_random_sizes_for_each_row_are_the_objective() -> None:
    x, _ = published(40, 10, 2)
    loadings = initial_loadings(10, 2, SEEDS[:2])
    design = me.RandomSize(1, 1)
    values = figure_2._score_rows(loadings, x, design, SEEDS[:2], epoch=3)
    for value, w, seed in zip(values, loadings, SEEDS[:2], strict=True):
        model = me.models.PPCA.from_parameters(w, 0.2)
        loss = me.MaskedObjective(design, seed=seed)(model, Tokens.from_array(x), step=3)
        assert float(value) == pytest.approx(-loss.item(), rel=1e-10)


def test_figure_1_accumulates_what_each_number_of_masks_gives() -> None:
    figure = figure_1.figure_1(SEEDS[:2], max_masks=6)
    rows = list(csv.DictReader(io.StringIO(figure.to_csv())))
    x, model = published(100, 5, 2, SEEDS[1])
    true = float(model.score_samples(x).mean())
    for p in (1, 4, 6):
        design = me.EverySize(p).in_training()
        estimate = me.estimate_evidence(model, GaussianMoments.from_rows(x), design, seed=SEEDS[1])
        got = [
            float(row["true_minus_estimate"])
            for row in rows
            if (row["panel"], row["seed"], row["masks"]) == ("D=5", str(SEEDS[1]), str(p))
        ]
        assert got == [pytest.approx(true - estimate.log_evidence, abs=1e-10)]
    # A few masks are enough to show a bias of 7 nats.
    assert [claim.holds for claim in [*figure.claims[2:], *figure.checks]] == [True, True, True]


@pytest.mark.slow
def test_all_sizes_reach_maximum_likelihood_and_20_percent_does_not() -> None:
    x, _ = published(figure_2.N_ROWS, figure_2.N_FEATURES, 2)
    moments = GaussianMoments.from_rows(x)
    best = float(log_evidences(best_with_known_noise(moments, 2).loadings.detach()[None], moments))
    assert best == pytest.approx(-6.2246, abs=5e-5)
    for design, epochs, short in ((me.EverySize(1), 1000, (0, 0.02)), (me.FixedRate(0.2, 1), 300, (0.1, 40))):
        gaps = best - figure_2.train_together(x, design, SEEDS, epochs).log_evidence[:, -1]
        assert (short[0] <= gaps).all()
        assert (gaps <= short[1]).all()


@pytest.mark.slow
def test_the_optimum_of_20_percent_is_off_on_the_published_data_alone() -> None:
    x, model = published(figure_2.N_ROWS, figure_2.N_FEATURES, 2)
    own = torch.from_numpy(model.sample(figure_2.N_ROWS, seed=1991))
    gaps = []
    for data in (x, own):
        moments = GaussianMoments.from_rows(data)
        best = float(log_evidences(best_with_known_noise(moments, 2).loadings.detach()[None], moments))
        gaps.append(best - figure_2.optimum_of_rate(moments, SEEDS))
    assert gaps[0] == pytest.approx(0.134, abs=0.005)
    assert 0 <= gaps[1] < 0.001


def test_the_drop_rule() -> None:
    assert figure_4.drop_rate(np.linspace(-1.0, -2.0, 100)) == pytest.approx(0.12)
    step = np.where(np.arange(1, 101) <= 60, -1.0, -3.0)
    assert figure_4.drop_rate(step) == 0.6


@pytest.mark.slow
def test_figure_4_finds_the_areas_and_the_drops() -> None:
    figure = figure_4.figure_4(SEEDS[:3], masks_per_size=(1, 8, 3))
    assert all(claim.holds for claim in figure.claims), figure.claims


def test_figure_5_ends_at_the_evidence_of_the_trained_model() -> None:
    figure = figure_5_left.figure_5_left(epochs=60, masks_per_size=5)
    exact, area, se = (np.array(figure.numbers[name]) for name in ("exact", "area", "mask_se"))
    assert figure.numbers["epochs"] == list(range(0, 61, 10))
    assert (np.abs(exact - area) < 4 * se).all()
    assert (np.diff(exact) > 0).all()


@pytest.mark.slow
def test_a_claim_on_the_end_of_the_training_has_no_verdict_after_a_short_one(
    paper: Callable[..., Result], tmp_path: Path
) -> None:
    target = tmp_path / "a.json"
    result = paper("figure-5-left", "--quick", "--json", target, "--out", tmp_path)
    assert result.code == 0, result
    content = json.loads(target.read_text())  # 120 epochs are too few to reach the evidence
    assert False not in [claim["holds"] for claim in content["claims"]]
    assert [claim["holds"] for claim in content["claims"]][:2] == [True, None]
    assert [claim["too_short"] for claim in content["claims"]][:2] == [False, True]
    assert (tmp_path / "figure_5_left.png").read_bytes()[1:4] == b"PNG"
    assert (tmp_path / "figure_5_left.pdf").read_bytes()[:4] == b"%PDF"
    assert len((tmp_path / "figure_5_left.csv").read_text().splitlines()) == 1 + 7 * 50


def test_all_skips_what_lacks_data_and_says_so(
    paper: Callable[..., Result], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(main, "ENTRIES", [e for e in ENTRIES if e.word in ("table-1", "figure-3-upper")])
    monkeypatch.setenv("MASKEVIDENCE_DATA", str(tmp_path))
    monkeypatch.setattr("maskevidence.core.support.sources.hub_reachable", lambda: False)
    result = paper("all", "--quick", "--out", tmp_path / "a", "--json", tmp_path / "a.json")
    assert result.code == 0, result
    assert "figure-3-upper was skipped: " in result.out
    assert list(json.loads((tmp_path / "a.json").read_text())) == ["table-1"]
    assert (tmp_path / "a" / "table-1" / "table_1.csv").exists()


@pytest.mark.slow
def test_a_figure_is_the_same_whenever_it_is_drawn() -> None:
    first, second = (figure_1.figure_1(SEEDS[:1], max_masks=2) for _ in range(2))
    assert first.to_csv() == second.to_csv()
    for kind in ("png", "pdf"):
        assert figure_1_bytes(first, kind) == figure_1_bytes(second, kind)


def figure_1_bytes(figure: object, kind: str) -> bytes:
    from paper.figures import picture

    return picture(figure.draw(), kind)  # type: ignore[attr-defined]
