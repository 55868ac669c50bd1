"""Every benchmark runs, in its quick form, and a page shows what it prints."""

import runpy
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BENCHMARKS = sorted(path.stem for path in (ROOT / "benchmarks").glob("[a-z]*.py"))
PAGES = [*(ROOT / "docs").rglob("*.md"), ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
OPTIONS = {"since": ("--base", "HEAD")}
NEED_DATA = {
    "any_table",
    "density",
    "diffusion",
    "imputation",
    "look",
    "masked_lm",
    "variants",
}
CHEAP = {"latent"}  # of which the quick form is in every run of the tests


def run_quick_form(name: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> object:
    """The exit code of a benchmark."""
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "argv", [f"benchmarks/{name}.py", "--quick", *OPTIONS.get(name, ())])
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(ROOT / "benchmarks" / f"{name}.py"), run_name="__main__")
    return ended.value.code


def marked(name: str) -> object:
    marks = [pytest.mark.data] if name in NEED_DATA else []
    return pytest.param(name, marks=marks if name in CHEAP else [*marks, pytest.mark.slow])


@pytest.mark.filterwarnings("default")
@pytest.mark.usefixtures("one_thread")
@pytest.mark.parametrize("name", [marked(name) for name in BENCHMARKS])
def test_the_quick_form_prints_its_table(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    code = run_quick_form(name, tmp_path, monkeypatch)
    printed = capsys.readouterr()
    assert not code, printed.err
    assert "|---" in printed.out


@pytest.mark.slow
@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("name", sorted(NEED_DATA))
def test_without_data_it_says_so_in_one_line(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("MASKEVIDENCE_DATA", raising=False)
    assert run_quick_form(name, tmp_path, monkeypatch) == 2
    assert capsys.readouterr().err == "MASKEVIDENCE_DATA is not set; set it to the folder of the data sets\n"


@pytest.mark.parametrize("name", BENCHMARKS)
def test_a_page_says_what_it_measures(name: str) -> None:
    command = f"benchmarks/{name}.py"
    results, commands = (ROOT / "benchmarks" / "README.md").read_text().split("## Commands")
    assert any(command in shown for shown in (results, *(page.read_text() for page in PAGES)))
    assert f"`python {command}" in commands
