"""The upper half of Figure 3 on small data, and linear Bernoulli models on the command line."""

import csv
import io
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import maskevidence as me
from command_line import CommandLine, Result
from maskevidence.core.table import Table
from paper import figure_3_upper as figure_3
from paper.image_training import DATA_SETS

ROWS = 60


@pytest.fixture(scope="module")
def table() -> Table:
    """Rows of 0 and 1 drawn from a model, with one column that is always 0."""
    values = me.models.BernoulliPCA(12, 2, seed=1).sample(ROWS, seed=0)
    values[:, 3] = 0.0
    return Table("drawn", values, tuple(f"c{j}" for j in range(12)), np.arange(ROWS))


@pytest.fixture
def images(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    """Replace the images of the figure by a few short rows."""
    monkeypatch.setattr(figure_3, "binary_images", lambda dataset, n_images: table.head(n_images))


def test_both_methods_start_from_the_same_model_and_rise(table: Table) -> None:
    runs = [figure_3.train(table, method, 4, 40, [0, 20, 40]) for method in figure_3.METHODS]
    assert runs[0].log_evidence[0] == runs[1].log_evidence[0]
    for run in runs:
        assert run.epochs.tolist() == [0, 20, 40]
        assert len(run.objective) == 40
        assert run.log_evidence[-1] > run.log_evidence[0]
        assert run.error <= figure_3.TOLERANCE
        assert run.seconds > 0
    again = figure_3.train(table, figure_3.METHODS[1], 4, 40, [40])
    assert again.log_evidence[-1] == runs[1].log_evidence[-1]


@pytest.mark.usefixtures("images")
def test_the_command_writes_table_claims_and_picture(paper: Callable[..., Result], tmp_path: Path) -> None:
    target = tmp_path / "a.json"
    result = paper(
        "figure-3-upper", "--quick", "--dataset", "fashion-mnist", "--out", tmp_path, "--json", target
    )
    assert result.code == 0, result
    content = json.loads(target.read_text())
    assert content["claims"][0]["too_short"]
    assert False not in [claim["holds"] for claim in content["claims"]]
    name = "figure_3_upper_fashion_mnist"
    assert (tmp_path / f"{name}.png").read_bytes()[1:4] == b"PNG"
    rows = list(csv.DictReader(io.StringIO((tmp_path / f"{name}.csv").read_text())))
    assert len(rows) == 2 * 2 * 61
    last = [float(row["log_evidence"]) for row in rows if row["epoch"] == "60"]
    assert last == [v for name in figure_3.METHODS for v in content["numbers"]["log_evidence"][name]]


@pytest.fixture
def files(table: Table, tmp_path: Path) -> dict[str, Path]:
    """Files with the table of 0 and 1, and with values that are not 0 or 1."""
    header = ",".join(table.columns)

    def write(name: str, values: np.ndarray) -> Path:
        path = tmp_path / f"{name}.csv"
        np.savetxt(path, values, delimiter=",", header=header, comments="", fmt="%g")
        return path

    return {
        "binary": write("binary", table.values),
        "grey": write("grey", np.where(table.values > 0, 0.7, 0.1)),
        "levels": write("levels", 255 * table.values),
    }


@pytest.mark.parametrize(
    "objective", ["elbo", pytest.param("random-size", marks=pytest.mark.slow), "likelihood"]
)
def test_train_writes_a_model_that_score_reads(
    objective: str, run: CommandLine, files: dict[str, Path], tmp_path: Path
) -> None:
    out, target = tmp_path / "run", tmp_path / "a.json"
    arguments = ("--objective", objective, "--epochs", "30", "--out", out, "--json", target)
    trained = run("train", "bernoulli-pca:2", files["binary"], *arguments)
    assert trained.code == 0, trained
    result = json.loads(target.read_text())
    assert result["dropped_columns"] == []  # a pixel that is always black stays
    model = me.models.load(out)
    assert model.n_features == 12
    assert (model.encoder is not None) == (objective == "elbo")
    scored = run("score", out, files["binary"], "--test-fraction", "0.2", "--json", "-")
    assert scored.code == 0, scored
    estimate = json.loads(scored.out)
    assert estimate["kind"] == "approximate"
    assert any("latent nodes" in note for note in estimate["notes"])
    assert estimate["closed_form"] == pytest.approx(result["log_evidence_held_out"], abs=0.02)


def test_score_fits_and_integrates(run: CommandLine, files: dict[str, Path], tmp_path: Path) -> None:
    target = tmp_path / "a.json"
    result = run("score", "bernoulli-pca:1", files["grey"], "--binarise", "threshold", "--json", target)
    assert result.code == 0, result
    estimate = json.loads(target.read_text())
    low, high = estimate["interval_95"]
    assert low - 0.5 < estimate["closed_form"] < high + 0.5
    assert estimate["n_tokens"] == 12 * 12


def test_values_other_than_0_and_1_get_a_one_line_error(
    run: CommandLine, files: dict[str, Path], tmp_path: Path
) -> None:
    out = ("--out", tmp_path / "x")
    for words, message in (
        (("score", "bernoulli-pca:2", files["grey"]), "--binarise threshold or stochastic"),
        (("train", "bernoulli-pca:2", files["levels"], *out), "scale them to [0, 1]"),
        (("score", "bernoulli-pca", files["binary"]), "bernoulli-pca:8"),
        (
            ("train", "bernoulli-pca:2", files["binary"], "--objective", "elbo:2", *out),
            "write elbo, or iwae:5",
        ),
    ):
        assert message in run(*words).error
    assert not (tmp_path / "x" / "config.json").exists()


@pytest.mark.data
def test_real_images_are_binarised_and_grey_ones_refused(run: CommandLine) -> None:
    for dataset in DATA_SETS:
        images = figure_3.binary_images(dataset, 25)
        assert images.values.shape == (25, 784)
        assert set(np.unique(images.values)) == {0.0, 1.0}
    grey = run("score", "bernoulli-pca:2", "mnist:test", "--limit", "25").error
    assert "--binarise threshold or stochastic" in grey
