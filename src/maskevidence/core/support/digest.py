"""The SHA-256 by which data, models and files are recognised."""

import hashlib
from collections.abc import Iterator
from typing import Any


def digest(*parts: Any) -> str:
    """The SHA-256 in hexadecimal of parts that follow each other without a gap.

    Args:
        parts: text, which is read as UTF-8, bytes, arrays and tensors, whose numbers are read in C order, or
            iterators of these.

    Example:
        >>> import numpy as np
        >>> digest("ab", iter([b"c"])) == digest("abc"), digest(np.ones(2)) == digest(np.ones((1, 2)))
        (True, True)
    """
    sha = hashlib.sha256()
    for part in parts:
        for each in part if isinstance(part, Iterator) else [part]:
            sha.update(_bytes(each))
    return sha.hexdigest()


def _bytes(part: Any) -> Any:
    """The bytes of a part."""
    if isinstance(part, str):
        return part.encode(errors="surrogatepass")
    if hasattr(part, "detach"):
        import torch  # commands without a model do not load it

        return part.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy()
    return part.tobytes() if hasattr(part, "tobytes") else part
