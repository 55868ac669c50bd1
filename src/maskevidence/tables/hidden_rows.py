"""The evidence of a model class: the tokens are a data set's rows, predicted from the visible rows.

With posterior predictives p(y_j | x_j, visible rows) as conditionals, the sum over sizes is log p(y | x) with
the parameters integrated out. A maker is a function of the rows x that returns a model with these
conditionals.

Source:
    Fong and Holmes (2020), On the marginal likelihood and cross-validation, Biometrika 107, Proposition 2.
"""

import math
from collections.abc import Callable, Collection, Iterable
from copy import copy
from dataclasses import fields, replace
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float, Float64, Int64
from torch import Tensor

from maskevidence.core.errors import InputError, unknown_name
from maskevidence.core.evidence.precise import estimate_evidence
from maskevidence.core.evidence.result import MASKS_ALONE, EvidenceOfRows
from maskevidence.core.masks.design import MaskDesign
from maskevidence.core.masks.design_words import as_design
from maskevidence.core.masks.orders import LogSizes
from maskevidence.core.model import DENSITY, MASS, Conditionals, base_measure_of
from maskevidence.core.scores.score_masks import check_first_batch
from maskevidence.core.tokens import Tokens, called, column_names, without_mask

_Rows = Any  # the x of a maker: an array, a list or a data frame of N rows, or None
_Numbers = Float64[np.ndarray, " _"]
Predict = Callable[[_Rows, _Numbers, _Rows, _Numbers], _Numbers]
CODE_LENGTH = (
    "these predictions are of no Bayesian model: minus the number is a prequential code length, on average "
    "over orders of the rows, and not an evidence with the parameters integrated out"
)


class RowsModel:
    """A model whose tokens are rows, from a function that predicts hidden rows from the visible ones.

    Args:
        predict: predict(x_visible, y_visible, x_hidden, y_hidden) gives log p(y_j | x_j, visible rows) of
            each hidden row, shape (n_hidden,), nats. It is called without visible rows, too. An entry of
            y_hidden is for the density of its own row alone.
        conditionals: "exact" if these are the posterior predictives of a Bayesian model, "approximate" if
            they approximate them, "learned" if parameters are plugged in: minus the sum is then a prequential
            code length.
        base_measure: a density by default; `me.model.MASS` for classes.
        x: the rows, if they are known; `RowsModel(...)(x)` gives the model of other rows.

    Example:
        >>> import maskevidence as me
        >>> def one_more_head(x_visible, y_visible, x_hidden, y_hidden):  # Laplace's rule of succession
        ...     heads = (y_visible.sum() + 1) / (len(y_visible) + 2)
        ...     return np.log(np.where(y_hidden == 1, heads, 1 - heads))
        >>> maker = me.RowsModel(one_more_head, "exact", me.model.MASS)
        >>> result = me.evidence_of_rows(maker, None, [1, 0, 1, 1])
        >>> round(math.exp(result.log_evidence), 6)  # 3! 1! / 5!
        0.05
    """

    def __init__(
        self,
        predict: Predict,
        conditionals: Conditionals = "learned",
        base_measure: str = DENSITY,
        x: _Rows = None,
    ) -> None:
        if not callable(predict):
            raise InputError(
                f"predict={predict!r}; give a function predict(x_visible, y_visible, x_hidden, y_hidden)"
            )
        self.predict, self.conditionals, self.base_measure = predict, conditionals, _measure(base_measure)
        self.x = _rows(x)

    def __call__(self, x: _Rows) -> "RowsModel":
        """The model with other rows."""
        model = copy(self)
        model.x = _rows(x)
        return model

    def tokens(self, y: object) -> Tokens:
        """The responses of a data set as one observation; see `response_tokens`."""
        return y if isinstance(y, Tokens) else response_tokens(y)

    def log_conditionals(self, tokens: Tokens, masked: Bool[Tensor, "B N"]) -> Float[Tensor, "B N"]:
        """log p(y_j | x_j, visible rows), nats; 0 where `masked` is False."""
        _check_length(self.x, tokens.width)
        y, hidden = tokens.values.double().numpy(), masked.numpy()
        visible, answer = tokens.visible(masked).numpy(), np.zeros(hidden.shape)
        for row in np.flatnonzero(hidden.any(1)):
            answer[row, hidden[row]] = self._predicted(y[row], visible[row], hidden[row])
        return torch.from_numpy(answer)

    def _predicted(
        self, y: _Numbers, visible: Bool[np.ndarray, " N"], hidden: Bool[np.ndarray, " N"]
    ) -> _Numbers:
        """Call `predict` for one mask and check the shape of its answer."""
        seen, unseen = _taken(self.x, visible), _taken(self.x, hidden)
        answer = np.asarray(self.predict(seen, y[visible], unseen, y[hidden]), dtype=np.float64)
        if answer.shape != (int(hidden.sum()),):
            raise InputError(
                f"predict answers shape {answer.shape} for {int(hidden.sum())} hidden rows; give the "
                "log-probability of each of them"
            )
        return answer


class BayesianRegression(RowsModel):
    """Linear regression with coefficients and noise integrated out in closed form.

    y = x·w + ε, ε ~ N(0, σ²), w ~ N(0, σ²/precision), σ² ~ InverseGamma(shape, scale). A hidden row has
    Student's t distribution with 2·shape + n degrees of freedom. A column of ones in x is an intercept.

    Args:
        precision: of each coefficient's prior relative to 1/σ², above 0.
        shape: of the prior of σ².
        scale: of the prior of σ².

    Example:
        >>> import maskevidence as me
        >>> result = me.evidence_of_rows(me.models.BayesianRegression(), np.ones((3, 1)), [0.3, -0.2, 0.5])
        >>> from scipy.stats import multivariate_t
        >>> exact = multivariate_t(shape=np.eye(3) + 1.0, df=2).logpdf([0.3, -0.2, 0.5])
        >>> round(result.log_evidence, 4), round(float(exact), 4)
        (-3.5038, -3.5038)
    """

    def __init__(self, precision: float = 1.0, shape: float = 1.0, scale: float = 1.0) -> None:
        for name, value in (("precision", precision), ("shape", shape), ("scale", scale)):
            if not 0.0 < value < math.inf:
                raise InputError(f"{name}={value}; give a number above 0, such as 1.0")
        self.precision, self.shape, self.scale = precision, shape, scale
        super().__init__(self._predictive, "exact")

    def __call__(self, x: _Rows) -> "RowsModel":
        """The model of the rows x, shape (N, p)."""
        shape = "None" if x is None else f"of shape {np.shape(x)}"
        if np.ndim(x) != 2:
            raise InputError(
                f"x is {shape}; give N rows of p numbers, with a column of ones for an intercept"
            )
        rows = Tokens.from_array(x)
        if not bool(rows.maskable.all()):
            row, column = torch.nonzero(~rows.maskable)[0].tolist()
            raise InputError(
                f"x has no value in row {row}, column {called(column_names(x), column)}; fill it, or leave "
                "the row out"
            )
        return super().__call__(rows.values.numpy())

    def _posterior(self, x: Float64[np.ndarray, "n p"], y: _Numbers) -> tuple[Any, Any, float, float]:
        """The posterior of w (precision, mean) and of σ² (shape, scale)."""
        precision = x.T @ x + self.precision * np.eye(x.shape[1])
        mean = np.linalg.solve(precision, x.T @ y)
        return precision, mean, self.shape + len(y) / 2, self.scale + 0.5 * float(y @ y - mean @ x.T @ y)

    def _predictive(
        self, x_visible: _Rows, y_visible: _Numbers, x_hidden: _Rows, y_hidden: _Numbers
    ) -> _Numbers:
        from scipy import stats

        precision, mean, shape, scale = self._posterior(x_visible, y_visible)
        spread = 1 + np.einsum("np,pn->n", x_hidden, np.linalg.solve(precision, x_hidden.T))
        return stats.t.logpdf(y_hidden, 2 * shape, x_hidden @ mean, np.sqrt(scale / shape * spread))


class DirichletMultinomial(RowsModel):
    """A sequence of classes 0..K-1 with the class probabilities integrated out; x is ignored.

    p(k | visible) = (n_k + α_k)/(n + Σα). Two classes are the beta-Bernoulli model:
    DirichletMultinomial([b, a]) has the prior Beta(a, b) of class 1.

    Args:
        alpha: K numbers above 0, the prior counts of the classes.

    Example:
        >>> import maskevidence as me
        >>> result = me.evidence_of_rows(me.models.DirichletMultinomial([1, 1]), None, [1, 0, 1, 1])
        >>> round(math.exp(result.log_evidence), 6)
        0.05
    """

    def __init__(self, alpha: Collection[float]) -> None:
        self.alpha = np.array(list(alpha), dtype=np.float64)
        if len(self.alpha) < 2 or not (self.alpha > 0).all():
            raise InputError(
                f"alpha={self.alpha.tolist()}; give a number above 0 for each of 2 or more classes"
            )
        super().__init__(self._predictive, "exact", MASS)

    def _predictive(
        self, x_visible: _Rows, y_visible: _Numbers, x_hidden: _Rows, y_hidden: _Numbers
    ) -> _Numbers:
        counts = self.alpha + np.bincount(self._classes(y_visible), minlength=len(self.alpha))
        return np.log(counts / counts.sum())[self._classes(y_hidden)]

    def _classes(self, y: _Numbers) -> Int64[np.ndarray, " n"]:
        classes = y.astype(np.int64)
        wrong = (classes != y) | (classes < 0) | (classes >= len(self.alpha))
        if wrong.any():
            raise InputError(
                f"y has {y[wrong][0]:g}; with {len(self.alpha)} numbers in alpha, give classes 0 to "
                f"{len(self.alpha) - 1}"
            )
        return classes


class PosteriorDraws(RowsModel):
    """Any Bayesian model with a sampler: hidden rows are predicted by averaging over draws of the parameters.

    p(y_j | x_j, visible) = (1/S) Σ_s p(y_j | x_j, θ_s), θ_s from the posterior of the visible rows. Half of
    the relative variance of this mean is added to its logarithm, to correct the bias of first order. When an
    order shows more rows, draws are reused with weights w_s = p(these rows | θ_s) until (Σw)²/Σw² is below
    `reuse` times S. Each order has its own draws: `mask_se` of 4 orders or more includes their error, which
    `me.check_model(..., tolerance=)` has to allow for.

    Args:
        sample: sample(x_visible, y_visible, rng) gives S draws θ, an array with S as its first axis; without
            visible rows, draws of the prior. `rng` is a generator of numpy.
        log_likelihood: log_likelihood(θ, x, y) gives log p(y_j | x_j, θ_s), shape (S, n), nats.
        base_measure: a density by default; `me.model.MASS` for classes.
        reuse: a share in (0, 1]; 1 draws for each mask.
        seed: of the draws.

    Example:
        >>> sample = lambda x, y, rng: rng.beta(1 + y.sum(), 1 + (1 - y).sum(), 4000)
        >>> log_likelihood = lambda q, x, y: np.log(np.where(y == 1, q[:, None], 1 - q[:, None]))
        >>> import maskevidence as me
        >>> maker = me.models.PosteriorDraws(sample, log_likelihood, me.model.MASS)
        >>> result = me.evidence_of_rows(maker, None, [1, 0, 1, 1])
        >>> result.kind, bool(abs(result.log_evidence - np.log(0.05)) < 4 * result.mask_se)
        ('approximate', True)
    """

    def __init__(
        self,
        sample: Callable[[_Rows, _Numbers, np.random.Generator], Any],
        log_likelihood: Callable[[Any, _Rows, _Numbers], Float64[np.ndarray, "S n"]],
        base_measure: str = DENSITY,
        *,
        reuse: float = 0.5,
        seed: int = 0,
    ) -> None:
        if not 0.0 < reuse <= 1.0:
            raise InputError(f"reuse={reuse}; give a share in (0, 1], such as 0.5")
        self.conditionals, self.base_measure, self.x = "approximate", _measure(base_measure), None
        self.sample, self.log_likelihood, self.reuse, self.seed = sample, log_likelihood, reuse, seed
        self.n_drawn = self.n_masks = 0

    def batches(self, n_present: Int64[np.ndarray, " n"]) -> Iterable[Int64[np.ndarray, " n"]]:
        """All masks in one call, so that the masks of an order stay together."""
        return [np.arange(len(n_present))]

    def log_conditionals(self, tokens: Tokens, masked: Bool[Tensor, "B N"]) -> Float[Tensor, "B N"]:
        """log p(y_j | x_j, visible rows) by averaging over draws, nats; 0 where `masked` is False."""
        _check_length(self.x, tokens.width)
        y, hidden = tokens.values.double().numpy(), masked.numpy()
        visible, answer = tokens.visible(masked).numpy(), np.zeros(hidden.shape)
        for number, chain in enumerate(_chains(np.where(visible, y, np.nan))):
            rng, drawn = np.random.default_rng([self.seed, number]), None
            for row in chain:
                present = visible[row] | hidden[row]
                drawn = self._weighted(drawn, y[row], visible[row], present, rng)
                if hidden[row].any():
                    answer[row, hidden[row]] = _log_mean(*drawn[2:], hidden[row][present])
        self.n_masks += len(hidden)
        return torch.from_numpy(answer)

    def _weighted(
        self,
        drawn: tuple[Any, Any, Any, Any] | None,
        y: _Numbers,
        visible: Bool[np.ndarray, " N"],
        present: Bool[np.ndarray, " N"],
        rng: np.random.Generator,
    ) -> tuple[Any, Any, Any, Any]:
        """Reuse the draws with new weights, or draw again: draws, their rows, log p of all rows, log
        weights.
        """
        x = _taken(self.x, present)
        if drawn is not None:
            theta, seen, _, _ = drawn
            log_p = self._log_p(theta, x, y[present])
            log_w = log_p[:, (visible & ~seen)[present]].sum(1)
            if _effective(log_w) >= self.reuse * len(log_w):
                return theta, seen, log_p, log_w
        theta = self.sample(_taken(self.x, visible), y[visible], rng)
        log_p = self._log_p(theta, x, y[present])
        self.n_drawn += 1
        return theta, visible, log_p, np.zeros(len(log_p))

    def _log_p(self, theta: Any, x: _Rows, y: _Numbers) -> Float64[np.ndarray, "S n"]:
        log_p = np.asarray(self.log_likelihood(theta, x, y), dtype=np.float64)
        if log_p.ndim != 2 or log_p.shape[1] != len(y) or len(log_p) < 2:
            raise InputError(
                f"log_likelihood answers shape {log_p.shape} for {len(y)} rows; give (S, {len(y)}) with 2 or "
                "more draws S"
            )
        return log_p


def _chains(seen: Float64[np.ndarray, "B N"]) -> list[list[int]]:
    """Group consecutive masks with nested visible values into chains, fewest visible values first.

    Args:
        seen: shape (B, N); the visible values of each mask, NaN for the others.

    Example:
        >>> _chains(np.where([[0, 0], [1, 0], [0, 0], [0, 1], [1, 0]], 0.5, np.nan))
        [[0, 1], [2, 3], [4]]
    """
    chains, before = [[0]], 0
    for mask in range(1, len(seen)):
        last, this = seen[mask - 1 : mask + 1]
        grows, shrinks = (bool((np.isnan(a) | (a == b)).all()) for a, b in ((last, this), (this, last)))
        direction = int(grows) - int(shrinks)
        if (grows or shrinks) and direction * before >= 0:
            chains[-1].append(mask)
            before = direction or before
        else:
            chains.append([mask])
            before = 0
    return [sorted(chain, key=lambda mask: -int(np.isnan(seen[mask]).sum())) for chain in chains]


def _effective(log_w: _Numbers) -> float:
    """(Σw)²/Σw², the effective number of draws."""
    w = np.exp(log_w - log_w.max())
    return float(w.sum() ** 2 / (w**2).sum())


def _log_mean(log_p: Float64[np.ndarray, "S n"], log_w: _Numbers, hidden: Bool[np.ndarray, " n"]) -> _Numbers:
    """log Σ w p / Σ w, plus half of the relative variance of this mean."""
    w = np.exp(log_w - log_w.max())
    w /= w.sum()
    top = log_p[:, hidden].max(0)
    p = np.exp(log_p[:, hidden] - top)
    mean = w @ p
    return top + np.log(mean) + 0.5 * (w**2 @ (p / mean - 1) ** 2)


def evidence_of_rows(
    maker: Callable[[_Rows], Any],
    x: _Rows,
    y: object,
    design: MaskDesign | str | None = None,
    *,
    seed: int = 0,
) -> EvidenceOfRows:
    """The log evidence of a model class on a data set, by hiding rows: the parameters are integrated out.

    log p(y | x) = Σ_{M=1}^{N} S(y; M), where S(y; M) is the mean log predictive of one of M hidden rows. Two
    models of the same y with the same design and seed hide the same rows: `me.compare` subtracts them mask by
    mask, and `log_bayes_factor` has the error of that difference.

    Args:
        maker: called with x, it gives a model whose tokens are the rows: a `RowsModel`, one of the makers of
            `me.models`, or of `maskevidence.sklearn`.
        x: N rows: an array, a list or a data frame; None for models without.
        y: shape (N,), numbers or classes; NaN where a response is missing.
        design: how rows are hidden; by default `LogSizes(256, orders=4)`, which is the chain rule along 4
            orders for up to 256 rows. Where a fit is expensive, `LogSizes(64)` takes 64 of them.
        seed: of the masks.

    Returns:
        The evidence of the whole data set (`per_token` is per row), whose curve is the learning curve.

    Raises:
        InputError: x and y that do not fit each other, or answers of the model that cannot be used.

    Example:
        >>> import maskevidence as me
        >>> x = np.linspace(-1, 1, 20)[:, None]
        >>> line = me.evidence_of_rows(me.models.BayesianRegression(), x, x[:, 0] ** 2)
        >>> parabola = me.evidence_of_rows(me.models.BayesianRegression(), x**2, x[:, 0] ** 2)
        >>> difference = me.compare({"parabola": parabola, "line": line}).behind[0]
        >>> round(difference.log_bayes_factor, 1), difference.log_bayes_factor_se
        (9.9, 0.0)
    """
    if not callable(maker):
        raise InputError(f"maker={maker!r}; give a maker such as me.models.BayesianRegression()")
    tokens = response_tokens(y)
    x = _rows(x)
    _check_length(x, tokens.width)
    design = as_design(LogSizes(256, orders=4) if design is None else design).design
    model = maker(x)
    _refuse_words(y, model)
    check_first_batch(model, _with_other_responses(tokens), design)
    model = maker(x)
    estimate = estimate_evidence(model, tokens, design, seed=seed, check=False)
    notes = list(estimate.notes)
    if estimate.conditionals == "learned":
        notes.append(CODE_LENGTH)
    if isinstance(model, PosteriorDraws):
        notes = [note for note in notes if note != MASKS_ALONE]
        notes.append(
            f"the posterior was sampled {model.n_drawn:,} times for {model.n_masks:,} masks; the "
            "other masks reuse weighted draws; mask_se includes the error of the draws"
        )
    values = {field.name: getattr(estimate, field.name) for field in fields(estimate)}
    return EvidenceOfRows(**values | {"notes": tuple(notes)})


def response_tokens(y: object) -> Tokens:
    """The responses of N rows as one observation of N tokens; words become positions in the sorted classes.

    Example:
        >>> response_tokens(["no", "yes", "no"]).values.tolist()
        [[0.0, 1.0, 0.0]]
    """
    array = np.asarray(without_mask(y))
    if array.ndim != 1 or array.size == 0:
        raise InputError(f"y has shape {array.shape}; give one number or class for each row, shape (N,)")
    words = _words_of(y)
    if words:
        position = {
            word: float(code)
            for code, word in enumerate(sorted({word for word in words if word is not None}))
        }
        array = np.array([math.nan if word is None else position[word] for word in words])
    return Tokens.from_array(array[None])


def _words_of(y: object) -> list[str | None]:
    """Responses as words, with None for missing ones; an empty list if the responses are numbers."""
    # numpy would write NaN in a list of words as "nan"
    cells = np.asarray(without_mask(y), dtype=object if isinstance(y, list | tuple) else None)
    if cells.dtype.kind not in "OU":
        return []
    words = [None if _no_word(cell) else cell for cell in cells.tolist()]
    present = [word for word in words if word is not None]
    return words if present and all(isinstance(word, str) for word in present) else []


def _no_word(cell: object) -> bool:
    """Whether a cell marks a missing value: None, NaN or NA."""
    return not isinstance(cell, str) and str(cell) in ("None", "nan", "<NA>", "NaT")


def _refuse_words(y: object, model: object) -> None:
    """Refuse words with a model of numbers, which would read their positions as numbers."""
    word = next(filter(None, _words_of(y)), None)
    if word is not None and base_measure_of(model) != MASS:
        raise InputError(
            f"y holds text, such as {word!r}, which stands for classes, and {type(model).__name__} predicts "
            f"numbers; give numbers, or a model of classes, whose base_measure is {MASS!r}"
        )


def _with_other_responses(tokens: Tokens) -> Tokens:
    """The data set twice, the second time with responses rolled by one row, so that a leak shows."""
    ids = torch.arange(2)
    return replace(tokens[ids * 0], values=torch.cat([tokens.values, tokens.values.roll(1, 1)]), ids=ids)


def _measure(word: str) -> str:
    """A base measure, which is a mass or a density."""
    if word != MASS and not word.startswith("density per "):
        raise unknown_name("base_measure", word, (MASS, DENSITY))
    return word


def _rows(x: _Rows) -> _Rows:
    """Rows as an array with NaN for masked entries; a data frame is returned as it is."""
    if x is None or hasattr(x, "iloc"):
        return x
    rows = np.asarray(without_mask(x))
    if rows.ndim < 1 or rows.dtype.kind == "c":
        raise InputError(f"x is {rows.dtype} of shape {rows.shape}; give a row of numbers for each response")
    return rows


def _taken(x: _Rows, rows: Bool[np.ndarray, " N"]) -> _Rows:
    """Select rows of an array or a data frame."""
    if x is None:
        return None
    return x[rows] if isinstance(x, np.ndarray) else x.iloc[np.flatnonzero(rows)]


def _check_length(x: _Rows, n_rows: int) -> None:
    if x is not None and len(x) != n_rows:
        raise InputError(f"x has {len(x)} rows and y has {n_rows}; give a response for each row")
