"""maskevidence demo: the main job on embedded data, in about two minutes."""

import shutil
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from rich.console import Console

from maskevidence.cli import output
from maskevidence.cli.options import use_threads
from maskevidence.errors import InputError, MissingExtraError
from maskevidence.show.parts import Table
from maskevidence.show.terminal import FittingTable
from maskevidence.support.files import write_atomic
from maskevidence.tasks.declaring import Option
from maskevidence.tasks.options import Common, Overwrite, Seed
from maskevidence.wording import common_name, plus_minus

if TYPE_CHECKING:
    from maskevidence.demo import Candidate
    from maskevidence.runs import RunDirectory

BERT = "bert"
REPORT = "report.html"
NAME = "maskevidence"


def demo(
    common: Common,
    out: Annotated[Path, Option("Write the run into this folder.", "DIR", writes="folder")] = Path(
        "runs/demo"
    ),
    overwrite: Overwrite = False,
    seed: Seed = 0,
) -> None:
    """Demonstrate the main job: PPCA on 1,797 images of digits, a small BERT on text.

    In a clone, `make run` prints the paper's Table 1 first, by `python -m paper table-1`.
    """
    use_threads(common.threads)
    from maskevidence.runs import RunDirectory

    folder = RunDirectory(out)
    if not overwrite and folder.manifest() is not None:
        raise InputError(f"{str(out)!r} holds a run; give another folder, or --overwrite to replace it")
    screen = output.console(common.json)
    with _timed(screen, "Part 1, PPCA on digits"):
        ranked = _choose_model(screen, seed)
        missing = _write_run(folder, ranked[0], overwrite=overwrite)
    screen.print(f"Written to {folder.path}: {', '.join(folder.files())}")
    screen.print(missing or "")
    with _timed(screen, "Part 2, a small BERT"):
        bert = _small_bert(screen, out / BERT, seed)
    screen.print(f"Written to {out / BERT}: the model, and its curve as a picture if it could be drawn")
    report_candidates(screen, ranked, out / REPORT)
    say_what_next(screen, ranked, out)
    results = {"digits": [candidate.result for candidate in ranked], "bert": bert}
    output.write_json(results, common.json)


@contextmanager
def _timed(screen: Console, part: str) -> Iterator[None]:
    """Print how long a part took."""
    start = time.perf_counter()
    yield
    screen.print(f"{part}: {time.perf_counter() - start:.1f} s\n")


def _choose_model(screen: Console, seed: int) -> list["Candidate"]:
    """Compare numbers of components on the digits; the first one is chosen."""
    from maskevidence.data.tabular import digits
    from maskevidence.demo import choose_components

    ranked = choose_components(digits(), seed=seed)
    rows = [
        [
            f"ppca:{candidate.n_components}" + (" *" if candidate is ranked[0] else ""),
            f"{candidate.estimate.log_evidence:.2f}",
            f"{candidate.estimate.mask_se:.2f}",
            f"{candidate.estimate.data_se:.2f}",
            f"{candidate.result['closed_form']:.2f}",
            _behind(candidate),
        ]
        for candidate in ranked
    ]
    columns = ["model", "log evidence", "mask_se", "data_se", "closed form", "behind best"]
    screen.print(FittingTable(Table(columns, rows, "PPCA on digits: held-out log evidence, nats per image")))
    screen.print("* chosen: the highest held-out log evidence")
    for note in ranked[0].prepared.notes:
        screen.print(f"note: {note}")
    return ranked


def _behind(candidate: "Candidate") -> str:
    """The difference from the best candidate, with its standard error."""
    behind = candidate.behind
    return "best" if behind is None else plus_minus(behind.difference, behind.standard_error, 2)


def _write_run(folder: "RunDirectory", candidate: "Candidate", *, overwrite: bool) -> str | None:
    """Write the run of a candidate; one line on what could not be drawn, or None."""
    from maskevidence.runs import write_run

    folder.check(candidate.manifest, overwrite=overwrite)
    return write_run(
        folder, candidate.manifest, candidate.result, candidate.estimate, candidate.prepared.model
    )


def report_candidates(screen: Console, ranked: Sequence["Candidate"], target: Path) -> None:
    """Write a report on all candidates."""
    from maskevidence.report.page import write_report
    from maskevidence.report.reading import ReportedRun

    runs = [
        ReportedRun(
            candidate.manifest.model,
            candidate.manifest,
            candidate.estimate,
            model=candidate.prepared.model,
        )
        for candidate in sorted(ranked, key=lambda candidate: candidate.n_components)
    ]
    try:
        write_report(runs, target)
    except MissingExtraError as error:
        screen.print(f"{target.name} was not written: {error}")
    else:
        screen.print(f"\nReport, to be opened in a browser: {target}", soft_wrap=True)


def say_what_next(screen: Console, ranked: Sequence["Candidate"], out: Path) -> None:
    """Print the answer of the comparison in one line, and three commands to try, as they have to be typed."""
    from maskevidence.comparison import compare
    from maskevidence.report.answer import answer
    from maskevidence.runs.directory import MODEL

    found = answer(compare({each.manifest.model: each.estimate for each in ranked}), "image")
    screen.print(f"\n{found.headline}: {found.words}\n", style="bold", soft_wrap=True)
    screen.print("Try next:")
    for words, what in (
        (f"check {out / MODEL} digits", "does the chosen model keep what its numbers rest on?"),
        (f"score {out / BERT} python-topics --block-size 64 --limit 200", "the small BERT on a text"),
        ("select ppca TABLE.csv", "choose the number of components for a table of yours, holes or not"),
    ):
        screen.print(f"  {own_name()} {words}   # {what}", soft_wrap=True, highlight=False)


def own_name() -> str:
    """How to call this command line in the user's shell: by its name if it is found, or by its path.

    Example:
        >>> own_name().endswith("maskevidence")
        True
    """
    called = Path(sys.argv[0])
    if called.name != NAME or shutil.which(NAME) is not None:
        return NAME
    return str(called.relative_to(Path.cwd()) if called.is_relative_to(Path.cwd()) else called)


def _small_bert(screen: Console, folder: Path, seed: int) -> dict[str, Any]:
    """Train a small BERT, show its curve before and after, and write the model and the picture."""
    from maskevidence.demo import BERT_RATES, BERT_STEPS, train_bert
    from maskevidence.display.curve_picture import draw_curves
    from maskevidence.runs.directory import CURVE_PICTURE

    bert = train_bert(seed=seed)
    curves = {"random weights": bert.curve_before, "trained": bert.curve_after}
    estimates = {"random weights": bert.before, "trained": bert.after}
    rows = [
        [
            name,
            *(f"{score:.2f}" for score in curves[name].score[::2]),
            f"{estimate.log_evidence:.1f} ± {estimate.mask_se:.1f}",
        ]
        for name, estimate in estimates.items()
    ]
    columns = ["weights", *(f"{rate:.0%}" for rate in BERT_RATES[::2]), "area ± mask_se"]
    name = common_name(estimates.values())
    title = (
        f"A small BERT, {BERT_STEPS:,} steps by random mask sizes on the text that comes with Python: score "
        f"of a held-out token by the share that is hidden, and {name} of a block, nats"
    )
    screen.print(FittingTable(Table(columns, rows, title)))
    screen.print(f"Word frequencies alone score {bert.unigram:.2f}.")
    screen.print(bert.in_words())
    bert.model.save(folder)
    try:
        write_atomic(folder / CURVE_PICTURE, draw_curves(curves, "A small BERT before and after training"))
    except MissingExtraError as error:
        screen.print(f"{CURVE_PICTURE} was not drawn: {error}")
    return {
        "rates": list(BERT_RATES),
        "scores": {name: curve.score.tolist() for name, curve in curves.items()},
        "unigram": bert.unigram,
        "shaped": bert.shaped,
        "held_out": {name: estimate.to_dict() for name, estimate in estimates.items()},
    }
