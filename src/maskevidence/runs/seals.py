"""Seals: hashes by which a run notices that run.json or its model changed, or that scores are not its own.

They guard against mistakes and not against forgery, because everybody can compute them.
"""

import hashlib
import json
from pathlib import Path
from typing import Any

from maskevidence.runs.blocks import Piece
from maskevidence.support.files import reading


def seal(content: Any) -> str:
    """The SHA-256 of a JSON value, which does not depend on spaces and on the order of keys.

    Example:
        >>> seal({"seed": 0, "masks": "own"}) == seal({"masks": "own", "seed": 0})
        True
    """
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def seal_of_piece(identity: str, piece: Piece) -> str:
    """What a part carries, so that it is recognised in another run and under another name.

    Args:
        identity: the answer of `Manifest.identity`.
        piece: the blocks and repeats of the part.
    """
    return seal([identity, *piece])


def seal_of_files(folder: Path) -> str:
    """The SHA-256 of the names and contents of all files below a folder, except for hidden ones.

    Raises:
        InputError: a file cannot be read.
    """
    with reading(folder):
        files = [path.relative_to(folder) for path in folder.rglob("[!.]*") if path.is_file()]
        contents = {path.as_posix(): (folder / path).read_bytes() for path in files}
    return seal({name: hashlib.sha256(content).hexdigest() for name, content in contents.items()})
