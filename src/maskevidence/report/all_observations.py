"""Every observation with its numbers, for a table that the page sorts and filters."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from maskevidence.comparing.comparison import common_name
from maskevidence.report.ranking import Ranking
from maskevidence.report.reading import ReportedRun
from maskevidence.show.words import count
from maskevidence.support.hidden_characters import plain

MAX_ROWS = 5000
MAX_RUNS = 2  # the best one and the next: more columns do not fit on a phone


@dataclass(frozen=True)
class AllObservations:
    """The table, as the page's script reads it.

    Attributes:
        columns: names of the columns; the first is the observation's name.
        main: the column of the log evidence, which a filter compares.
        rows: a name and numbers; None where a number is not known.
        digits: decimals of each column of numbers.
        note: what is left out, if anything.
    """

    columns: list[str]
    main: int
    rows: list[list[str | float | None]]
    digits: list[int]
    note: str | None


def all_observations(
    run: ReportedRun, others: Sequence[ReportedRun], ranking: Ranking | None
) -> AllObservations:
    """The observations of a run, with the numbers of the runs that it is compared with.

    Args:
        run: the run whose observations are listed.
        others: the other runs of the report.
        ranking: how the runs compare; the numbers of the others are shown only if they do.
    """
    estimate = run.estimate
    assert estimate is not None
    _, first = np.unique(estimate.scores.id, return_index=True)
    n_tokens = estimate.scores.n_tokens[first]
    compared = [] if ranking is None or ranking.comparison is None else list(ranking.comparison.names)
    by_name = {each.name: each for each in others if each.name in compared}
    shown = [run, *(by_name[name] for name in compared if name in by_name)][:MAX_RUNS]
    several = len(shown) > 1
    exact = all(each.is_exact for each in shown)
    estimates = [each.estimate for each in shown if each.estimate is not None]
    values = [each.values for each in shown] if exact else [each.per_observation for each in estimates]
    by_token = len(np.unique(n_tokens)) > 1  # otherwise these columns say nothing new
    columns = ["observation", *(["tokens", "nats per token"] if by_token else [])]
    columns += [each.name for each in shown] if several else [common_name([estimate])]
    numbers = [*([n_tokens.astype(float), values[0] / n_tokens] if by_token else []), *values]
    digits = [*([0, 3] if by_token else []), *[2] * len(values)]
    if several:
        columns.append(f"{shown[0].name} minus {shown[1].name}")
        numbers.append(values[0] - values[1])
        digits.append(2)
    order = np.argsort(values[0] / n_tokens, kind="stable")[:MAX_ROWS]
    names = estimate.names
    rows: list[list[str | float | None]] = [
        [plain(names[place])]
        + [round(float(column[place]), n) for column, n in zip(numbers, digits, strict=True)]
        for place in order
    ]
    notes = ["The numbers are closed forms."] if exact else []
    if len(estimate.ids) > MAX_ROWS:
        notes.append(
            f"These are the {MAX_ROWS:,} hardest of {count(len(estimate.ids), 'observation')}; "
            "observations.csv in the run directory has all of them."
        )
    if len(by_name) + 1 > MAX_RUNS:
        notes.append(f"The numbers are those of the best two of {len(by_name) + 1} runs.")
    main = 3 if by_token else 1
    return AllObservations([plain(each) for each in columns], main, rows, digits, " ".join(notes) or None)
