"""Settings of every test and doctest: shapes and types are checked at run time, on one thread."""

import torch
from jaxtyping import install_import_hook
from threadpoolctl import threadpool_limits

# Before anything imports the package. A whole number passes for a float, as in Python's own typing rules.
install_import_hook("maskevidence", "beartype.beartype(conf=beartype.BeartypeConf(is_pep484_tower=True))")

# The arrays are small; workers that use all cores each would fight over them.
torch.set_num_threads(1)
threadpool_limits(1)
