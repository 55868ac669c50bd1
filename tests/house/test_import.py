"""`import maskevidence` loads nothing, its names load little, and nothing global is changed."""

import ast
import json
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

import maskevidence as me

ROOT = Path(__file__).parents[2]
HEAVY = [
    "accelerate",
    "datasets",
    "matplotlib",
    "pandas",
    "pyarrow",
    "pydantic",
    "ray",
    "rich",
    "safetensors",
    "scipy",
    "sklearn",
    "tokenizers",
    "transformers",
    "typer",
]


def in_a_new_process(code: str) -> Any:
    """What a program prints as JSON, run in a new process without test runner and import hook."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return json.loads(done.stdout)


def loaded_by(statement: str) -> set[str]:
    """The packages that a statement loads, including the standard library."""
    return set(
        in_a_new_process(f"""
import json, sys
{statement}
print(json.dumps(sorted({{name.split(".")[0] for name in sys.modules}})))
""")
    )


@pytest.mark.parametrize(
    "statement",
    [
        "import maskevidence",
        "import maskevidence; dir(maskevidence)",
        "import maskevidence.sklearn as estimators; dir(estimators)",
    ],
)
def test_the_import_alone_loads_nothing_heavy(statement: str) -> None:
    assert not loaded_by(statement) & {"torch", "numpy", "jaxtyping", *HEAVY}


def test_only_torch_numpy_and_jaxtyping_are_loaded() -> None:
    """By the three statements one after the other; the first one alone needs them already."""
    loaded = in_a_new_process("""
import json, sys
import maskevidence as me; me.estimate_evidence
first = sorted({name.split(".")[0] for name in sys.modules})
from maskevidence import *
import maskevidence.models; maskevidence.models.PPCA
print(json.dumps([first, sorted({name.split(".")[0] for name in sys.modules})]))
""")
    assert {"torch", "numpy", "jaxtyping"} <= set(loaded[0])
    assert not set(loaded[1]) & set(HEAVY)


def test_nothing_global_is_changed() -> None:
    """Settings before and after, in one process, apart from what torch and numpy change themselves."""
    changed = in_a_new_process("""
import json, os, random, warnings
import numpy as np, torch

def settings():
    return {
        "default dtype": str(torch.get_default_dtype()),
        "default device": str(torch.get_default_device()),
        "threads": [torch.get_num_threads(), torch.get_num_interop_threads()],
        "gradients": torch.is_grad_enabled(),
        "deterministic": torch.are_deterministic_algorithms_enabled(),
        "matmul precision": torch.get_float32_matmul_precision(),
        "torch seed": torch.get_rng_state().tolist(),
        "numpy seed": np.random.get_state()[1].tolist(),
        "numpy errors": np.geterr(),
        "numpy print": str(np.get_printoptions()),
        "seed": str(random.getstate()),
        "warnings": str(warnings.filters),
        "environment": dict(os.environ),
    }

before = settings()
import maskevidence as me
after = settings()
model = me.models.PPCA(4, 2, seed=5)
me.estimate_evidence(model, model.sample(10, seed=1))
used = settings()
print(json.dumps([name for name in before if not before[name] == after[name] == used[name]]))
""")
    assert changed == []


def test_every_public_name_exists() -> None:
    assert [name for name in me.__all__ if not hasattr(me, name)] == []
    assert dir(me) == sorted(me.__all__)


def test_modules_are_attributes_and_other_names_are_not() -> None:
    assert me.MaskDesign is me.MaskDesign
    assert me.models.PPCA.__name__ == "PPCA"
    assert callable(me.data.digits)
    with pytest.raises(AttributeError, match="module 'maskevidence' has no attribute 'estimates'"):
        _ = me.estimates
    with pytest.raises(ImportError, match="cannot import name 'estimates'"):
        from maskevidence import estimates  # noqa: F401


def partials_of_classes(file: Path) -> list[str]:
    """The attributes of classes that are a `functools.partial`, which Python 3.14 makes a method."""
    source = file.read_text(encoding="utf-8")
    if "partial(" not in source:
        return []
    return [
        f"{file.relative_to(ROOT)}:{line.lineno}"
        for part in ast.walk(ast.parse(source))
        if isinstance(part, ast.ClassDef)
        for line in part.body
        if isinstance(line, ast.Assign | ast.AnnAssign) and isinstance(line.value, ast.Call)
        if ast.unparse(line.value.func) in ("partial", "functools.partial")
    ]


def test_no_attribute_of_a_class_becomes_a_method() -> None:
    folders = ("src", "paper", "examples", "benchmarks", "tools", "tests")
    files = [file for folder in folders for file in (ROOT / folder).rglob("*.py")]
    assert [place for file in files for place in partials_of_classes(file)] == []


def test_the_package_is_typed() -> None:
    assert Path(me.__file__).with_name("py.typed").exists()


def test_the_version_is_the_installed_one() -> None:
    assert me.__version__ == version("maskevidence")
