"""Mutual information by one masked model, beside the truth, nearest neighbours (KSG) and scikit-learn.

    python benchmarks/information.py --parts groups,pairs,fork,matrix,zero,coverage

groups: five columns about five, bent, with holes; a category and a count; a fork; a parity.
pairs: the root mean square error over data sets, beside mutual_info_regression, KSG and, if
`pip install pylace==0.10.1` was run, lace's `mi`.
fork: a weak information that no straight line shows, 10,000 rows. matrix: CPU seconds of 30 x 30 columns.
zero: independent pairs. coverage: how often 95 % intervals hold the truth, by closed forms, and by a
model that learns (--learned --network kernel-gaussian).
"""

import argparse
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from _timing import Target, arguments, finish, machine, show

# isort: split
import numpy as np
import pandas as pd
import torch
from scipy.spatial import cKDTree
from scipy.special import digamma, logsumexp
from sklearn.feature_selection import mutual_info_regression

import maskevidence as me

PARTS = ("groups", "pairs", "fork", "matrix", "zero", "coverage")
N = 2_000
A, B = [0, 1, 2, 3, 4], [5, 6, 7, 8, 9]
Rng = np.random.Generator
Settings = dict[str, tuple[str, Callable[[Rng], Any], list, list, list, float]]  # word, table, groups, truth


def ksg(x: np.ndarray, y: np.ndarray, k: int = 3) -> float:
    """Kraskov, Stoegbauer and Grassberger (2004), their first estimator, for groups of columns."""
    x, y = ((v - v.mean(0)) / v.std(0) for v in (x, y))
    both = np.hstack([x, y])
    reach = cKDTree(both).query(both, k + 1, p=np.inf)[0][:, -1] - 1e-12

    def psi(v: np.ndarray) -> np.ndarray:
        return digamma(np.array(cKDTree(v).query_ball_point(v, reach, p=np.inf, return_length=True)))

    return float(digamma(k) + digamma(len(x)) - (psi(x) + psi(y)).mean())


def lace(x: np.ndarray) -> float:
    """lace's mutual information of two columns, 8 chains of 200 steps; NaN where it is not installed."""
    try:
        from lace import Engine
    except ImportError:
        return np.nan
    frame = pd.DataFrame(x, [f"row {number}" for number in range(len(x))], ["a", "b"])
    engine = Engine.from_df(frame, n_states=8, rng_seed=0)
    engine.update(200, quiet=True)
    return float(engine.mi([("a", "b")], n_mc_samples=10_000, mi_type="unnormed"))


def ten_columns(rng: Rng) -> np.ndarray:
    """A covariance of ten columns with three factors."""
    w = rng.normal(size=(10, 3))
    return w @ w.T + 0.5 * np.eye(10)


def of_normal(s: np.ndarray, a: list[int], b: list[int], c: list[int] | None = None) -> float:
    """I(A; B | C) of a normal distribution."""

    def det(columns: list[int]) -> float:
        return float(np.linalg.slogdet(s[np.ix_(columns, columns)])[1]) if columns else 0.0

    c = c or []
    return (det(a + c) + det(b + c) - det(a + b + c) - det(c)) / 2


def mixed(rng: Rng, n: int) -> tuple[pd.DataFrame, float]:
    """A category and a count given three normal numbers, and the information of the two groups."""
    w, b = 2 * rng.normal(size=(3, 4)), rng.normal(size=(n, 3))

    def logs(z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        score = z @ w
        return score - logsumexp(score, axis=1, keepdims=True), 0.8 * z[:, 0]

    log_p, rate = logs(b)
    kind = (np.cumsum(np.exp(log_p), 1) < rng.random((n, 1))).sum(1).clip(0, 3)
    number = rng.poisson(np.exp(rate))
    prior, prior_rate = logs(rng.normal(size=(20_000, 3)))
    own = log_p[np.arange(n), kind] + number * rate - np.exp(rate)
    each = [
        logsumexp(prior[:, c] + m * prior_rate - np.exp(prior_rate))
        for c, m in zip(kind, number, strict=True)
    ]
    truth = float((own - np.array(each)).mean() + np.log(20_000))
    words = np.array(list("wxyz"))[kind]
    return pd.DataFrame({"kind": words, "count": number, "b0": b[:, 0], "b1": b[:, 1], "b2": b[:, 2]}), truth


def fork(rng: Rng, n: int) -> np.ndarray:
    """c, and two columns that depend on it alone, without a linear correlation between them."""
    c = rng.normal(size=n)
    return np.column_stack([c**2 + 0.5 * rng.normal(size=n), np.sin(2 * c) + 0.5 * rng.normal(size=n), c])


def of_fork() -> float:
    """I(A; B) of the fork, by sums over a fine grid."""
    c, dc = np.linspace(-6, 6, 1201, retstep=True)
    p_c = np.exp(-(c**2) / 2) / np.sqrt(2 * np.pi) * dc
    a, da = np.linspace(-3, 20, 700, retstep=True)
    b, db = np.linspace(-3.5, 3.5, 400, retstep=True)
    p_a = np.exp(-2 * (a[:, None] - c**2) ** 2) / np.sqrt(np.pi / 2)
    p_b = np.exp(-2 * (b[:, None] - np.sin(2 * c)) ** 2) / np.sqrt(np.pi / 2)
    joint = (p_a * p_c) @ p_b.T
    return float((joint * np.log(joint / ((p_a @ p_c)[:, None] * (p_b @ p_c)) + 1e-300)).sum() * da * db)


def groups(options: argparse.Namespace) -> tuple[dict, list[Target]]:
    """The table of the issue."""
    lines: list[Any] = []
    numbers: dict[str, Any] = {}
    targets: list[Target] = []
    net = "gaussian" if options.quick else options.network
    n = 300 if options.quick else N

    def add(
        task: str, truth: float, asked: tuple, other: float | None = None, *, ask: Any = me.information
    ) -> None:
        if options.only not in task:
            return
        start = time.process_time()
        found = ask(*asked)
        (low, high), spent = found.interval(), time.process_time() - start
        beside = "" if other is None else f"{other:.3f}"
        number = f"{found.nats:.3f} ± {found.standard_error:.3f}"
        lines.append((task, f"{truth:.3f}", number, f"{low:.3f} to {high:.3f}", beside, f"{spent:.1f}"))
        numbers[task] = [truth, found.nats, found.standard_error, low, high, other]
        if other is not None:
            targets.append(
                Target(
                    f"{task}: error over KSG's", float(abs(found.nats - truth) / abs(other - truth)), high=0.5
                )
            )

    for seed in range(1 if options.quick else 2):
        rng = np.random.default_rng(seed)
        s = ten_columns(rng)
        x, truth = rng.multivariate_normal(np.zeros(10), s, n), of_normal(s, A, B)
        name = f"5 + 5 normal columns, seed {seed}"
        add(f"{name}, gaussian", truth, ("gaussian", x, A, B), ksg(x[:, A], x[:, B]))
        for share in (0.2, 0.3):
            holes = np.where(rng.random(x.shape) < share, np.nan, x)
            add(f"{name}, {share:.0%} holes", truth, ("gaussian", holes, A, B))
        bent = np.sign(x) * np.abs(x) ** 1.7
        add(
            f"{name}, bent, {net}",
            truth,
            (net, bent, A, B),
            ksg(bent[:, A], bent[:, B]),
        )
    rng = np.random.default_rng(0)
    frame, truth = mixed(rng, n)
    word = "kernel-gaussian" if options.quick else net
    about = ["b0", "b1", "b2"]
    add(f"category and count about 3 numbers, {word}", truth, (word, frame, ["kind", "count"], about))
    z = fork(rng, n)
    add(f"fork given its cause, {net}", 0.0, (net, z, 0, 1, 2))
    bits = rng.integers(0, 2, (n, 2))
    parity = np.column_stack([bits, bits.sum(1) % 2])
    parity[rng.random(n) < 0.05, 2] ^= 1
    noise = -(0.05 * np.log(0.05) + 0.95 * np.log(0.95))
    add(f"noisy parity, O-information, {net}", noise - np.log(2), (net, parity), ask=me.o_information)
    show(f"Groups, {n:,} rows; {machine()}", ("task", "truth", "masked", "95 %", "KSG", "CPU s"), lines)
    return numbers, targets


SHAPES: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "line": lambda a: 0.75 * a,
    "square": lambda a: a**2,
    "sine": lambda a: np.sin(2 * a),
}


def of_shape(shape: Callable[[np.ndarray], np.ndarray]) -> float:
    """I(a; shape(a) + noise of 0.5), a normal: the entropy of the sum less that of the noise."""
    a, da = np.linspace(-7, 7, 4001, retstep=True)
    b, db = np.linspace(-8, 40, 6001, retstep=True)
    weight = np.exp(-(a**2) / 2) / np.sqrt(2 * np.pi) * da
    p = np.concatenate(
        [np.exp(-2 * (part[:, None] - shape(a)) ** 2) @ weight for part in np.array_split(b, 40)]
    )
    p /= np.sqrt(np.pi / 2)
    return float(-(p * np.log(p + 1e-300)).sum() * db - 0.5 * np.log(2 * np.pi * np.e * 0.25))


def of_rows(shape: Callable[[np.ndarray], np.ndarray], a: np.ndarray, b: np.ndarray) -> float:
    """The mean of log p(b | a) - log p(b) by the true densities, whose error is that of the rows."""
    grid = np.linspace(-7, 7, 4001)
    log_weight = -(grid**2) / 2 - 0.5 * np.log(2 * np.pi) + np.log(grid[1] - grid[0])
    log_p = [logsumexp(log_weight - 2 * (each - shape(grid)) ** 2) for each in b]
    return float((-2 * (b - shape(a)) ** 2 - np.array(log_p)).mean())


def pairs(options: argparse.Namespace) -> tuple[dict, list[Target]]:
    """The error of pairs of numbers."""
    lines, numbers, targets = [], {}, []
    n, runs = (300, 1) if options.quick else (N, options.runs)
    net = "gaussian" if options.quick else options.network
    for name, shape in SHAPES.items():
        if options.only not in name:
            continue
        truth, errors = of_shape(shape), []
        for seed in range(runs):
            rng = np.random.default_rng(seed)
            a = rng.normal(size=n)
            b = shape(a) + 0.5 * rng.normal(size=n)
            ours = me.information(net, np.column_stack([a, b]), 0, 1, seed=seed)
            beside = mutual_info_regression(a[:, None], b, random_state=0)[0]
            low, high = ours.interval()
            others = (
                ksg(a[:, None], b[:, None]),
                of_rows(shape, a, b),
                beside,
                lace(np.column_stack([a, b])),
            )
            errors.append((*(each - truth for each in (ours.nats, *others)), low <= truth <= high))
        squares = np.square(np.array(errors)[:, :5])
        rms, held = np.sqrt(squares.mean(0)), sum(each[5] for each in errors)
        more = squares[:, 0] - squares[:, 1]  # of the same data
        z = more.mean() / more.std(ddof=1) * runs**0.5 if runs > 1 else np.nan
        shown = (*(f"{each:.4f}" for each in rms), f"{z:+.1f}")
        lines.append((name, f"{truth:.3f}", *shown, f"{held} of {runs}"))
        numbers[name] = [truth, *rms.tolist(), float(z), int(held), np.array(errors)[:, :3].tolist()]
        targets.append(Target(f"{name}: error over KSG's", float(rms[0] / rms[1]), high=1.0))
    heads = (
        "b = shape(a) + noise",
        "truth",
        net,
        "KSG",
        "true densities",
        "mutual_info_regression",
        "lace",
        "z of squares less KSG's",
        "intervals that hold",
    )
    show(f"Root mean square error, {n:,} rows, {runs} data sets; {machine()}", heads, lines)
    return numbers, targets


def weak_fork(options: argparse.Namespace) -> tuple[dict, list[Target]]:
    """The information of the fork's two columns."""
    n = 500 if options.quick else 10_000
    net = "gaussian" if options.quick else options.network
    z, truth = fork(np.random.default_rng(100), n), of_fork()
    found = me.information(net, z, 0, 1)
    low, high = found.interval()
    line = (f"{truth:.4f}", f"{found.nats:.4f} ± {found.standard_error:.4f}", f"{low:.4f} to {high:.4f}")
    title = f"The fork's two columns, {n:,} rows; {machine()}"
    show(title, ("truth", net, "95 %", "KSG"), [(*line, f"{ksg(z[:, :1], z[:, 1:2]):.4f}")])
    z_score = found.nats / found.standard_error
    return {"truth": truth, "nats": found.nats, "low": low, "high": high}, [Target("fork: z", z_score, low=3)]


def matrix(options: argparse.Namespace) -> tuple[dict, list[Target]]:
    """CPU seconds and finds of a matrix with 15 pairs that depend."""
    width, n = (6, 300) if options.quick else (30, N)
    rng, columns, shapes = np.random.default_rng(0), list[np.ndarray](), list(SHAPES.values())
    for k in range(width // 2):
        a = rng.normal(size=n)
        columns += [a, shapes[k % 3](a) + 0.5 * rng.normal(size=n)]
    x, lines, numbers, targets = np.column_stack(columns), [], {}, []
    true = np.zeros((width, width), dtype=bool)
    for k in range(width // 2):
        true[2 * k, 2 * k + 1] = True
    for word, folds in (("gaussian", 5), ("gaussian" if options.quick else options.matrix_network, 3)):
        start = time.process_time()
        found = me.information_matrix(word, x, folds=folds)
        spent, upper = time.process_time() - start, np.triu(found.found)
        finds = (f"{(upper & true).sum()} of {width // 2}", f"{(upper & ~true).sum()}")
        lines.append((f"{word}, {folds} folds", f"{spent:.1f}", *finds))
        numbers[word] = [spent, int((upper & true).sum()), int((upper & ~true).sum())]
        targets.append(Target(f"{word}: CPU seconds", spent, high=60))
    show(
        f"{width} × {width} columns, {n:,} rows; {machine()}",
        ("model", "CPU s", "found", "falsely found"),
        lines,
    )
    return numbers, targets


def words(rng: Rng, n: int) -> pd.DataFrame:
    """Two columns of three words, of which the second is that of the first in 8 of 10 rows."""
    first = rng.integers(0, 3, n)
    second = np.where(rng.random(n) < 0.7, first, rng.integers(0, 3, n))
    return pd.DataFrame({"a": np.array(list("xyz"))[first], "b": np.array(list("uvw"))[second]})


def of_words() -> float:
    """The information of the two words."""
    shares = np.array([0.8, 0.1, 0.1])
    return float(np.log(3) + (shares * np.log(shares)).sum())


def settings(n: int) -> Settings:
    """Models, tables, groups and truths."""
    s = ten_columns(np.random.default_rng(5))
    x = lambda rng: rng.multivariate_normal(np.zeros(10), s, n)  # noqa: E731
    holes = lambda rng: np.where(rng.random((n, 10)) < 0.3, np.nan, x(rng))  # noqa: E731
    return {
        "independent pair": ("gaussian", lambda rng: rng.normal(size=(n, 2)), [0], [1], [], 0.0),
        "pair": ("gaussian", x, [0], [6], [], of_normal(s, [0], [6])),
        "5 + 5": ("gaussian", x, A, B, [], of_normal(s, A, B)),
        "5 + 5 by factors": ("factor-analysis:3", x, A, B, [], of_normal(s, A, B)),
        "2 + 2 given 2": ("gaussian", x, [0, 1], [2, 3], [4, 5], of_normal(s, [0, 1], [2, 3], [4, 5])),
        "word and word": ("mixture-transition", lambda rng: words(rng, n), [0], [1], [], of_words()),
        "2 + 2, 30 % holes": ("gaussian", holes, [0, 1], [2, 3], [], of_normal(s, [0, 1], [2, 3])),
    }


def by_learning(n: int, word: str) -> Settings:
    """The same for a model that learns the shape of a dependence, such as a network."""
    s = ten_columns(np.random.default_rng(5))

    def shaped(rng: Rng, shape: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
        a = rng.normal(size=n)
        return np.column_stack([a, shape(a) + 0.5 * rng.normal(size=n)])

    def bent(rng: Rng) -> np.ndarray:
        x = rng.multivariate_normal(np.zeros(10), s, n)[:, :6]
        return np.sign(x) * np.abs(x) ** 1.7

    given = of_normal(s, [0, 1], [2, 3], [4, 5])
    return {
        "independent pair": (word, lambda rng: rng.normal(size=(n, 2)), [0], [1], [], 0.0),
        **{
            name: (word, lambda rng, shape=shape: shaped(rng, shape), [0], [1], [], of_shape(shape))
            for name, shape in SHAPES.items()
        },
        "bent, 2 + 2 given 2": (word, bent, [0, 1], [2, 3], [4, 5], given),
        "word and word": (word, lambda rng: words(rng, n), [0], [1], [], of_words()),
    }


def coverage(options: argparse.Namespace, only: str = "") -> tuple[dict, list[Target]]:
    """How often intervals hold the truth."""
    n, runs = (120, 2) if options.quick else (options.rows, options.sets)
    lines, numbers, targets = [], {}, []
    made = by_learning(n, options.network) if options.learned else settings(n)
    kept = json.loads(options.kept.read_text()) if options.kept and options.kept.exists() else {}
    for name, (word, table, a, b, c, truth) in made.items():
        if (only or options.only) not in ("", name):
            continue
        values = kept.setdefault(f"{name}, {word}, {n} rows, seed {options.seed}", [])
        rng = np.random.default_rng(options.seed)
        for seed in range(runs):
            x = table(rng)
            if seed < len(values):
                continue
            found = me.information(word, x, a, b, c, seed=seed)
            values.append((found.nats, found.standard_error, *found.interval()))
            if options.kept:
                options.kept.write_text(json.dumps(kept))
        nats, errors, low, high = np.array(values[:runs]).T
        bias, spread, se = nats.mean() - truth, nats.std(), errors.mean()
        share, above = ((low <= truth) & (truth <= high)).mean(), (low > 0).mean()
        lines.append(
            (
                name,
                word,
                f"{truth:.3f}",
                f"{bias:+.4f}",
                f"{spread:.4f}",
                f"{se:.4f}",
                f"{share:.3f}",
                f"{above:.3f}",
            )
        )
        numbers[name] = [float(each) for each in (truth, bias, spread, se, share, above)]
        low_share = 0.93 if truth == 0 else 0.90
        targets.append(
            Target(
                f"{name}, {word}: intervals that hold", float(share), low=0 if options.quick else low_share
            )
        )
    heads = ("setting", "model", "truth", "bias", "sd", "mean error", "hold", "above 0")
    show(f"95 % intervals, {n} rows, {runs} data sets; {machine()}", heads, lines)
    return numbers, targets


def zero(options: argparse.Namespace) -> tuple[dict, list[Target]]:
    """Independent pairs alone."""
    return coverage(options, "independent pair")


def main() -> int:
    parser = arguments(__doc__.splitlines()[0])
    parser.add_argument("--parts", default=",".join(PARTS), help="of: %(default)s")
    parser.add_argument("--network", default="masked-net:64x1", help="MODEL word that learns")
    parser.add_argument("--matrix-network", default="masked-net:64x1", help="that of the matrix")
    parser.add_argument("--runs", type=int, default=5, help="data sets of each pair")
    parser.add_argument(
        "--only",
        default="",
        help="tasks of groups and pairs whose names have this part, or a setting of coverage",
    )
    parser.add_argument("--rows", type=int, default=400, help="rows of the coverage")
    parser.add_argument(
        "--learned", action="store_true", help="coverage of --network in six settings, not of closed forms"
    )
    parser.add_argument("--sets", type=int, default=200, help="data sets in each setting of the coverage")
    parser.add_argument("--kept", type=Path, help="file of the coverage's numbers, to go on from")
    parser.add_argument("--seed", type=int, default=1, help="of the data sets of the coverage")
    options = parser.parse_args()
    torch.set_num_threads(1)
    of_part = {
        "groups": groups,
        "pairs": pairs,
        "fork": weak_fork,
        "matrix": matrix,
        "zero": zero,
        "coverage": coverage,
    }
    numbers, targets = {}, list[Target]()
    for part in options.parts.split(","):
        numbers[part], own = of_part[part](options)
        targets += own
    return finish(numbers, [] if options.quick else targets, options.json)


if __name__ == "__main__":
    sys.exit(main())
