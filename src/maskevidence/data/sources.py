"""Where data sets lie: below MASKEVIDENCE_DATA, in a folder with splits, on the Hugging Face hub."""

import os
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from maskevidence.errors import InputError, import_extra
from maskevidence.support.hub import hub_reachable, not_in_cache

Found = TypeVar("Found")


class HubSet(NamedTuple):
    """A data set that has a word of its own.

    Attributes:
        folder: below MASKEVIDENCE_DATA.
        hub: its name on the hub; None where it is not there.
        config: its configuration there.
    """

    folder: str
    hub: str | None
    config: str | None = None

    def local(self) -> Path | None:
        """Its folder below MASKEVIDENCE_DATA, or None where there is none."""
        root = os.environ.get("MASKEVIDENCE_DATA")
        folder = Path(root) / self.folder if root else None
        return folder if folder is not None and folder.is_dir() else None


def splits(folder: Path, suffixes: Collection[str]) -> dict[str, list[Path]]:
    """Files by split: "train-00000-of-00002.parquet" and "train.parquet" belong to train."""
    found: dict[str, list[Path]] = {}
    for file in sorted(folder.iterdir()):
        if file.suffix.lower() in suffixes:
            name = file.stem.split("-")[0] if "-of-" in file.stem else file.stem
            found.setdefault(name, []).append(file)
    return found


def choose_split(source: str, found: Mapping[str, Found], split: str | None) -> Found:
    """What belongs to a split, or to the only one where none is named.

    Args:
        source: as the user named it, for the message.
        found: what there is, by split.
        split: the one asked for.

    Raises:
        InputError: there are several and none is named, or the named one is not there (lists those that are).

    Example:
        >>> choose_split("mnist", {"train": 1, "test": 2}, None)
        Traceback (most recent call last):
        ...
        maskevidence.errors.InputError: 'mnist' has the splits train, test; choose one, as in mnist:train
    """
    if split is None and len(found) > 1:
        raise InputError(
            f"{source!r} has the splits {', '.join(found)}; choose one, as in {source}:{next(iter(found))}"
        )
    chosen = next(iter(found)) if split is None else split
    if chosen not in found:
        raise InputError(f"{source!r} has no split {chosen!r}; it has {', '.join(found)}")
    return found[chosen]


def divide(source: str) -> tuple[str, str | None]:
    """A source and the split after its last colon, None where there is none.

    Example:
        >>> divide("glue/qnli:validation"), divide("digits")
        (('glue/qnli', 'validation'), ('digits', None))
    """
    base, _, split = source.rpartition(":") if ":" in source else (source, "", "")
    return base, split or None


def from_hub_word(source: str) -> Any:
    """The data set behind "hub:OWNER/NAME[/CONFIG][:SPLIT]"."""
    name, _, split = source.removeprefix("hub:").partition(":")
    owner_and_name, config = "/".join(name.split("/")[:2]), "/".join(name.split("/")[2:]) or None
    return from_hub(source, owner_and_name, config, split or None)


def from_hub(source: str, name: str, config: str | None, split: str | None) -> Any:
    """One split of a data set of the hub, or of its local cache, as a `datasets.Dataset`.

    Args:
        source: as the user named it, for messages.
        name: OWNER/NAME.
        config: its configuration.
        split: may be left out where there is one only.

    Raises:
        InputError: it is not there, or the hub cannot be asked.
        MissingExtraError: `datasets` is not installed.
    """
    datasets = import_extra("datasets", "hf", "a data set of the hub")
    offline = not hub_reachable()
    with _only_cache(datasets, offline):
        try:
            found = datasets.load_dataset(name, config, split=split)
        except (ConnectionError, OSError, ValueError, RuntimeError) as error:
            if offline:
                raise not_in_cache(
                    f"data set {source!r}",
                    "give a file or folder, or a MASKEVIDENCE_DATA folder that holds it",
                ) from error
            reason = " ".join(str(error).split())
            raise InputError(f"data set {source!r} cannot be loaded from the hub: {reason}") from error
    return choose_split(source, found, None) if hasattr(found, "keys") else found


@contextmanager
def _only_cache(datasets: Any, offline: bool) -> Iterator[None]:
    """No attempts on the network, each of which takes many seconds to fail, where it is known to be gone."""
    before = datasets.config.HF_HUB_OFFLINE
    datasets.config.HF_HUB_OFFLINE = before or offline
    try:
        yield
    finally:
        datasets.config.HF_HUB_OFFLINE = before
