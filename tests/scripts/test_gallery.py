"""The gallery: each script is short, has its place on the page, and makes its picture."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SCRIPTS = sorted((ROOT / "examples" / "gallery").glob("*.py"))
QUICK = "factors"
PAGE = (ROOT / "docs" / "gallery.md").read_text()


def test_each_script_has_a_picture_and_its_code_on_the_page() -> None:
    names = sorted(path.stem for path in SCRIPTS)
    assert sorted(re.findall(r"\(images/gallery/(\w+)\.png\)", PAGE)) == names
    assert sorted(re.findall(r"<!-- example (\w+) -->", PAGE)) == names
    assert sorted(path.stem for path in (ROOT / "docs" / "images" / "gallery").glob("*")) == names


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_each_script_is_short(script: Path) -> None:
    assert len(script.read_text().splitlines()) < 30


@pytest.mark.parametrize(
    "script",
    [pytest.param(path, marks=[] if path.stem == QUICK else [pytest.mark.slow]) for path in SCRIPTS],
    ids=lambda path: path.stem,
)
def test_each_script_makes_its_picture(script: Path, tmp_path: Path) -> None:
    for extra in ("sklearn", "transformers", "matplotlib"):
        pytest.importorskip(extra)
    backend = os.environ | {"MPLBACKEND": "Agg"}
    done = subprocess.run([sys.executable, script], cwd=tmp_path, env=backend, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert [path.name for path in tmp_path.iterdir()] == [f"{script.stem}.png"]
