"""Patches: their order, their channels, and images that cannot be cut."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from image_models import small_vit_mae
from maskevidence.core.errors import InputError
from maskevidence.images.patches import check_images, patchify, unpatchify


def test_patches_equal_slices_of_the_image() -> None:
    """All numbers differ, so that any other order would be noticed."""
    images = torch.arange(2 * 6 * 9 * 3).reshape(2, 6, 9, 3)
    patches = patchify(images, 3)
    assert patches.shape == (2, 6, 27)
    for i in range(2):
        for row in range(2):
            for column in range(3):
                direct = images[i, 3 * row : 3 * row + 3, 3 * column : 3 * column + 3]
                assert torch.equal(patches[i, 3 * row + column].reshape(3, 3, 3), direct)


@given(st.integers(1, 3), st.integers(1, 3), st.integers(1, 3), st.integers(1, 4), st.sampled_from([1, 3]))
def test_unpatchify_inverts_patchify(n: int, rows: int, columns: int, side: int, channels: int) -> None:
    shape = (n, rows * side, columns * side, channels)
    images = torch.arange(int(np.prod(shape))).reshape(shape)
    assert torch.equal(unpatchify(patchify(images, side), *shape[1:]), images)


@pytest.mark.parametrize("channels", [1, 3])
def test_the_order_is_that_of_transformers(channels: int) -> None:
    images = torch.arange(2 * 64 * channels).reshape(2, 8, 8, channels).float()
    network = small_vit_mae(num_channels=channels)
    theirs = network.patchify(images.permute(0, 3, 1, 2))
    assert torch.equal(patchify(images, 2), theirs)
    assert torch.equal(unpatchify(theirs, 8, 8, channels), network.unpatchify(theirs).permute(0, 2, 3, 1))


GREY = np.zeros((2, 8, 8, 1), dtype=np.uint8)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: patchify(torch.zeros(1, 8, 9, 1), 4),
            "images of 8×9 pixels cannot be cut into patches of 4×4",
        ),
        (lambda: unpatchify(torch.zeros(1, 4, 5), 4, 5, 1), "4 patches of 5 values"),
        (lambda: check_images(GREY, 16, 1), "images have 8×8 pixels, the model reads 16×16.*--resize 16"),
        (lambda: check_images(GREY, 8, 3), "images are grey .1 channel., the model reads in colour"),
        (lambda: check_images(GREY.astype(np.float64), 8, 1), "dtype float64; give uint8"),
    ],
)
def test_images_that_cannot_be_cut_or_read_are_refused(call: Callable[[], object], message: str) -> None:
    check_images(GREY, 8, 1)
    with pytest.raises(InputError, match=message):
        call()
