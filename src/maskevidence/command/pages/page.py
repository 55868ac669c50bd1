"""The report: one self-contained page on one or more runs, readable without a network."""

from collections.abc import Sequence
from pathlib import Path

from maskevidence.command.pages.figures import figures_of_curves
from maskevidence.command.pages.page_layout import (
    Block,
    Section,
    caution,
    document,
    folded,
    note,
    notes,
    side_by_side,
)
from maskevidence.command.pages.reported_runs import ReportedRun, noun_of
from maskevidence.command.pages.shown_observations import section_of_observations
from maskevidence.core.comparing.comparison import Comparison, common_name, verdict
from maskevidence.core.errors import InputError, import_extra
from maskevidence.core.evidence.result import page_of_numbers
from maskevidence.core.show.parts import Group, Page, Part, Picture, Table
from maskevidence.core.show.pictures import CellMap
from maskevidence.core.show.words import NOT_KNOWN, capital, count, digits_for, meaning, sentence
from maskevidence.core.support.files import write_atomic
from maskevidence.core.support.provenance import made_of
from maskevidence.runs import compare_runs
from maskevidence.runs.directory import MODEL

N_SHOWN = 5
_AREAS = frozenset({"exact", "unbiased", "approximate", "lower_bound"})  # kinds that are areas under curves


def write_report(
    runs: Sequence[ReportedRun] | Page, path: str | Path, *, observations: int = N_SHOWN
) -> None:
    """Write the report of one or more runs, or the page of another result.

    Args:
        runs: the runs, from `read_runs`; or any page, such as what a kind reads from a folder of its own.
        path: the page, a file that ends in .html.
        observations: number of hardest, and of easiest, observations to show; 0 for none.

    Raises:
        InputError: the path is not an .html file, or cannot be written.
        MissingExtraError: matplotlib is not installed.

    Example:
        >>> import tempfile, maskevidence as me
        >>> write_report([], Path(tempfile.mkdtemp()) / "report.txt")
        Traceback (most recent call last):
        ...
        maskevidence.core.errors.InputError: ...report.txt' is not an .html file; give ...
    """
    target = Path(path)
    check_report_file(target)
    write_atomic(target, render(runs, observations).encode(errors="backslashreplace"))


def check_report_file(path: Path) -> None:
    """Raise an InputError for a path that no page can be written to."""
    if path.is_dir():
        raise InputError(f"{str(path)!r} is a folder; give a file, such as {path / 'report.html'}")
    if path.suffix.lower() not in (".html", ".htm"):
        raise InputError(f"{str(path)!r} is not an .html file; give one, such as report.html")


def render(reported: Sequence[ReportedRun] | Page, observations: int = N_SHOWN) -> str:
    """Render the page as HTML; see `write_report`."""
    if not isinstance(reported, Page) or any(map(_is_drawn, reported.parts)):
        import_extra("matplotlib", "plots", "the report")
    if isinstance(reported, Page):
        groups = [part for part in reported.parts if isinstance(part, Group)]
        aside = sentence(reported.aside.strip("()")) if reported.aside.startswith("(") else reported.aside
        parts = _blocks([part for part in reported.parts if not isinstance(part, Group)])
        made: list[Block] = [Table((), list(reported.made.items()), words=(0, 1))]
        below, last = ([], notes(reported.notes)) if groups else (notes(reported.notes), [])
        sections = [
            Section("numbers", "", [*filter(None, [aside]), *parts, *below]),
            *(Section(f"part-{k}", group.title, _blocks(group.parts)) for k, group in enumerate(groups, 1)),
            Section("made", "How it was made", [*made, *last]),
        ]
        return document(reported.headline, sections, reported.about)
    return document(_title(reported), _sections_of_runs(reported, observations))


def _blocks(parts: Sequence[Part]) -> list[Block]:
    """The parts in their order; those of a group follow its heading."""
    found: list[Block] = []
    for part in parts:
        found += [part.title, *_blocks(part.parts)] if isinstance(part, Group) else [part]
    return found


def _is_drawn(part: Part) -> bool:
    """Whether matplotlib draws a part."""
    if isinstance(part, Group):
        return any(map(_is_drawn, part.parts))
    return isinstance(part, Picture) and not isinstance(part, CellMap)


def _sections_of_runs(runs: Sequence[ReportedRun], observations: int) -> list[Section]:
    noun = noun_of(runs)
    comparison, remarks = _compared(runs) if len(runs) > 1 else (None, [])
    shown = next(run for run in runs if comparison is None or run.name == comparison.names[0])
    if comparison is not None:
        numbers = _of_compared(runs, comparison, remarks, noun)
    elif len(runs) == 1:
        numbers = _of_one(runs[0], noun)
    else:
        numbers = Section("numbers", "Each run’s number", [*map(caution, remarks), *_tables(runs, noun)])
    return [
        Section("numbers", numbers.title, [*numbers.parts, *_meanings(runs, noun)]),
        *_curves(runs, comparison),
        *section_of_observations(shown, observations, noun, several=len(runs) > 1),
        _how_made(runs, noun),
    ]


def _compared(runs: Sequence[ReportedRun]) -> tuple[Comparison | None, list[str]]:
    """Compare the finished runs if they score the same observations; remark on runs left out."""
    finished = {run.name: run.run for run in runs if run.finished and run.estimate is not None}
    remarks = [
        f"{run.name} is not finished and is left out of the comparison."
        for run in runs
        if run.name not in finished
    ]
    if len(finished) < 2:
        return None, [*remarks, "The runs are not compared: fewer than two of them are finished."]
    try:
        return compare_runs(finished), remarks
    except InputError as error:
        return None, [*remarks, f"The runs cannot be compared: {error}."]


def _of_compared(
    runs: Sequence[ReportedRun], comparison: Comparison, remarks: Sequence[str], noun: str
) -> Section:
    """A section with the conclusion, the ranking, open questions, and all numbers of the runs."""
    page = comparison.page(noun)
    unknown = [each for each in comparison.behind if each.verdict in ("proves nothing", "not known")]
    whys = [sentence(verdict(each, digits_for(each.standard_error), noun)) for each in unknown]
    parts: list[Block] = [
        *_blocks(page.parts),
        *notes([*whys, *remarks, *page.notes]),
        folded("All numbers of each run", _tables(runs, noun)),
    ]
    return Section("numbers", page.headline, parts)


def _of_one(run: ReportedRun, noun: str) -> Section:
    if run.estimate is None:
        return Section("numbers", "Log evidence", [caution(_caution(run, noun) or "")])
    page = _numbers(run, noun)
    words = _caution(run, noun)
    cautions = [caution(words)] if words else []
    return Section("numbers", page.headline, [page.aside, *cautions, *_blocks(page.parts)])


def _tables(runs: Sequence[ReportedRun], noun: str) -> list[Table]:
    """Tables of the numbers of all runs, cautions first."""
    of_runs: dict[str, dict[str, str]] = {}
    for run in runs:
        entries = of_runs.setdefault(run.name, {"run": _subject(run)})
        if words := _caution(run, noun):
            entries["caution"] = words
        if run.estimate is not None:
            page = _numbers(run, noun)
            (table,) = (part for part in page.parts if isinstance(part, Table))
            entries["number"] = f"{page.headline} {page.aside}"
            entries |= {row[0]: row[1] for row in table.rows}
    return side_by_side(of_runs)


def _numbers(run: ReportedRun, noun: str) -> Page:
    """The page of numbers of a run that has an estimate."""
    return page_of_numbers(run.numbers, noun, run.manifest.data.token)


def _caution(run: ReportedRun, noun: str) -> str | None:
    """A caution on the numbers of a run; None if there is none."""
    if run.estimate is None:
        return (
            f"This run is not finished and has no scores of whole {noun}s yet. Run its command again to "
            "continue it."
        )
    if not run.finished:
        return (
            f"This run is not finished: {run.n_done:,} of its {run.n_blocks:,} blocks of rows have all their "
            f"masks. The numbers are of the {run.estimate.n_observations:,} {noun}s that are done."
        )
    if run.estimate.n_observations == 1:
        return f"This run has one {noun}: the numbers say nothing about others."
    return None


def _meanings(runs: Sequence[ReportedRun], noun: str) -> list[Block]:
    """Explain the numbers and their errors."""
    kinds = dict.fromkeys(run.estimate.kind for run in runs if run.estimate is not None)
    if not kinds:
        return []
    errors = (
        "Bars and bands are 95 % intervals; ± is one standard error. The error of the masks is how much "
        "other random masks would move a number, the error of the data how far it may be off for the "
        f"population that the {noun}s come from. They are not added: one shrinks with more masks, the other "
        f"with more {noun}s."
    )
    return [
        note(words) for words in (*dict.fromkeys(sentence(meaning(kind, noun)) for kind in kinds), errors)
    ]


def _curves(runs: Sequence[ReportedRun], comparison: Comparison | None) -> list[Section]:
    """The section of curves; [] without an estimate, or of one hidden token alone."""
    estimates = [run.estimate for run in runs if run.estimate is not None]
    if all(estimate.design["name"] == "leave-one-out" for estimate in estimates):
        return []  # no curve: a single token is hidden in each mask
    name = common_name(estimates)
    is_area = name != "number" and _AREAS.issuperset(estimate.kind for estimate in estimates)
    words = "How well the model predicts hidden tokens, against how many are hidden."
    words += f" The area under a curve is the {name}." if is_area else ""
    return [Section("curves", "Curves", [words, *figures_of_curves(runs, comparison)])]


def _how_made(runs: Sequence[ReportedRun], noun: str) -> Section:
    """A section with the settings of all runs and the notes on them."""
    made = {run.name: provenance(run, noun) for run in runs}
    of_notes: dict[str, list[str]] = {}
    for run in runs:
        found = [] if run.estimate is None else run.numbers["notes"]
        for each in dict.fromkeys([*run.manifest.data.notes, *found]):
            of_notes.setdefault(each, []).append(run.name)
    listed = [
        words if len(names) == len(runs) else f"{', '.join(names)}: {words}"
        for words, names in of_notes.items()
    ]
    return Section("made", "How it was made", [*side_by_side(made), *notes(listed)])


_WORDS = {"masks_per_size": "{} masks per size"}
_EACH = 2**16  # more replicates than draws: each draw is a replicate


def provenance(run: ReportedRun, noun: str = "observation") -> dict[str, str]:
    """The settings behind the numbers of a run, by name."""
    manifest, estimate = run.manifest, run.estimate
    data = manifest.data
    settings = ", ".join(
        _WORDS.get(name, f"{name.replace('_', ' ')} {{}}").format(_setting(value))
        for name, value in manifest.design.items()
        if name != "name" and value not in (None, False) and not (name == "replicates" and value > _EACH)
    )
    design = str(manifest.design.get("name")) + (f" ({settings})" if settings else "")
    masks = f"other masks for each {noun}" if manifest.masks == "own" else "the same masks for all"
    held = f", {100 * data.test_fraction:g} % held out and scored" if data.test_fraction is not None else ""
    made = {
        "Command": manifest.command,
        "Model": manifest.named + (f": {manifest.model_words}" if manifest.model_words else ""),
        "Conditionals": manifest.conditionals,
        "Data": f"{data.name}: {count(data.n_observations, noun)}{held}",
        "Design": f"{design}; {masks}",
        "Seed": str(manifest.seed),
    }
    if manifest.shard[1] > 1:
        made["Shard"] = f"{manifest.shard[0]} of {manifest.shard[1]}"
    if estimate is not None:
        made["Work"] = (
            f"{count(estimate.n_masks, 'mask')}, {count(estimate.n_model_calls, 'call')} of the model"
        )
        made["Base measure"] = capital(estimate.base_measure or NOT_KNOWN)
    made["Fingerprint of the data"] = data.fingerprint[:16]
    if manifest.model_fingerprint is not None:
        made["Fingerprint of the model"] = manifest.model_fingerprint[:16]
    made["Folder"] = str(run.folder)
    return made | made_of({"versions": manifest.versions})


def _setting(value: object) -> str:
    if isinstance(value, list | tuple) and len(value) > 4:
        return f"{value[0]} to {value[-1]}, {len(value)} of them"
    return str(value)


def _title(runs: Sequence[ReportedRun]) -> str:
    if len(runs) == 1:
        return _subject(runs[0])
    data = {run.manifest.data.name for run in runs}
    return f"{len(runs)} runs" + (f" on {_short(data.pop())}" if len(data) == 1 else "")


def _subject(run: ReportedRun) -> str:
    """Name model and data briefly."""
    words, revision = run.manifest.model_words, run.manifest.revision
    model = _short(run.manifest.model) + (f" (revision {revision})" if revision else "")
    return f"{f'{words} ({model})' if words else model} on {_short(run.manifest.data.name)}"


def _short(name: str) -> str:
    """Shorten a path for a heading to its last part, or to two parts if the last is "model"."""
    path = Path(name)
    if not path.is_absolute() and len(path.parts) <= 2:
        return name
    return "/".join(path.parts[-2:] if path.name == MODEL else path.parts[-1:])
