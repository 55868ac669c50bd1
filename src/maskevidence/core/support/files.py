"""Atomic writes that survive a crash, and the format of JSON and CSV files."""

import csv
import errno
import io
import json
import math
import numbers
import os
import re
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from maskevidence.core.errors import InputError
from maskevidence.core.support.provenance import digest

TEMPORARY = ".tmp"
_QUOTED = re.compile(r'[,"\r\n]')  # makes the quotes of a cell in CSV necessary


def write_atomic(path: str | Path, content: str | bytes | Iterable[str] | Iterable[bytes]) -> None:
    """Write a file atomically: write and sync a temporary file, rename it, sync the folder.

    Its content may come in pieces, so that a long file need not be in memory.

    The target of a symbolic link is replaced, not the link, and keeps its permissions. A pipe or a device is
    written to, not replaced.

    Example:
        >>> path = Path(tempfile.mkdtemp()) / "a.txt"
        >>> write_atomic(path, "text")
        >>> path.read_text()
        'text'
    """
    path = Path(path)
    pieces = (content,) if isinstance(content, str | bytes) else content
    data = (piece.encode() if isinstance(piece, str) else piece for piece in pieces)
    with writing(path):
        if _is_stream(path):
            with os.fdopen(os.open(path, os.O_WRONLY), "wb") as stream:
                stream.writelines(data)
        else:
            _replace(Path(os.path.realpath(path)), data)


def _is_stream(path: Path) -> bool:
    """Whether a path is a pipe or a device, to which data are written directly."""
    try:
        mode = path.stat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        return False
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))


def _replace(target: Path, data: Iterable[bytes]) -> None:
    temporary = None
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(TEMPORARY, _prefix(target), target.parent)
        with os.fdopen(handle, "wb") as file:
            _lock(handle)
            file.writelines(data)
            file.flush()
            os.fsync(file.fileno())
        _replace_file(Path(temporary), target)
        sync_folder(target.parent)
    except BaseException:  # including interruptions
        if temporary is not None:
            Path(temporary).unlink(missing_ok=True)
        raise


def _prefix(target: Path) -> str:
    """The common prefix of a target's temporary files."""
    return f".{digest(os.fsencode(target.name))[:12]}-"


def _lock(handle: int) -> None:
    """Mark an open temporary file as in use; raise an OSError if another process uses it."""
    with suppress(ImportError):  # Windows removes no open file
        import fcntl

        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _remove_leftovers(target: Path) -> None:
    """Remove temporary files that killed processes left for a target."""
    for leftover in target.parent.glob(f"{_prefix(target)}*{TEMPORARY}"):
        with suppress(OSError), leftover.open("rb") as file:
            _lock(file.fileno())
            leftover.unlink()


def _replace_file(new: Path, target: Path) -> None:
    """Rename a file to its target, keeping the permissions of a file that it replaces."""
    if target.exists():
        mode = stat.S_IMODE(target.stat().st_mode)
    else:
        mask = os.umask(0)
        os.umask(mask)
        mode = 0o666 & ~mask
    os.chmod(new, mode)
    os.replace(new, target)


@contextmanager
def replacing_files(folder: Path) -> Iterator[Path]:
    """A temporary folder for another library's files, which are moved into `folder` at the end.

    Each file is there as a whole or not at all, `config.json` after the weights that belong to it.

    Example:
        >>> folder = Path(tempfile.mkdtemp())
        >>> with replacing_files(folder) as new:
        ...     _ = (new / "a.txt").write_text("text")
        >>> [path.name for path in folder.iterdir()]
        ['a.txt']
    """
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(TEMPORARY, ".", folder) as new:
            yield Path(new)
            for path in sorted(Path(new).rglob("*"), reverse=True):  # model.safetensors before config.json
                if path.is_file():
                    target = folder / path.relative_to(new)
                    target.parent.mkdir(exist_ok=True)
                    _replace_file(path, target)
        sync_folder(folder)


def check_place(path: str | Path, *, folder: bool = False, replaces: bool = True) -> None:
    """Raise an InputError for a path that cannot be written to, before any work; leave nothing there.

    A folder that holds files is left to the command: a finished run is read on a read-only disk, too.

    Args:
        replaces: whether an existing file may be replaced.

    Example:
        >>> check_place(Path(tempfile.mkdtemp()) / "new" / "a.json")
        >>> check_place("/")
        Traceback (most recent call last):
        ...
        maskevidence.core.errors.InputError: '/' is a folder; give a file
    """
    path = Path(path)
    with writing(path):
        if not folder and _is_stream(path):
            return
        target = Path(os.path.realpath(path))
        if not folder and target.is_dir():
            raise InputError(f"{str(path)!r} is a folder; give a file")
        if not folder:
            _remove_leftovers(target)
        if not folder and not replaces and target.exists():
            raise InputError(f"{str(path)!r} exists; give another file, or --overwrite to replace it")
        candidates = [target, *target.parents] if folder else target.parents
        with suppress(FileNotFoundError, NotADirectoryError):
            path.stat()  # raises an OSError if the name is too long or links form a loop
        nearest = next(folder_or_file for folder_or_file in candidates if folder_or_file.exists())
        if nearest == target and not nearest.is_dir():
            raise InputError(f"{str(path)!r} is a file; give a folder")
        if not nearest.is_dir():
            raise InputError(
                f"{str(path)!r} cannot be written: {str(nearest)!r} is a file; give another place"
            )
        if nearest == target and any(target.iterdir()):
            return  # the folder may hold a finished run, which is only read
        with tempfile.TemporaryFile(dir=nearest):
            pass


def remove_temporaries(folder: Path) -> None:
    """Remove temporary files that a kill left in a folder; no other process may use the folder."""
    with writing(folder):
        for leftover in folder.glob(f".*{TEMPORARY}"):
            if leftover.is_dir() and not leftover.is_symlink():
                shutil.rmtree(leftover)
            else:
                leftover.unlink(missing_ok=True)


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn an OSError from writing to a place into an InputError of one line."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise InputError(
                f"no space is left for {str(path)!r}; free some space and run the same command again, which "
                "resumes from what was saved"
            ) from error
        raise InputError(f"{str(path)!r} cannot be written ({error.strerror}); give another place") from error


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Turn an OSError from reading a place into an InputError of one line.

    A pipe is refused: it would be waited for without end.
    """
    try:
        if path.is_fifo():
            raise InputError(f"{str(path)!r} is a pipe; give a file")
        yield
    except OSError as error:
        raise InputError(f"{str(path)!r} cannot be read ({error.strerror}); check the path") from error


def json_text(content: Any) -> str:
    """Format JSON as this package does: two spaces of indent, no NaN, a final newline.

    Example:
        >>> json_text({"seed": 0})
        '{\\n  "seed": 0\\n}\\n'
    """
    return json.dumps(content, indent=2, allow_nan=False) + "\n"


def write_json(path: str | Path, content: Any) -> None:
    """Write a JSON file atomically."""
    write_atomic(path, json_text(content))


def model_inside(path: Path) -> str:
    """Name the newest model inside a folder, such as a checkpoint, or around a path, for a refusal; or ""."""
    around = (path.parent / "config.json", path.parent / "model" / "config.json") if path.exists() else ()
    held = sorted(path.glob("*/config.json"), key=lambda file: file.stat().st_mtime)
    held = held or [file for file in around if file.is_file() and file.parent != path]
    return f"; its model is in {str(held[-1].parent)!r}: give that" if held else ""


def read_json(path: str | Path, remedy: str = "check the path") -> Any:
    """Read a JSON file.

    Args:
        remedy: what the user can do about a damaged file, as the end of the message.
    """
    file = Path(path)
    with reading(file):
        content = file.read_bytes()
    try:
        return json.loads(content)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{str(file)!r} cannot be read as JSON ({error}); {remedy}") from error


class CsvText(io.StringIO):
    r"""A stream for csv.writer: its line end "\r\n", by which it quotes both characters, becomes "\n"."""

    def write(self, line: str) -> int:
        return super().write(line.removesuffix("\r\n") + "\n")


def csv_text(columns: Iterable[str], rows: Iterable[Iterable[object]]) -> str:
    """CSV text with a header; None and NaN become empty cells, floats keep every digit.

    Example:
        >>> csv_text(["size", "score"], [(1, -0.5), (2, math.nan)])
        'size,score\\n1,-0.5\\n2,\\n'
    """
    text = CsvText()
    writer = csv.writer(text, lineterminator="\r\n")
    writer.writerow(columns)
    writer.writerows([_cell(value) for value in row] for row in rows)
    return text.getvalue()


def csv_lines(columns: Iterable[Sequence[object]]) -> str:
    r"""The lines that `csv_text` gives, without a header, from columns of one type each, and faster.

    Example:
        >>> csv_lines([[1, 2], [-0.5, None], ["a", "b, c"]])
        '1,-0.5,a\n2,,"b, c"\n'
    """
    cells = [_texts(column) for column in columns]
    return "\n".join([*map(",".join, zip(*cells, strict=True)), ""])


def _texts(column: Sequence[object]) -> list[str]:
    """The cells of a column; `float.__repr__` takes two thirds of the time of `str`."""
    kinds = set(map(type, column)) - {type(None)}
    write: Callable[[Any], str] = float.__repr__ if kinds == {float} else str
    texts = ["" if value is None else write(value) for value in column]
    if not any(issubclass(kind, str) for kind in kinds):
        return texts
    return [f'"{text.replace(chr(34), chr(34) * 2)}"' if _QUOTED.search(text) else text for text in texts]


def _cell(value: object) -> str:
    if isinstance(value, numbers.Real) and not isinstance(value, numbers.Integral):
        return "" if math.isnan(value) else repr(float(value))
    return "" if value is None else str(value)


def sync_folder(folder: Path) -> None:
    """Make renames in a folder survive a power failure, if the system can."""
    if os.name == "posix":
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
