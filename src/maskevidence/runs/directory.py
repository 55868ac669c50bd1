"""A run directory: run.json is written first, then model and scores, the summary last."""

import json
import math
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float64, Int64
from pydantic import ValidationError

from maskevidence.core.errors import InputError
from maskevidence.core.evidence.result import Rows
from maskevidence.core.support.files import (
    TEMPORARY,
    read_json,
    reading,
    remove_temporaries,
    sync_folder,
    write_atomic,
    writing,
)
from maskevidence.runs.blocks import SCORES, SavedPart, is_of, is_whole, list_parts
from maskevidence.runs.folder import ResultFolder, seal, seal_of_files, write_sealed
from maskevidence.runs.manifest import SCHEMA, Manifest
from maskevidence.runs.observation_files import from_arrow, parquet_of, to_arrow

TEXTS = "texts.parquet"
_ROWS_OF_GROUP = 2**16
_OF_DATA = b"data"  # key of the fingerprint of the data in a Parquet file
_REMEDY = "remove it to go on without it, or score again with --overwrite"
LABELS, CLOSED_FORM = "labels.parquet", "closed_form.parquet"
_COLUMNS = {TEXTS: "text", LABELS: "label", CLOSED_FORM: "closed_form"}
Ids = Int64[np.ndarray, " n"]
Beginnings = Callable[[], Iterable[str]]  # of the texts of all observations, in the order of the tokens


def write_beside(file: Path, manifest: Manifest, ids: Ids, values: Iterable[Any]) -> None:
    """Write a value of each observation beside the scores, in the order of the ids.

    Args:
        file: TEXTS for the beginning of each text, LABELS, or CLOSED_FORM for the log evidence, nats, whose
            mean is in run.json.
    """
    left = iter(values)
    groups = (ids[first : first + _ROWS_OF_GROUP] for first in range(0, len(ids), _ROWS_OF_GROUP))
    tables = ({"id": group, _COLUMNS[file.name]: list(islice(left, len(group)))} for group in groups)
    write_atomic(file, parquet_of(tables, {_OF_DATA: manifest.data.fingerprint}))


@contextmanager
def _undamaged(file: Path) -> Iterator[None]:
    from pyarrow import ArrowException

    with reading(file):
        try:
            yield
        except (ArrowException, KeyError) as error:
            raise InputError(f"{str(file)!r} is damaged; {_REMEDY}") from error


def _opened(file: Path, manifest: Manifest) -> Any:
    import pyarrow as pa
    from pyarrow import parquet

    with _undamaged(file):
        content = parquet.ParquetFile(pa.OSFile(os.fsencode(file)))  # Arrow would encode the name as UTF-8
    if (content.schema_arrow.metadata or {}).get(_OF_DATA) != manifest.data.fingerprint.encode():
        raise InputError(f"{str(file)!r} belongs to other data; {_REMEDY}")
    return content


def saved_beginnings(files: Sequence[Path], manifest: Manifest) -> Iterator[Any]:
    """The ids and texts of a run in the order of the ids, a table of pyarrow at a time."""

    def first_id(content: Any) -> int:
        return int(content.read_row_group(0, ["id"], use_threads=False)["id"][0].as_py())

    for content in sorted((_opened(file, manifest) for file in files), key=first_id):
        for group in range(content.num_row_groups):
            yield content.read_row_group(group, use_threads=False)


def with_texts(tables: Iterable[Rows], texts: Iterator[Any]) -> Iterator[Rows]:
    """Add the texts to tables of observations in the order of the ids."""
    import pyarrow as pa

    here = next(texts)
    for table in tables:
        more = [here]
        while more[-1]["id"][-1].as_py() < table["id"][-1]:
            more.append(next(texts))
        here = pa.concat_tables(more)
        place: Any = np.searchsorted(from_arrow(here["id"]), table["id"])
        yield {**table, "text": here["text"].take(to_arrow(place)).to_pylist()}
        here = here.slice(place[-1])


def read_labels(folder: Path, manifest: Manifest) -> dict[int, str]:
    """The labels of a run's observations by id; {} if they have none."""
    content = _read(folder / LABELS, manifest)
    return {} if content is None else dict(zip(*(column.to_pylist() for column in content), strict=True))


def read_closed_form(folder: Path, manifest: Manifest) -> tuple[Ids, Float64[np.ndarray, " n"]]:
    """Ids and their closed-form log evidence, nats; none if the model has none."""
    content = _read(folder / CLOSED_FORM, manifest)
    if content is None:
        return np.zeros(0, dtype=np.int64), np.zeros(0)
    (ids, values), mean = map(from_arrow, content), manifest.closed_form
    if mean is None or not math.isclose(values.mean(), mean, rel_tol=1e-9):
        raise InputError(
            f"{str(folder / CLOSED_FORM)!r} does not have the mean that run.json records; {_REMEDY}"
        )
    return ids, values


def _read(file: Path, manifest: Manifest) -> tuple[Any, Any] | None:
    """Two columns, ids and values; None without the file."""
    with _undamaged(file):
        if not file.exists():
            return None
        content = _opened(file, manifest).read(use_threads=False)
        return content.column("id"), content.column(_COLUMNS[file.name])


MANIFEST = "run.json"
ESTIMATE = "estimate.json"
CURVE = "curve.csv"
CURVE_PICTURE = "curve.png"
OBSERVATIONS = "observations.csv"
MANY_OBSERVATIONS = "observations.parquet"  # instead, for as many as `summary.MANY`
TOKENS = "tokens.csv"
MODEL = "model"
_SUMMARY = (ESTIMATE, CURVE, CURVE_PICTURE, OBSERVATIONS, MANY_OBSERVATIONS, TOKENS)
_ALL = (MANIFEST, *_SUMMARY, LABELS, TEXTS, CLOSED_FORM, SCORES, MODEL)
_UNREADABLE = "is not a run.json that this version can read; give another folder"
_RESTORE = "restore it, or score again with --overwrite"


class RunDirectory(ResultFolder):
    """The directory of one run.

    Args:
        path: the folder; it need not exist yet.

    Example:
        >>> import tempfile
        >>> RunDirectory(tempfile.mkdtemp()).estimate() is None
        True
    """

    def __init__(self, path: str | Path) -> None:
        super().__init__(path, "run", _ALL, (MANIFEST,))
        self.scores = self.path / SCORES

    def manifest(self) -> Manifest | None:
        """Read run.json; None if there is none.

        Raises:
            InputError: the file cannot be read, has another format, or was changed since.
        """
        file = self.path / MANIFEST
        with reading(file):
            if not file.exists():
                return None
        content = read_json(file, f"it {_UNREADABLE}")
        try:
            version = content["schema_version"]
            if version != SCHEMA:
                raise InputError(
                    f"{str(file)!r} has schema {version!r}, written by another version of maskevidence (this "
                    f"one reads {SCHEMA}); score again into another folder, or --overwrite"
                )
            recorded = content.pop("seal", None)
            manifest = Manifest.model_validate(content)
        except InputError:
            raise
        except (ValidationError, ValueError, KeyError, TypeError) as error:
            raise InputError(f"{str(file)!r} {_UNREADABLE}") from error
        if recorded != seal(content):
            raise InputError(
                f"{str(file)!r} was changed after it was written, and may not describe the scores; {_RESTORE}"
            )
        return manifest

    def existing_manifest(self) -> Manifest:
        """Read run.json, which must exist.

        Raises:
            InputError: the folder holds no run, or run.json cannot be read.
        """
        manifest = self.manifest()
        if manifest is None:
            near = sorted(
                file.parent for file in (*self.path.glob(f"*/{MANIFEST}"), self.path.parent / MANIFEST)
            )
            runs = [repr(str(folder)) for folder in near if (folder / MANIFEST).is_file()]
            such = f", such as {', '.join(runs[:3])}" if runs else ""
            raise InputError(f"there is no run in {str(self.path)!r}; give a folder that --out wrote{such}")
        return manifest

    def parts(self, manifest: Manifest) -> list[SavedPart]:
        """Check the seals, and list the parts of the run, damaged ones included.

        Args:
            manifest: the content of run.json.

        Raises:
            InputError: a part does not belong to the run, or the kept model was changed.
        """
        model, kept = self.path / MODEL, manifest.kept_model
        if kept is not None and model.is_dir() and seal_of_files(model) != kept:
            raise InputError(f"{str(model)!r} is not the model that was fitted for this run; {_RESTORE}")
        parts, identity = list_parts(self.scores), manifest.identity()
        for part in parts:
            if not manifest.holds(part.piece) or (not is_of(part, identity) and is_whole(part)):
                raise InputError(
                    f"{str(part.path)!r} does not belong to this run (it is of another model, data, design, "
                    "seed, block layout, shard or version); remove it, and run the command in run.json again"
                )
        return parts

    def has_begun(self) -> bool:
        """Whether the directory holds scores or a model to continue with."""
        return bool(list_parts(self.scores)) or (self.path / MODEL).is_dir()

    def check(self, manifest: Manifest, *, overwrite: bool) -> None:
        """Refuse a directory that holds anything but this run, or this run with fewer masks.

        Args:
            manifest: the run to write.
            overwrite: accept a folder that holds another run.

        Raises:
            InputError: the folder holds another run or other files, or cannot be read.
        """
        self.refuse_unrelated()
        existing = None if overwrite else self.manifest()
        if existing is None or existing.extended_by(manifest):
            return
        differences = existing.differences(manifest)
        if differences:
            raise InputError(
                f"{str(self.path)!r} holds another run ({'; '.join(differences)}); "
                "give another folder, or --overwrite to replace it"
            )

    def begin(self, manifest: Manifest, save: Callable[[Path], object] | None = None) -> Manifest:
        """Remove an earlier run, and write run.json and the model; this process must hold the lock.

        A kill or a full disk at any moment leaves a folder that `check` accepts. The scores are removed
        before the model, so that no scores of another model are left.

        Args:
            manifest: the run to write.
            save: saves the model that was fitted for this run into a folder.

        Returns:
            The content of run.json: the manifest, with the seal of the model.

        Raises:
            InputError: the folder cannot be written.
        """
        self.remove_temporaries()
        model, temporary = self.path / MODEL, self.path / f".{MODEL}{TEMPORARY}"
        self.remove(*_SUMMARY, LABELS, TEXTS, CLOSED_FORM, SCORES, MODEL)
        with writing(self.path):
            try:
                if save is not None:
                    save(temporary)
                    manifest = manifest.model_copy(update={"kept_model": seal_of_files(temporary)})
                self._write(manifest)
                if save is not None:
                    temporary.rename(model)
                    sync_folder(self.path)
            except (OSError, InputError):
                self.remove_temporaries()
                raise
            self.scores.mkdir()
        return manifest

    def extend(self, manifest: Manifest) -> None:
        """Prepare for more masks: remove the summary, rewrite run.json, keep the scores."""
        self.remove(*_SUMMARY)
        self._write(manifest)

    def _write(self, manifest: Manifest) -> None:
        content = json.loads(manifest.model_dump_json())
        write_sealed(self.path / MANIFEST, content)

    def remove_temporaries(self) -> None:
        """Remove the temporary files of a killed process."""
        super().remove_temporaries()
        remove_temporaries(self.scores)

    def estimate(self) -> dict[str, Any] | None:
        """Read estimate.json; None for an unfinished run.

        Raises:
            InputError: the file cannot be read.
        """
        file = self.path / ESTIMATE
        with reading(file):
            if not file.exists():
                return None
        return read_json(file, f"maskevidence summarize {self.path} writes it again")
