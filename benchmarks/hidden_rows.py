"""The evidence of a model class, by hiding rows: beside closed forms, importance sampling and dynesty.

    python benchmarks/hidden_rows.py [--sets 200] [--choices 40]

All data sets have 200 rows. Linear regressions have a normal-inverse-gamma prior over coefficients and noise,
3 of up to 7 regressors matter; Gaussian processes have a fixed kernel and noise. Seconds are CPU time on one
thread. Importance sampling draws parameters from a Student's t distribution about the posterior's mode, which
takes the density of the prior and an optimiser; dynesty (500 live points) runs where it is installed.

- Closed forms: the chain rule along an order, which takes a fit for each row.
- Few fits: `LogSizes` with 64 and 128 fits; bias, error and coverage of 95 % intervals over data sets.
- Choices: how often 64 fits choose the kernel or the number of regressors that the data were drawn with.
  Plug-in fits are least squares with a normal density, 8 orders.
- Draws: a logistic regression of 4 coefficients by draws of its posterior, 4 orders.
"""

import os
import sys
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

from _timing import Target, arguments, finish, is_quick, machine, show, timed

os.environ["OMP_NUM_THREADS"] = "1"

# isort: split
import numpy as np
import torch
from scipy import optimize, special, stats
from sklearn.gaussian_process import GaussianProcessRegressor, kernels

import maskevidence as me
from maskevidence.core.support.progress import progress
from maskevidence.models import BayesianRegression, DirichletMultinomial, PosteriorDraws
from maskevidence.sklearn import GaussianProcessRows

ROWS = 200
USED = np.array([1.0, -0.7, 0.4])
NOISE = kernels.WhiteKernel(0.25)
KERNELS = {
    "RBF, 0.3": kernels.RBF(0.3) + NOISE,
    "RBF, 1": kernels.RBF(1.0) + NOISE,
    "Matérn 1/2": kernels.Matern(1.0, nu=0.5) + NOISE,
    "Matérn 3/2": kernels.Matern(1.0, nu=1.5) + NOISE,
    "periodic": kernels.ExpSineSquared(1.0, 1.0) + NOISE,
    "linear": kernels.DotProduct() + NOISE,
}
Set = tuple[Any, Any, np.ndarray, float]  # a maker, x, y and the closed form of log p(y | x)


def regression(seed: int, p: int = 6) -> Set:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(ROWS, 7))
    y = x[:, :3] @ USED + rng.normal(size=ROWS)
    x = x[:, :p]
    exact = stats.multivariate_t(shape=np.eye(ROWS) + x @ x.T, df=2).logpdf(y)
    return BayesianRegression(), x, y, float(exact)


def process(kernel: Any, x: np.ndarray, y: np.ndarray) -> Set:
    regressor = GaussianProcessRegressor(kernel, optimizer=None)
    return GaussianProcessRows(regressor), x, y, float(regressor.fit(x, y).log_marginal_likelihood())


def gaussian_process(seed: int, name: str = "RBF, 0.3") -> Set:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(ROWS, 1))
    return process(KERNELS[name], x, np.linalg.cholesky(KERNELS[name](x)) @ rng.normal(size=ROWS))


def coin(seed: int) -> Set:
    y = (np.random.default_rng(seed).random(ROWS) < 0.3).astype(float)
    exact = special.betaln(1 + y.sum(), 1 + ROWS - y.sum()) - special.betaln(1, 1)
    return DirichletMultinomial([1.0, 1.0]), None, y, float(exact)


SETS: dict[str, Callable[[int], Set]] = {
    "beta-Bernoulli": coin,
    "regression, 1 regressor": lambda seed: regression(seed, 1),
    "regression, 3 regressors": lambda seed: regression(seed, 3),
    "regression, 6 regressors": lambda seed: regression(seed, 6),
    "Gaussian process, RBF 0.3": gaussian_process,
}


def closed_forms(targets: list[Target]) -> list[tuple[str, ...]]:
    rows = []
    for name, draw in SETS.items():
        maker, x, y, exact = draw(0)
        result, seconds = timed(lambda m=maker, x=x, y=y: me.evidence_of_rows(m, x, y, me.LogSizes(ROWS)))
        difference = abs(result.log_evidence - exact)
        targets.append(Target(f"{name}: difference from the closed form", difference, high=1e-6))
        rows.append((name, f"{exact:.4f}", f"{difference:.1e}", f"{seconds:.2f}"))
    return rows


def few_fits(n_sets: int, targets: list[Target]) -> tuple[list[tuple[str, ...]], dict[str, Any]]:
    rows, numbers = [], {}
    for name, draw in SETS.items():
        for design in (me.RandomSize(64), me.LogSizes(64), me.LogSizes(128)):
            errors, stated, covered = [], [], 0
            with progress(f"{name}, {design}", n_sets) as advance:
                for seed in range(n_sets):
                    maker, x, y, exact = draw(seed)
                    result = me.evidence_of_rows(maker, x, y, design, seed=seed)
                    errors.append(result.log_evidence - exact)
                    if result.mask_se is not None:
                        low, high = result.interval()
                        covered += low < exact < high
                        stated.append(result.mask_se)
                    advance(1)
            error = np.array(errors)
            fits = result.n_masks
            word = f"{design.name}:{fits}"
            bias = f"{error.mean():+.3f} ± {error.std(ddof=1) / np.sqrt(n_sets):.3f}" if n_sets > 1 else "–"
            known = bool(stated)
            shown = f"{np.sqrt(np.mean(np.square(stated))):.2f}" if known else "not known"
            coverage = covered / n_sets
            rows.append((name, word, bias, f"{error.std():.2f}", shown, f"{coverage:.1%}" if known else "–"))
            numbers[f"{name}, {word}"] = {"errors": error.tolist(), "stated": stated, "coverage": coverage}
            if known:
                targets.append(Target(f"{name}, {word}: coverage of 95 % intervals", coverage, low=0.93))
                if design.fits == 64:
                    targets.append(Target(f"{name}, {word}: error, nats", float(error.std()), high=0.3))
    return rows, numbers


def least_squares(x_visible: Any, y_visible: np.ndarray, x_hidden: Any, y_hidden: np.ndarray) -> np.ndarray:
    """A plug-in fit: maximum likelihood, or N(0, 2²) as long as it would be singular."""
    n, p = x_visible.shape
    if n < p + 2:
        return stats.norm.logpdf(y_hidden, 0.0, 2.0)
    w, *_ = np.linalg.lstsq(x_visible, y_visible, rcond=None)
    return stats.norm.logpdf(y_hidden, x_hidden @ w, np.sqrt(np.mean((y_visible - x_visible @ w) ** 2)))


def best(values: dict[Any, float]) -> Any:
    return max(values, key=lambda name: values[name])


def choices(n_sets: int, targets: list[Target]) -> list[tuple[str, ...]]:
    right: dict[str, dict[str, int]] = {"kernel": {}, "regressors": {}}

    def count(question: str, method: str, found: bool) -> None:
        right[question][method] = right[question].get(method, 0) + found

    for seed in range(n_sets):
        truth = list(KERNELS)[seed % len(KERNELS)]
        _, x, y, _ = gaussian_process(seed, truth)
        exact, ours = {}, {}
        for name, kernel in KERNELS.items():
            maker, _, _, exact[name] = process(kernel, x, y)
            ours[name] = me.evidence_of_rows(maker, x, y, me.LogSizes(64), seed=seed).log_evidence
        count("kernel", "closed form", best(exact) == truth)
        count("kernel", "64 fits", best(ours) == truth)
        exact, ours, plugged = {}, {}, {}
        for p in range(1, 8):
            maker, x, y, exact[p] = regression(seed, p)
            ours[p] = me.evidence_of_rows(maker, x, y, me.LogSizes(64), seed=seed).log_evidence
            maker = me.RowsModel(least_squares)
            plugged[p] = me.evidence_of_rows(maker, x, y, me.LogSizes(64, 8), seed=seed).log_evidence
        for method, values in (("closed form", exact), ("64 fits", ours), ("plug-in fits", plugged)):
            count("regressors", method, best(values) == 3)
    for question, found in right.items():
        name = f"{question}: right by the closed form less by 64 fits, of {n_sets}"
        targets.append(Target(name, found["closed form"] - found["64 fits"], high=0.05 * n_sets))
    return [
        (
            question,
            *(
                f"{found[m]} of {n_sets}" if m in found else "–"
                for m in ("closed form", "64 fits", "plug-in fits")
            ),
        )
        for question, found in right.items()
    ]


def log_joint_of_regression(x: np.ndarray, y: np.ndarray) -> Callable[[np.ndarray], float]:
    """log p(y, w, log σ²) of `BayesianRegression()`."""

    def log_joint(theta: np.ndarray) -> float:
        w, log_s2 = theta[:-1], theta[-1]
        s = np.exp(0.5 * log_s2)
        of_rows = stats.norm.logpdf(y, x @ w, s).sum() + stats.norm.logpdf(w, 0.0, s).sum()
        return float(of_rows - log_s2 - np.exp(-log_s2))  # InverseGamma(1, 1), as a density of log σ²

    return log_joint


def log_joint_of_logistic(x: np.ndarray, y: np.ndarray) -> Callable[[np.ndarray], float]:
    """log p(y, w), w ~ N(0, I)."""
    sign = 2 * y - 1
    return lambda w: float(-np.logaddexp(0, -sign * (x @ w)).sum() + stats.norm.logpdf(w).sum())


def t_about_mode(log_joint: Callable[[np.ndarray], float], n_parameters: int) -> Any:
    found = optimize.minimize(lambda theta: -log_joint(theta), np.zeros(n_parameters), method="BFGS")
    return stats.multivariate_t(found.x, (found.hess_inv + found.hess_inv.T) / 2, df=5)


def importance(log_joint: Callable[[np.ndarray], float], n_parameters: int, n: int) -> tuple[float, float]:
    """log Z and its standard error."""
    proposal = t_about_mode(log_joint, n_parameters)
    theta = proposal.rvs(n, random_state=np.random.default_rng(0))
    log_w = np.array([log_joint(each) for each in theta]) - proposal.logpdf(theta)
    w = np.exp(log_w - log_w.max())
    return float(np.log(w.mean()) + log_w.max()), float(w.std() / w.mean() / np.sqrt(n))


def nested(log_likelihood: Callable[..., float], prior: Callable[..., Any], n: int) -> tuple[float, float]:
    """log Z and its standard error by dynesty."""
    import dynesty

    sampler = dynesty.NestedSampler(log_likelihood, prior, n, nlive=500, rstate=np.random.default_rng(0))
    sampler.run_nested(print_progress=False)
    return float(sampler.results.logz[-1]), float(sampler.results.logzerr[-1])


def beside(n: int, targets: list[Target]) -> list[tuple[str, ...]]:
    """The conjugate regression and a logistic regression by several methods."""
    _, x, y, exact = regression(0)
    ours, took = timed(lambda: me.evidence_of_rows(BayesianRegression(), x, y, me.LogSizes(ROWS)))
    (value, error), seconds = timed(lambda: importance(log_joint_of_regression(x, y), 7, n))
    rows = [
        ("regression", "closed form", f"{exact:.3f}", ""),
        ("regression", "hidden rows", f"{ours.log_evidence:.3f} ± {ours.mask_se:.3f}", f"{took:.2f}"),
        ("regression", "importance sampling", f"{value:.3f} ± {error:.3f}", f"{seconds:.2f}"),
    ]
    logistic, reference = logistic_regression(n)
    rows += logistic
    if find_spec("dynesty") is not None:

        def prior(u: np.ndarray) -> np.ndarray:
            s2 = stats.invgamma.ppf(u[-1], 1.0)
            return np.append(stats.norm.ppf(u[:-1]) * np.sqrt(s2), s2)

        def likelihood(theta: np.ndarray) -> float:
            return float(stats.norm.logpdf(y, x @ theta[:-1], np.sqrt(theta[-1])).sum())

        (value, error), seconds = timed(lambda: nested(likelihood, prior, 7))
        rows.append(("regression", "dynesty", f"{value:.3f} ± {error:.3f}", f"{seconds:.2f}"))
        targets.append(Target("regression: dynesty's seconds over ours", seconds / took, low=10))
        apart = abs(ours.log_evidence - value) / error
        targets.append(Target("regression: ours less dynesty's, in its error", apart, high=3))
        z, labels = logistic_data()
        sign = 2 * labels - 1
        (value, error), seconds = timed(
            lambda: nested(lambda w: float(-np.logaddexp(0, -sign * (z @ w)).sum()), stats.norm.ppf, 4)
        )
        rows.append(("logistic", "dynesty", f"{value:.3f} ± {error:.3f}", f"{seconds:.2f}"))
        apart = abs(reference.log_evidence - value) / np.hypot(error, reference.mask_se)
        targets.append(Target("logistic: ours less dynesty's, in both errors", float(apart), high=3))
    else:
        print("\ndynesty is not installed: its rows are left out", flush=True)
    return rows


def logistic_data() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(ROWS, 4))
    return x, (rng.random(ROWS) < special.expit(x @ [1.0, -0.7, 0.4, 0.0])).astype(float)


def draw_logistic(x: np.ndarray, y: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """1,000 draws of the posterior, by importance resampling."""
    if len(y) == 0:
        return rng.normal(size=(1_000, 4))
    mode, sign = np.zeros(4), 2 * y - 1
    for _ in range(8):  # Newton's steps
        p = special.expit(x @ mode)
        precision = x.T * (p * (1 - p)) @ x + np.eye(4)
        mode = mode + np.linalg.solve(precision, x.T @ (y - p) - mode)
    proposal = stats.multivariate_t(mode, np.linalg.inv(precision), df=5)
    w = proposal.rvs(4_000, random_state=rng)
    log_joint = -np.logaddexp(0, -sign * (w @ x.T)).sum(1) - 0.5 * (w**2).sum(1)
    weight = special.softmax(log_joint - proposal.logpdf(w))
    return w[rng.choice(len(w), 1_000, p=weight)]


def log_likelihood_of_logistic(w: np.ndarray, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return -np.logaddexp(0, -(2 * y - 1) * (w @ x.T))


def logistic_regression(n: int) -> tuple[list[tuple[str, ...]], Any]:
    x, y = logistic_data()
    (value, error), seconds = timed(lambda: importance(log_joint_of_logistic(x, y), 4, 10 * n))
    rows = [("logistic", "importance sampling", f"{value:.3f} ± {error:.3f}", f"{seconds:.2f}")]
    result, design = None, me.LogSizes(10 if is_quick() else ROWS, 4)
    for name, reuse in (("draws for each mask", 1.0), ("draws reused", 0.5)):
        maker = PosteriorDraws(draw_logistic, log_likelihood_of_logistic, me.model.MASS, reuse=reuse)
        result, took = timed(lambda m=maker: me.evidence_of_rows(m, x, y, design))
        fits = result.notes[-1].split("sampled ")[1].split()[0]
        shown = f"{result.log_evidence:.3f} ± {result.mask_se:.3f}"
        rows.append(("logistic", f"hidden rows, {name}: {fits} fits", shown, f"{took:.2f}"))
    return rows, result


def main() -> int:
    parser = arguments(__doc__.splitlines()[0])
    parser.add_argument("--sets", type=int, default=200, help="data sets for bias and coverage")
    parser.add_argument("--choices", type=int, default=40, help="data sets for choices")
    options = parser.parse_args()
    torch.set_num_threads(1)
    n_sets, n_choices, n = (2, 2, 500) if options.quick else (options.sets, options.choices, 20_000)
    print(machine(), flush=True)
    targets: list[Target] = []
    columns = ("model", "closed form, nats", "difference", "CPU seconds")
    show("A fit for each row, one order", columns, closed_forms(targets))
    columns = ("model", "method", "log evidence, nats", "CPU seconds")
    show("Beside samplers of the parameters", columns, beside(n, targets))
    columns = ("question", "closed form", "64 fits", "plug-in fits")
    show("Right choices", columns, choices(n_choices, targets))
    rows, numbers = few_fits(n_sets, targets)
    columns = ("model", "design", "bias, nats", "error", "stated error", "95 % intervals hold")
    show(f"Few fits, {n_sets} data sets of {ROWS} rows", columns, rows)
    return finish({"few fits": numbers}, targets, options.json)


if __name__ == "__main__":
    sys.exit(main())
