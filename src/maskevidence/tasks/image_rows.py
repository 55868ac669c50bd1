"""Images cut into patches and ready to be scored, as a `Table` is for numbers."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Int64

from maskevidence.data.images import Images
from maskevidence.tokens import Tokens


@dataclass(frozen=True)
class ImageRows:
    """Images and their patches.

    Attributes:
        images: as they were read.
        patches: the same images as the model reads them.

    Example:
        >>> import torch
        >>> from maskevidence.models.image.patches import patchify
        >>> images = Images("two", np.zeros((2, 4, 4, 1), dtype=np.uint8), np.arange(2))
        >>> every = torch.ones(2, 4, dtype=torch.bool)
        >>> tokens = Tokens(patchify(torch.from_numpy(images.pixels), 2), every, ~every, torch.arange(2))
        >>> rows = ImageRows(images, tokens)
        >>> len(rows), rows.columns
        (2, ('patches of 4 numbers',))
    """

    images: Images
    patches: Tokens

    def __len__(self) -> int:
        return len(self.patches)

    @property
    def name(self) -> str:
        """Where they come from, as the user named it."""
        return self.images.name

    @property
    def columns(self) -> tuple[str, ...]:
        """What an image is made of."""
        return (f"patches of {self.patches.values.shape[2]} numbers",)

    @property
    def ids(self) -> Int64[np.ndarray, " N"]:
        """The observations, shape (N,)."""
        return self.images.ids

    def tokens(self) -> Tokens:
        """The patches."""
        return self.patches

    def fingerprint(self) -> str:
        """A hash of the images, the same for models of other patches."""
        return self.images.fingerprint()
