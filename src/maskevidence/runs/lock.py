"""A folder that one process at a time writes into, and that holds nothing else."""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import FileLock, Timeout

from maskevidence.errors import InputError
from maskevidence.support.files import TEMPORARY, reading, remove_temporaries, write_atomic, writing

LOCK = ".lock"
HOLDER = ".lock.pid"  # a file of its own: Windows lets nobody read a file that is locked


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold a folder for this process; the system releases it when the process ends, however it ends.

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
            holder.unlink(missing_ok=True)  # a symbolic link would be written through
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


@contextmanager
def rewritten(folder: Path, last: str) -> Iterator[None]:
    """Hold a folder while a result is written into it, anew; its file `last` shows that it is complete.

    Example:
        >>> import tempfile
        >>> folder = Path(tempfile.mkdtemp())
        >>> with rewritten(folder, "cells.json"):
        ...     write_atomic(folder / "cells.json", "{}")
    """
    with locked(folder):
        remove_temporaries(folder)
        with writing(folder):
            (folder / last).unlink(missing_ok=True)
        yield


def _release(lock: FileLock, holder: Path) -> None:
    with suppress(OSError):  # a file that is left does no harm: the next holder replaces it
        holder.unlink(missing_ok=True)
    lock.release()


def refuse_unrelated(folder: Path, signs: Sequence[str], noun: str) -> None:
    """Refuse a folder that holds files, but no run or training.

    A lock and temporary files, which a kill at the very start leaves, do not count.

    Args:
        signs: patterns of file names, such as "run.json"; a folder with files must match one of them.

    Example:
        >>> import tempfile
        >>> folder = Path(tempfile.mkdtemp())
        >>> refuse_unrelated(folder, ("run.json",), "run")
        >>> _ = (folder / "thesis.tex").write_text("Once upon a time")
        >>> refuse_unrelated(folder, ("run.json",), "run")
        Traceback (most recent call last):
        ...
        maskevidence.errors.InputError: '...' holds files that belong to no run ('thesis.tex'); give a new
        folder
    """
    if folder.is_file():
        raise InputError(f"{str(folder)!r} is a file; give a folder for the {noun}")
    with reading(folder):
        entries = sorted(folder.iterdir()) if folder.is_dir() else []
    held = [path for path in entries if path.name not in (LOCK, HOLDER) and path.suffix != TEMPORARY]
    if held and not any(path.match(sign) for path in held for sign in signs):
        raise InputError(
            f"{str(folder)!r} holds files that belong to no {noun} ({held[0].name!r}); give a new folder"
        )


def _read_pid(path: Path) -> str:
    with suppress(OSError, ValueError):
        return str(int(path.read_text(encoding="ascii")))
    return "(unknown)"
