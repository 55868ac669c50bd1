"""The tutorials run from the first cell to the last, and what they say about their numbers is true."""

import json
import os
import re
from collections.abc import Callable
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


@pytest.fixture
def executed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Any]:
    """Run a notebook in a kernel with files of its own; it shows no warning."""
    for name in ("JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR", "IPYTHONDIR", "TMPDIR"):
        monkeypatch.setenv(name, str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT / "src"), os.environ.get("PYTHONPATH", "")]))

    def run(name: str) -> Any:
        notebook = nbformat.read(ROOT / "docs" / "tutorials" / f"{name}.ipynb", as_version=4)
        nbclient.NotebookClient(notebook, timeout=900, kernel_name="python3").execute()
        outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
        said = "".join(output["text"] for output in outputs if output.get("name") == "stderr")
        assert "Warning" not in said, said
        return notebook

    return run


def values(notebook: Any) -> str:
    """The values of all cells of a notebook, as text."""
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    return "\n".join(result_of(cell).get("text/plain", "") for cell in cells)


@pytest.mark.slow
def test_wrong_cells(executed: Callable[[str], Any]) -> None:
    found = re.search(
        r"(\d+) of 20 wrong cells are called, and (\d+) right ones", values(executed("wrong_cells"))
    )
    assert found is not None
    assert int(found[1]) >= 8
    assert int(found[2]) <= 2


@pytest.mark.slow
def test_two_berts(executed: Callable[[str], Any]) -> None:
    notebook = executed("two_berts")
    (right, wrong) = map(float, re.findall(r"(-\d+\.\d) nats: ", values(notebook)))
    assert right > wrong
    assert sum("image/png" in result_of(cell) for cell in notebook.cells if cell.cell_type == "code") == 1


@pytest.mark.slow
def test_proteins(executed: Callable[[str], Any]) -> None:
    shown = [result_of(cell) for cell in executed("proteins").cells if cell.cell_type == "code"]
    worst = shown[-1]["text/plain"].splitlines()[1]
    assert worst.split()[1] in ("I3P", "G6A", "C11S")  # residues that the family never has


@pytest.mark.slow
def test_hidden_rows(executed: Callable[[str], Any]) -> None:
    notebook = executed("hidden_rows")
    both = re.findall(r"(-\d+\.\d+) nats, closed form (-\d+\.\d+)", values(notebook))
    assert len(both) == 2
    assert all(ours == theirs for ours, theirs in both)
    assert result_of(notebook.cells[-2])["text/plain"] == "'3'"


@pytest.mark.slow
def test_from_holes_to_a_decision(executed: Callable[[str], Any]) -> None:
    notebook = executed("from_holes_to_a_decision")
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


def result_of(cell: Any) -> dict[str, str]:
    """What a cell showed, by type."""
    return {kind: data for out in cell.outputs for kind, data in out.get("data", {}).items()}
