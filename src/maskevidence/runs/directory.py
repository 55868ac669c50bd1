"""A folder that holds one run: run.json first, then the results, each file written whole or not at all."""

import json
import shutil
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from maskevidence.errors import InputError
from maskevidence.files import write_atomic
from maskevidence.runs.manifest import Manifest

MANIFEST = "run.json"
ESTIMATE = "estimate.json"
CURVE = "curve.csv"
CURVE_PICTURE = "curve.png"
MODEL = "model"
_OWN = (ESTIMATE, CURVE, CURVE_PICTURE, MODEL, MANIFEST)


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

    def check(self, manifest: Manifest, *, overwrite: bool) -> None:
        """Refuse a folder that holds anything but this very run; with `overwrite`, anything but a run.

        Raises:
            InputError: the folder holds another run, or files that are no run.
        """
        if self.path.is_file():
            raise InputError(f"{str(self.path)!r} is a file; give a folder for the run")
        if not self.path.is_dir() or not any(self.path.iterdir()):
            return
        try:
            found = Manifest.model_validate_json((self.path / MANIFEST).read_bytes())
        except (FileNotFoundError, ValidationError) as error:
            if overwrite and (self.path / MANIFEST).exists():
                return
            state = (
                "a run.json that this version cannot read"
                if (self.path / MANIFEST).exists()
                else "files of no run"
            )
            raise InputError(f"{str(self.path)!r} holds {state}; give a new folder for the run") from error
        differences = found.differences(manifest)
        if differences and not overwrite:
            raise InputError(
                f"{str(self.path)!r} holds another run ({'; '.join(differences)}); "
                "give another folder, or --overwrite to replace it"
            )

    def begin(self, manifest: Manifest) -> None:
        """Make the folder, remove what an earlier run left in it, and write run.json."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            for name in _OWN:
                old = self.path / name
                if old.is_dir():
                    shutil.rmtree(old)
                else:
                    old.unlink(missing_ok=True)
            write_atomic(self.path / MANIFEST, manifest.model_dump_json(indent=2) + "\n")
        except OSError as error:
            raise InputError(
                f"the run cannot be written into {str(self.path)!r} ({error.strerror}); "
                "give a writable folder"
            ) from error

    def files(self) -> list[str]:
        """The names of what the run has left, in a fixed order."""
        return [
            name for name in (MANIFEST, ESTIMATE, CURVE, CURVE_PICTURE, MODEL) if (self.path / name).exists()
        ]

    def estimate(self) -> dict[str, Any] | None:
        """The finished run's estimate.json, or None where the run is not finished."""
        try:
            return json.loads((self.path / ESTIMATE).read_text())
        except FileNotFoundError:
            return None
