"""Tables: does the evidence rank 40 models of each of 12 data sets by how they generalise?

    MASKEVIDENCE_DATA=... python studies/tables.py

Eight models (PPCA and factor analysis with three numbers of components each, the full Gaussian, a Gaussian
with a kernel at each row) are fitted to five fractions of the training rows, for three splits of each table.
Every model is one record of results/tables.parquet; the same command resumes an interrupted run.
"""

import sys
from typing import Any

from _pieces import arguments, keyed, run_pieces
from _table_models import MODELS, table_model
from _table_sets import FRACTIONS, SETS

SEEDS = (0, 1, 2)
QUICK_SETS, QUICK_FRACTIONS = ("iris", "wine", "horse-colic"), (1.0, 0.35, 0.12)


def units(*, quick: bool) -> dict[str, Any]:
    """What tells the models apart, by key."""
    sets, fractions = (QUICK_SETS, QUICK_FRACTIONS) if quick else (tuple(SETS), FRACTIONS)
    return keyed(
        [
            {"data_set": data_set, "seed": seed, "model": model, "fraction": fraction}
            for data_set in sets
            for seed in SEEDS[: 2 if quick else None]
            for fraction in fractions
            for model in MODELS
        ]
    )


def main(words: list[str] | None = None) -> int:
    options = arguments(__doc__.splitlines()[0]).parse_args(words)
    return run_pieces("tables", table_model, units(quick=options.quick), options)


if __name__ == "__main__":
    sys.exit(main())
