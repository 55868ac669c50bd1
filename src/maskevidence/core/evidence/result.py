"""An estimate of the log evidence with its errors, computed from a record of scores."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain
from typing import Any, ClassVar, Literal

import numpy as np
from jaxtyping import Float64, Integer

from maskevidence.core.errors import InputError
from maskevidence.core.evidence import bounds
from maskevidence.core.evidence.bounds import Bracket, OrderSpread
from maskevidence.core.evidence.curve import LOW_RATE, ONE_RATE, Curve, curve_from_scores, curve_lines
from maskevidence.core.evidence.score_means import curves_of, errors_of_rows, mean_of_scores
from maskevidence.core.evidence.standard_errors import MeanWithErrors, Tails
from maskevidence.core.masks.design import MaskDesign, MaskKey, Masks, lengths_of
from maskevidence.core.masks.sizes import LeaveOneOut
from maskevidence.core.model import MASS, Conditionals
from maskevidence.core.scores.record import Scores, ScoreTable
from maskevidence.core.show import words
from maskevidence.core.show.arviz import log_likelihood_tree
from maskevidence.core.show.draw import plot
from maskevidence.core.show.parts import Page, Table
from maskevidence.core.show.pictures import Line, Lines
from maskevidence.core.show.shown import Columns, Shown
from maskevidence.core.support.provenance import origin

Rows = Mapping[str, Any]  # columns by name; None for one that an estimate lacks
EstimateKind = Literal["exact", "unbiased", "approximate", "lower_bound", "pseudo", "mixture", "policy"]
MASKS_ALONE = "mask_se and its interval show the error of the masks, not that of the approximate conditionals"
ABOVE_ZERO = "the interval reaches above 0, the largest value that a log-probability can have: too few masks"
MANY_ROWS, MOST_VARIANCE = 20, 0.5  # limits above which a note names the worst observation
EQUAL_REPLICATES = "all replicates of the masks gave the same number, which can be chance"


@dataclass(frozen=True)
class HowScored:
    """The settings behind the scores of a model."""

    design: MaskDesign
    key: MaskKey
    conditionals: Conditionals = "learned"  # the model's attribute; it determines the kind
    # the base measure of log-probabilities: a probability mass, or a density and its unit; None if the model
    # has no such attribute
    base_measure: str | None = None


@dataclass(frozen=True, repr=False)
class EvidenceEstimate(Shown):
    """An estimate of the log evidence with its errors; nats per observation unless a name says otherwise.

    Attributes:
        log_evidence: Σ over sizes of the score, averaged over observations (Eq. 2).
        mask_se: Monte-Carlo standard error of the masks, given these observations; None if the design has
            too few independent masks to know it, 0 if every mask was scored.
        mask_df: degrees of freedom of mask_se; None if unknown or infinite.
        data_se: sampling standard error of the observations, for the mean over their population; None for
            a single observation, and if mask_se is too large to resolve it.
        kind: what the number is: "exact", "unbiased", "approximate", "lower_bound", "pseudo", "mixture"
            or "policy".
        n_observations: number of scored observations.
        n_tokens: total number of their tokens.
        n_bytes: total number of bytes of their text; None without text.
        n_model_calls: number of calls of the model.
        how: the design, the seed and the conditionals behind the scores, and what these are relative to.
        ids: shape (n_observations,); the observations, in ascending order.
        per_observation: shape (n_observations,); the estimated log evidence of each observation, nats.
        record: the scores, some observations at a time; for a saved run they are read from its files.
        notes: facts that qualify the numbers, one sentence each.
        no_interval: why there is no interval; None if an interval exists.
        tails: d/n of standard_errors.py, nats per observation: how much lower and higher masks too rare to
            be drawn may make the mean, per unit of -log(1 - level); 0 for light tails.
        data_fingerprint: hash of the data, from `Tokens.fingerprint`; None where it is unknown.
        text_fingerprint: hash of the texts that the tokens were cut from; None where it is unknown.
        spelled_fingerprint: hash of the texts that the tokens spell; None where it is unknown.
        labels: the name of each observation, such as the index of a data frame; None where they have none.
        closed_form: shape (n_observations,); the log evidence of each observation by the model itself, nats;
            None where it was not asked for, and for a model without a closed form.
    """

    log_evidence: float
    mask_se: float | None
    mask_df: float | None
    data_se: float | None
    kind: EstimateKind
    n_observations: int
    n_tokens: int
    n_bytes: int | None
    n_model_calls: int
    how: HowScored
    ids: Integer[np.ndarray, " n_observations"] = field(repr=False)
    per_observation: Float64[np.ndarray, " n_observations"] = field(repr=False)
    record: Scores = field(repr=False)
    notes: tuple[str, ...] = ()
    no_interval: str | None = None
    tails: Tails = (0.0, 0.0)
    data_fingerprint: str | None = field(default=None, repr=False)
    text_fingerprint: str | None = field(default=None, repr=False)
    spelled_fingerprint: str | None = field(default=None, repr=False)
    labels: tuple[Any, ...] | None = field(default=None, repr=False)
    closed_form: Float64[np.ndarray, " n_observations"] | None = field(default=None, repr=False)
    noun: ClassVar[str] = "observation"
    token: ClassVar[str] = "token"

    @cached_property
    def curve(self) -> Curve:
        """The score by mask size."""
        design, key = self.how.design, self.how.key
        return curve_from_scores(self.record, design, key.masks, curves_of(self.record, design, key))

    @property
    def design(self) -> dict[str, Any]:
        """Name and parameters of the mask design."""
        return self.how.design.settings()

    @property
    def masks(self) -> Masks:
        """Whether each observation has its own masks, "own", or all have the same, "shared"."""
        return self.how.key.masks

    @property
    def seed(self) -> int:
        """Seed of the masks."""
        return self.how.key.seed

    @property
    def conditionals(self) -> Conditionals:
        """The model's attribute `conditionals`, which determines the kind."""
        return self.how.conditionals

    @property
    def base_measure(self) -> str | None:
        """The base measure of the log-probabilities; None if the model has no such attribute."""
        return self.how.base_measure

    @property
    def n_masks(self) -> int:
        """Number of scored masks, over all observations."""
        return self.record.n_masks

    @cached_property
    def scores(self) -> ScoreTable:
        """The scores in memory, one row per observation and mask."""
        return self.record.table()

    @property
    def names(self) -> list[str]:
        """The label of each observation, or its id."""
        return [str(name) for name in (self.ids.tolist() if self.labels is None else self.labels)]

    @property
    def closed_form_se(self) -> float | None:
        """Sampling standard error of the mean of `closed_form`; None without it or for one observation."""
        n = self.n_observations
        return (
            None if self.closed_form is None or n < 2 else float(self.closed_form.std(ddof=1)) / math.sqrt(n)
        )

    @property
    def per_token(self) -> float:
        """Log evidence per token: the total over observations by the total number of tokens, nats."""
        return self.log_evidence * self.n_observations / self.n_tokens

    @property
    def bits_per_token(self) -> float:
        """Code length: minus the log evidence per token, in bits."""
        return -self.per_token / math.log(2)

    @property
    def bits_per_byte(self) -> float | None:
        """Code length per byte of text, comparable across tokenizers; None without text."""
        if self.n_bytes is None:
            return None
        return -self.log_evidence * self.n_observations / self.n_bytes / math.log(2)

    @property
    def perplexity_bound(self) -> float:
        """exp(-per_token): the perplexity of a joint density, or an upper bound on it for a lower bound.

        For a pseudo-likelihood it is a pseudo-perplexity, which bounds nothing.
        """
        return math.exp(-self.per_token)

    @cached_property
    def bracket(self) -> Bracket | None:
        """Area, bounds and order mixture; None unless orders or the mixture were recorded.

        `Orderings(n, bound="importance")` records orders, and `Exhaustive(order_mixture=True)` the mixture.
        """
        return bounds.bracket(self.scores, self.how.design, self.masks) if self._has_orders else None

    @property
    def order_mixture(self) -> float | None:
        """log E_σ p_σ(x), exact, nats per observation; None unless the design has `order_mixture=True`."""
        return self.log_evidence if self.design.get("order_mixture") else None

    @cached_property
    def order_spread(self) -> OrderSpread | None:
        """The variation of log p_σ(x) over orders; None unless the design is an importance bound."""
        return bounds.order_spread(self.scores, self.how.design) if self._has_orders else None

    @property
    def _has_orders(self) -> bool:
        """Whether orders or their mixture were recorded."""
        return bool(self.design.get("bound") == "importance" or self.design.get("order_mixture"))

    def interval(self, level: float = 0.95) -> tuple[float, float]:
        """The interval of the log evidence of these observations for the mask error alone.

        It is Student's t interval, whose lower end lies -log(1 - level) · `tails[0]` lower, for masks too
        rare to be drawn (standard_errors.py): it is wider below where scores have a heavy tail.

        It does not cover the error of approximate conditionals, such as those of a numerical integral; the
        notes say so. With such conditionals, a design that enumerates its masks has no interval: its mask_se
        is 0, and the error that is left is not known.

        Args:
            level: nominal coverage, in (0, 1).

        Raises:
            InputError: there is no interval (`no_interval` says why), or the level is outside (0, 1).
        """
        if not 0.0 < level < 1.0:
            raise InputError(f"level={level}; give a share in (0, 1), such as 0.95")
        if self.mask_se is None or self.no_interval is not None:
            raise InputError(f"there is no interval: {self.no_interval}")
        mean = MeanWithErrors(self.log_evidence, self.mask_se, self.mask_df, self.data_se, self.tails)
        return mean.interval(level)

    def page(self) -> Page:
        """The number with its errors and kind, the curve, and the notes."""
        digits = words.digits_for(self.mask_se, self.data_se)
        named = (("mask_se", self.mask_se), ("data_se", self.data_se))
        errors = [f"{x} {words.NOT_KNOWN if se is None else words.number(se, digits)}" for x, se in named]
        value = f"{words.number(self.log_evidence, digits)} nats per {self.noun}"
        n = words.count(self.n_observations, self.noun)
        line = f"{type(self).__name__}({', '.join([value, *errors, words.kind_name(self.kind), n])})"
        page = page_of_numbers(self._numbers(), self.noun, self.token)
        return replace(page, line=line, parts=[*page.parts, self.picture()[0]])

    def picture(self) -> tuple[Lines, str]:
        """The curve, with the log evidence and its errors as the title."""
        digits = words.digits_for(self.mask_se, self.data_se)
        errors = (("masks", self.mask_se), ("data", self.data_se))
        shown = ", ".join(
            f"± {words.typeset(error, digits)} {name}" for name, error in errors if error is not None
        )
        name = words.capital(words.evidence_name(self.kind, self.design["name"]))
        title = f"{name} {words.typeset(self.log_evidence, digits)} nats per {self.noun}"
        return self._lines("score"), title + (f" ({shown})" if shown else "")

    def _lines(self, label: str) -> Lines:
        """The curve as a picture."""
        return curve_lines({label: self.curve})

    def plot(self, ax: Any = None, *, label: str = "score") -> Any:
        """Draw the curve, with the log evidence above it; see `Shown.plot`.

        Args:
            ax: axes of matplotlib, which may hold other curves; by default the axes of a new figure.
            label: the name of the curve.
        """
        return plot(self._lines(label), self.picture()[1], ax)

    def columns(self) -> Columns:
        """One row per observation, indexed by label or id; nats.

        The columns are n_tokens, n_bytes where there is text, log_evidence, mask_se, mask_df, closed_form
        where it was asked for, and per_token.
        """
        names = ("n_tokens", "n_bytes", "log_evidence", "mask_se", "mask_df", "closed_form", "per_token")
        whole = joined(observation_tables(self))
        values = {name: whole[name] for name in names if whole[name] is not None}
        return Columns(values, self.ids if self.labels is None else list(self.labels), "observation")

    def to_arviz(self) -> Any:
        """A `DataTree` with the log evidence of each observation in the group `log_likelihood`; needs ArviZ.

        It has no posterior draws, which ArviZ's `loo` asks for: compare models with `Comparison.to_arviz`.

        Raises:
            MissingExtraError: ArviZ is not installed.
        """
        names = ("log_evidence", "mask_se", "data_se", "kind", "base_measure", "seed")
        attributes = {name: getattr(self, name) for name in names if getattr(self, name) is not None}
        attributes |= {"unit": "nats per observation", "design": self.design["name"]}
        return log_likelihood_tree(self.per_observation, self.ids, attributes)

    def to_dict(self) -> dict[str, Any]:
        """The content of `estimate.json`: the numbers, with seed, versions and command."""
        return self._numbers() | origin()

    def _numbers(self) -> dict[str, Any]:
        names = (
            "log_evidence mask_se mask_df data_se kind base_measure n_observations n_tokens n_bytes n_masks "
            "n_model_calls per_token bits_per_token bits_per_byte design masks seed"
        )
        values = {name: getattr(self, name) for name in names.split()}
        if self.n_bytes is not None:
            values[words.PSEUDO if self.kind == "pseudo" else words.BOUND] = self.perplexity_bound
        values["interval_95"] = None if self.no_interval else list(self.interval(0.95))
        if self.kind == "lower_bound" and self.curve.low_rates.any():
            score, mask_se, _ = self.curve.mean_at(self.curve.low_rates)
            error = None if math.isnan(mask_se) else mask_se
            values["low_rates"] = {"up_to": LOW_RATE, "score": score, "mask_se": error}
        if self.kind == "lower_bound" and (crossing := self.curve.crossing(self.per_token)) is not None:
            values["one_rate"] = {"crossing": crossing}
            if self.curve.rate[0] <= ONE_RATE:
                each = self.n_tokens / self.n_observations
                instead, error = (
                    each * float(np.interp(ONE_RATE, self.curve.rate, y))
                    for y in (self.curve.score, self.curve.mask_se)
                )
                values["one_rate"] |= {"rate": ONE_RATE, "instead": instead}
                values["one_rate"]["mask_se"] = None if math.isnan(error) else error
        orders = {"bracket": self.bracket, "order_spread": self.order_spread}
        values |= {name: part.to_dict() for name, part in orders.items() if part is not None}
        values["notes"] = list(self.notes)
        if self.closed_form is not None:
            values["closed_form"] = float(self.closed_form.mean())
            values["closed_form_se"] = self.closed_form_se
        return values


def page_of_numbers(result: Mapping[str, Any], noun: str = "observation", token: str = "token") -> Page:
    """Show the numbers of an estimate as a page, also from the files of a finished run.

    Args:
        result: the content of `estimate.json`, with what a run adds to it, such as the closed form.
        noun: the noun for an observation.
        token: the noun for a token.
    """
    kind, design = result["kind"], result["design"]["name"]
    exact, exact_se = result.get("closed_form"), result.get("closed_form_se")
    in_closed_form = exact is not None and kind in words.OF_A_DENSITY
    main = exact if exact is not None and in_closed_form else result["log_evidence"]
    digits = words.digits_for(result["mask_se"], result["data_se"], exact_se)
    value = words.typeset(main, digits)
    data_se = words.data_error(result["data_se"], result["mask_se"], result["n_observations"], digits)
    mask_row = ["mask error", _mask_error(result, digits)]
    if in_closed_form:
        data_se = data_se if exact_se is None else words.standard_error(exact_se, digits)
        by_masks = f"{words.typeset(result['log_evidence'], digits)} nats per {noun}"
        rows = [["data error", data_se], ["by masks", by_masks], mask_row]
    else:
        rows = [mask_row, ["data error", data_se]]
        if exact is not None:
            name = "log evidence" if kind == "pseudo" else "closed form"
            rows.append([name, f"{words.typeset(exact, digits)} in closed form, on the same {noun}s"])
    rows += [list(row) for row in words.orders_in_words(result, digits, noun)]
    rows += words.units_in_words(result, token)
    if (low := result.get("low_rates")) is not None:
        score = words.plus_minus(low["score"], low["mask_se"], 3)
        rows.append(
            ["low rates", f"{score} nats per hidden {token}, mean up to {100 * low['up_to']:.0f} % hidden"]
        )
    if (one := result.get("one_rate")) is not None:
        said = (
            f"its score times all {token}s is above the area up to {100 * one['crossing']:.0f} % hidden, and "
            "below it beyond"
        )
        if "instead" in one:
            instead = words.plus_minus(one["instead"], one.get("mask_se"), digits)
            said += f"; {100 * one['rate']:.0f} % alone would have said {instead} nats per {noun}"
        rows.append(["one rate", said])
    if result.get("reconstruction_loss"):
        rows.append(["loss", _reconstruction(result["reconstruction_loss"])])
    rows.append(["kind", f"{words.kind_name(kind)}: {words.kind_words(kind, design)}"])
    scored = [
        words.count(result["n_observations"], noun),
        words.count(result["n_tokens"], token),
        words.count(result["n_masks"], "mask"),
        words.count(result["n_model_calls"], "model call"),
    ]
    rows.append(["scored", ", ".join(scored)])
    rows.append(["design", f"{design}, {result['masks']} masks, seed {result['seed']}"])
    aside = f"nats per {noun}" + (", in closed form" if in_closed_form else "")
    table = Table((), rows, words=(0, 1))
    return Page(
        "", f"{words.capital(words.evidence_name(kind, design))} {value}", aside, [table], result["notes"]
    )


def _mask_error(result: Mapping[str, Any], digits: int) -> str:
    error = words.standard_error(result["mask_se"], digits)
    if result["mask_se"] == 0:
        return f"{error}: {words.ENUMERATED}"
    if result["mask_se"] is None or result["interval_95"] is None:
        return error
    df = "" if result["mask_df"] is None else f", {words.typeset(result['mask_df'], 1)} df"
    low, high = result["interval_95"]
    sides = words.wider(low, result["log_evidence"], high, digits)
    return f"{error}  ({words.interval_95(low, high, digits)}{df}{sides})"


def _reconstruction(losses: Sequence[Mapping[str, Any]]) -> str:
    """The paper's reconstruction loss at up to four rates, in words."""
    n = min(4, len(losses))
    some = [losses[round(k * (len(losses) - 1) / max(1, n - 1))] for k in range(n)]
    text = ", ".join(f"{entry['loss']:.4g} at {100 * entry['rate']:.0f} %" for entry in some)
    return f"masked reconstruction loss (squared error): {text} hidden"


def summarize_scores(
    record: ScoreTable | Scores,
    how: HowScored,
    n_model_calls: int = 0,
    labels: Mapping[int, Any] | None = None,
    *,
    of_difference: bool = False,
) -> EvidenceEstimate:
    """Compute an estimate from a record of scores; `of_difference` as in `mean_of_scores`."""
    scores, design, key, conditionals = Scores.of(record), how.design, how.key, how.conditionals
    ids, lengths = scores.ids, scores.n_tokens
    found = mean_of_scores(scores, design, key, conditionals, of_difference=of_difference)
    mean = found.mean
    no_interval = _why_no_interval(mean, conditionals, design.unknown_error(lengths, key.masks), key)
    notes = [no_interval] if no_interval is not None and mean.mask_se is None else []
    if found.worst is not None:
        notes += _note_on_rows(found.worst, ids, labels)
    notes += _note_on_weights(scores, design)
    if found.note is not None:
        notes.append(found.note)
    if conditionals == "approximate":
        notes.append(f"there is no interval: {no_interval}" if mean.mask_se == 0.0 else MASKS_ALONE)
    estimate = EvidenceEstimate(
        log_evidence=mean.mean,
        mask_se=mean.mask_se,
        mask_df=mean.mask_df if mean.mask_df is not None and math.isfinite(mean.mask_df) else None,
        data_se=mean.data_se,
        kind=kind_of(design, conditionals, lengths),
        n_observations=len(ids),
        n_tokens=int(lengths.sum()),
        n_bytes=None if scores.n_bytes is None else int(scores.n_bytes.sum()),
        n_model_calls=n_model_calls,
        how=how,
        ids=ids,
        per_observation=found.per_observation,
        record=scores,
        notes=tuple(notes),
        no_interval=no_interval,
        tails=mean.tails,
    )
    if (
        how.base_measure is not None
        and how.base_measure.startswith(MASS)
        and no_interval is None
        and estimate.interval(0.95)[1] > 0
    ):
        return replace(estimate, notes=(*estimate.notes, ABOVE_ZERO))
    return estimate


def _why_no_interval(
    mean: MeanWithErrors, conditionals: Conditionals, unknown: str | None, key: MaskKey
) -> str | None:
    """Why an estimate has no interval; None if it has an interval."""
    if conditionals == "approximate" and mean.mask_se == 0.0:
        return (
            "the masks are enumerated, and the error that is left, from the approximate conditionals, is "
            "not known"
        )
    if mean.mask_se is not None:
        return None
    reason = f"mask_se is not known: {unknown or EQUAL_REPLICATES}"
    if mean.data_se is not None:
        shared = "does not hold their error, the same for all"
        reason += f"; data_se {'holds their error too' if key.masks == 'own' else shared}"
    return reason


def _note_on_rows(
    worst: tuple[int, float], ids: Integer[np.ndarray, " n"], labels: Mapping[int, Any] | None
) -> list[str]:
    """Name the observation that holds most of the masks' variance, if there are many observations."""
    place, share = worst
    if len(ids) < MANY_ROWS or not share > MOST_VARIANCE:
        return []
    name = int(ids[place]) if not labels else labels[int(ids[place])]
    return [f"observation {name} holds {100 * share:.0f} % of the masks' variance"]


def _note_on_weights(scores: Scores, design: MaskDesign) -> list[str]:
    """Say how much the weights w_M of a convention change the estimate: Σ (w_M - 1)·S(x; M).

    Scores of sizes that were not drawn are interpolated: the first and the last sizes, of which w_M is
    furthest from 1, are rare.
    """
    if design.weight_by_size(scores.n_tokens[:1], scores.n_tokens[:1]) is None:
        return []
    table = scores.sample()
    n_tokens, size = design.own_size(table.n_tokens, table.draw, table.size)
    replicate = design.summation(table.n_tokens, table.draw, table.size).replicate
    masks_each = design.n_draws(np.ones(1, dtype=np.int64))[0] / design.n_replicates
    moved = np.zeros(design.n_replicates)
    for n in np.unique(n_tokens):
        every = np.arange(1, n + 1)
        weight = design.weight_by_size(np.full_like(every, n), every)
        assert weight is not None
        for r in np.unique(replicate):
            here = (n_tokens == n) & (replicate == r)
            sizes, place = np.unique(size[here], return_inverse=True)
            score = np.bincount(place, table.score[here]) / np.bincount(place)
            moved[r] += here.sum() / masks_each * ((weight - 1) @ np.interp(every, sizes, score))
    if not moved.any():
        return []
    moved /= table.n_tokens[table.first].sum()
    error = f" ± {moved.std(ddof=1) / math.sqrt(len(moved)):.2g}" if len(moved) > 1 else ""
    return [
        f"the weights of {design.name} move the number by {moved.mean():+.2g}{error} (masks) nats "
        "per token from the sum over all sizes, estimated from the same masks"
    ]


def kind_of(
    design: MaskDesign, conditionals: Conditionals, lengths: Integer[np.ndarray, " n"]
) -> EstimateKind:
    """The kind of an estimate from its design, the conditionals and the numbers of tokens."""
    covered = all(design.covers_all_sizes(int(length)) for length in lengths_of(lengths)[0])
    if conditionals == "transformed":
        return "pseudo"
    if not covered:
        return "policy" if design.learned_kind == "policy" else "pseudo"
    if conditionals == "exact":
        return "exact" if design.deterministic else "unbiased"
    return "approximate" if conditionals == "approximate" else design.learned_kind


@dataclass(frozen=True, repr=False)
class EvidenceOfRows(EvidenceEstimate):
    """The log evidence of a whole data set, nats; `per_token` is per row.

    Its picture is the learning curve: the score of a hidden row against the number of visible rows.
    """

    noun: ClassVar[str] = "data set"
    token: ClassVar[str] = "row"

    def _lines(self, label: str) -> Lines:
        """The learning curve."""
        return learning_curves({label: self})


def learning_curves(estimates: Mapping[str, EvidenceOfRows]) -> Lines:
    """Draw learning curves.

    Example:
        >>> import maskevidence as me
        >>> result = me.evidence_of_rows(me.models.DirichletMultinomial([1, 1]), None, [1, 0, 1, 1])
        >>> learning_curves({"coin": result}).lines[0].x.tolist()
        [0.0, 1.0, 2.0, 3.0]
    """
    drawn = curve_lines({name: each.curve for name, each in estimates.items()})
    n_rows = [each.n_tokens for each in estimates.values()]
    lines = [_reversed(line, n) for line, n in zip(drawn.lines, n_rows, strict=True)]
    return Lines(lines, "visible rows", "score of a hidden row  (nats)")


def _reversed(line: Line, n_rows: int) -> Line:
    """Turn a line over hidden rows into a line over visible rows."""
    bands = [replace(band, low=band.low[::-1], high=band.high[::-1]) for band in line.bands]
    return replace(line, x=n_rows - line.x[::-1], y=line.y[::-1], bands=bands)


def joined(tables: Iterable[Rows]) -> Rows:
    """One table of tables that follow each other."""
    first, *others = tables
    whole = dict(first)
    for name, column in first.items():
        if column is not None:
            parts = [column, *(table[name] for table in others)]
            is_array = isinstance(column, np.ndarray)
            whole[name] = np.concatenate(parts) if is_array else tuple(chain.from_iterable(parts))
    return whole


def observation_tables(estimate: EvidenceEstimate) -> Iterator[Rows]:
    """The columns of an estimate's observations, some observations at a time, ordered by id; nats.

    - label: their names; None if they have none.
    - n_bytes: bytes of text; None for data that are not text.
    - log_evidence: its mean is the estimate.
    - mask_se: Monte-Carlo standard error of the masks; NaN where the design has no replicates or all of them
      gave the same number, 0 where every mask was scored. Its square is unbiased for the variance over masks.
    - mask_df: its degrees of freedom (Welch-Satterthwaite), which are few unless an observation has many
      masks; NaN where there are none.
    - pll: the pseudo-log-likelihood, which is `log_evidence` where each token was hidden alone.
    - closed_form: the log evidence by the model itself, without masks.

    Example:
        >>> import maskevidence as me
        >>> model = me.models.PPCA(n_features=6, n_components=2)
        >>> estimate = me.estimate_evidence(model, model.sample(5, seed=1), me.EverySize(masks_per_size=8))
        >>> table = joined(observation_tables(estimate))
        >>> table["label"], bool((table["mask_se"] > 0).all())
        (None, True)
        >>> bool(abs(table["log_evidence"].mean() - estimate.log_evidence) < 1e-9)
        True
    """
    record, values, how = estimate.record, estimate.per_observation, estimate.how
    names = "id label n_tokens n_bytes log_evidence mask_se mask_df per_token pll closed_form"
    columns: dict[str, Any] = dict.fromkeys(names.split()) | {
        "id": record.ids,
        "label": estimate.labels,
        "n_tokens": record.n_tokens,
        "n_bytes": record.n_bytes,
        "log_evidence": values,
        "pll": values if isinstance(how.design, LeaveOneOut) else None,
        "closed_form": estimate.closed_form,
    }
    for rows, mask_se, mask_df in errors_of_rows(record, how.design, how.key):
        some = {name: column if column is None else column[rows] for name, column in columns.items()}
        yield some | {
            "mask_se": mask_se,
            "mask_df": mask_df,
            "per_token": values[rows] / record.n_tokens[rows],
        }
