"""A folder that holds one run: run.json first, then the scores, the summary last."""

import shutil
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from maskevidence.errors import InputError
from maskevidence.runs.lock import HOLDER, LOCK
from maskevidence.runs.manifest import SCHEMA, Manifest
from maskevidence.runs.parts import SCORES
from maskevidence.support.files import TEMPORARY, read_json, reading, sync_folder, write_atomic, writing

MANIFEST = "run.json"
ESTIMATE = "estimate.json"
CURVE = "curve.csv"
CURVE_PICTURE = "curve.png"
TOKENS = "tokens.csv"
MODEL = "model"
_SUMMARY = (ESTIMATE, CURVE, CURVE_PICTURE, TOKENS)
_ALL = (MANIFEST, *_SUMMARY, SCORES, MODEL)

_NOT_A_RUN = "is no run.json that this version can read; give another folder"


class RunDirectory:
    """The folder of one run.

    Args:
        path: of the folder; it need not be there yet.

    Example:
        >>> import tempfile
        >>> RunDirectory(tempfile.mkdtemp()).estimate() is None
        True
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.scores = self.path / SCORES

    def manifest(self) -> Manifest | None:
        """What run.json says; None where there is none.

        Raises:
            InputError: it cannot be read, or a newer version wrote it.
        """
        file = self.path / MANIFEST
        with reading(file):
            if not file.exists():
                return None
        content = read_json(file, f"it {_NOT_A_RUN}")
        try:
            version = content["schema_version"]
            if isinstance(version, int) and version > SCHEMA:
                raise InputError(
                    f"{str(file)!r} has schema {version}, written by a newer maskevidence (this one reads "
                    f"{SCHEMA}); update maskevidence, or give another folder"
                )
            return Manifest.model_validate(content)
        except (ValidationError, ValueError, KeyError, TypeError) as error:
            if isinstance(error, InputError):
                raise
            raise InputError(f"{str(file)!r} {_NOT_A_RUN}") from error

    def check(self, manifest: Manifest, *, overwrite: bool) -> None:
        """Refuse a folder that holds anything but this run or a part of it; with `overwrite`, any but a run.

        Raises:
            InputError: the folder holds another run, or files that are no run, or cannot be read.
        """
        if self.path.is_file():
            raise InputError(f"{str(self.path)!r} is a file; give a folder for the run")
        with reading(self.path):
            names = {entry.name for entry in self.path.iterdir()} if self.path.is_dir() else set()
        if all(name in (LOCK, HOLDER) or name.endswith(TEMPORARY) for name in names):
            return
        if MANIFEST not in names:
            raise InputError(f"{str(self.path)!r} holds files of no run; give a new folder for the run")
        if overwrite:
            return
        found = self.manifest()
        differences = found.differences(manifest) if found is not None else []
        if found is not None and differences and not found.extended_by(manifest):
            raise InputError(
                f"{str(self.path)!r} holds another run ({'; '.join(differences)}); "
                "give another folder, or --overwrite to replace it"
            )

    def begin(self, manifest: Manifest) -> None:
        """Remove what an earlier run left, and write run.json; the folder is locked by this process.

        The scores go before the model, so that a kill in between leaves none of another model's.
        """
        with writing(self.path):
            for name in (*_SUMMARY, SCORES, MODEL):
                _remove(self.path / name)
            self.scores.mkdir()
        write_atomic(self.path / MANIFEST, manifest.model_dump_json(indent=2) + "\n")

    def extend(self, manifest: Manifest) -> None:
        """Ask for more masks: the summary goes, run.json is written again, and the scores stay."""
        with writing(self.path):
            for name in _SUMMARY:
                _remove(self.path / name)
        write_atomic(self.path / MANIFEST, manifest.model_dump_json(indent=2) + "\n")

    def remove_temporaries(self) -> None:
        """Remove what a kill in the middle of a write left."""
        with writing(self.path):
            for folder in (self.path, self.scores):
                for leftover in folder.glob(f".*{TEMPORARY}"):
                    _remove(leftover)

    def keep_model(self, model: Any) -> None:
        """Save a model fitted for this run, unless it was saved before."""
        target, temporary = self.path / MODEL, self.path / f".{MODEL}{TEMPORARY}"
        if target.is_dir():
            return
        model.save(temporary)
        with writing(target):
            temporary.rename(target)
            sync_folder(self.path)

    def files(self) -> list[str]:
        """The names of what the run has left, in a fixed order."""
        return [name for name in _ALL if (self.path / name).exists()]

    def estimate(self) -> dict[str, Any] | None:
        """The finished run's estimate.json, or None where the run is not finished."""
        file = self.path / ESTIMATE
        with reading(file):
            if not file.exists():
                return None
        return read_json(file, f"maskevidence summarize {self.path} writes it again")


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
