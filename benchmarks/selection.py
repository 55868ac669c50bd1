"""The number of components: how often `select` finds it, beside Minka and GridSearchCV.

    python benchmarks/selection.py

Each data set is drawn from a model with K=5 components, with new loadings. `select` chooses by
cross-validation, with 20 folds below 200 rows and 5 above: the model with the highest evidence, and beside it
the smallest that cannot be told apart from it. Its alternatives are

- Minka's evidence of PCA (`PCA(n_components="mle")`),
- GridSearchCV over `PCA` or `FactorAnalysis` with their own `score`, the mean log-likelihood.

For rows with holes, these get the mean of the column in each hole. The loss is how much worse the model with
the chosen number of components, fitted to all rows, is on 2,000 new rows than the best number of components,
in nats per row; every choice is fitted by maximum likelihood with this package, and more components than the
candidates have count as the most of them. Seconds are CPU time on one thread, interleaved.

The settings:

- paper: PPCA as in the paper, D=20, noise variance 1/5.
- fading: PPCA, D=20, noise variance 1, loadings with squared lengths 8, 6, 4, 3 and 2.
- factor analysis: the data of scikit-learn's example of PCA and factor analysis, D=25, unequal noise.
- holes: the factor analysis with 20 % of its values missing.
"""

import os
import sys
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from _timing import Target, arguments, finish, machine, show, timed

os.environ["OMP_NUM_THREADS"] = "1"

# isort: split
import numpy as np
import torch
from sklearn.decomposition import PCA, FactorAnalysis
from sklearn.impute import SimpleImputer
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.pipeline import make_pipeline

import maskevidence as me
from maskevidence.core.support.progress import progress
from maskevidence.tables.gaussian.low_rank import fit_each_rank

K = 5
NEW_ROWS = 2_000
FADING = (8.0, 6.0, 4.0, 3.0, 2.0)
HOLES = 0.2
Rows = np.ndarray


class Setting(NamedTuple):
    """Data sets of one kind.

    Attributes:
        name: as the docstring of this file explains it.
        draw: (rows, seed) -> rows.
        family: the model that is fitted.
        rows: of a data set.
        largest: the candidates have 1 to this many components.
        data_sets: how many are drawn.
    """

    name: str
    draw: Callable[[int, int], Rows]
    family: str
    rows: int
    largest: int = 10
    data_sets: int = 40


def paper(rows: int, seed: int) -> Rows:
    loadings = torch.randn(20, K, generator=torch.Generator().manual_seed(seed))
    truth = me.models.PPCA.from_parameters(loadings, 1 / 5)
    return truth.sample(rows, seed=seed)


def fading(rows: int, seed: int, width: int = 20) -> Rows:
    rng = np.random.default_rng(seed)
    loadings = np.linalg.qr(rng.normal(size=(width, K)))[0] * np.sqrt(np.array(FADING))
    return rng.normal(size=(rows, K)) @ loadings.T + rng.normal(size=(rows, width))


def factors(rows: int, seed: int, width: int = 25) -> Rows:
    rng = np.random.default_rng(seed)
    loadings = np.linalg.svd(rng.normal(size=(width, width)))[0][:, :K]
    noise = rng.random(width) + 0.5
    return rng.normal(size=(rows, K)) @ loadings.T + noise * rng.normal(size=(rows, width))


def holes(rows: int, seed: int) -> Rows:
    x = factors(rows, seed)
    x[: rows - NEW_ROWS][np.random.default_rng(seed).random((rows - NEW_ROWS, x.shape[1])) < HOLES] = np.nan
    return x


SETTINGS = (
    Setting("paper", paper, "ppca", 1000, largest=19, data_sets=100),
    *(Setting("fading", fading, "ppca", rows) for rows in (60, 100, 200, 500)),
    *(Setting("factor analysis", factors, "factor-analysis", rows, data_sets=20) for rows in (60, 100, 200)),
    Setting("factor analysis", factors, "factor-analysis", 500),
    Setting("holes", holes, "factor-analysis", 200, data_sets=6),
)


def minka(x: Rows) -> int:
    return int(PCA(n_components="mle").fit(x).n_components_)


def grid_search(x: Rows, estimator: Any, largest: int) -> int:
    folds = KFold(5, shuffle=True, random_state=0)
    name = "n_components"
    if np.isnan(x).any():
        name = f"{type(estimator).__name__.lower()}__n_components"
        estimator = make_pipeline(SimpleImputer(), estimator)
    search = GridSearchCV(estimator, {name: list(range(1, largest + 1))}, cv=folds, refit=False).fit(x)
    return int(search.best_params_[name])


class Measured:
    """The choices of one method over the data sets of a setting."""

    def __init__(self) -> None:
        self.choices: list[int] = []
        self.losses: list[float] = []
        self.seconds: list[float] = []

    def add(self, choice: int, score_of: dict[int, float], seconds: float) -> None:
        self.choices.append(choice)
        nearest = min(max(choice, min(score_of)), max(score_of))
        self.losses.append(max(score_of.values()) - score_of[nearest])
        self.seconds.append(seconds)

    @property
    def right(self) -> int:
        return sum(choice == K for choice in self.choices)

    def row(self, name: str) -> tuple[str, ...]:
        wrong = [choice for choice in self.choices if choice != K]
        fewer = sum(choice < K for choice in wrong)
        error = np.std(self.losses, ddof=1) / np.sqrt(len(self.losses)) if len(self.losses) > 1 else np.nan
        return (
            name,
            f"{self.right} of {len(self.choices)}",
            f"{fewer}, {len(wrong) - fewer}",
            f"{np.mean(self.losses):.3f} ± {error:.3f}",
            f"{np.median(self.seconds):.3f}",
        )


def measure(setting: Setting, data_sets: int) -> dict[str, Measured]:
    """Every method on every data set of a setting."""
    ppca = setting.family == "ppca"
    kind = me.models.PPCA if ppca else me.models.FactorAnalysis
    estimator = PCA() if ppca else FactorAnalysis()
    components = range(1, setting.largest + 1)
    search = f"GridSearchCV over {type(estimator).__name__}"
    found: dict[str, Measured] = {}
    with progress(f"{setting.name}, {setting.rows} rows", data_sets) as advance:
        for seed in range(data_sets):
            drawn = setting.draw(setting.rows + NEW_ROWS, seed)
            x, new = drawn[: setting.rows], drawn[setting.rows :]
            score_of = {
                model.n_components: float(model.score_samples(new).mean())
                for model in fit_each_rank(kind, x, components)
            }
            full = SimpleImputer().fit_transform(x) if np.isnan(x).any() else x
            selection, took = timed(partial(me.select, x, setting.family, components))
            for name, one in (("select", selection.chosen), ("smallest beside", selection.smallest)):
                found.setdefault(name, Measured()).add(one.n_components or 0, score_of, took)
            methods: dict[str, Callable[[], int]] = {}
            if full.shape[0] > full.shape[1]:
                methods["Minka"] = partial(minka, full)
            methods[search] = partial(grid_search, x, estimator, setting.largest)
            for name, choose in methods.items():
                choice, took = timed(choose)
                found.setdefault(name, Measured()).add(choice, score_of, took)
            advance(1)
    return found


def main() -> int:
    parser = arguments(__doc__.splitlines()[0])
    parser.add_argument("--settings", nargs="+", help="names of settings; by default all")
    options = parser.parse_args()
    torch.set_num_threads(1)
    print(machine(), flush=True)
    numbers: dict[str, Any] = {}
    targets = []
    for setting in SETTINGS:
        if options.settings is not None and setting.name not in options.settings:
            continue
        quick = setting._replace(largest=3) if options.quick else setting
        found = measure(quick, 1 if options.quick else setting.data_sets)
        title = f"{setting.name}, {setting.rows:,} rows, 1 to {quick.largest} components, K={K}"
        columns = ("method", "K found", "fewer, more", "loss on new rows, nats a row", "seconds, median")
        show(title, columns, [each.row(name) for name, each in found.items()])
        sys.stdout.flush()
        numbers[f"{setting.name}, {setting.rows}"] = {name: vars(each) for name, each in found.items()}
        ours = found["select"]
        if setting.name == "paper":
            ratio = np.median(found["GridSearchCV over PCA"].seconds) / np.median(ours.seconds)
            targets.append(Target("paper: data sets of 100 with the true K", ours.right, low=95))
            targets.append(Target("paper: GridSearchCV over PCA / select, seconds", float(ratio)))
        else:
            search = next(each for name, each in found.items() if name.startswith("GridSearchCV"))
            above = float(np.mean(ours.losses) - np.mean(search.losses))
            name = f"{setting.name}, {setting.rows}: loss of select above that of GridSearchCV"
            targets.append(Target(name, above, high=0.05))
    return finish({"settings": numbers}, targets, options.json)


if __name__ == "__main__":
    sys.exit(main())
