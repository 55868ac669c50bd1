"""maskevidence plan: the passes that an error of the masks takes with each design."""

from typing import TYPE_CHECKING

from maskevidence.cli import output
from maskevidence.cli.arguments import Data, Model
from maskevidence.cli.options import use_threads
from maskevidence.cli.tables import FittingTable
from maskevidence.tasks.options import Common, PrecisionOptions, Preparation

if TYPE_CHECKING:
    from maskevidence.planning import PassPlan


def plan(
    model: Model,
    data: Data,
    precision: PrecisionOptions,
    preparation: Preparation,
    common: Common,
) -> None:
    """Passes, minutes and memory that an error of the masks takes with each design, after a small pilot.

    The pilot scores a few hundred masks and writes nothing. `score --target-se` stops by itself; where no
    run sees all scores, as with `--shard`, give `--draws` as in this table.

    Examples:

        maskevidence plan ppca:8 digits --target-se 0.05

        maskevidence plan google-bert/bert-base-uncased glue/qnli:validation --target-relative 0.01
    """
    use_threads(common.threads)
    from maskevidence.support.provenance import command, versions
    from maskevidence.tasks.plan import plan as plan_task

    found, notes = plan_task(model, data, precision, preparation)
    screen = output.console(common.json)
    screen.print(_table(found))
    notes = [*notes, *found.notes]
    for note in notes:
        screen.print(f"note: {note}")
    content = found.to_dict() | {"notes": notes, "versions": versions(), "command": command()}
    output.write_json(content, common.json)


def _table(found: "PassPlan") -> FittingTable:
    """One line for each design."""
    rows = [
        [
            one.design if one.kind != "pseudo" else f"{one.design} (pseudo)",
            one.options,
            f"{one.passes:,}" if one.passes < 1e9 else f"{one.passes:.2g}",
            _in_words(one.minutes),
            f"{one.memory / 2**20:,.1f}",
            f"{one.mask_se:.3g}" if one.mask_se else "none",
        ]
        for one in found.designs
    ]
    columns = ("design", "masks", "passes", "minutes", "MiB", "mask error")
    title = f"for a mask error of {found.wanted:.3g} nats, from a pilot of {found.pilot_passes:,} passes"
    return FittingTable(columns, rows, title)


def _in_words(minutes: float) -> str:
    return f"{minutes:,.0f}" if minutes >= 10 else f"{minutes:.2g}" if minutes >= 0.01 else "< 0.01"
