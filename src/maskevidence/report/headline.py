"""The numbers of one run, with both errors and what they mean, for the top of the page."""

from collections.abc import Sequence
from dataclasses import dataclass

from maskevidence.report.reading import ReportedRun
from maskevidence.wording import (
    ENUMERATED,
    NOT_KNOWN,
    OF_A_DENSITY,
    capital,
    data_error,
    digits_for,
    evidence_name,
    interval_95,
    kind_name,
    kind_words,
    orders_in_words,
    perplexity_name,
    plus_minus,
    sentence,
    standard_error,
    token_name,
    typeset,
)


@dataclass(frozen=True)
class Headline:
    """The numbers of a run, ready to be shown.

    Attributes:
        name: what the main number is called.
        value: the main number, nats per observation.
        exact: whether it is the closed form, beside which `mask_error` has the estimate by masks, too.
        mask_error: the standard error of the masks, such as "± 0.19", "none" or "not known".
        mask_words: what the error of the masks means.
        data_error: the standard error of the observations.
        data_words: what the error of the observations means.
        kind: the kind of the estimate.
        kind_words: what the kind means.
        others: names and values of further numbers.
        caution: what the reader must know first, if anything.
    """

    name: str
    value: str
    exact: bool
    mask_error: str
    mask_words: str
    data_error: str
    data_words: str
    kind: str
    kind_words: str
    others: list[tuple[str, str]]
    caution: str | None


def common_digits(runs: Sequence[ReportedRun]) -> int:
    """The number of decimals that shows every error of these runs."""
    estimates = [run.estimate for run in runs if run.estimate is not None]
    return digits_for(*(error for each in estimates for error in (each.mask_se, each.data_se)))


def headline(run: ReportedRun, digits: int) -> Headline:
    """The numbers of a run.

    Args:
        run: A run that has an estimate.
        digits: the number of decimals.
    """
    estimate = run.estimate
    assert estimate is not None
    exact = run.closed_form if estimate.kind in OF_A_DENSITY else None
    data_se = estimate.data_se if exact is None else estimate.closed_form_se
    data_words = "one observation alone does not show how much observations differ"
    if estimate.n_observations > 1:
        data_words = "the observations differ no more than other masks would make them differ"
    if data_se is not None:
        data_words = "how far the mean may be off for the population that the observations come from"
        if exact is None and estimate.mask_se is None and estimate.masks == "own":
            data_words += "; it includes the error of the masks"
    mask_error = standard_error(estimate.mask_se, digits, typeset)
    value = estimate.log_evidence
    if exact is not None:
        mask_error = plus_minus(value, estimate.mask_se or None, digits, typeset)
        value = exact
    return Headline(
        name=capital(evidence_name(estimate.kind, estimate.design["name"])),
        value=typeset(value, digits),
        exact=exact is not None,
        mask_error=mask_error,
        mask_words=_mask_words(run, digits),
        data_error=data_error(data_se, estimate.mask_se, estimate.n_observations, digits, typeset),
        data_words=data_words,
        kind=capital(kind_name(estimate.kind)),
        kind_words=sentence(kind_words(estimate.kind, estimate.design["name"])),
        others=_others(run, digits),
        caution=_caution(run),
    )


def _mask_words(run: ReportedRun, digits: int) -> str:
    estimate = run.estimate
    assert estimate is not None
    if estimate.mask_se is None:
        return "the design has too few independent masks to estimate it"
    if estimate.mask_se == 0:
        return ENUMERATED
    interval = interval_95(*estimate.interval(), digits, typeset)
    return f"how much other random masks would move the number; {interval}"


def _others(run: ReportedRun, digits: int) -> list[tuple[str, str]]:
    result = run.run.result()
    others = [(capital(name), value) for name, value in orders_in_words(result, digits, typeset)]
    if run.closed_form is not None and result["kind"] not in OF_A_DENSITY:
        name = "Log evidence" if result["kind"] == "pseudo" else "Closed form"
        others.append(
            (f"{name}, same observations", f"{typeset(run.closed_form, digits)} nats, in closed form")
        )
    others.append(("Base measure", capital(result["base_measure"] or NOT_KNOWN)))
    token = token_name(result.get("notes", ()))
    others.append((f"Per {token}", f"{typeset(result['per_token'], 4)} nats"))
    others.append(("Code length", f"{typeset(result['bits_per_token'], 4)} bits per {token}"))
    if result.get("bits_per_byte") is not None:
        others.append(("Code length of text", f"{typeset(result['bits_per_byte'], 4)} bits per byte"))
    if result.get("perplexity_bound") is not None:
        name = capital(perplexity_name(result["kind"]))
        others.append((name, f"{result['perplexity_bound']:,.4g} per {token}"))
    others.append(("Observations", f"{result['n_observations']:,}"))
    others.append((f"{capital(token)}s", f"{result['n_tokens']:,}"))
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
