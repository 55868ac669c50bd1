"""Settings of every test and doctest: shapes and types are checked at run time, one thread per worker."""

import os

import torch
from jaxtyping import install_import_hook

# Before anything imports the package. A whole number passes for a float, as in Python's own typing rules.
install_import_hook("maskevidence", "beartype.beartype(conf=beartype.BeartypeConf(is_pep484_tower=True))")

if "PYTEST_XDIST_WORKER" in os.environ:  # workers that use all cores each would fight over them
    torch.set_num_threads(1)
