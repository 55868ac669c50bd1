"""Texts that are encoded and ready to be scored, as a `Table` is for numbers."""

import hashlib
from dataclasses import dataclass

import numpy as np
from jaxtyping import Int64

from maskevidence.models.text.encoding import EncodedTexts
from maskevidence.tokens import Tokens


@dataclass(frozen=True)
class TextRows:
    """Texts that are encoded and ready to be scored, as a `Table` is for numbers.

    Attributes:
        name: where they come from, as the user named it.
        columns: the columns that were read.
        encoded: their tokens.
        text_fingerprint: a hash of the texts, which runs with other tokenizers share.
    """

    name: str
    columns: tuple[str, ...]
    encoded: EncodedTexts
    text_fingerprint: str | None = None

    def __len__(self) -> int:
        return len(self.encoded.tokens)

    @property
    def ids(self) -> Int64[np.ndarray, " N"]:
        """The observations, shape (N,)."""
        return self.encoded.tokens.ids.numpy()

    def tokens(self) -> Tokens:
        """The observations as tokens."""
        return self.encoded.tokens

    def fingerprint(self) -> str:
        """A hash of the tokens, their roles and their numbers: equal texts have equal fingerprints."""
        tokens = self.encoded.tokens
        digest = hashlib.sha256("\x1f".join(self.columns).encode())
        for part in (tokens.ids, tokens.values, tokens.maskable, tokens.context):
            digest.update(np.ascontiguousarray(part.numpy()).tobytes())
        return digest.hexdigest()
