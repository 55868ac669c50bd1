"""maskevidence demo: the main job on embedded data, in about half a minute."""

import time
from pathlib import Path
from typing import Annotated

import typer

from maskevidence.cli import options, output
from maskevidence.cli.paper import table_1_view
from maskevidence.errors import InputError
from maskevidence.report import write_run
from maskevidence.runs import DataSource, Manifest, RunDirectory


def demo(
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="Leave the run in this folder.")] = Path(
        "runs/demo"
    ),
    overwrite: options.Overwrite = False,
    seed: options.Seed = 0,
    threads: options.Threads = None,
    json: options.Json = None,
) -> None:
    """Show it on embedded data: the paper's Table 1, then PPCA on 1,797 real images of digits."""
    options.use_threads(threads)
    from maskevidence.data.tabular import digits
    from maskevidence.demo import choose_components, smallest_of_the_best
    from maskevidence.paper.table_1 import table_1

    folder = RunDirectory(out)
    if folder.manifest() is not None and not overwrite:
        raise InputError(f"{str(out)!r} holds a run; give another folder, or --overwrite to replace it")
    screen = output.console(json)
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

    manifest = Manifest(
        model=f"ppca:{chosen.n_components}",
        conditionals=chosen.prepared.model.conditionals,
        data=DataSource(
            name=table.name,
            fingerprint=chosen.prepared.table.fingerprint(),
            source_fingerprint=table.fingerprint(),
            n_observations=len(chosen.prepared.table),
            columns=list(chosen.prepared.table.columns),
            test_fraction=0.2,
            notes=list(chosen.prepared.notes),
        ),
        design=chosen.estimate.design,
        masks=chosen.estimate.masks,
        seed=chosen.estimate.seed,
        rows_per_block=len(chosen.prepared.table),
        closed_form=chosen.result["closed_form"],
    )
    folder.check(manifest, overwrite=overwrite)
    missing = write_run(folder, manifest, chosen.result, chosen.estimate, chosen.prepared.model)
    screen.print(f"Part 2, PPCA on digits: {time.perf_counter() - start:.1f} s\n")
    screen.print(f"Left in {folder.path}: {', '.join(folder.files())}" + (f"\n{missing}" if missing else ""))
    output.write_json({"table_1": printed, "digits": [candidate.result for candidate in ranked]}, json)
