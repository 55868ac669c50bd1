"""Compare runs on the same observations, and name them."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import islice

from maskevidence.core.comparing.comparison import Comparison, Difference, compare
from maskevidence.core.errors import InputError
from maskevidence.core.evidence.result import EvidenceEstimate
from maskevidence.runs.manifest import Manifest
from maskevidence.runs.summary import Run


def distinct(names: Sequence[str]) -> list[str]:
    """Number repeated names.

    Example:
        >>> distinct(["a", "b", "a"])
        ['a', 'b', 'a (2)']
    """
    return [
        name if not (before := names[:number].count(name)) else f"{name} ({before + 1})"
        for number, name in enumerate(names)
    ]


def compare_runs(runs: Mapping[str, Run]) -> Comparison:
    """Rank runs on the same observations; compare texts in different tokens per byte.

    The single masks of both runs are subtracted where the runs share them. They are read part after part, and
    only sums of each observation are kept. The scores of hidden tokens (per-token, log-sizes), order mixtures
    and importance bounds need all masks of a run at once. Runs with different masks, or of texts in different
    tokens, are compared by their observations.

    Args:
        runs: two or more runs by name.

    Raises:
        InputError: there are fewer than two runs, or their data differ.
    """
    if len(runs) < 2:
        raise InputError("one run was given; give two or more to compare")
    name, first = next(iter(runs.items()))
    for other, run in islice(runs.items(), 1, None):
        _check_same_data(name, first.manifest, other, run.manifest)
    comparison = compare({name: _identified(run) for name, run in runs.items()})
    return replace(
        comparison, behind=tuple(_with_versions(difference, runs) for difference in comparison.behind)
    )


def are_two_sets(runs: Mapping[str, Run]) -> bool:
    """Whether two runs score different data by one model, such as real and shuffled sentences."""
    if len(runs) != 2:
        return False
    first, second = (run.manifest for run in runs.values())
    same_model = first.model_fingerprint is not None and first.model_fingerprint == second.model_fingerprint
    return same_model and first.data.fingerprint != second.data.fingerprint and first.shard == second.shard


def _with_versions(difference: Difference, runs: Mapping[str, Run]) -> Difference:
    """Add a note if two versions of maskevidence computed the scores."""
    first, second = (runs[name].manifest.version for name in (difference.first, difference.second))
    if first == second:
        return difference
    note = (
        f"{difference.first!r} was scored by maskevidence {first}, and {difference.second!r} by {second}; "
        "CHANGELOG.md tells whether their numbers differ"
    )
    return replace(difference, notes=(*difference.notes, note))


def _identified(run: Run) -> EvidenceEstimate:
    """Add the fingerprints of the run's data to the estimate; runs of all versions have them."""
    data = run.manifest.data
    return replace(
        run.estimate,
        data_fingerprint=data.fingerprint,
        text_fingerprint=data.text_fingerprint,
        spelled_fingerprint=data.spelled_fingerprint,
    )


def _check_same_data(first_name: str, first: Manifest, name: str, other: Manifest) -> None:
    mine, theirs = first.data, other.data
    same_texts = mine.text_fingerprint is not None and mine.text_fingerprint == theirs.text_fingerprint
    if first.shard != other.shard or not (mine.fingerprint == theirs.fingerprint or same_texts):
        raise InputError(
            f"{first_name!r} and {name!r} are of different data ({_data(first)}; {_data(other)}); "
            "score both on the same rows, with the same --seed if a part is held out"
        )


def _data(manifest: Manifest) -> str:
    k, n = manifest.shard
    shard = f", shard {k}/{n}" if n > 1 else ""
    data = manifest.data
    return f"{data.name}, {data.n_observations:,} rows, fingerprint {data.fingerprint[:12]}{shard}"
