"""The error of approximate conditionals, which no interval covers, is named, or there is no interval."""

import copy
import json
from pathlib import Path

import numpy as np
import pytest
import torch

import maskevidence as me
from command_line import CommandLine
from maskevidence.core.evidence.result import MASKS_ALONE
from maskevidence.models import BernoulliPCA, Grid


def narrow() -> BernoulliPCA:
    """A model whose posteriors are far narrower than the spacing of its default grid."""
    generator = torch.Generator().manual_seed(0)
    return BernoulliPCA.from_parameters(
        20 * torch.randn(10, 1, generator=generator, dtype=torch.float64), integration=Grid()
    )


def vae() -> me.models.VAE:
    rule = me.models.ImportanceSampling(8, 1, prior_draws=2, fills=2)
    return me.models.VAE(n_features=3, n_components=1, hidden=(2,), conditioning=rule).eval()


@pytest.fixture
def rows() -> np.ndarray:
    return np.random.default_rng(0).normal(size=(12, 3))


DESIGNS = {"sampled": me.EverySize(2), "enumerated": me.Exhaustive(), "one size": me.LeaveOneOut()}


def test_a_model_that_refines_its_integral_is_refined_before_its_masks_are_scored() -> None:
    model, x = narrow(), narrow().sample(20, seed=1)
    truth = float(model.score_samples(x).mean())
    at_its_nodes = me.estimate_evidence(model, x, me.Exhaustive(), refine=False)
    assert abs(at_its_nodes.log_evidence - truth) > 0.05  # with an error of the masks of 0
    before = copy.deepcopy(model)
    estimate = me.estimate_evidence(model, x, me.Exhaustive())
    assert abs(estimate.log_evidence - truth) < 0.01
    assert estimate.notes[0].startswith("integrated over 160 latent nodes: log evidence within ")
    assert "nats of the refined integral" in estimate.notes[0]
    assert model.integration == before.integration == Grid()  # a copy was refined
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), before.parameters(), strict=True))


def test_an_integral_that_cannot_be_refined_is_an_error_that_says_how_to_go_on() -> None:
    class Coarse(BernoulliPCA):
        def refine(self, tokens: me.Tokens) -> str:  # type: ignore[override]
            raise me.NumericalError("400 nodes are too few; allow more")

    model = Coarse(4, 1)
    with pytest.raises(me.NumericalError, match="400 nodes are too few; allow more; with refine=False"):
        me.estimate_evidence(model, model.sample(5))
    assert me.estimate_evidence(model, model.sample(5), refine=False).kind == "approximate"


@pytest.mark.parametrize("name", DESIGNS)
def test_approximate_conditionals_have_no_interval_where_masks_are_enumerated(
    name: str, rows: np.ndarray
) -> None:
    estimate = me.estimate_evidence(vae(), rows, DESIGNS[name])
    result = estimate.to_dict()
    if name == "sampled":
        assert estimate.interval()[0] < estimate.interval()[1]
        assert result["interval_95"] == list(estimate.interval())
        assert estimate.notes == (MASKS_ALONE,)
    else:
        assert estimate.mask_se == 0
        assert result["interval_95"] is None
        assert "there is no interval" in estimate.notes[-1]
        with pytest.raises(me.InputError, match=r"there is no interval: .*approximate conditionals"):
            estimate.interval()


@pytest.mark.parametrize("name", DESIGNS)
def test_other_conditionals_have_theirs(name: str, rows: np.ndarray) -> None:
    estimate = me.estimate_evidence(me.models.PPCA(3, 1), rows, DESIGNS[name])
    assert estimate.to_dict()["interval_95"] == list(estimate.interval())
    assert estimate.notes == ()


def test_the_command_line_and_the_report_say_it(run: CommandLine, tmp_path: Path, rows: np.ndarray) -> None:
    vae().save(tmp_path / "model")
    np.save(tmp_path / "rows.npy", rows)
    words = ("score", tmp_path / "model", tmp_path / "rows.npy", "--design", "exhaustive")
    printed = " ".join(run(*words).out.split())
    assert "mask error none: the masks are enumerated, not drawn" in printed
    assert "95 % interval" not in printed
    assert "note: there is no interval: the masks are enumerated, and the error that is left" in printed
    assert run(*words, "--out", tmp_path / "run").code == 0
    result = json.loads((tmp_path / "run" / "estimate.json").read_text())
    assert result["interval_95"] is None
    assert any("there is no interval" in note for note in result["notes"])
    assert run("report", tmp_path / "run", "--out", tmp_path / "report.html").code == 0
    assert "there is no interval" in " ".join((tmp_path / "report.html").read_text().split())


def test_the_command_line_refines_once(run: CommandLine, tmp_path: Path) -> None:
    narrow().save(tmp_path / "model")
    np.save(tmp_path / "rows.npy", narrow().sample(20, seed=1))
    result = run("score", tmp_path / "model", tmp_path / "rows.npy", "--json", "-")
    notes = json.loads(result.out)["notes"]
    assert sum("latent nodes" in note for note in notes) == 1
