"""The folder of one result: one process at a time writes, nothing else is in it, and kills do no harm.

Seals show whether a file was changed since.
"""

import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from maskevidence.core.errors import InputError
from maskevidence.core.support.files import (
    TEMPORARY,
    read_json,
    reading,
    remove_temporaries,
    write_atomic,
    write_json,
    writing,
)
from maskevidence.core.support.provenance import digest

LOCK = ".lock"
HOLDER = ".lock.pid"  # a separate file, since Windows lets nobody read a locked file


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold a folder for this process; the system releases it whenever and however the process ends.

    A folder that is new and still empty after an error is removed.

    Example:
        >>> import tempfile
        >>> with locked(Path(tempfile.mkdtemp())):
        ...     pass
    """
    path, holder, is_new = folder / LOCK, folder / HOLDER, not folder.exists()
    if path.is_symlink():
        raise InputError(f"{str(path)!r} is a symbolic link; remove it, or give another folder")
    lock = FileLock(path)
    with writing(path):
        folder.mkdir(parents=True, exist_ok=True)
        try:
            lock.acquire(timeout=0)
        except Timeout as error:
            raise InputError(
                f"process {_read_pid(holder)} is writing into {str(folder)!r}; "
                "wait until it is done, or give another folder"
            ) from error
    try:
        with writing(holder):
            holder.unlink(missing_ok=True)  # writing would follow a symbolic link
        write_atomic(holder, f"{os.getpid()}\n")
        yield
    except Exception:
        _release(lock, holder)
        with suppress(OSError):
            if is_new and [path.name for path in folder.iterdir()] == [LOCK]:
                path.unlink()
                folder.rmdir()
        raise
    finally:
        _release(lock, holder)


class ResultFolder:
    """The folder of one result.

    Args:
        path: the folder; it need not exist yet.
        noun: the noun for the result, such as "selection".
        files: its files in the order in which they are written; the last one shows that it is complete.
        signs: patterns of file names; a folder with files must match one of them. By default the first and
            the last of `files`.

    Example:
        >>> import tempfile
        >>> folder = ResultFolder(tempfile.mkdtemp(), "search", ["cells.csv", "cells.json"])
        >>> folder.refuse(overwrite=False)
        >>> with folder.rewritten():
        ...     for name in folder.files:
        ...         write_atomic(folder.path / name, "")
        >>> folder.refuse(overwrite=False)
        Traceback (most recent call last):
        ...
        maskevidence.core.errors.InputError: '...' holds another search; give another folder, ...
    """

    def __init__(
        self, path: str | Path, noun: str, files: Sequence[str], signs: Sequence[str] | None = None
    ) -> None:
        self.path = Path(path)
        self.noun = noun
        self.files = files
        self.signs = (files[0], files[-1]) if signs is None else signs

    def refuse_unrelated(self) -> None:
        """Refuse a folder that holds other files but no result of this kind.

        A lock and temporary files, which a kill at the very start leaves, do not count.
        """
        if self.path.is_file():
            raise InputError(f"{str(self.path)!r} is a file; give a folder for the {self.noun}")
        with reading(self.path):
            entries = sorted(self.path.iterdir()) if self.path.is_dir() else []
        held = [path for path in entries if path.name not in (LOCK, HOLDER) and path.suffix != TEMPORARY]
        if held and not any(path.match(sign) for path in held for sign in self.signs):
            raise InputError(
                f"{str(self.path)!r} holds files that belong to no {self.noun} ({held[0].name!r}); "
                "give a new folder"
            )

    def refuse(self, *, overwrite: bool) -> None:
        """Refuse a folder that holds other files or, without `overwrite`, a complete result."""
        self.refuse_unrelated()
        if not overwrite and (self.path / self.files[-1]).exists():
            raise InputError(
                f"{str(self.path)!r} holds another {self.noun}; give another folder, or --overwrite to "
                "replace it"
            )

    @contextmanager
    def rewritten(self) -> Iterator[None]:
        """Hold the folder while a new result replaces an earlier one."""
        with locked(self.path):
            self.remove_temporaries()
            self.remove(*reversed(self.files))
            yield

    def remove_temporaries(self) -> None:
        """Remove the temporary files of a killed process."""
        remove_temporaries(self.path)

    def remove(self, *patterns: str) -> None:
        """Remove files and folders in the order of the patterns; this process must hold the folder.

        Each is renamed first, because a kill may leave half of a folder.
        """
        with writing(self.path):
            for path in [path for pattern in patterns for path in self.path.glob(pattern)]:
                path.rename(self.path / f".{path.name}{TEMPORARY}")
                remove_temporaries(self.path)

    def written(self, missing: str | None = None) -> list[str]:
        """Lines that say where the result is.

        Args:
            missing: a line on a picture that could not be drawn.
        """
        held = [name for name in self.files if (self.path / name).exists()]
        lines = [] if missing is None else [missing]
        return [*lines, f"Written to {self.path}: {', '.join(held)}"]

    def finished_before(self, again: str) -> list[str]:
        """Say that the folder already holds the finished result; `again` says what --overwrite does."""
        return [f"This {self.noun} in {self.path} was finished before; --overwrite {again}."]


def seal(content: Any) -> str:
    """SHA-256 of a JSON value, regardless of spaces and key order.

    Example:
        >>> seal({"seed": 0, "masks": "own"}) == seal({"masks": "own", "seed": 0})
        True
    """
    return digest(json.dumps(content, sort_keys=True))


def write_sealed(path: Path, content: dict[str, Any]) -> None:
    """Write a JSON file with its seal."""
    write_json(path, content | {"seal": seal(content)})


def read_sealed(path: Path, remedy: str) -> dict[str, Any]:
    """Read a sealed JSON file and remove the seal; a changed file raises an InputError with the remedy."""
    content = read_json(path, remedy)
    if not isinstance(content, dict) or content.pop("seal", None) != seal(content):
        raise InputError(f"{str(path)!r} was changed after it was written; {remedy}")
    return content


def seal_of_files(folder: Path) -> str:
    """SHA-256 of names and contents of all files below a folder, except hidden files."""
    with reading(folder):
        files = [path.relative_to(folder) for path in folder.rglob("[!.]*") if path.is_file()]
        contents = {path.as_posix(): (folder / path).read_bytes() for path in files}
    return seal({name: digest(content) for name, content in contents.items()})


def _release(lock: FileLock, holder: Path) -> None:
    with suppress(OSError):  # a leftover file is harmless: the next holder replaces it
        holder.unlink(missing_ok=True)
    lock.release()


def _read_pid(path: Path) -> str:
    with suppress(OSError, ValueError):
        return str(int(path.read_text(encoding="ascii")))
    return "(unknown)"
