"""maskevidence plan: how many random sizes a target for the masks' error takes."""

from typing import Annotated

from maskevidence.cli import output
from maskevidence.cli.arguments import Data, Model
from maskevidence.cli.options import use_threads
from maskevidence.kinds.declaring import Option
from maskevidence.kinds.options import Common, PrecisionOptions, Preparation


def plan(
    model: Model,
    data: Data,
    precision: PrecisionOptions,
    preparation: Preparation,
    common: Common,
    design: Annotated[
        str | None,
        Option("random-size:per-token, if the run is to record the score of each hidden token.", "DESIGN"),
    ] = None,
) -> None:
    """How many passes, minutes and MiB a target for the masks' error takes, from a small pilot.

    The pilot scores a few hundred masks and writes nothing. `score --target-se` stops by itself; where no
    run sees all scores, as with `--shard`, give `score` the design that plan prints.

    Examples:

        maskevidence plan ppca:8 digits --target-se 0.05

        maskevidence plan google-bert/bert-base-uncased glue/qnli:validation --target-relative 0.01
    """
    use_threads(common.threads)
    from maskevidence.support.provenance import command, versions
    from maskevidence.tasks.plan import plan as plan_task

    found, notes = plan_task(model, data, precision, preparation, design)
    screen = output.console(common.json)
    screen.print(f"--design {found}")
    notes = [*notes, *found.notes]
    for note in notes:
        screen.print(f"note: {note}")
    output.write_json(
        found.to_dict() | {"notes": notes, "versions": versions(), "command": command()}, common.json
    )
