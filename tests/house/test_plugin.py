"""The plug-in of `examples/plugin`, installed beside the package: its kind and design in every command."""

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest

from command_line import PROGRAM

EXAMPLE = Path(__file__).parents[2] / "examples" / "plugin"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which the plug-in is installed from its wheel."""
    folder = tmp_path_factory.mktemp("plugin")
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(build, cwd=EXAMPLE, check=True, capture_output=True)
    (wheel,) = folder.glob("*.whl")
    zipfile.ZipFile(wheel).extractall(folder / "site")
    return folder / "site"


def test_a_package_that_cannot_be_loaded_is_one_line(tmp_path: Path) -> None:
    about = tmp_path / "broken-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: broken\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text("[maskevidence.kinds]\nbad = no_such_module:kind\n")
    path = os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])])
    done = subprocess.run(
        [*PROGRAM, "score", "ppca:1", "x.npy"],
        env=os.environ | {"PYTHONPATH": path},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 2
    assert done.stderr.startswith("error: the kind 'bad' of the package 'broken' cannot be loaded (")
    assert done.stderr.count("\n") == 1


@pytest.mark.slow
def test_a_kind_and_a_design_of_another_package(site: Path, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    lines = ["".join(rng.choice(["a", "b", "c"], size=rng.integers(4, 9))) for _ in range(40)]
    (tmp_path / "x.seq").write_text("\n".join(lines))
    path = os.pathsep.join([str(site), *filter(None, [os.environ.get("PYTHONPATH")])])

    def run(*words: str) -> str:
        done = subprocess.run(
            [*PROGRAM, *words],
            cwd=tmp_path,
            env=os.environ | {"PYTHONPATH": path},
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    run("score", "markov", "x.seq", "--out", "all", "--design", "exhaustive")
    run("score", "markov", "x.seq", "--out", "some", "--design", "random-size:64")
    run("score", "markov", "x.seq", "--out", "half", "--design", "odd-even")
    whole, some, half = (
        json.loads((tmp_path / name / "estimate.json").read_text()) for name in ("all", "some", "half")
    )
    assert [each["kind"] for each in (whole, some, half)] == ["exact", "unbiased", "pseudo"]
    assert abs(whole["log_evidence"] - some["log_evidence"]) < 5 * some["mask_se"]
    assert "nats per sequence" in run("compare", "all", "some")
    run("report", "all", "--out", "page.html")
    assert any(line in (tmp_path / "page.html").read_text() for line in lines[20:])
    assert "context" in run("check", "markov", "x.seq")
    assert "Markov chains (markov)" in " ".join(run("score", "--help").split())
    refused = subprocess.run(
        [*PROGRAM, "score", "markov", "y.seq"],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": path},
        capture_output=True,
        text=True,
    )
    assert (refused.returncode, refused.stderr.count("\n")) == (2, 1)
