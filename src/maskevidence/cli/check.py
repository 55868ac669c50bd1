"""maskevidence check: whether a model keeps the protocol that its scores rest on."""

import typer

from maskevidence.cli import output
from maskevidence.cli.arguments import Data, Model
from maskevidence.cli.options import use_threads
from maskevidence.kinds.options import Common, Preparation
from maskevidence.show.terminal import print_page


def check(model: Model, data: Data, preparation: Preparation, common: Common) -> None:
    """Check that MODEL keeps the protocol on DATA, so that its scores can be trusted.

    Every check says on how many rows and masks it was made, what it found, and what to look at: whether
    answers leak hidden values, depend on other rows or on padding, belong to another place, do not sum to 1,
    or do not fit one joint density; and for texts, whether bytes and scored tokens are those of the text.

    The exit code is 0 if no check failed, 1 if one did, and 2 if MODEL or DATA cannot be used. The
    statistical checks of one call raise a false alarm on a sound model with a probability of at most 0.1 %.

    Examples:

        maskevidence check ppca:8 digits

        maskevidence check runs/a/model table.csv --json -

        maskevidence check google-bert/bert-base-uncased glue/qnli:validation --text question --limit 200
    """
    use_threads(common.threads)
    from maskevidence.tasks.check import check as check_task

    checked = check_task(model, data, preparation)
    screen = output.console(common.json)
    print_page(screen, checked.report.page())
    for note in checked.notes:
        screen.print(f"note: {note}")
    output.write_json({"data": data} | checked.to_dict(), common.json)
    if not checked.report.ok:
        raise typer.Exit(1)
