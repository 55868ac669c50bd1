"""maskevidence demo: the main job on embedded data, in about two minutes."""

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from maskevidence.cli import output
from maskevidence.cli.options import use_threads
from maskevidence.cli.paper import table_1_view
from maskevidence.errors import InputError, MissingExtraError
from maskevidence.support.files import write_atomic
from maskevidence.tasks.declaring import Option
from maskevidence.tasks.options import Common, Overwrite, Seed

if TYPE_CHECKING:
    from maskevidence.runs import Manifest

BERT = "bert"
REPORT = "report.html"


def demo(
    common: Common,
    out: Annotated[Path, Option("Write the run into this folder.", "DIR")] = Path("runs/demo"),
    overwrite: Overwrite = False,
    seed: Seed = 0,
) -> None:
    """Show it on embedded data: the paper's Table 1, PPCA on 1,797 images of digits, a small BERT on text."""
    use_threads(common.threads)
    from maskevidence.data.tabular import digits
    from maskevidence.demo import choose_components, smallest_of_the_best
    from maskevidence.paper.table_1 import table_1
    from maskevidence.runs import RunDirectory, write_run

    folder = RunDirectory(out)
    if folder.manifest() is not None and not overwrite:
        raise InputError(f"{str(out)!r} holds a run; give another folder, or --overwrite to replace it")
    screen = output.console(common.json)
    start = time.perf_counter()
    printed = table_1()
    screen.print(table_1_view(printed))
    screen.print(f"Part 1, the paper's Table 1: {time.perf_counter() - start:.1f} s\n")

    start = time.perf_counter()
    table = digits()
    ranked = choose_components(table, seed=seed)
    chosen = smallest_of_the_best(ranked)
    rows = [
        [
            f"ppca:{candidate.n_components}" + (" *" if candidate is chosen else ""),
            f"{candidate.estimate.log_evidence:.2f}",
            f"{candidate.estimate.mask_se:.2f}",
            f"{candidate.estimate.data_se:.2f}",
            f"{candidate.result['closed_form']:.2f}",
            "best" if candidate is ranked[0] else f"{candidate.behind:.2f} ± {candidate.behind_se:.2f}",
        ]
        for candidate in ranked
    ]
    columns = ["model", "log evidence", "mask_se", "data_se", "closed form", "behind best"]
    screen.print(output.table(columns, rows, "PPCA on digits: held-out log evidence, nats per image"))
    screen.print("* chosen: the smallest model whose 95 % interval behind the best holds zero")
    for note in chosen.prepared.notes:
        screen.print(f"note: {note}")

    manifest = _manifest(chosen)
    folder.check(manifest, overwrite=overwrite)
    missing = write_run(folder, manifest, chosen.result, chosen.estimate, chosen.prepared.model)
    screen.print(f"Part 2, PPCA on digits: {time.perf_counter() - start:.1f} s\n")
    screen.print(f"Left in {folder.path}: {', '.join(folder.files())}" + (f"\n{missing}" if missing else ""))

    bert = _small_bert(screen, out / BERT, seed)
    report_candidates(screen, ranked, chosen, out / REPORT)
    results = {"table_1": printed, "digits": [candidate.result for candidate in ranked], "bert": bert}
    output.write_json(results, common.json)


def _manifest(candidate: Any) -> "Manifest":
    """What the run of one candidate is of."""
    from maskevidence.runs import Manifest

    prepared, estimate = candidate.prepared, candidate.estimate
    return Manifest(
        model=f"ppca:{candidate.n_components}",
        conditionals=prepared.model.conditionals,
        data=prepared.source,
        design=estimate.design,
        masks=estimate.masks,
        seed=estimate.seed,
        rows_per_block=len(prepared.tokens),
        closed_form=candidate.result["closed_form"],
    )


def report_candidates(screen: Any, ranked: Any, chosen: Any, target: Path) -> None:
    """One page on the best candidates for digits, and on the smallest for contrast."""
    from maskevidence.report.page import write_report
    from maskevidence.report.reading import ReportedRun

    smallest = min(ranked, key=lambda candidate: candidate.n_components)
    shown = {candidate.n_components: candidate for candidate in (ranked[0], chosen, ranked[1], smallest)}
    runs = [
        ReportedRun(f"ppca:{k}", _manifest(candidate), candidate.estimate)
        for k, candidate in sorted(shown.items())
    ]
    try:
        write_report(runs, target)
    except MissingExtraError as error:
        screen.print(f"{target.name} was not written: {error}")
    else:
        screen.print(f"\nReport, to be opened in a browser: {target}", soft_wrap=True)


def _small_bert(screen: Any, folder: Path, seed: int) -> dict[str, Any]:
    """Part 3: train it, show the curve before and after, and leave the model and the picture."""
    from maskevidence.demo import BERT_RATES, BERT_STEPS, train_bert
    from maskevidence.runs.curve_picture import draw_curves
    from maskevidence.runs.directory import CURVE_PICTURE

    start = time.perf_counter()
    screen.print("")
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
    title = (
        f"A small BERT, {BERT_STEPS:,} steps by random mask sizes on the text that comes with Python: score "
        "of a held-out token by the share that is hidden, and log evidence of a block, nats"
    )
    screen.print(output.table(columns, rows, title))
    screen.print(f"Word frequencies alone score {bert.unigram:.2f}.")
    shaped = "The curve is shaped" if bert.shaped else "The curve is not shaped"
    screen.print(f"{shaped}: what is visible {'helps' if bert.shaped else 'does not help enough'}.")
    bert.model.save(folder)
    try:
        write_atomic(folder / CURVE_PICTURE, draw_curves(curves, "A small BERT before and after training"))
    except MissingExtraError as error:
        screen.print(f"{CURVE_PICTURE} was not drawn: {error}")
    screen.print(f"Part 3, a small BERT: {time.perf_counter() - start:.1f} s\n")
    screen.print(f"Left in {folder}: the model, and {CURVE_PICTURE} where it could be drawn")
    return {
        "rates": list(BERT_RATES),
        "scores": {name: curve.score.tolist() for name, curve in curves.items()},
        "unigram": bert.unigram,
        "shaped": bert.shaped,
        "held_out": {name: estimate.to_dict() for name, estimate in estimates.items()},
    }
