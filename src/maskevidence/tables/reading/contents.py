"""Text from the bytes of a file: encodings, archives, sheets of a spreadsheet."""

import codecs
import csv
import io
import zipfile
from datetime import date, datetime, time
from typing import Any

from maskevidence.core.errors import InputError, import_extra

SHEETS = (".xlsx", ".xlsm")
_MARKS = [  # byte order marks, the longer ones first
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
]
_CONTROLS = {*range(32)} - {*b"\t\n\v\f\r\x1a\x1b"}  # characters that no text has


def unzipped(name: str, content: bytes) -> tuple[str, bytes]:
    """The name and the content of the one file in a zip archive."""
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            inside = [
                info for info in archive.infolist() if not info.is_dir() and "__MACOSX" not in info.filename
            ]
            if len(inside) != 1:
                raise InputError(f"{name!r} holds {len(inside)} files; give an archive of one, or unpack it")
            return inside[0].filename, archive.read(inside[0])
    except (zipfile.BadZipFile, RuntimeError, NotImplementedError, EOFError) as error:
        raise InputError(f"{name!r} cannot be read as a zip archive: {error}; pack it again") from error


def text_of(name: str, content: bytes, encoding: str | None = None) -> tuple[str, str]:
    """The text of a file and its encoding: by its byte order mark, else UTF-8, else Windows-1252 or Latin-1.

    Args:
        encoding: as the user gave it; None to find it.

    Example:
        >>> text_of("a.csv", "größe".encode("latin-1")), text_of("a.csv", "a".encode("utf-16"))
        (('größe', 'cp1252'), ('a', 'utf-16'))
    """
    marked = next((found for mark, found in _MARKS if content.startswith(mark)), None)
    tried, failure = ["utf-8", "cp1252", "latin-1"], None
    if encoding is not None or marked is not None:
        tried = [encoding or marked or ""]
    for each in tried:
        try:
            text = content.decode(each)
        except LookupError as error:
            known = "utf-8, cp1252 or latin-1, for example"
            raise InputError(f"--encoding {encoding!r} is not known; give {known}") from error
        except UnicodeDecodeError as error:
            failure = failure or error
            continue
        if failure is not None and not _CONTROLS.isdisjoint(content[: 2**20]):
            break  # no text at all
        name_of = codecs.lookup(each).name if encoding else each
        return text.removeprefix("\ufeff"), "utf-8" if name_of == "utf-8-sig" and not encoding else name_of
    assert failure is not None
    where, of = f"byte 0x{content[failure.start]:02x} at offset {failure.start:,}", encoding or marked
    what, remedy = f"text in {of}", "give another --encoding"
    if of in (None, "utf-8-sig"):
        what, remedy = "UTF-8 text", "save it as UTF-8, or give --encoding"
    raise InputError(f"{name!r} is not {what}: {where}; {remedy}") from failure


def sheet_text(name: str, content: bytes) -> tuple[str, list[str]]:
    """The first sheet of a spreadsheet as the text of a CSV file, and notes on other sheets."""
    openpyxl: Any = import_extra("openpyxl", "xlsx", f"{name!r}, a spreadsheet,")
    try:
        book = openpyxl.load_workbook(io.BytesIO(content), read_only=True, data_only=True)
        sheet = book.worksheets[0]
        rows = [[_cell_text(cell) for cell in row] for row in sheet.iter_rows(values_only=True)]
        names = [each.title for each in book.worksheets]
    except (zipfile.BadZipFile, KeyError, ValueError, IndexError, OSError) as error:
        raise InputError(
            f"{name!r} cannot be read as a spreadsheet: {error}; save it again, or as CSV"
        ) from error
    while rows and not any(rows[-1]):
        rows.pop()
    width = max((k + 1 for row in rows for k, cell in enumerate(row) if cell), default=0)
    written = io.StringIO(newline="")
    csv.writer(written, lineterminator="\n").writerows(
        [*row[:width], *[""] * (width - len(row))] for row in rows
    )
    notes = [f"the sheet {names[0]!r} is read, the first of {len(names)}"] if len(names) > 1 else []
    return written.getvalue(), notes


def _cell_text(cell: Any) -> str:
    """A cell of a spreadsheet as text; dates as in ISO 8601."""
    if cell is None:
        return ""
    if isinstance(cell, datetime):
        return str(cell.date()) if cell.time() == time() else cell.isoformat(" ", "seconds")
    if isinstance(cell, date | time):
        return cell.isoformat()
    if isinstance(cell, float) and cell.is_integer() and abs(cell) < 2**53:
        return str(int(cell))
    return str(cell).replace("\r\n", " ").replace("\n", " ").replace("\r", " ")
