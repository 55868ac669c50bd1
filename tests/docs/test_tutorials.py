"""The tutorials run from the first cell to the last, and what they say about their numbers is true."""

import json
import os
import re
from pathlib import Path
from typing import Any

import nbclient
import nbformat
import pytest

ROOT = Path(__file__).parents[2]
TUTORIALS = sorted((ROOT / "docs" / "tutorials").glob("*.ipynb"))


@pytest.mark.parametrize("path", TUTORIALS, ids=lambda path: path.stem)
def test_no_outputs_are_stored(path: Path) -> None:
    notebook = json.loads(path.read_text())
    nbformat.validate(nbformat.from_dict(notebook))
    for cell in notebook["cells"]:
        assert cell.get("outputs", []) == []
        assert cell.get("execution_count") is None


@pytest.mark.slow
def test_from_holes_to_a_decision(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR", "IPYTHONDIR", "TMPDIR"):
        monkeypatch.setenv(name, str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT / "src"), os.environ.get("PYTHONPATH", "")]))
    notebook = nbformat.read(ROOT / "docs" / "tutorials" / "from_holes_to_a_decision.ipynb", as_version=4)
    nbclient.NotebookClient(notebook, timeout=300, kernel_name="python3").execute()
    shown = [result_of(cell) for cell in notebook.cells if cell.cell_type == "code"]
    assert any("<svg" in result.get("text/html", "") for result in shown)
    assert sum("image/png" in result for result in shown) == 3
    texts = [result["text/plain"] for result in shown if "text/plain" in result]
    share, decided, right = (
        int(number)
        for pattern in (
            r"(\d+)% of \d+ hidden values lie in their 90 %",
            r"(\d+) of 113 decided, (\d+) of them right",
        )
        for found in re.findall(pattern, " ".join(texts))
        for number in (found if isinstance(found, tuple) else [found])
    )
    assert 86 <= share <= 94
    assert decided >= 80
    assert right >= 0.95 * decided
    assert "['decisions.csv', 'filled.csv', 'model', 'samples.csv', 'selection.csv']" in texts
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    assert not [output for output in outputs if output.get("name") == "stderr"]


def result_of(cell: Any) -> dict[str, str]:
    """What a cell showed, by type."""
    return {kind: data for out in cell.outputs for kind, data in out.get("data", {}).items()}
