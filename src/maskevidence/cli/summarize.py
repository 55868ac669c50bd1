"""maskevidence summarize: the summary of a run from its scores, and of several shards as of one run."""

from pathlib import Path
from typing import Annotated

from maskevidence.cli import output
from maskevidence.kinds.declaring import Argument, Option
from maskevidence.kinds.options import Json, Overwrite


def summarize(
    runs: Annotated[list[Path], Argument("RUN...", "A run directory, or those of all shards of a run.")],
    out: Annotated[
        Path | None, Option("Write the whole run into this folder.", "DIR", writes="folder")
    ] = None,
    overwrite: Overwrite = False,
    json: Json = None,
) -> None:
    """Compute estimate.json, curve.csv and curve.png again from the Parquet scores of a run.

    Several directories must be all shards of one run (score --shard 1/8 ...). They give what one run would
    have given, and --out writes it into a run directory.

    Examples:

        maskevidence summarize runs/a

        maskevidence summarize runs/shard-* --out runs/whole
    """
    from maskevidence.tasks.summarize import summarize as summarize_task

    scored = summarize_task(runs, out, overwrite=overwrite)
    output.show_scored(output.console(json), scored)
    output.write_json(scored.result, json)
