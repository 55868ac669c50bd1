"""maskevidence look: one command for a table, and one page."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Annotated, Any

from maskevidence.command.options import Argument, Result
from maskevidence.core.errors import InputError
from maskevidence.tables.kind import rows
from maskevidence.tables.looking import CELLS, COLUMNS, MODEL, PAGE, SD, TABLE
from maskevidence.tables.table_options import LookOptions

if TYPE_CHECKING:
    from maskevidence.runs.folder import ResultFolder
    from maskevidence.tables.looking.look_result import Look

UNFINISHED = "unfinished"
FILES = ("filled.*", SD, CELLS, COLUMNS, PAGE, MODEL, TABLE)
_REMEDY = "look again with --overwrite"


def look_command(
    data: Annotated[
        str,
        Argument("FILE", "A .csv, .tsv, .xlsx, .parquet, .feather or .npy table, or an address (s3://...)."),
    ],
    options: LookOptions = LookOptions(),
) -> Result:
    """Look at a table: what its columns are, what stood in its holes, and which cells may be wrong.

    The file is read, and what a person has to decide is listed, with what was assumed and the option that
    decides otherwise. The model that fills hidden cells best is fitted; the holes are filled, and the cells
    that the rest of their row makes unlikely are listed. Nothing else is changed. The folder gets index.html,
    which needs no network, the filled table in the format of the file, the errors of filled values, the cells
    to look at, the columns, and the model for `impute`, `score` and `cells`. The same command resumes an
    interrupted one.

    Examples:

        maskevidence look table.csv
        maskevidence look table.csv --missing "-999,?" --out looks/table
        maskevidence cells kernel-gaussian table.csv --columns looks/table/table.json
    """
    rows.check_words(None, data)
    from maskevidence.core.support.files import read_json, write_json
    from maskevidence.runs.folder import ResultFolder, write_sealed
    from maskevidence.tables.finished import ASKED, finished
    from maskevidence.tables.looking.look_files import write_look
    from maskevidence.tables.looking.look_page import short_page
    from maskevidence.tables.looking.looking import check_word, look_at

    if not options.minutes > 0:
        raise InputError(f"--minutes {options.minutes:g}; give a number above 0, such as 2")
    check_word(options.model)
    path = options.out or Path(f"{_stem(data)}-look")
    folder = ResultFolder(path, "look at a table", FILES, (*FILES, UNFINISHED))
    folder.refuse_unrelated()
    asked = _asked(data, options)
    content = finished(folder, lambda: asked, _REMEDY, overwrite=options.overwrite)
    if content is not None:
        return Result(_headline_of(content), content, folder.finished_before("looks again"))

    def write(seen: "Look") -> None:
        folder.remove(*reversed(FILES))
        write_look(seen, path)

    with _locked(folder, asked, read_json, write_json):
        seen = look_at(data, options, path / UNFINISHED, write)
        content = {"command_data": data, ASKED: asked} | seen.to_dict()
        write_sealed(path / TABLE, content)
        folder.remove(UNFINISHED)
    held = sorted(each.name for each in path.iterdir() if not each.name.startswith("."))
    lines = [f"Written to {path}: {', '.join(held)}", f"Open {path / PAGE} in a browser"]
    return Result(short_page(seen), content, lines)


@contextmanager
def _locked(folder: "ResultFolder", asked: str, read_json: Any, write_json: Any) -> Iterator[None]:
    """Lock the folder, remove another look's unfinished files, and report what an interruption keeps."""
    from maskevidence.runs.folder import locked

    unfinished = folder.path / UNFINISHED
    with locked(folder.path):
        folder.remove_temporaries()
        mark = unfinished / "asked.json"
        if unfinished.exists() and (not mark.is_file() or read_json(mark, _REMEDY) != asked):
            folder.remove(UNFINISHED)
        write_json(mark, asked)
        try:
            yield
        except KeyboardInterrupt:
            n = sum(each.is_dir() for each in unfinished.iterdir())
            fits = (
                f"{n} fit{'' if n == 1 else 's'} of the model {'is' if n == 1 else 'are'} kept"
                if n
                else "nothing is kept yet"
            )
            sys.stderr.write(f"\n{fits} in {folder.path}; the same command goes on\n")
            raise


def _asked(data: str, options: LookOptions) -> str:
    """Hash the file, the settings and the version: everything that determines the result."""
    from maskevidence import __version__
    from maskevidence.core.support.provenance import digest
    from maskevidence.core.support.sources import is_remote
    from maskevidence.runs.folder import seal

    content = data if is_remote(data) else digest(Path(data).read_bytes())
    settings = [options.model, options.minutes, options.seed, options.limit, vars(options.table)]
    return seal([data, content, settings, __version__])


def _stem(data: str) -> str:
    """The name of a file without its endings."""
    return PurePosixPath(Path(data).as_posix()).name.partition(".")[0] or "table"


def _headline_of(content: dict[str, Any]) -> Any:
    """The page of an earlier, finished look."""
    from maskevidence.core.show.parts import Page
    from maskevidence.core.show.words import count

    headline = f"{count(content['n_rows'], 'row')}, {count(len(content['columns']), 'column')}"
    aside = f"({count(content['filled'], 'hole')} filled, {count(content['cells'], 'cell')} to look at)"
    return Page("", headline, aside)
