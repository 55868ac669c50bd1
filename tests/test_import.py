"""`import maskevidence` is light, and changes nothing global."""

import json
import subprocess
import sys

import pytest

HEAVY = [
    "accelerate",
    "datasets",
    "matplotlib",
    "plotly",
    "pyarrow",
    "pydantic",
    "ray",
    "rich",
    "safetensors",
    "sklearn",
    "tokenizers",
    "transformers",
    "typer",
]


def in_a_new_process(code: str) -> dict:
    """What a program prints as JSON, run by itself: no test runner, no import hook."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return json.loads(done.stdout)


@pytest.mark.parametrize("statement", ["import maskevidence", "import maskevidence.models"])
def test_only_torch_numpy_and_jaxtyping_are_loaded(statement: str) -> None:
    loaded = in_a_new_process(f"""
import json, sys
{statement}
print(json.dumps(sorted({{name.split(".")[0] for name in sys.modules}})))
""")
    assert {"torch", "numpy", "jaxtyping"} <= set(loaded)
    assert not set(loaded) & set(HEAVY)


def test_nothing_global_is_changed() -> None:
    """Beyond what torch and numpy do themselves: settings before and after, in one process."""
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
    missing = in_a_new_process("""
import json
import maskevidence as me
print(json.dumps([name for name in me.__all__ if not hasattr(me, name)]))
""")
    assert missing == []


def test_the_version_is_the_installed_one() -> None:
    versions = in_a_new_process("""
import json
from importlib.metadata import version
import maskevidence
print(json.dumps({"installed": version("maskevidence"), "module": maskevidence.__version__}))
""")
    assert versions["installed"] == versions["module"]
