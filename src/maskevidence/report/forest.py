"""All runs of a comparison, best first: how far each is behind the best, and its own number."""

from collections.abc import Sequence
from dataclasses import replace

from maskevidence.comparing.comparison import Comparison, common_name
from maskevidence.evidence.result import EvidenceEstimate
from maskevidence.evidence.standard_errors import t_half_width
from maskevidence.report.figures import Figure, figure, numbers_of
from maskevidence.report.ranking import Ranking
from maskevidence.report.reading import ReportedRun
from maskevidence.show.parts import Table, Value, Values
from maskevidence.show.words import capital, data_error, standard_error, typeset


def forest(runs: Sequence[ReportedRun], ranking: Ranking | None, digits: int, noun: str) -> list[Figure]:
    """The figures of the compared runs; none if the runs are not compared.

    Args:
        runs: the runs of the report.
        ranking: how they compare.
        digits: the number of decimals.
        noun: what an observation is.
    """
    comparison = None if ranking is None else ranking.comparison
    if comparison is None:
        return []
    numbers = numbers_of(runs)
    unit = comparison.unit.replace("observation", noun)
    figures = [_behind(comparison, numbers, digits, unit)]
    if comparison.unit == "nats per observation":
        figures.append(_numbers(comparison, numbers, digits, unit))
    return figures


def _behind(comparison: Comparison, numbers: dict[str, int], digits: int, unit: str) -> Figure:
    """The differences from the best run; the page has them as a table, too."""
    values = [
        replace(value, group="", number=numbers[value.label]) for value in comparison.picture()[0].values
    ]
    picture = Values(values, f"behind the best run ({unit})", zero=True, words="")
    listed = "; ".join(f"{value.label} {typeset(value.value, digits)}" for value in values)
    return figure("behind", "Behind the best run", f"Behind the best run, {unit}: {listed}.", picture)


def _numbers(comparison: Comparison, numbers: dict[str, int], digits: int, unit: str) -> Figure:
    """The numbers themselves with the errors of masks and of observations."""
    estimates = {name: comparison.estimates[name] for name in comparison.names}
    name = common_name(estimates.values())
    values = [
        Value(run, each.log_evidence, _of_data(each), _of_masks(each), number=numbers[run])
        for run, each in estimates.items()
    ]
    rows = [
        [
            run,
            typeset(each.log_evidence, digits),
            standard_error(each.mask_se, digits, typeset),
            data_error(each.data_se, each.mask_se, each.n_observations, digits, typeset),
        ]
        for run, each in estimates.items()
    ]
    listed = "; ".join(f"{row[0]} {row[1]}, masks {row[2]}, observations {row[3]}" for row in rows)
    return figure(
        "numbers-of-runs",
        capital(name),
        f"{capital(name)}, {unit}: {listed}.",
        Values(values, f"{name} ({unit})", words=""),
        Table(["run", name, "masks", "observations"], rows),
        notes=["Thick bars are for other masks, thin bars for other observations."],
    )


def _of_masks(estimate: EvidenceEstimate) -> tuple[float, float] | None:
    if not estimate.mask_se or estimate.no_interval is not None:
        return None
    low, high = estimate.interval()
    return low, high


def _of_data(estimate: EvidenceEstimate) -> tuple[float, float] | None:
    if not estimate.data_se:
        return None
    half = t_half_width(estimate.data_se, estimate.n_observations - 1, 0.95)
    return estimate.log_evidence - half, estimate.log_evidence + half
