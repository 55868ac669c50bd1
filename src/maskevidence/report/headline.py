"""A run's numbers with both errors, and what they mean, as the head of a page says them."""

from collections.abc import Sequence
from dataclasses import dataclass

from maskevidence.report.reading import ReportedRun
from maskevidence.report.words import KINDS, NAMES, digits_for, number


@dataclass(frozen=True)
class Headline:
    """The numbers of a run.

    Attributes:
        name: of the number.
        value: the log evidence, nats per observation.
        mask_error: of the masks, "± 0.19" or why there is none.
        mask_words: what it means.
        data_error: of the observations.
        data_words: what it means.
        kind: one word.
        kind_words: what it means.
        others: name and value of further numbers.
        caution: what a reader must know first; None where there is nothing.
    """

    name: str
    value: str
    mask_error: str
    mask_words: str
    data_error: str
    data_words: str
    kind: str
    kind_words: str
    others: list[tuple[str, str]]
    caution: str | None


def common_digits(runs: Sequence[ReportedRun]) -> int:
    """How many decimals the numbers of these runs have, the same for all."""
    errors = [
        error
        for run in runs
        if run.estimate is not None
        for error in (run.estimate.mask_se, run.estimate.data_se)
    ]
    return digits_for(*errors)


def headline(run: ReportedRun, digits: int) -> Headline:
    """The numbers of a run that has an estimate, with so many decimals."""
    estimate = run.estimate
    assert estimate is not None
    result = run.run.result()
    data_error, data_words = "not known", "one observation alone does not show how much others differ"
    if estimate.data_se is not None:
        data_error = f"± {number(estimate.data_se, digits)}"
        data_words = "how far the mean may be off for the population that the observations come from"
        if estimate.mask_se is None and estimate.masks == "own":
            data_words += "; it holds the masks’ error too"
    pseudo_likelihood = estimate.design["name"] == "leave-one-out"
    return Headline(
        name="Pseudo-log-likelihood" if pseudo_likelihood else NAMES[estimate.kind],
        value=number(estimate.log_evidence, digits),
        mask_error=_mask_error(estimate.mask_se, digits),
        mask_words=_mask_words(run, digits),
        data_error=data_error,
        data_words=data_words,
        kind=KINDS[estimate.kind][0],
        kind_words=KINDS[estimate.kind][1],
        others=_others(run, result, digits),
        caution=_caution(run),
    )


def _mask_error(mask_se: float | None, digits: int) -> str:
    if mask_se is None:
        return "not known"
    return f"± {number(mask_se, digits)}" if mask_se else "none"


def _mask_words(run: ReportedRun, digits: int) -> str:
    estimate = run.estimate
    assert estimate is not None
    if estimate.mask_se is None:
        return "the design has too few independent masks to tell it"
    if estimate.mask_se == 0:
        return "the masks are enumerated, not drawn"
    low, high = estimate.interval()
    return (
        "how much other random masks would move the number; "
        f"95 % interval {number(low, digits)} to {number(high, digits)}"
    )


def _others(run: ReportedRun, result: dict[str, object], digits: int) -> list[tuple[str, str]]:
    def value(name: str) -> float:
        found = result[name]
        assert isinstance(found, float | int)
        return float(found)

    others = []
    of_these = "same observations" if run.finished else "of all observations"
    if result.get("closed_form") is not None:
        others.append((f"Closed form, {of_these}", f"{number(value('closed_form'), digits)} nats"))
    others.append(("Per token", f"{number(value('per_token'), 4)} nats"))
    others.append(("Code length", f"{number(value('bits_per_token'), 4)} bits per token"))
    if result.get("bits_per_byte") is not None:
        others.append(("Code length of text", f"{number(value('bits_per_byte'), 4)} bits per byte"))
    if result.get("perplexity_bound") is not None:
        name = {"lower_bound": "Perplexity, at most", "pseudo": "Pseudo-perplexity"}.get(str(result["kind"]))
        others.append((name or "Perplexity", f"{value('perplexity_bound'):,.4g} per token"))
    n_observations, n_tokens = int(value("n_observations")), int(value("n_tokens"))
    others.append(("Observations", f"{n_observations:,}"))
    others.append(("Tokens", f"{n_tokens:,}"))
    return others


def _caution(run: ReportedRun) -> str | None:
    estimate = run.estimate
    assert estimate is not None
    if not run.finished:
        return (
            f"This run is not finished: {run.n_done:,} of its {run.n_blocks:,} blocks of rows have all their "
            f"masks. The numbers are of the {estimate.n_observations:,} observations that are done."
        )
    if estimate.n_observations == 1:
        return "This run has one observation: the numbers say nothing about others."
    return None
