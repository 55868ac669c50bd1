"""The lower half of Figure 3 on small data, and VAEs on the command line."""

import csv
import io
import json
import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

import maskevidence as me
from command_line import CommandLine, Result
from latent_models import linear_vae, loadings
from maskevidence.models import Annealing
from paper import figure_3_lower

ROWS, WIDTH = 60, 12


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replace the images by rows of a model, and anneal only a little."""
    x = me.models.PPCA(WIDTH, 2, seed=1).sample(ROWS, seed=0)
    monkeypatch.setattr(figure_3_lower, "grey_images", lambda dataset, n_images: x[:n_images])
    monkeypatch.setattr(figure_3_lower, "DURING", Annealing(4, 8, 2))
    monkeypatch.setattr(figure_3_lower, "AT_END", (Annealing(4, 8, 3), Annealing(4, 8, 3, "encoder")))
    monkeypatch.setattr(figure_3_lower, "N_COMPONENTS", 2)


@pytest.mark.slow
def test_all_methods_start_from_the_same_model() -> None:
    x = figure_3_lower.grey_images("mnist", ROWS)
    runs = [figure_3_lower.train(x, name, 4, 12, [0, 6, 12], 8) for name in figure_3_lower.METHODS]
    assert len({run.log_evidence[0] for run in runs}) == 1
    for run in runs:
        assert run.epochs.tolist() == [0, 6, 12]
        assert len(run.objective) == 12
        assert run.objective[-1] > run.objective[0]
        assert len(run.bounds) == 3
        assert run.log_evidence[-1] == max(bound.mean for bound in run.bounds)
        assert run.seconds > 0
        assert run.code_size > 0
    again = figure_3_lower.train(x, figure_3_lower.CHAINS, 4, 12, [12], 8)
    assert again.log_evidence[-1] == runs[0].log_evidence[-1]


def test_laplace_is_exact_where_the_posterior_is_gaussian() -> None:
    vae, ppca = linear_vae(loadings(), skill=0.8)
    x = ppca.sample(5, seed=0)
    expected = ppca.log_evidence(me.Tokens.from_array(x)).mean().item()
    assert figure_3_lower.laplace(vae, x) == pytest.approx(expected, abs=1e-3)


def test_codes_drawn_from_the_prior_have_size_one() -> None:
    model = me.models.VAE(n_features=WIDTH, n_components=2, hidden=())
    x = figure_3_lower.grey_images("mnist", ROWS)
    with torch.no_grad():
        for p in model.encoder.parameters():
            p.zero_()
        assert figure_3_lower.code_size(model, x) == pytest.approx(1)
        model.encoder[0].bias.copy_(torch.tensor([2.0, 0.0, 0.0, math.log(3.0)]))
    assert figure_3_lower.code_size(model, x) == pytest.approx((4 + 1 + 0 + 9) / 2)


@pytest.mark.slow
def test_the_command_writes_table_claims_and_picture(paper: Callable[..., Result], tmp_path: Path) -> None:
    target = tmp_path / "a.json"
    result = paper("figure-3-lower", "--quick", "--out", tmp_path, "--json", target)
    assert result.code == 0, result
    content = json.loads(target.read_text())
    assert (tmp_path / "figure_3_lower.png").read_bytes()[1:4] == b"PNG"
    rows = list(csv.DictReader(io.StringIO((tmp_path / "figure_3_lower.csv").read_text())))
    assert len(rows) == 3 * 41
    last = [float(row["log_evidence"]) for row in rows if row["epoch"] == "40"]
    assert last == [content["numbers"]["log_evidence"][name][0] for name in figure_3_lower.METHODS]


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """A file of real-valued rows with a missing value."""
    x = 100 + 5 * me.models.PPCA(5, 2, seed=1).sample(80, seed=0)
    x[3, 2] = np.nan
    path = tmp_path / "rows.csv"
    np.savetxt(path, x, delimiter=",", header="a,b,c,d,e", comments="")
    return path


@pytest.mark.parametrize("objective", ["elbo", "iwae:3", pytest.param("random-size", marks=pytest.mark.slow)])
def test_train_and_score(run: CommandLine, table: Path, tmp_path: Path, objective: str) -> None:
    out = tmp_path / "m"
    command = ("train", "vae:2", table, "--objective", objective, "--epochs", 8, "--batch-size", 32)
    trained = run(*command, "--out", out)
    assert trained.code == 0, trained
    assert "importance-weighted" in trained.out
    content = json.loads((out / "train.json").read_text())
    assert content["kind"] == "lower_bound"
    assert content["learning_rate"] == 0.002
    assert -60 < content["log_evidence_held_out"] < 0  # in the units of the data
    design = ("--design", "random-size:4")
    scored = run("score", out, table, "--test-fraction", 0.2, *design, "--json", tmp_path / "s.json")
    assert scored.code == 0, scored
    result = json.loads((tmp_path / "s.json").read_text())
    assert result["kind"] == "approximate"
    assert abs(result["log_evidence"] - content["log_evidence_held_out"]) < 5
    again = run(*command, "--out", out)
    assert again.code == 0, again
    assert "resumed from the checkpoint after epoch 8" in again.out


def test_score_fits_a_vae(run: CommandLine, table: Path) -> None:
    result = run("score", "vae:2", table, "--design", "fixed-rate:0.4,masks-per-size=1", "--json", "-")
    assert result.code == 0, result
    assert json.loads(result.out)["kind"] == "pseudo"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("vae",), "model 'vae' lacks its number of components; write vae:8, for example"),
        (("vae:2", "--objective", "likelihood"), "the likelihood of VAE has no closed form"),
        (("vae:2", "--objective", "iwae"), "write elbo, or iwae:5"),
        (("ppca:2", "--objective", "elbo"), "the ELBO needs a model with an encoder"),
        (("bernoulli-vae:2",), "line 2 has"),
        (("vae:2", "--learning-rate", 1e30, "--objective", "elbo"), "lower the learning rate"),
    ],
)
def test_bad_input_gets_a_one_line_error(
    run: CommandLine, table: Path, tmp_path: Path, arguments: tuple[object, ...], message: str
) -> None:
    result = run("train", arguments[0], table, *arguments[1:], "--out", tmp_path / "m")
    assert result.code == 2
    assert message in result.error
    assert "\n" not in result.error
    assert not (tmp_path / "m").exists()


def test_an_unknown_data_set_is_named(monkeypatch: pytest.MonkeyPatch, paper: Callable[..., Result]) -> None:
    monkeypatch.undo()
    assert "choose from" in paper("figure-3-lower", "--dataset", "minst").error
