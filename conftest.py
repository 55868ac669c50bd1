"""Settings of every test and doctest: shapes and types are checked at run time, on one thread.

The user's environment is cleared first, before anything reads it: the tests pass whatever it says.
"""

import gc
import os
from importlib.util import find_spec

import pytest

from surroundings import make_calm

_HOME = make_calm(os.environ)

gc.disable()  # until all modules are imported

import jaxtyping  # noqa: E402
import torch  # noqa: E402
from threadpoolctl import threadpool_limits  # noqa: E402

# Before anything imports the packages; a whole number passes for a float, as in Python's own typing.
jaxtyping.install_import_hook(
    ("maskevidence", "paper"), "beartype.beartype(conf=beartype.BeartypeConf(is_pep484_tower=True))"
)

# The arrays are small; workers that use all cores each would fight over them.
torch.set_num_threads(1)
threadpool_limits(1)


# This module subclasses a class of the harness; the tests do without it where that is not installed.
collect_ignore = [] if find_spec("lm_eval") else ["src/maskevidence/integrations/lm_eval/model.py"]


def pytest_collection_finish(session: pytest.Session) -> None:
    """Keep what the modules hold out of the garbage collector, which transformers' Trainer calls each time.

    The millions of objects of transformers, scikit-learn and others stay until the end, and to look through
    them takes a second.
    """
    gc.freeze()
    gc.enable()


def pytest_unconfigure(config: pytest.Config) -> None:
    """Remove what stood in for a home that cannot be written to."""
    if _HOME is not None:
        _HOME.cleanup()
