"""maskevidence select: the family of models and the number of components that the data support."""

from typing import TYPE_CHECKING, Annotated

from maskevidence.cli import output
from maskevidence.cli.options import use_threads
from maskevidence.show.parts import Table
from maskevidence.show.terminal import FittingTable
from maskevidence.tasks.declaring import Argument
from maskevidence.tasks.options import Common, SelectOptions
from maskevidence.wording import count, digits_for, plus_minus, standard_error

if TYPE_CHECKING:
    from maskevidence.tasks.selection import Candidate, Selection

MAX_SHOWN = 24


def select(
    families: Annotated[
        str,
        Argument(
            "FAMILIES",
            "Families between commas: ppca, factor-analysis, gaussian, kernel-gaussian, vae; or "
            "bernoulli-pca, bernoulli-vae. A word such as ppca:3 stands for one model.",
        ),
    ],
    data: Annotated[
        str,
        Argument("DATA", "digits, or a .csv, .tsv, .parquet, .feather or .npy table, or its address."),
    ],
    options: SelectOptions,
    common: Common,
) -> None:
    """Choose a family of models and its number of components by held-out evidence.

    Every row is held out once and scored by models that were fitted to the others. The choice is the model
    with the highest log evidence of these rows. The smallest model that cannot be told apart from it is
    printed, too, with what it gives up: no other model beats it, and these comparisons hold together at 95 %.
    With --out, the chosen model is fitted to all rows and saved for `score` and `impute`.

    Examples:

        maskevidence select ppca,factor-analysis table.csv --components 1-20

        maskevidence select gaussian,kernel-gaussian,factor-analysis table.csv --out runs/chosen

        maskevidence impute runs/chosen/model table.csv --out filled.csv
    """
    use_threads(common.threads)
    from maskevidence.tasks.select_rows import select_rows

    selected = select_rows(families, data, options)
    screen = output.console(common.json)
    screen.print(view(selected.selection))
    screen.print(selected.selection.answer(), soft_wrap=True)
    for note in selected.selection.notes:
        screen.print(f"note: {note}")
    if selected.folder is not None:
        screen.print(selected.missing or "", end="\n" if selected.missing else "")
        screen.print(f"Written to {selected.folder}: {', '.join(selected.files)}")
    output.write_json(selected.result, common.json)


def view(selection: "Selection") -> FittingTable:
    """The best candidates, the first of which is chosen."""
    candidates = list(selection.candidates[:MAX_SHOWN])
    if selection.smallest not in candidates:
        candidates.append(selection.smallest)
    errors = [error for one in candidates for error in (one.mask_se, one.data_se)]
    digits = digits_for(*errors)
    masks = any(one.mask_se != 0 for one in candidates)  # closed forms have no mask error
    rows = [_row(one, digits, chosen=one is selection.chosen, masks=masks) for one in candidates]
    hidden = len(selection.candidates) - len(candidates)
    more = f"; the {count(hidden, 'other')} are worse" if hidden else ""
    title = (
        f"Held-out log evidence ± data error, nats per row, {selection.n_observations:,} rows in "
        f"{selection.folds} folds; * chosen{more}"
    )
    columns = ["model", "params", "log evidence", *["mask error"] * masks, "behind best", "beaten by"]
    return FittingTable(Table(columns, rows, title))


def _row(one: "Candidate", digits: int, *, chosen: bool, masks: bool) -> list[str]:
    behind = (
        "best" if one.behind is None else plus_minus(one.behind.difference, one.behind.standard_error, digits)
    )
    return [
        one.name + (" *" if chosen else ""),
        f"{one.n_parameters:,}",
        plus_minus(one.log_evidence, one.data_se, digits),
        *[standard_error(one.mask_se, digits)] * masks,
        behind,
        one.beaten_by or "–",
    ]
