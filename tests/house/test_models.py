"""`maskevidence.models` shows its public names and imports nothing until one is asked for."""

import subprocess
import sys
from types import ModuleType

import pytest

import maskevidence as me


def test_dir_shows_every_model_and_nothing_else() -> None:
    assert dir(me.models) == sorted(me.models.__all__)
    assert {"PPCA", "FactorAnalysis", "Gaussian", "BernoulliPCA", "VAE", "MaskedLM", "MaskedImage"} <= set(
        dir(me.models)
    )
    pytest.importorskip("transformers", reason="the extra hf is not installed")
    assert not any(isinstance(getattr(me.models, name), ModuleType) for name in dir(me.models))


def test_nothing_is_imported_until_it_is_asked_for() -> None:
    code = """
import sys
import maskevidence.models

def loaded(start):
    return sorted(name for name in sys.modules if name.startswith(start))

assert "torch" not in sys.modules
assert loaded("maskevidence.models.") == [], loaded("maskevidence.models.")
maskevidence.models.Gaussian
assert loaded("maskevidence.models.vae") == [], loaded("maskevidence.models.vae")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
