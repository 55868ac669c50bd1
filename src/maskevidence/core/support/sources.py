"""Find data: files, addresses, folders with splits, MASKEVIDENCE_DATA, the Hugging Face hub."""

import csv
import os
import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, TypeVar
from urllib.parse import urlsplit

from maskevidence.core.errors import InputError, import_extra
from maskevidence.core.support.hub import hub_reachable, not_in_cache
from maskevidence.core.support.provenance import without_passwords

_Part = TypeVar("_Part")
_ADDRESS = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]*://")
_PACKAGES = {
    "s3": ("s3fs", "remote"),
    "s3a": ("s3fs", "remote"),
    "gs": ("gcsfs", "remote"),
    "gcs": ("gcsfs", "remote"),
    "http": ("aiohttp", "remote"),
    "https": ("aiohttp", "remote"),
    "hf": ("huggingface_hub", "hf"),
}
_HUB_NAME = re.compile(r"[\w-][\w.-]*(/[\w-][\w.-]*){0,2}")


class HubSet(NamedTuple):
    """A data set that has its own name on the command line."""

    folder: str  # folder below MASKEVIDENCE_DATA
    hub: str | None  # name on the hub; None if it is not there
    config: str | None = None  # configuration on the hub

    def local(self) -> Path | None:
        """The data set's folder below MASKEVIDENCE_DATA; None if there is none."""
        root = os.environ.get("MASKEVIDENCE_DATA")
        folder = Path(root) / self.folder if root else None
        return folder if folder is not None and folder.is_dir() else None


def find_source(source: str, sets: Mapping[str, HubSet], suffixes: Collection[str]) -> Any:
    """Find the file, folder or data set that a DATA word names.

    Args:
        source: a file, a folder, a key of `sets`, or "hub:OWNER/NAME[/CONFIG]"; a split may follow after a
            colon.

    Returns:
        A file or folder with the split asked for, (Path, str | None); one split of a data set of the hub, a
        `datasets.Dataset`; None if the word names nothing.

    Example:
        >>> find_source("mnits", {"mnist": HubSet("mnist", "ylecun/mnist")}, (".parquet",)) is None
        True
    """
    if source.startswith("hub:"):
        path, split = divide(source.removeprefix("hub:"))
        if not _HUB_NAME.fullmatch(path):
            raise InputError(
                f"{source!r} is not the name of a data set; write hub:OWNER/NAME[/CONFIG][:SPLIT]"
            )
        names = path.split("/")
        return from_hub(source, "/".join(names[:2]), "/".join(names[2:]) or None, split)
    if Path(source).exists():
        return Path(source), None
    base, split = divide(source)
    if Path(base).is_dir():
        return Path(base), split
    if base not in sets:
        return None
    data_set = sets[base]
    folder = data_set.local()
    if folder is not None and (split is None or split in splits(folder, suffixes)):
        return folder, split
    if data_set.hub is None:
        raise InputError(
            f"{source!r} is not in MASKEVIDENCE_DATA; set that variable to the folder that has it"
        )
    return from_hub(source, data_set.hub, data_set.config, split)


def splits(folder: Path, suffixes: Collection[str]) -> dict[str, list[Path]]:
    """Group files by split: "train-00000-of-00002.parquet" and "train.parquet" belong to train."""
    files: dict[str, list[Path]] = {}
    for file in sorted(folder.iterdir()):
        if file.suffix.lower() in suffixes:
            name = file.stem.split("-")[0] if "-of-" in file.stem else file.stem
            files.setdefault(name, []).append(file)
    return files


def choose_split(source: str, parts: Mapping[str, _Part], split: str | None) -> _Part:
    """Return the files of a split, or of the only split if none is named.

    Example:
        >>> choose_split("mnist", {"train": 1, "test": 2}, None)
        Traceback (most recent call last):
        ...
        maskevidence.core.errors.InputError: 'mnist' has the splits train, test; choose one, as in mnist:train
    """
    if split is None and len(parts) > 1:
        raise InputError(
            f"{source!r} has the splits {', '.join(parts)}; choose one, as in {source}:{next(iter(parts))}"
        )
    chosen = next(iter(parts)) if split is None else split
    if chosen not in parts:
        raise InputError(f"{source!r} has no split {chosen!r}; it has {', '.join(parts)}")
    return parts[chosen]


def divide(source: str) -> tuple[str, str | None]:
    """Separate a source from the split after its last colon; None without a colon.

    Example:
        >>> divide("glue/qnli:validation"), divide("digits")
        (('glue/qnli', 'validation'), ('digits', None))
    """
    base, _, split = source.rpartition(":") if ":" in source else (source, "", "")
    return base, split or None


def utf_8_text(name: str | Path, content: bytes) -> str:
    """Read a UTF-8 text file; a byte order mark at its start is dropped.

    Raises:
        InputError: the content is not UTF-8 (names the first such byte).

    Example:
        >>> utf_8_text("a.txt", b"\\xef\\xbb\\xbfa dog")
        'a dog'
    """
    try:
        return content.decode("utf-8").removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        where = f"byte 0x{content[error.start]:02x} at offset {error.start:,}"
        raise InputError(f"{str(name)!r} is not UTF-8 text: {where}; save it as UTF-8") from error


def lines_of(text: str) -> list[str]:
    r"""Split a text at \n, \r\n and \r only; U+2028, for example, does not end a line.

    Example:
        >>> lines_of("a\r\nb\u2028c\n")
        ['a', 'b\u2028c']
    """
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    return lines if lines[-1] else lines[:-1]


@contextmanager
def reading_parquet(file: Path, form: str = "Parquet") -> Iterator[None]:
    """Turn pyarrow's errors about a Parquet or Feather file into an InputError of one line."""
    import pyarrow as pa

    if file.exists() and not file.is_file():  # a pipe would block for ever
        raise InputError(f"{str(file)!r} is not a file; give a {form} file")
    try:
        yield
    except (pa.ArrowInvalid, OSError, UnicodeDecodeError) as error:
        reason = str(error).splitlines()[0]
        raise InputError(f"{str(file)!r} cannot be read as {form}: {reason}; write it again") from error


@contextmanager
def long_cells() -> Iterator[None]:
    """Let Python's csv reader accept cells of more than 131,072 characters."""
    before = csv.field_size_limit(2**31 - 1)
    try:
        yield
    finally:
        csv.field_size_limit(before)


def check_utf_8(file: str | Path, table: Any) -> None:
    """Raise an InputError for a Parquet or Feather table with damaged data or text that is not UTF-8."""
    import pyarrow as pa

    for name, column in zip(table.column_names, table.columns, strict=True):
        try:
            column.validate(full=True)
        except pa.ArrowInvalid as error:
            damage = f"{str(file)!r} is damaged in column {name!r}"
            for row, cell in enumerate(column):
                try:
                    cell.as_py()
                except UnicodeDecodeError:
                    damage = (
                        f"{str(file)!r} has a text that is not UTF-8 in column {name!r}, row {row} (from 0)"
                    )
                    break
            raise InputError(f"{damage}; write the file again, its texts in UTF-8") from error


def check_distinct(file: str | Path, names: Sequence[str]) -> None:
    """Raise an InputError for a table with two columns of the same name.

    Example:
        >>> check_distinct("a.csv", ["x", "y", "x"])
        Traceback (most recent call last):
        ...
        maskevidence.core.errors.InputError: 'a.csv' has 2 columns with the name 'x'; give each its own name
    """
    shared = {name: n for name, n in Counter(names).items() if n > 1}
    if len(shared) > 1:
        n, first = sum(shared.values()), max(shared, key=lambda name: shared[name])
        raise InputError(
            f"{str(file)!r} is not a table of rows: {n:,} columns share {len(shared)} names, such as "
            f"{first!r} "
            f"({shared[first]:,} times); give each column its own name"
        )
    for name, count in shared.items():
        raise InputError(f"{str(file)!r} has {count} columns with the name {name!r}; give each its own name")


def from_hub(source: str, name: str, config: str | None, split: str | None) -> Any:
    """Load a split of a hub data set, or of its local cache, as a `datasets.Dataset`."""
    datasets = import_extra("datasets", "hf", "a data set of the hub")
    offline = not hub_reachable()
    with _cache_only(datasets, offline):
        try:
            loaded = datasets.load_dataset(name, config, split=split)
        except (ConnectionError, OSError, ValueError, RuntimeError) as error:
            if offline:
                raise not_in_cache(
                    f"data set {source!r}",
                    "give a file or folder, or a MASKEVIDENCE_DATA folder that holds it",
                ) from error
            reason = " ".join(str(error).split())
            raise InputError(f"data set {source!r} cannot be loaded from the hub: {reason}") from error
    return choose_split(source, loaded, None) if hasattr(loaded, "keys") else loaded


@contextmanager
def _cache_only(datasets: Any, offline: bool) -> Iterator[None]:
    """Keep `datasets` off an unreachable network, where each attempt takes many seconds to fail."""
    before = datasets.config.HF_HUB_OFFLINE
    datasets.config.HF_HUB_OFFLINE = before or offline
    try:
        yield
    finally:
        datasets.config.HF_HUB_OFFLINE = before


def is_remote(path: str) -> bool:
    """Whether a path is an address with a protocol.

    Example:
        >>> is_remote("s3://bucket/table.csv"), is_remote("data/table.csv"), is_remote("hub:owner/name")
        (True, False, False)
    """
    return _ADDRESS.match(path) is not None


def name_in(address: str) -> str:
    """The last part of an address, without its query.

    Example:
        >>> name_in("https://example.org/a/table.csv?raw=1")
        'table.csv'
    """
    try:
        parts = urlsplit(address)
    except ValueError as error:
        raise InputError(f"{address!r} is not an address ({error}); check it") from error
    return parts.path.rsplit("/", 1)[-1] or parts.netloc


def read_remote(address: str) -> bytes:
    """Read the content of a remote file.

    Args:
        address: such as "s3://bucket/table.parquet", "hf://datasets/OWNER/NAME/table.csv" or "https://...".

    Example:
        >>> import fsspec
        >>> with fsspec.open("memory://folder/a.csv", "wb") as file:
        ...     _ = file.write(b"a,b")
        >>> read_remote("memory://folder/a.csv")
        b'a,b'
    """
    protocol = address.partition("://")[0].lower()
    fsspec = import_extra("fsspec", "remote", f"{address!r}")
    if protocol in _PACKAGES:
        import_extra(*_PACKAGES[protocol], f"an address that begins with {protocol}://")
    if protocol == "hf" and not hub_reachable():
        raise not_in_cache(f"{address!r}", "give a file")
    try:
        with fsspec.open(address, "rb") as file:
            return file.read()
    except FileNotFoundError as error:
        shown = without_passwords(address)
        raise InputError(f"there is no file {shown!r}; check the address") from error
    except Exception as error:  # each protocol raises its own errors
        reason = " ".join(str(error).split()) or type(error).__name__
        raise InputError(without_passwords(f"{address!r} cannot be read: {reason}")) from error
