"""A run's numbers with both errors, and what they mean, as the head of a page says them."""

from collections.abc import Sequence
from dataclasses import dataclass

from maskevidence.report.reading import ReportedRun
from maskevidence.wording import (
    ENUMERATED,
    KINDS,
    capital,
    digits_for,
    evidence_name,
    interval_95,
    kind_name,
    perplexity_name,
    sentence,
    standard_error,
    typeset,
)


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
    data_words = "one observation alone does not show how much others differ"
    if estimate.data_se is not None:
        data_words = "how far the mean may be off for the population that the observations come from"
        if estimate.mask_se is None and estimate.masks == "own":
            data_words += "; it holds the masks’ error too"
    return Headline(
        name=capital(evidence_name(estimate.kind, estimate.design["name"])),
        value=typeset(estimate.log_evidence, digits),
        mask_error=standard_error(estimate.mask_se, digits, typeset),
        mask_words=_mask_words(run, digits),
        data_error=standard_error(estimate.data_se, digits, typeset),
        data_words=data_words,
        kind=capital(kind_name(estimate.kind)),
        kind_words=sentence(KINDS[estimate.kind]),
        others=_others(run, digits),
        caution=_caution(run),
    )


def _mask_words(run: ReportedRun, digits: int) -> str:
    estimate = run.estimate
    assert estimate is not None
    if estimate.mask_se is None:
        return "the design has too few independent masks to tell it"
    if estimate.mask_se == 0:
        return ENUMERATED
    interval = interval_95(*estimate.interval(), digits, typeset)
    return f"how much other random masks would move the number; {interval}"


def _others(run: ReportedRun, digits: int) -> list[tuple[str, str]]:
    result = run.run.result()

    def value(name: str) -> float:
        found = result[name]
        assert isinstance(found, float | int)
        return float(found)

    others = []
    of_these = "same observations" if run.finished else "of all observations"
    if result.get("closed_form") is not None:
        others.append((f"Closed form, {of_these}", f"{typeset(value('closed_form'), digits)} nats"))
    others.append(("Per token", f"{typeset(value('per_token'), 4)} nats"))
    others.append(("Code length", f"{typeset(value('bits_per_token'), 4)} bits per token"))
    if result.get("bits_per_byte") is not None:
        others.append(("Code length of text", f"{typeset(value('bits_per_byte'), 4)} bits per byte"))
    if result.get("perplexity_bound") is not None:
        name = capital(perplexity_name(str(result["kind"])))
        others.append((name, f"{value('perplexity_bound'):,.4g} per token"))
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
