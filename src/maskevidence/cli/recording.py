"""A scoring that is left in a run directory as it goes."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from maskevidence.cli import output
from maskevidence.masks import MaskDesign, MaskKey
from maskevidence.models.saving import fingerprint
from maskevidence.runs import (
    DataSource,
    Engine,
    Manifest,
    RunDirectory,
    here,
    read_run,
    record_run,
    rows_per_block,
    write_summary,
)
from maskevidence.tasks.prepare_rows import Prepared


def record(
    screen: Any,
    ready: Prepared,
    model: str,
    data: str,
    design: MaskDesign,
    key: MaskKey,
    out: Path,
    *,
    shard: tuple[int, int],
    overwrite: bool,
    batch_size: int,
    save_every: float,
    options: Mapping[str, Any],
    engine: Engine = here,
) -> dict[str, Any]:
    """Score into a run directory, or go on with the same run there, and say what was left.

    Args:
        screen: where the table goes.
        ready: the model and its rows.
        model: its word.
        data: the word of the data.
        design: how masks are drawn.
        key: seed and sharing of the masks.
        out: the run directory.
        shard: (k, n), this is the k-th of n shares of the rows.
        overwrite: replace another run in `out`.
        batch_size: masks in one call of the model.
        save_every: seconds between two saves.
        options: that the data were read with; None or False where not given.
        engine: what calls the model.

    Returns:
        What `estimate.json` holds.
    """
    tokens = ready.table.tokens()
    manifest = Manifest(
        model=model,
        model_fingerprint=None if ready.fitted else fingerprint(ready.model),
        conditionals=ready.model.conditionals,
        data=DataSource(
            name=data,
            fingerprint=ready.table.fingerprint(),
            source_fingerprint=ready.source_fingerprint,
            text_fingerprint=getattr(ready.table, "text_fingerprint", None),
            n_observations=len(ready.table),
            columns=list(ready.table.columns),
            test_fraction=ready.test_fraction,
            options={name: value for name, value in options.items() if value},
            notes=list(ready.notes),
        ),
        design=design.settings(),
        masks=key.masks,
        seed=key.seed,
        shard=shard,
        rows_per_block=rows_per_block(ready.model, tokens, design, key),
        details=ready.details,
    )
    folder = RunDirectory(out)
    n_scored = record_run(
        folder,
        manifest,
        ready.model,
        tokens,
        fitted=ready.fitted,
        overwrite=overwrite,
        batch_size=batch_size,
        save_every=save_every,
        engine=engine,
    )
    finished = folder.estimate() if n_scored == 0 else None
    if finished is not None:
        output.show_estimate(screen, finished)
        screen.print(f"This run in {folder.path} was finished before; --overwrite makes it anew.")
        return finished
    run = read_run(out)
    result = run.result()
    missing = write_summary(folder, run, result)
    output.show_estimate(screen, result)
    screen.print(f"Left in {folder.path}: {', '.join(folder.files())}")
    if missing:
        screen.print(missing)
    return result
