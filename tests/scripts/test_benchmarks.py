"""Every benchmark runs, in its quick form, and a page shows what it prints."""

import os
import runpy
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BENCHMARKS = sorted(path.stem for path in (ROOT / "benchmarks").glob("[a-z]*.py"))
PAGES = [*(ROOT / "docs").rglob("*.md"), ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
OPTIONS = {"since": ("--base", "HEAD")}


@pytest.mark.filterwarnings("default")
@pytest.mark.usefixtures("unchecked", "one_thread")
@pytest.mark.parametrize("name", BENCHMARKS)
def test_the_quick_form_prints_its_table(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", [f"benchmarks/{name}.py", "--quick", *OPTIONS.get(name, ())])
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(ROOT / "benchmarks" / f"{name}.py"), run_name="__main__")
    printed = capsys.readouterr()
    if ended.value.code == 2 and "MASKEVIDENCE_DATA" not in os.environ:
        pytest.skip(printed.err)
    if "Chromium was not found" in str(ended.value.code):
        pytest.skip(ended.value.code)
    assert not ended.value.code, printed.err
    assert "|---" in printed.out


@pytest.mark.parametrize("name", BENCHMARKS)
def test_a_page_says_what_it_measures(name: str) -> None:
    command = f"benchmarks/{name}.py"
    results, commands = (ROOT / "benchmarks" / "README.md").read_text().split("## Commands")
    assert any(command in shown for shown in (results, *(page.read_text() for page in PAGES)))
    assert f"`python {command}" in commands
