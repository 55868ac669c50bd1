"""Tables of known truth for wrong_cells.py: 300 trusted rows, 300 judged, 2 to 3 % of their cells wrong."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pandas

N = 300
Draw = Callable[[np.random.Generator, int], np.ndarray]


class Spoilt(NamedTuple):
    """A table, rows that are right, and which cells of the table are wrong."""

    table: Any
    trusted: Any
    wrong: np.ndarray


def covariance(d: int = 10, k: int = 3, noise: float = 0.5) -> np.ndarray:
    """Of d columns of k factors."""
    loadings = np.random.default_rng(7).normal(size=(d, k))
    return loadings @ loadings.T + noise * np.eye(d)


def normal(rng: np.random.Generator, n: int, of: np.ndarray) -> np.ndarray:
    return rng.multivariate_normal(np.zeros(len(of)), of, size=n, method="cholesky")


def correlation() -> np.ndarray:
    of = covariance()
    return of / np.sqrt(np.outer(np.diag(of), np.diag(of)))


def factors(rng: np.random.Generator, n: int) -> np.ndarray:
    return normal(rng, n, covariance())


def pairs(noise: float) -> Draw:
    of = np.kron(np.eye(5), np.ones((2, 2))) + noise * np.eye(10)
    return lambda rng, n: normal(rng, n, of)


def total(rng: np.random.Generator, n: int) -> np.ndarray:
    z = rng.normal(size=(n, 9))
    return np.column_stack([z, z.sum(1) + 0.01 * rng.normal(size=n)])


def units(rng: np.random.Generator, n: int) -> np.ndarray:
    z = normal(rng, n, correlation())
    size, kg = np.round(170 + 10 * z[:, 0]), 70 + 9 * z[:, 1]
    return np.column_stack([size, np.round(size / 2.54, 1), np.round(kg, 1), np.round(2.2046 * kg, 1)])


def t3(rng: np.random.Generator, n: int) -> np.ndarray:
    return factors(rng, n) / np.sqrt(rng.chisquare(3, size=(n, 1)) / 3)


def lognormal(rng: np.random.Generator, n: int) -> np.ndarray:
    return np.exp(0.7 * normal(rng, n, correlation()))


def pareto(rng: np.random.Generator, n: int) -> np.ndarray:
    return rng.pareto(1.5, size=(n, 4)).round(2)


def whole(rng: np.random.Generator, n: int) -> np.ndarray:
    return np.round(20 + 5 * normal(rng, n, correlation()))


def latent(rng: np.random.Generator, n: int) -> np.ndarray:
    loadings = np.random.default_rng(7).normal(size=(6, 2))
    return rng.normal(size=(n, 2)) @ loadings.T + 0.5 * rng.normal(size=(n, 6))


def counts(rng: np.random.Generator, n: int) -> np.ndarray:
    return rng.poisson(np.exp(1.0 + 0.6 * latent(rng, n))).astype(float)


def words(rng: np.random.Generator, n: int) -> np.ndarray:
    return np.digitize(1.5 * latent(rng, n), [-1.5, -0.5, 0.5, 1.5]).astype(float)


def copied_words(rng: np.random.Generator, n: int) -> np.ndarray:
    return np.repeat(rng.integers(0, 6, size=(n, 3)), 2, axis=1).astype(float)


def agreeing(rng: np.random.Generator, n: int) -> np.ndarray:
    return ((rng.random((n, 1)) < 0.5) ^ (rng.random((n, 6)) < 0.001)).astype(float)


def implied(rng: np.random.Generator, n: int) -> np.ndarray:
    a, b, c, d = (rng.random((n, 4)) < 0.5).T
    return np.column_stack([a, b, a & b, c, d, c | d]).astype(float)


def once(rng: np.random.Generator, n: int) -> np.ndarray:
    """Copied words, and two columns whose words mostly occur once."""
    return np.column_stack([copied_words(rng, n), rng.integers(0, 10**6, (n, 2))]).astype(float)


def shifted(rng: np.random.Generator, x: np.ndarray, wrong: np.ndarray, pool: np.ndarray) -> np.ndarray:
    return np.where(wrong, x + 4 * pool.std(0) * rng.choice([-1, 1], size=x.shape), x)


def other_row(rng: np.random.Generator, x: np.ndarray, wrong: np.ndarray, pool: np.ndarray) -> np.ndarray:
    return np.where(wrong, pool[rng.integers(len(pool), size=x.shape), np.arange(x.shape[1])], x)


def tenfold(rng: np.random.Generator, x: np.ndarray, wrong: np.ndarray, pool: np.ndarray) -> np.ndarray:
    return np.where(wrong, 10 * x, x)


def wrong_count(rng: np.random.Generator, x: np.ndarray, wrong: np.ndarray, pool: np.ndarray) -> np.ndarray:
    return np.where(wrong, 10 * x + rng.integers(0, 10, x.shape), x)


def flipped(rng: np.random.Generator, x: np.ndarray, wrong: np.ndarray, pool: np.ndarray) -> np.ndarray:
    return np.where(wrong, 1 - x, x)


class Setting(NamedTuple):
    """How right rows are drawn, how cells are spoilt, and by which models the table is judged."""

    draw: Draw
    spoil: Callable[..., np.ndarray] = shifted
    share: float = 0.02
    models: tuple[str, ...] = ("gaussian", "kernel-gaussian")
    trusted: int = N
    rows: int = N
    some_rows: float = 1.0  # the share of the rows that hold the wrong cells
    holes: float = 0.0
    copies: float = 0.0  # of the trusted rows
    times: int = 1  # that each trusted row stands
    words: bool = False
    most: float = 0.1  # false calls


NETWORK = "masked-net:16x1"
BY_NETWORK = (NETWORK,)
ALL = ("gaussian", "kernel-gaussian", NETWORK)
SETTINGS: dict[str, Setting] = {
    "three factors": Setting(factors, models=ALL),
    "other row": Setting(factors, other_row, models=ALL),
    "units twice": Setting(units, models=ALL),
    "pairs .999": Setting(pairs(0.001)),
    "pairs .91": Setting(pairs(0.1)),
    "a total": Setting(total),
    "many wrong in few rows": Setting(factors, share=0.4, some_rows=0.05, most=0.12),
    "15 % wrong": Setting(factors, share=0.15, most=0.12),
    "each trusted row five times": Setting(factors, trusted=60, times=5),
    "30 % copies": Setting(factors, copies=0.3),
    "t3": Setting(t3),
    "lognormal": Setting(lognormal),
    "whole numbers": Setting(whole),
    "half missing": Setting(factors, holes=0.5),
    "40 trusted rows": Setting(factors, share=0.05, trusted=40, rows=60),
    "counts": Setting(counts, wrong_count, 0.03, BY_NETWORK),
    "words": Setting(words, other_row, 0.03, BY_NETWORK, words=True),
    "words that stand twice": Setting(copied_words, other_row, 0.03, BY_NETWORK, words=True),
    "words that occur once": Setting(once, other_row, 0.03, BY_NETWORK, words=True),
    "yes/no that agree": Setting(agreeing, flipped, 0.03, ("bernoulli-pca:1", NETWORK)),
    "yes/no that imply one another": Setting(implied, flipped, 0.03, BY_NETWORK),
    "clean": Setting(factors, share=0.0),
    "clean t3": Setting(t3, share=0.0),
    "clean not trusted": Setting(factors, share=0.0, trusted=0),
    "clean t3 not trusted": Setting(t3, share=0.0, trusted=0),
    "clean words not trusted": Setting(words, share=0.0, models=BY_NETWORK, trusted=0, words=True),
    "clean counts not trusted": Setting(counts, share=0.0, models=BY_NETWORK, trusted=0),
    "tenfold not trusted": Setting(factors, tenfold, 0.01, trusted=0),
    "shifts not trusted": Setting(factors, share=0.01, trusted=0),
    "many shifts not trusted": Setting(factors, share=0.01, trusted=0, rows=3000),
    "many t3 not trusted": Setting(t3, tenfold, 0.01, trusted=0, rows=3000),
    "clean Pareto not trusted": Setting(pareto, share=0.0, trusted=0),
    "many clean Pareto not trusted": Setting(pareto, share=0.0, trusted=0, rows=1000),
}


def spoilt(name: str, seed: int) -> Spoilt:
    """One table of a setting."""
    of, rng = SETTINGS[name], np.random.default_rng([seed, list(SETTINGS).index(name)])
    clean, known = of.draw(rng, of.rows), np.repeat(of.draw(rng, of.trusted), of.times, axis=0)
    again = rng.random(len(known)) < of.copies
    known[again] = known[rng.integers(max(1, len(known)), size=again.sum())]
    chosen = rng.random(clean.shape) < of.share
    chosen &= rng.random((len(clean), 1)) < of.some_rows
    table = of.spoil(rng, clean, chosen, known if len(known) else clean)
    wrong = table != clean
    if of.holes:
        holes = rng.random(table.shape) < of.holes
        holes[holes.all(axis=1), 0] = False
        table, wrong = np.where(holes, np.nan, table), wrong & ~holes
    given = [frame(x) if of.words else x for x in (table, known)]
    return Spoilt(given[0], given[1] if of.trusted else None, wrong)


def frame(x: np.ndarray) -> pandas.DataFrame:
    """Codes as words."""
    return pandas.DataFrame({f"c{j}": [f"w{int(code)}" for code in column] for j, column in enumerate(x.T)})
