"""How the runs of a report were made: one table with a column for each run."""

from collections.abc import Sequence
from dataclasses import dataclass

from maskevidence.report.reading import ReportedRun
from maskevidence.show.words import NOT_KNOWN, capital, count

_WORDS = {"masks_per_size": "{} masks per size"}


@dataclass(frozen=True)
class MadeRow:
    """What decides the numbers, or tells how they came about.

    Attributes:
        name: what the row is about.
        values: one value for each run; a single one if it is the same for all.
        code: whether the values are commands.
    """

    name: str
    values: list[str]
    code: bool = False


def made_rows(runs: Sequence[ReportedRun]) -> list[MadeRow]:
    """The rows of the table, in the order in which they are shown."""
    of_runs = [dict(_provenance(run)) for run in runs]
    names = dict.fromkeys(name for entries in of_runs for name in entries)
    rows = []
    for name in names:
        values = [entries.get(name, "–") for entries in of_runs]
        same = len(set(values)) == 1
        rows.append(MadeRow(name, values[:1] if same else values, code=name == "Command"))
    return rows


def _provenance(run: ReportedRun) -> list[tuple[str, str]]:
    manifest, estimate = run.manifest, run.estimate
    data = manifest.data
    settings = ", ".join(
        _WORDS.get(name, f"{name.replace('_', ' ')} {{}}").format(_setting(value))
        for name, value in manifest.design.items()
        if name != "name" and value not in (None, False)
    )
    design = str(manifest.design.get("name")) + (f" ({settings})" if settings else "")
    masks = "other masks for each observation" if manifest.masks == "own" else "the same masks for all"
    held = f", {100 * data.test_fraction:g} % held out and scored" if data.test_fraction is not None else ""
    entries = [
        ("Command", manifest.command),
        ("Model", manifest.model + (f": {manifest.model_words}" if manifest.model_words else "")),
        ("Conditionals", manifest.conditionals),
        ("Data", f"{data.name}: {count(data.n_observations, 'observation')}{held}"),
        ("Design", f"{design}; {masks}"),
        ("Seed", str(manifest.seed)),
    ]
    if manifest.shard[1] > 1:
        entries.append(("Shard", f"{manifest.shard[0]} of {manifest.shard[1]}"))
    if estimate is not None:
        work = f"{count(estimate.n_masks, 'mask')}, {count(estimate.n_model_calls, 'call')} of the model"
        entries.append(("Work", work))
        entries.append(("Base measure", capital(estimate.base_measure or NOT_KNOWN)))
    entries.append(("Fingerprint of the data", data.fingerprint[:16]))
    if manifest.model_fingerprint is not None:
        entries.append(("Fingerprint of the model", manifest.model_fingerprint[:16]))
    entries.append(("Folder", str(run.folder)))
    entries.append(("Versions", ", ".join(f"{name} {value}" for name, value in manifest.versions.items())))
    return entries


def _setting(value: object) -> str:
    if isinstance(value, list | tuple) and len(value) > 4:
        return f"{value[0]} to {value[-1]}, {len(value)} of them"
    return str(value)
