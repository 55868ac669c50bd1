"""Binary tables: the masked network with its defaults beside classical models, on standard tables.

    python benchmarks/density.py

Five of the twenty tables of Lowd and Davis (2010) and Van Haaren and Davis (2012), in their own train, valid
and test parts. Every model is trained on `train`, all choices are made on `valid` (the epoch of the network,
the components of the mixture, the smoothing of the trees, the smallest slice of LearnSPN), and `test` is
looked at once.

- masked-net: `me.models.MaskedNetwork` with its defaults. The area under the score curve, 8 random sizes for
  each row, and the importance bound of 16 orders, which EoNADE's evaluation by 16 orderings is.
- independent: a probability for each column.
- Chow-Liu: the tree of the largest mutual informations (Chow and Liu 1968).
- mixture: products of Bernoullis, by EM, the best of 10, 30 and 100 components.
- LearnSPN: Gens and Domingos (2013), as in deeprob-kit (`pip install --no-deps deeprob-kit`); left out where
  that is not installed.
- lace: cross-categorisation (Mansinghka et al. 2016), 8 chains of 200 steps on `train`, `valid` is not looked
  at (`pip install pylace==0.10.1`); left out where that is not installed.

Two further tables are drawn from a known sparse density, which stands beside the models as "truth": few rows
of many columns, each of which depends on two of the twenty columns before it.

Log-likelihoods are nats per row of the whole of `test`, the standard errors those of its rows. Published, not
run here: EoNADE with 16 orders reaches -82.31 on dna (Uria, Murray, Larochelle 2014).
"""

import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

from _timing import Target, arguments, data, finish, machine, show, timed

# isort: split
import numpy as np
import pandas
from scipy.sparse.csgraph import minimum_spanning_tree
from scipy.special import expit, log_expit, logsumexp

import maskevidence as me

TABLES = ("nltcs", "plants", "jester", "baudio", "dna")
KNOWN = {"known 400 x 500": (400, 500), "known 2000 x 112": (2_000, 112)}  # training rows and columns
LOWEST = {"nltcs": -6.02, "plants": -12.4, "jester": -51.6, "dna": -82.8}
SECONDS = 90
Rows = np.ndarray
Model = Callable[[Rows], Rows]


class Result(NamedTuple):
    """What a model reaches on the test rows.

    Attributes:
        log_likelihood: nats per row.
        se: of the rows.
        seconds: of the fit, choices included.
        note: what was chosen.
        mask_se: of a log-likelihood that is estimated by masks.
    """

    log_likelihood: float
    se: float
    seconds: float
    note: str = ""
    mask_se: float | None = None

    def row(self, name: str) -> list[str]:
        masks = "" if self.mask_se is None else f", masks {self.mask_se:.3f}"
        return [name, f"{self.log_likelihood:.3f}", f"{self.se:.3f}{masks}", f"{self.seconds:.0f}", self.note]


def independent(train: Rows) -> Iterator[tuple[str, Model]]:
    share = (train.sum(0) + 0.5) / (len(train) + 1)
    yield "", lambda x: (x * np.log(share) + (1 - x) * np.log(1 - share)).sum(1)


def chow_liu(train: Rows) -> Iterator[tuple[str, Model]]:
    """Trees for some amounts of smoothing."""
    for smoothing in (0.1, 1.0, 5.0):
        n, width = train.shape
        weight = smoothing / 4
        both = (train.T @ train + weight) / (n + smoothing)
        ones = (train.sum(0) + 2 * weight) / (n + smoothing)
        joint = np.stack(
            [[1 - ones[:, None] - ones + both, ones - both], [ones[:, None] - both, both]]
        )  # [first, second, column, other column]
        alone = np.stack([1 - ones, ones])
        information = (joint * np.log(joint / (alone[:, None, :, None] * alone[None, :, None]))).sum((0, 1))
        tree = minimum_spanning_tree(-np.maximum(information, 1e-12) * (1 - np.eye(width))).tocoo()
        edges = list(zip(tree.row.tolist(), tree.col.tolist(), strict=True))

        def score(x: Rows, edges: Any = edges, joint: Rows = joint, alone: Rows = alone) -> Rows:
            """Σ log p(column) + Σ over the edges of log p(both) / p(one) p(other)."""
            code = x.astype(int)
            total = np.log(alone)[code, np.arange(x.shape[1])].sum(1)
            for i, j in edges:
                pair = joint[:, :, i, j] / (alone[:, None, i] * alone[None, :, j])
                total += np.log(pair)[code[:, i], code[:, j]]
            return total

        yield f"smoothing {smoothing:g}", score


def mixture(train: Rows) -> Iterator[tuple[str, Model]]:
    """Products of Bernoullis for some numbers of components, by 100 steps of EM."""
    for components in (10, 30, 100):
        rng = np.random.default_rng(0)
        weight = np.full(components, 1 / components)
        share = np.clip(train.mean(0) + 0.2 * rng.normal(size=(components, train.shape[1])), 0.05, 0.95)

        def log_joint(x: Rows, weight: Rows, share: Rows) -> Rows:
            return np.log(weight) + x @ np.log(share).T + (1 - x) @ np.log(1 - share).T

        for _ in range(100):
            logs = log_joint(train, weight, share)
            part = np.exp(logs - logsumexp(logs, 1, keepdims=True))
            size = part.sum(0)
            weight = (size + 0.1) / (size + 0.1).sum()
            share = (part.T @ train + 0.5) / (size[:, None] + 1)
        yield f"{components} components", lambda x, w=weight, s=share: logsumexp(log_joint(x, w, s), 1)


def learn_spn(train: Rows) -> Iterator[tuple[str, Model]]:
    from deeprob.spn.algorithms.inference import log_likelihood
    from deeprob.spn.learning.wrappers import learn_estimator
    from deeprob.spn.structure.leaf import Bernoulli

    width = train.shape[1]
    for smallest in (64, 256):
        network = learn_estimator(
            train.astype(np.float32),
            [Bernoulli] * width,
            [[0, 1]] * width,
            learn_leaf="mle",
            split_rows="kmeans",
            split_cols="gvs",
            min_rows_slice=smallest,
            random_state=0,
            verbose=False,
        )
        yield (
            f"slices of {smallest}",
            lambda x, network=network: (
                log_likelihood(network, x.astype(np.float32)).astype(float).reshape(len(x))
            ),
        )


def lace(train: Rows) -> Iterator[tuple[str, Model]]:
    """lace refuses a constant column: it is scored as in `independent`."""
    from lace import Engine

    varies = train.min(0) < train.max(0)
    ((_, constant),) = independent(train[:, ~varies])
    names = [f"column {place}" for place in range(varies.sum())]

    def frame(x: Rows) -> pandas.DataFrame:
        return pandas.DataFrame(x[:, varies] == 1, [f"row {number}" for number in range(len(x))], names)

    engine = Engine.from_df(frame(train), n_states=8, rng_seed=0)
    engine.update(200, quiet=True)
    yield "8 chains", lambda x: engine.logp(frame(x)).to_numpy() + constant(x[:, ~varies])


def chosen(candidates: Iterator[tuple[str, Model]], valid: Rows, test: Rows) -> Result:
    """The candidate that is best on the valid part, on the test part."""

    def best() -> tuple[str, Model]:
        return max(candidates, key=lambda candidate: float(candidate[1](valid).mean()))

    (note, model), seconds = timed(best, time.perf_counter)
    each = model(test)
    return Result(float(each.mean()), float(each.std(ddof=1) / np.sqrt(len(each))), seconds, note)


def masked_network(train: Rows, valid: Rows, test: Rows, **options: Any) -> tuple[Result, Result, Any]:
    """The importance bound of 16 orders, the area, and the network."""
    fit = partial(me.models.MaskedNetwork(train.shape[1]).fit, train, held_out=valid, **options)
    network, seconds = timed(fit, time.perf_counter)
    note = f"epoch {network.history.best_epoch} of {len(network.history)}"
    bound = me.estimate_evidence(network, test, me.Orderings(16, bound="importance"), batch_size=4096)
    area = me.estimate_evidence(network, test, me.RandomSize(8), batch_size=4096)
    results = [
        Result(each.log_evidence, each.data_se or 0.0, seconds, note, each.mask_se) for each in (bound, area)
    ]
    return results[0], results[1], network


def parts_of(name: str) -> list[Rows]:
    return [
        pandas.read_parquet(data("debd", f"{name}.{part}.parquet")).to_numpy().astype(float)
        for part in ("train", "valid", "test")
    ]


class SparseDensity:
    """p(x) = Π_k sigmoid(±(b_k + Σ_{two j of k-20 .. k-1} w_kj (2 x_j - 1)))."""

    def __init__(self, n_columns: int) -> None:
        rng = np.random.default_rng(0)
        self.bias = rng.normal(size=n_columns)
        self.weights = np.zeros((n_columns, n_columns))  # of column and earlier column
        for k in range(2, n_columns):
            parents = rng.choice(np.arange(max(0, k - 20), k), 2, replace=False)
            self.weights[k, parents] = rng.choice([-1.5, 1.5], 2)

    def drawn(self, n: int, seed: int) -> Rows:
        x = np.zeros((n, len(self.bias)))
        uniform = np.random.default_rng(seed).random(x.shape)
        for k in range(len(self.bias)):
            x[:, k] = uniform[:, k] < expit(self.bias[k] + (2 * x - 1) @ self.weights[k])
        return x

    def log_density(self, x: Rows) -> Rows:
        return log_expit((2 * x - 1) * (self.bias + (2 * x - 1) @ self.weights.T)).sum(1)


def drawn_parts(truth: SparseDensity, n_rows: int) -> list[Rows]:
    """Rows to train on, a tenth of them to choose by, and 100 to look at once."""
    n_valid = n_rows // 10
    rows = truth.drawn(n_rows, seed=1)
    return [rows[n_valid:], rows[:n_valid], truth.drawn(100, seed=2)]


def main() -> int:
    parser = arguments(__doc__.splitlines()[0])
    parser.add_argument("--tables", nargs="+", default=[*TABLES, *KNOWN], choices=[*TABLES, *KNOWN])
    options = parser.parse_args()
    print(machine(), flush=True)
    numbers: dict[str, Any] = {}
    targets = []
    for name in options.tables[:1] if options.quick else options.tables:
        truth = SparseDensity(KNOWN[name][1]) if name in KNOWN else None
        parts = parts_of(name) if truth is None else drawn_parts(truth, KNOWN[name][0])
        train, valid, test = (part[:200] for part in parts) if options.quick else parts
        few = {"epochs": 2} if options.quick else {}
        bound, area, _ = masked_network(train, valid, test, **few)
        results = {"masked-net, bound of 16 orders": bound, "masked-net, area": area}
        others = {"independent": independent, "Chow-Liu": chow_liu, "mixture": mixture}
        for other, candidates in others.items():
            results[other] = chosen(candidates(train), valid, test)
        optional = {"LearnSPN": (learn_spn, "deeprob-kit"), "lace": (lace, "pylace")}
        for other, (candidates, package) in optional.items():
            try:
                results[other] = chosen(candidates(train), valid, test)
            except ImportError:
                print(f"{other} is left out: {package} is not installed", file=sys.stderr)
        if truth is not None:
            results["truth"] = chosen(iter([("", truth.log_density)]), valid, test)
        title = f"{name}: {train.shape[1]} columns, {len(train):,} / {len(valid):,} / {len(test):,} rows"
        columns = ("model", "log p(x), nats per row", "se of the rows", "seconds", "chosen on valid")
        show(title, columns, [result.row(model) for model, result in results.items()])
        numbers[name] = {model: result._asdict() for model, result in results.items()}
        if name in LOWEST:
            targets.append(Target(f"{name}: bound of 16 orders", bound.log_likelihood, low=LOWEST[name]))
            targets.append(Target(f"{name}: seconds of training", bound.seconds, high=SECONDS))
        for other in ("Chow-Liu", "LearnSPN") if truth is not None else ():
            if other in results:
                above = bound.log_likelihood - results[other].log_likelihood
                targets.append(Target(f"{name}: bound above {other}", above, low=0.0))
    return finish({"tables": numbers}, targets, options.json)


if __name__ == "__main__":
    sys.exit(main())
