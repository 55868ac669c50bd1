"""What packages, environments and workflows are made from agrees with itself."""

import re
import tomllib
from pathlib import Path

import pytest
import yaml

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
