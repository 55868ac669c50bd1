"""Check whether a folder already holds the result of the same command."""

from collections.abc import Callable, Sequence
from typing import Any

from maskevidence import __version__
from maskevidence.core.model import fingerprint
from maskevidence.core.support.provenance import digest
from maskevidence.core.table import Table
from maskevidence.runs.folder import ResultFolder, read_sealed, seal

ASKED = "asked"  # key of the hash of settings, model and tables


def hash_of(settings: Sequence[Any], saved: Any, tables: Sequence[Table | None]) -> str:
    """Hash the settings, the saved model, the tables and the version: everything that determines a result."""
    of_tables = []
    for table in filter(None, tables):
        named = [table.columns, dict(table.levels), dict(table.kinds), table.labels]
        of_tables.append([*named, digest(table.values)])
    return seal([*settings, None if saved is None else fingerprint(saved), of_tables, __version__])


def finished(folder: ResultFolder | None, asked: Callable[[], str], remedy: str, *, overwrite: bool) -> Any:
    """The content of a folder whose result was asked in the same way; None to compute it.

    Args:
        asked: gives `hash_of` what is asked, which may have to read a long file; called if there is a result.

    Raises:
        InputError: another result, without `overwrite`.
    """
    if folder is None or overwrite or not (folder.path / folder.files[-1]).exists():
        return None
    content = read_sealed(folder.path / folder.files[-1], remedy)
    if content.get(ASKED) != asked():
        folder.refuse(overwrite=False)
    return content
