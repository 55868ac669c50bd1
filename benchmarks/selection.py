"""The number of components: select by held-out evidence against GridSearchCV over scikit-learn's own scores.

    python benchmarks/selection.py

Data sets of 1,000 rows are drawn from the paper's PPCA model with D=20 columns, K=5 components and a noise
variance of 1/5, with new loadings for every data set. Each method chooses among 1 to 19 components by 5-fold
cross-validation: `me.select` with PPCA alone, and with PPCA and factor analysis together; and GridSearchCV
over `PCA` and `FactorAnalysis` with their own `score`, the mean log-likelihood, which takes the highest one.
Seconds are CPU time on one thread, interleaved.

The data sets of the paper's public code have one noise draw that all columns share, so that they fill K + 1
dimensions and have no noise beside: there is nothing to choose, and they are not used here.
"""

import sys
import time
from collections.abc import Callable
from typing import Any

from _timing import Target, arguments, finish, machine, show

# isort: split
import numpy as np
import torch
from sklearn.decomposition import PCA, FactorAnalysis
from sklearn.model_selection import GridSearchCV, KFold

import maskevidence as me
from maskevidence.data import published_ppca_data

N, D, K = 1000, 20, 5
COMPONENTS = list(range(1, 20))
OURS = "select ppca"
BOTH = "select ppca,factor-analysis"


def select(*families: str) -> Callable[[np.ndarray], int | None]:
    return lambda x: me.select(x, families, COMPONENTS).chosen.n_components


def grid_search(estimator: Any) -> Callable[[np.ndarray], int]:
    folds = KFold(5, shuffle=True, random_state=0)

    def choose(x: np.ndarray) -> int:
        search = GridSearchCV(estimator, {"n_components": COMPONENTS}, cv=folds, refit=True).fit(x)
        return int(search.best_params_["n_components"])

    return choose


METHODS: dict[
    str, tuple[Callable[[np.ndarray], int | None], int]
] = {  # the second number: every how many data sets it runs
    OURS: (select("ppca"), 1),
    "GridSearchCV over PCA": (grid_search(PCA()), 1),
    BOTH: (select("ppca", "factor-analysis"), 1),
    "GridSearchCV over FactorAnalysis": (grid_search(FactorAnalysis()), 50),
}


def main() -> int:
    parser = arguments(__doc__.splitlines()[0])
    parser.add_argument("--data-sets", type=int, default=100, help="number of data sets")
    parser.add_argument("--rows", type=int, default=N, help="rows of each data set")
    options = parser.parse_args()
    n_sets = 3 if options.quick else options.data_sets
    torch.set_num_threads(1)
    print(machine())
    choices: dict[str, list[int | None]] = {name: [] for name in METHODS}
    seconds: dict[str, list[float]] = {name: [] for name in METHODS}
    for seed in range(n_sets):
        _, truth = published_ppca_data(1, D, K, seed=seed)
        x = truth.sample(options.rows, seed=seed)
        for name, (choose, one_in) in METHODS.items():
            if seed % one_in == 0:
                start = time.process_time()
                choices[name].append(choose(x))
                seconds[name].append(time.process_time() - start)
    rows = []
    for name in METHODS:
        right = sum(k == K for k in choices[name])
        wrong = sorted(k or 0 for k in choices[name] if k != K)
        median = float(np.median(seconds[name]))
        shown = ", ".join(map(str, wrong[:12])) + (", ..." if len(wrong) > 12 else "")
        rows.append((name, f"{right} of {len(choices[name])}", shown or "–", f"{median:.3f}"))
    title = (
        f"{n_sets} data sets of {options.rows:,} rows, D={D}, K={K}: how often K is found, and CPU seconds"
    )
    show(title, ("method", "K found", "other choices", "seconds, median"), rows)
    share = 100 * float(np.mean([k == K for k in choices[OURS]]))
    both = 100 * float(np.mean([k == K for k in choices[BOTH]]))
    faster = float(np.median(seconds["GridSearchCV over PCA"]) / np.median(seconds[OURS]))
    targets = [
        Target("select ppca: data sets of 100 with the true K", share, low=95),
        Target("select ppca,factor-analysis: data sets of 100 with the true K", both, low=95),
        Target("GridSearchCV over PCA / select ppca, seconds", faster),
    ]
    return finish({"choices": choices, "seconds": seconds}, targets, options.json)


if __name__ == "__main__":
    sys.exit(main())
