"""What packages, environments and workflows are made from agrees with itself."""

import contextlib
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml

import environment
from package_test import PARTS

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = PROJECT["optional-dependencies"]
OF_DEVELOPERS = {"dev", "docs", "package"}
UNREACHED = {"remote"}  # storage in the cloud, which no test reaches


def test_the_wheel_is_tested_with_every_extra() -> None:
    assert set(PARTS) == {"base", *EXTRAS} - OF_DEVELOPERS - UNREACHED
    for files in PARTS.values():
        assert all((ROOT / file).exists() for file in files), files


def test_the_environment_has_every_extra_that_the_tests_need() -> None:
    (line,) = re.findall(r"^EXTRAS = (.*)$", (ROOT / "Makefile").read_text(), re.M)
    assert set(line.split(",")) == EXTRAS.keys() - {"docs", "package"} - UNREACHED
    workflow = (ROOT / ".github" / "workflows" / "tests.yml").read_text()
    assert f".[{line}]" in workflow


def test_every_requirement_is_pinned() -> None:
    def plain(name: str) -> str:
        return re.sub(r"[-_.]+", "-", name).lower()

    pinned = {plain(line.split("==")[0]) for line in (ROOT / "constraints.txt").read_text().splitlines()}
    wanted = [
        *PROJECT["dependencies"],
        *(line for extra in EXTRAS.keys() - UNREACHED for line in EXTRAS[extra]),
    ]
    names = {plain(re.match(r"[\w.-]+", line)[0]) for line in wanted}  # type: ignore[index]
    assert names - pinned - {"maskevidence"} == set()


def test_the_citation_names_the_version() -> None:
    assert yaml.safe_load((ROOT / "CITATION.cff").read_text())["version"] == PROJECT["version"]


@pytest.mark.parametrize("file", sorted((ROOT / ".github").rglob("*.yml")), ids=lambda file: file.name)
def test_workflows_and_forms_are_complete(file: Path) -> None:
    content = yaml.safe_load(file.read_text())
    for job in content.get("jobs", {}).values():
        assert job["timeout-minutes"] <= 60
        for step in job["steps"]:
            assert {"run", "uses"} & step.keys()
            made = re.findall(r"^make (\S+)", step.get("run", ""))
            assert all(f"\n{target}:" in (ROOT / "Makefile").read_text() for target in made)
    assert "permissions" in content or "jobs" not in content


GPUS = (
    "Collecting torch==2.13.0",
    "Collecting filelock",
    "Collecting nvidia-cublas",
    "Collecting nvidia-nccl",
)


@pytest.mark.parametrize(("free", "goes_on"), [(20, True), (5, False)])
def test_torch_for_gpus_is_announced_before_it_is_installed(
    free: int, goes_on: bool, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A program that prints what pip does stands in for it."""
    usage = SimpleNamespace(free=free * environment.GIB)
    monkeypatch.setattr(environment.shutil, "disk_usage", lambda _folder: usage)
    code = f"print(*{GPUS!r}, sep='\\n', flush=True)"
    with contextlib.nullcontext() if goes_on else pytest.raises(SystemExit, match="needs 10 GB of free disk"):
        environment.run([sys.executable, "-c", code], environment.Progress())
    assert capsys.readouterr().out.count(environment.TORCH_FOR_GPUS) == 1
    with pytest.raises(SystemExit, match="failed with exit code 3"):
        environment.run([sys.executable, "-c", "raise SystemExit(3)"], environment.Progress())


def test_torch_for_cpus_is_not_announced(capsys: pytest.CaptureFixture[str]) -> None:
    code = "print('Processing ./torch-2.13.0+cpu.whl', 'Collecting numpy', sep='\\n')"
    environment.run([sys.executable, "-c", code], environment.Progress())
    assert "GPU" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("make", "seconds", "said", "code"),
    [
        ("exit 0", 100, "The second stranger is left out: 100 s are left", 0),
        ("echo no network; exit 2", 900, "left out: its environment could not be made: no network", 0),
        ("[ $4 = setup ] || echo 9 passed", 900, "9 passed", 0),
        ("[ $4 = setup ] || { echo FAILED tests/a.py; exit 2; }", 900, "FAILED tests/a.py", 1),
    ],
)
def test_the_second_stranger(make: str, seconds: int, said: str, code: int, tmp_path: Path) -> None:
    """Programs that only pretend stand in for the other Python and for make."""
    for name, program in {"python3.13": "exit 0", "python3.14": "exit 0", "make": make}.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{program}\n")
        (tmp_path / name).chmod(0o755)
    surroundings = os.environ | {"PATH": f"{tmp_path}:{os.environ['PATH']}", "TMPDIR": str(tmp_path)}
    command = [str(ROOT / ".ci" / "second_stranger"), str(seconds)]
    done = subprocess.run(command, env=surroundings, capture_output=True, text=True, check=False)
    assert said in done.stdout
    assert done.returncode == code
    assert not list(tmp_path.glob("tmp.*"))
