"""maskevidence select: the family of models and the number of components that the data support."""

from typing import Annotated

from maskevidence.cli import output
from maskevidence.cli.options import use_threads
from maskevidence.kinds.declaring import Argument
from maskevidence.kinds.options import Common, SelectOptions
from maskevidence.show.terminal import print_page


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
    print_page(screen, selected.selection.page())
    if selected.folder is not None:
        screen.print(selected.missing or "", end="\n" if selected.missing else "")
        screen.print(f"Written to {selected.folder}: {', '.join(selected.files)}")
    output.write_json(selected.result, common.json)
