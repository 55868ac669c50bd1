"""Evidence by hidden rows: closed forms, enumeration, coverage, and makers that are wrong."""

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats
from scipy.special import betaln
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.gaussian_process import GaussianProcessRegressor, kernels
from sklearn.linear_model import BayesianRidge, LinearRegression, LogisticRegression

import maskevidence as me
from maskevidence.core.evidence.conditional_gains import ORDERS_DIFFER
from maskevidence.models import BayesianRegression, DirichletMultinomial, PosteriorDraws
from maskevidence.sklearn import FittedRows, GaussianProcessRows
from maskevidence.tables.hidden_rows import _log_mean
from refusals import one_line

MASS = me.model.MASS


def regression(n: int, p: int = 3, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, p))
    return x, x @ np.array([1.0, -0.7, 0.4, 0.0, 0.0, 0.0])[:p] + rng.normal(size=n)


def multivariate_t(x: np.ndarray, y: np.ndarray) -> float:
    """log p(y | x) of `BayesianRegression()`: Student's t with 2 degrees of freedom, shape I + x·x'."""
    return float(stats.multivariate_t(shape=np.eye(len(y)) + x @ x.T, df=2).logpdf(y))


class TestClosedForms:
    def test_regression(self) -> None:
        x, y = regression(200)
        result = me.evidence_of_rows(BayesianRegression(), x, y)
        assert abs(result.log_evidence - multivariate_t(x, y)) < 1e-6
        assert (result.kind, result.mask_se) == ("unbiased", 0.0)
        assert result.per_token == pytest.approx(result.log_evidence / 200)

    @pytest.mark.parametrize("fitted", [False, True])
    def test_gaussian_process(self, fitted: bool) -> None:
        x, y = regression(200, 1)
        kernel = 1.5 * kernels.RBF(0.7) + kernels.WhiteKernel(0.5)
        regressor = GaussianProcessRegressor(kernel, alpha=0.1, optimizer=None)
        expected = regressor.fit(x, y).log_marginal_likelihood()
        if not fitted:
            regressor = GaussianProcessRegressor(kernel, alpha=0.1, optimizer=None)
        result = me.evidence_of_rows(GaussianProcessRows(regressor), x, y, me.LogSizes(200))
        assert abs(result.log_evidence - expected) < 1e-6

    def test_beta_bernoulli(self) -> None:
        y = (np.random.default_rng(0).random(200) < 0.3).astype(int)
        result = me.evidence_of_rows(DirichletMultinomial([3.0, 0.5]), None, y)
        expected = betaln(0.5 + y.sum(), 3.0 + 200 - y.sum()) - betaln(0.5, 3.0)
        assert abs(result.log_evidence - expected) < 1e-6

    @pytest.mark.parametrize("design", ["exhaustive", "orderings:4,bound=importance"])
    def test_other_designs(self, design: str) -> None:
        x, y = regression(8)
        result = me.evidence_of_rows(BayesianRegression(), x, y, design)
        assert abs(result.log_evidence - multivariate_t(x, y)) < 1e-9

    def test_a_missing_response_is_left_out(self) -> None:
        x, y = regression(12)
        holes = np.where(np.arange(12) == 5, np.nan, y)
        result = me.evidence_of_rows(BayesianRegression(), x, holes)
        kept = np.arange(12) != 5
        assert abs(result.log_evidence - multivariate_t(x[kept], y[kept])) < 1e-9

    def test_words_are_classes_and_frames_are_rows(self) -> None:
        import pandas as pd

        x, y = regression(9)
        frame = pd.DataFrame(x, columns=["a", "b", "c"], index=list("ihgfedcba"))
        maker = FittedRows(BayesianRidge(), start=(0.0, 2.0))
        assert me.evidence_of_rows(maker, frame, y).log_evidence == pytest.approx(
            me.evidence_of_rows(maker, x, y).log_evidence
        )
        words = me.evidence_of_rows(DirichletMultinomial([1, 1]), None, ["no", "yes", "no"])
        assert words.log_evidence == pytest.approx(math.log(1 / 12))


def prequential(y: np.ndarray, order: tuple[int, ...]) -> float:
    """log p of a plug-in coin along an order: the share of heads so far, with half a head and half a tail."""
    total = 0.0
    for place, row in enumerate(order):
        heads = (y[list(order[:place])].sum() + 0.5 * (place < 2)) / (place + (place < 2))
        total += math.log(min(0.9, max(0.1, heads)) if y[row] else 1 - min(0.9, max(0.1, heads)))
    return total


def plug_in(x_visible: Any, y_visible: np.ndarray, x_hidden: Any, y_hidden: np.ndarray) -> np.ndarray:
    n = len(y_visible)
    heads = min(0.9, max(0.1, (y_visible.sum() + 0.5 * (n < 2)) / (n + (n < 2))))
    return np.log(np.where(y_hidden == 1, heads, 1 - heads))


class TestLearned:
    def test_a_plug_in_model_has_the_mean_over_all_orders(self) -> None:
        y = np.array([1, 0, 0, 1, 0])
        maker = me.RowsModel(plug_in, base_measure=MASS)
        result = me.evidence_of_rows(maker, None, y, "exhaustive")
        orders = [prequential(y, order) for order in itertools.permutations(range(5))]
        assert np.ptp(orders) > 0.1
        assert result.log_evidence == pytest.approx(np.mean(orders), abs=1e-9)
        assert result.kind == "lower_bound"
        assert any("prequential code length" in note for note in result.notes)

    def test_the_error_of_orders_that_differ_is_their_spread(self) -> None:
        y = (np.random.default_rng(3).random(30) < 0.3).astype(int)
        maker = me.RowsModel(plug_in, base_measure=MASS)
        few, many = (me.evidence_of_rows(maker, None, y, me.LogSizes(30, k)) for k in (1, 8))
        assert few.mask_se is None
        assert many.mask_se is not None
        exact = me.evidence_of_rows(maker, None, y, me.LogSizes(30, 400))
        assert abs(many.log_evidence - exact.log_evidence) < 4 * many.mask_se


def plug_in_normal(rest: float) -> Callable[..., np.ndarray]:
    """A normal distribution with the mean and spread of the visible rows, which is of no joint density."""

    def predict(x_visible: Any, y_visible: np.ndarray, x_hidden: Any, y_hidden: np.ndarray) -> np.ndarray:
        if len(y_visible) < 2:
            return stats.norm.logpdf(y_hidden, 0.0, 1.5)
        return stats.norm.logpdf(y_hidden, y_visible.mean(), y_visible.std() + rest)

    return predict


class TestOrdersThatDiffer:
    """A maker that calls itself exact and is not."""

    y = np.random.default_rng(0).normal(size=30)

    def evidence(self, conditionals: str, design: Any = None, rest: float = 0.3) -> Any:
        maker = me.RowsModel(plug_in_normal(rest), conditionals)
        return me.evidence_of_rows(maker, None, self.y, design)

    def test_the_error_is_their_spread(self) -> None:
        called_exact, learned = self.evidence("exact"), self.evidence("learned")
        assert called_exact.mask_se == learned.mask_se > 0.1
        assert called_exact.interval() == learned.interval()
        assert sum(note.startswith(ORDERS_DIFFER) for note in called_exact.notes) == 1

    def test_two_orders_have_no_interval(self) -> None:
        two = self.evidence("exact", me.LogSizes(30, orders=2))
        assert two.mask_se is None
        assert any(note.startswith(ORDERS_DIFFER) for note in two.notes)

    def test_a_bayes_factor_has_the_error_of_orders_that_differ(self) -> None:
        result = me.compare({str(rest): self.evidence("exact", rest=rest) for rest in (0.3, 0.5)})
        behind = result.behind[0]
        assert behind.pairing == "masks"
        assert behind.log_bayes_factor_se > 0.05
        learned = me.compare({str(rest): self.evidence("learned", rest=rest) for rest in (0.3, 0.5)})
        assert behind.interval() == learned.behind[0].interval()
        assert sum(ORDERS_DIFFER in note for note in result.notes) == 2

    def test_blocks_that_differ_more_than_they_gain(self) -> None:
        def shifted(xv: Any, yv: np.ndarray, xh: Any, yh: np.ndarray) -> np.ndarray:
            shift = 2.0 if len(yv) == 0 else 0.0  # on the rows that an order shows first
            return stats.norm.logpdf(yh, 0.0, 1.0) - shift * np.abs(yh)

        y = np.random.default_rng(0).normal(size=60)
        result = me.evidence_of_rows(me.RowsModel(shifted, "exact"), None, y, me.LogSizes(16, orders=4))
        assert any(note.startswith(ORDERS_DIFFER) for note in result.notes)
        assert result.mask_se > 0.1

    def test_right_blocks_do_not_differ(self) -> None:
        for seed in range(12):
            x, y = regression(60, 3, seed)
            result = me.evidence_of_rows(BayesianRegression(), x, y, me.LogSizes(16, orders=4), seed=seed)
            assert not any(note.startswith(ORDERS_DIFFER) for note in result.notes)


class TestFewFits:
    """64 and 128 fits of 200 rows: no bias, an honest error."""

    @staticmethod
    def errors(fits: int, n: int, n_sets: int, p: int = 3) -> tuple[np.ndarray, np.ndarray, float]:
        error, se, covered = [], [], 0
        for seed in range(n_sets):
            x, y = regression(n, p, seed)
            result = me.evidence_of_rows(BayesianRegression(), x, y, me.LogSizes(fits), seed=seed)
            exact, (low, high) = multivariate_t(x, y), result.interval()
            error.append(result.log_evidence - exact)
            se.append(result.mask_se)
            covered += low < exact < high
        return np.array(error), np.array(se), covered / n_sets

    @pytest.mark.slow
    def test_the_error_is_as_large_as_stated(self) -> None:
        error, se, coverage = self.errors(32, 60, 60)
        assert abs(error.mean()) < 3.5 * error.std() / math.sqrt(60)
        assert 0.7 < np.sqrt((error**2).mean() / (se**2).mean()) < 1.4
        assert coverage >= 0.85

    @pytest.mark.slow
    @pytest.mark.parametrize(("fits", "largest"), [(64, 0.55), (128, 0.25)])
    def test_intervals_hold(self, fits: int, largest: float) -> None:
        error, se, coverage = self.errors(fits, 200, 200)
        assert abs(error.mean()) < 3.5 * error.std() / math.sqrt(200)
        assert error.std() < largest
        assert 0.8 < np.sqrt((error**2).mean() / (se**2).mean()) < 1.25
        assert coverage >= 0.92

    def test_without_the_gains_blocks_would_be_too_low(self) -> None:
        """The correction is what makes it unbiased: the scores of the blocks alone lie below."""
        deficit = []
        for seed in range(20):
            x, y = regression(80, 6, seed)
            result = me.evidence_of_rows(BayesianRegression(), x, y, me.LogSizes(12), seed=seed)
            table, design = result.scores, me.LogSizes(12)
            weight = design.summation(table.n_tokens, table.draw, table.size).weight
            deficit.append(weight @ table.score - result.log_evidence)
        assert np.mean(deficit) < -1.0

    def test_a_bayes_factor_has_the_error_of_common_masks(self) -> None:
        x, y = regression(120, 4)
        estimates, exact = {}, {}
        for p in (3, 4):
            result = me.evidence_of_rows(BayesianRegression(), x[:, :p], y, me.LogSizes(40))
            estimates[str(p)], exact[str(p)] = result, multivariate_t(x[:, :p], y)
        behind = me.compare(estimates).behind[0]
        assert behind.pairing == "masks"
        assert behind.log_bayes_factor == pytest.approx(
            estimates[behind.first].log_evidence - estimates[behind.second].log_evidence, abs=1e-4
        )
        expected = exact[behind.first] - exact[behind.second]
        assert abs(behind.log_bayes_factor - expected) < 3.5 * behind.log_bayes_factor_se
        assert behind.log_bayes_factor_se < 0.6 * estimates["4"].mask_se
        low, high = behind.interval()
        assert low < expected < high
        assert behind.verdict == ("better" if low > 0 else "not told apart")
        assert "nats per data set" in str(me.compare(estimates).page().parts)
        assert "nats per data set; behind" in repr(me.compare(estimates))

    def test_more_orders_extend_a_run(self) -> None:
        x, y = regression(40)
        one, four = (
            me.evidence_of_rows(BayesianRegression(), x, y, me.LogSizes(12, orders=k)) for k in (1, 4)
        )
        common = me.compare({"one": one, "four": four}).behind[0]
        assert common.log_bayes_factor == pytest.approx(0.0, abs=1e-9)
        assert four.mask_se < one.mask_se


def coin_draws(n_draws: int = 400, **options: Any) -> PosteriorDraws:
    def sample(x: Any, y: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        return rng.beta(1 + y.sum(), 1 + (1 - y).sum(), n_draws)

    def log_likelihood(q: np.ndarray, x: Any, y: np.ndarray) -> np.ndarray:
        return np.log(np.where(y == 1, q[:, None], 1 - q[:, None]))

    return PosteriorDraws(sample, log_likelihood, MASS, **options)


class TestDraws:
    def test_the_error_of_the_draws_is_in_mask_se(self) -> None:
        y = (np.random.default_rng(0).random(24) < 0.3).astype(int)
        exact = betaln(1 + y.sum(), 25 - y.sum())
        z = []
        for seed in range(30):
            result = me.evidence_of_rows(coin_draws(seed=seed), None, y, me.LogSizes(24, 8), seed=seed)
            z.append((result.log_evidence - exact) / result.mask_se)
        assert result.kind == "approximate"
        assert abs(np.mean(z)) < 0.6
        assert 0.8 < np.std(z) < 1.7  # Student's t with 7 degrees of freedom has 1.18

    def test_draws_are_reused_until_they_collapse(self) -> None:
        y = (np.random.default_rng(0).random(40) < 0.3).astype(int)
        results = {}
        for reuse in (0.5, 1.0):
            results[reuse] = me.evidence_of_rows(coin_draws(reuse=reuse), None, y, me.LogSizes(40, 4))
        assert "sampled 160 times for 160 masks" in results[1.0].notes[-1]
        drawn = int(results[0.5].notes[-1].split("sampled ")[1].split()[0])
        assert 8 <= drawn < 60

    def test_draws_pass_the_check_of_two_rows_that_many_masks_get(self) -> None:
        y = (np.random.default_rng(0).random(120) < 0.3).astype(int)
        assert me.evidence_of_rows(coin_draws(), None, y, me.LogSizes(120, 4)).n_masks == 480

    def test_data_sets_share_no_draws(self) -> None:
        y = torch.tensor([[1.0] * 30, [0.0] * 30])
        tokens = me.Tokens.from_array(y)
        masked = torch.arange(30).expand(2, 30) >= torch.tensor([[28], [29]])  # nested, of other values
        answer = coin_draws(4000)(None).log_conditionals(tokens, masked)
        assert answer[1, -1] == pytest.approx(math.log(30 / 31), abs=0.01)

    def test_the_referee_passes_draws_within_their_error(self) -> None:
        y = (np.random.default_rng(0).random(20) < 0.3).astype(int)
        report = me.check_model(coin_draws(4000)(None), y, tolerance=0.05)
        assert report.ok, report


class Succession(ClassifierMixin, BaseEstimator):
    """An in-context classifier with the predictions of Laplace's rule, by `fit` and `predict_proba`."""

    def fit(self, x: np.ndarray, y: np.ndarray) -> "Succession":
        self.classes_ = np.array([0.0, 1.0])
        self.heads_ = (y.sum() + 1) / (len(y) + 2)
        return self

    def predict_proba(self, x: np.ndarray) -> np.ndarray:
        return np.tile([1 - self.heads_, self.heads_], (len(x), 1))


class BinnedPredictions:
    """An in-context regressor that answers as TabPFN does, with the predictions of `BayesianRegression`."""

    def fit(self, x: np.ndarray, y: np.ndarray) -> "BinnedPredictions":
        self.x, self.y = x, y
        return self

    def predict(self, x: np.ndarray, output_type: str = "mean") -> dict[str, Any]:
        assert output_type == "full"

        def nats(logits: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            return -torch.from_numpy(BayesianRegression().predict(self.x, self.y, logits.numpy(), y.numpy()))

        return {"logits": torch.from_numpy(x), "criterion": nats}


class TestEstimators:
    def test_an_exact_classifier_in_context(self) -> None:
        x, y = np.zeros((30, 1)), (np.random.default_rng(0).random(30) < 0.3).astype(int)
        maker = FittedRows(Succession(), classes=[0, 1], at_least=0, smoothing=0, conditionals="exact")
        result = me.evidence_of_rows(maker, x, y)
        assert abs(result.log_evidence - betaln(1 + y.sum(), 31 - y.sum())) < 1e-9
        assert me.check_model(maker(x), y).ok

    def test_an_exact_regressor_in_context(self) -> None:
        x, y = regression(30)
        result = me.evidence_of_rows(FittedRows(BinnedPredictions(), at_least=0, conditionals="exact"), x, y)
        assert abs(result.log_evidence - multivariate_t(x, y)) < 1e-9

    def test_a_plug_in_classifier_prefers_the_column_that_tells(self) -> None:
        rng = np.random.default_rng(0)
        x = rng.normal(size=(80, 2))
        y = (x[:, 0] + 0.3 * rng.normal(size=80) > 0).astype(int)
        maker = FittedRows(LogisticRegression(), classes=[0, 1])
        results = [me.evidence_of_rows(maker, x[:, [k]], y, me.LogSizes(16, orders=4)) for k in (0, 1)]
        behind = me.compare(results).behind[0]
        assert behind.difference > 5 * behind.mask_se
        assert behind.first == "1"

    def test_every_hidden_class_has_a_mass(self) -> None:
        maker = FittedRows(LogisticRegression(), classes=[0, 1, 2])
        model = maker(regression(6, 1)[0])
        report = me.check_model(model, [0, 0, 1, 1, 1, 2])
        assert report["normalisation"].status == "passed", report
        assert report["leak"].status == "passed"


def peeks(x_visible: Any, y_visible: np.ndarray, x_hidden: Any, y_hidden: np.ndarray) -> np.ndarray:
    return stats.norm.logpdf(y_hidden, y_hidden.mean(), 1.0)  # standardised with hidden rows


def by_place(x_visible: Any, y_visible: np.ndarray, x_hidden: Any, y_hidden: np.ndarray) -> np.ndarray:
    return stats.norm.logpdf(y_hidden, 0.5 * np.roll(y_hidden, 1) * (np.arange(len(y_hidden)) > 0), 1.0)


def not_normalised(x_visible: Any, y_visible: np.ndarray, x_hidden: Any, y_hidden: np.ndarray) -> np.ndarray:
    return -0.5 * y_hidden**2


def last_row_counts_most(x_visible: Any, y_visible: np.ndarray, *hidden: Any) -> np.ndarray:
    return stats.norm.logpdf(hidden[1], y_visible[-1] if len(y_visible) else 0.0, 1.0)


class TestReferee:
    """`check_model` reads a model of rows as any other."""

    @pytest.mark.parametrize(
        ("predict", "conditionals", "check"),
        [
            (peeks, "exact", "leak"),
            (by_place, "exact", "leak"),
            (not_normalised, "learned", "normalisation"),
            (last_row_counts_most, "exact", "orders"),
        ],
    )
    def test_a_wrong_maker_is_caught(
        self, predict: Callable[..., Any], conditionals: Any, check: str
    ) -> None:
        model = me.RowsModel(predict, conditionals)(None)
        report = me.check_model(model, regression(12)[1])
        assert report[check].status == "failed", report

    @pytest.mark.parametrize("predict", [peeks, by_place])
    def test_evidence_refuses_a_maker_that_peeks(self, predict: Callable[..., Any]) -> None:
        with pytest.raises(me.InputError, match="only visible ones may be read"):
            me.evidence_of_rows(me.RowsModel(predict), None, regression(60)[1])

    def test_a_right_maker_passes(self) -> None:
        x, y = regression(12)
        assert me.check_model(BayesianRegression()(x), y).ok
        assert me.check_model(DirichletMultinomial([1, 2])(None), [0, 1, 1, 0, 1]).ok


X, Y = regression(6)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: me.evidence_of_rows(BayesianRegression(), X[:5], Y), "x has 5 rows and y has 6"),
        (lambda: me.evidence_of_rows(BayesianRegression(), X, Y[:, None]), "y has shape (6, 1)"),
        (lambda: me.evidence_of_rows(BayesianRegression(), X, []), "y has shape (0,)"),
        (lambda: me.evidence_of_rows(BayesianRegression(), X, Y * np.inf), "infinite"),
        (lambda: me.evidence_of_rows("ridge", X, Y), "maker='ridge'"),
        (lambda: me.evidence_of_rows(BayesianRegression(), None, Y), "x is None"),
        (lambda: me.evidence_of_rows(BayesianRegression(), X[:, 0], Y), "x is of shape (6,)"),
        (lambda: me.evidence_of_rows(BayesianRegression(), X, Y, "log-sizes:1"), "fits=1"),
        (lambda: BayesianRegression(precision=0.0), "precision=0.0"),
        (lambda: DirichletMultinomial([1.0]), "alpha=[1.0]"),
        (lambda: me.evidence_of_rows(DirichletMultinomial([1, 1]), None, [0, 1, 2]), "y has 2"),
        (lambda: me.RowsModel(3), "predict=3"),
        (
            lambda: me.evidence_of_rows(me.RowsModel(lambda *rows: np.zeros(2)), None, Y),
            "predict answers shape (2,)",
        ),
        (
            lambda: me.evidence_of_rows(
                PosteriorDraws(lambda *rows: np.zeros(3), lambda t, x, y: np.zeros(3)), None, Y
            ),
            "log_likelihood answers shape (3,)",
        ),
        (lambda: coin_draws(reuse=0.0), "reuse=0.0"),
        (lambda: GaussianProcessRows(GaussianProcessRegressor()), "is not fixed"),
        (lambda: GaussianProcessRows(BayesianRidge()), "is not fixed"),
        (
            lambda: GaussianProcessRows(GaussianProcessRegressor(optimizer=None, normalize_y=True)),
            "normalize_y=True",
        ),
        (
            lambda: me.evidence_of_rows(
                GaussianProcessRows(GaussianProcessRegressor(optimizer=None)),
                [0.0, 1.0, 2.0],
                [0.0, 1.0, 1.0],
            ),
            "x is of shape (3,); give N rows of p numbers",
        ),
        (lambda: me.estimate_evidence("ppca:3", X), "'ppca:3' is a word; give a model"),
        (lambda: FittedRows(BayesianRidge()), "start=None"),
        (lambda: FittedRows(LogisticRegression()), "classes=None"),
        (lambda: FittedRows(LogisticRegression(), classes=["no", "yes"]), "list all numbers"),
        (lambda: FittedRows(LogisticRegression(), classes=[0, 1], smoothing=0), "smoothing=0"),
        (lambda: FittedRows(3), "neither predict_proba nor predict"),
        (lambda: FittedRows(LinearRegression()), "neither predict_proba nor predict"),
        (
            lambda: me.evidence_of_rows(
                FittedRows(LogisticRegression(), classes=[0, 1]), X, [0, 1, 2, 0, 1, 1]
            ),
            "y has values beyond classes",
        ),
    ],
)
def test_bad_input_has_one_line(call: Callable[[], object], message: str) -> None:
    one_line(call, message)


def test_the_picture_is_a_learning_curve() -> None:
    x, y = regression(30)
    result = me.evidence_of_rows(BayesianRegression(), x, y)
    lines, title = result.picture()
    assert lines.x_label == "visible rows"
    assert lines.lines[0].x.tolist() == list(range(30))
    assert lines.lines[0].y[-5:].mean() > lines.lines[0].y[0]
    assert lines.lines[0].bands
    assert title.endswith("nats per data set (± 0.00 masks)")
    assert repr(result).startswith("EvidenceOfRows(")
    assert "row" in str(result._repr_html_())


@pytest.mark.parametrize("weighted", [False, True])
def test_the_log_of_a_mean_of_few_draws_is_unbiased_to_first_order(weighted: bool) -> None:
    """20 draws with E p = 1 and Var p = 1: log of their mean is too small by 1/40, with weights by more."""
    rng, found = np.random.default_rng(0), []
    for _ in range(1_000):
        log_p = np.log(rng.exponential(size=(20, 20)))
        log_w = rng.normal(size=20) * 0.5 * weighted
        found.append(_log_mean(log_p, log_w, np.ones(20, dtype=bool)))
    error = np.std(np.mean(found, axis=1)) / math.sqrt(1_000)
    assert error < 0.0025
    assert abs(np.mean(found)) < 0.004 + 3 * error


class TestResponses:
    def test_the_mask_of_a_masked_array_counts(self) -> None:
        """A masked 999 was read as the response."""
        x, y = regression(12)
        mask = np.arange(12) == 5
        expected = me.evidence_of_rows(BayesianRegression(), x, np.where(mask, np.nan, y)).log_evidence
        masked = np.ma.masked_array(np.where(mask, 999.0, y), mask)
        assert me.evidence_of_rows(BayesianRegression(), x, masked).log_evidence == expected
        whole = np.ma.masked_array(np.where(mask, 999, (10 * y).round()).astype(int), mask)
        holed = np.where(mask, np.nan, (10 * y).round())
        maker = BayesianRegression()
        assert me.evidence_of_rows(maker, x, whole).log_evidence == pytest.approx(
            me.evidence_of_rows(maker, x, holed).log_evidence
        )
        coin = DirichletMultinomial([1, 1])
        words = np.ma.masked_array(["no", "yes", "?", "no"], [False, False, True, False])
        for given in (words, ["no", "yes", None, "no"], ["no", "yes", math.nan, "no"]):
            assert me.evidence_of_rows(coin, None, given).log_evidence == pytest.approx(
                me.evidence_of_rows(coin, None, [0, 1, math.nan, 0]).log_evidence
            )
        rows = np.ma.masked_array(x, np.arange(36).reshape(12, 3) == 4)
        for hidden in (rows, rows.filled(np.nan)):  # 0 stood for them
            with pytest.raises(me.InputError, match="x has no value in row 1, column 1; fill it, or leave"):
                me.evidence_of_rows(maker, hidden, y)
        seen = []
        me.evidence_of_rows(
            me.RowsModel(lambda a, b, c, d: (seen.append(c), np.zeros(len(d)))[1]), rows, y, "leave-one-out"
        )
        assert any(np.isnan(each).any() for each in seen)

    def test_text_is_no_number(self) -> None:
        """The ranks of "15", "5" in the alphabet were regressed."""
        x, y = regression(12)
        text = [str(round(10 * value)) for value in y]
        for maker in (BayesianRegression(), FittedRows(BayesianRidge(), start=(0.0, 1.0))):
            for given in (text, np.array(text), np.array(text, dtype=object)):
                with pytest.raises(
                    me.InputError, match=r"y holds text, such as '.*', which stands for classes"
                ):
                    me.evidence_of_rows(maker, x, given)

    def test_a_probability_in_place_of_its_logarithm_is_refused(self) -> None:
        """36 nats of "unbiased" evidence for 40 tosses of a coin."""
        chances = me.RowsModel(lambda a, b, c, d: np.full(len(d), 0.9), "exact", MASS)
        with pytest.raises(
            me.InputError, match=r"is 0\.9 for token .*: the logarithm of a probability mass is"
        ):
            me.evidence_of_rows(chances, None, [0, 1] * 20)

        class Chances:
            conditionals, base_measure = "exact", MASS

            def log_conditionals(self, tokens: me.Tokens, masked: torch.Tensor) -> torch.Tensor:
                return 1e-3 * masked

        for design in (me.EverySize(1), me.RandomSize(8), me.LeaveOneOut(), me.Exhaustive()):
            with pytest.raises(me.InputError, match=r"is 0\.001 for token"):
                me.estimate_evidence(Chances(), np.zeros((4, 3)), design)
        with pytest.raises(me.InputError, match=r"is 0\.001 for token"):
            me.score_masks(Chances(), np.zeros((1, 3)), torch.tensor([[True, False, False]]))
        almost = Chances()
        almost.log_conditionals = lambda tokens, masked: 1e-9 * masked  # rounding
        assert me.estimate_evidence(almost, np.zeros((4, 3))).log_evidence == pytest.approx(0, abs=1e-8)
        almost.base_measure = me.model.DENSITY
        almost.log_conditionals = lambda tokens, masked: 3.0 * masked
        assert me.estimate_evidence(almost, np.zeros((4, 3))).log_evidence == pytest.approx(9)
