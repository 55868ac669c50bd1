"""maskevidence show: pictures of what a model does."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

from maskevidence.errors import InputError
from maskevidence.kinds.declaring import Argument, Option
from maskevidence.kinds.options import ImageOptions
from maskevidence.kinds.result import Reported
from maskevidence.kinds.words import kind_of_model
from maskevidence.show.parts import Page, Table

PICTURE = "reconstructions.png"
MAX_COLUMNS = 8


def reconstructions(
    model: Annotated[str, Argument("MODEL", "A ViT-MAE: its folder, or OWNER/NAME on the hub.")],
    data: Annotated[str, Argument("DATA", "Images, as `score` takes them.")],
    options: ImageOptions = ImageOptions(),
    out: Annotated[Path, Option(f"Write {PICTURE} into this folder.", "DIR", writes="folder")] = Path(
        "reconstructions"
    ),
    images: Annotated[int, Option("Number of images to show.", min=1, max=50)] = 4,
) -> Reported:
    """Show images with 25, 50, 75 and 90 % of their patches hidden, and how MODEL reconstructs them.

    Below each reconstruction is log p of the hidden patches given the visible ones, in nats, and per pixel.
    If the model has no pixel variances, they are fitted to a part of the images, which is not shown.

    Examples:

        maskevidence show reconstructions runs/vit-mae mnist:test --limit 1000 --out pictures
        maskevidence show reconstructions facebook/vit-mae-base photographs --resize 224

    Args:
        model: a ViT-MAE: its folder, or OWNER/NAME on the hub.
        data: a folder of images, or the name of a data set.
        options: which images are used, and how they are read.
        out: a folder for the picture.
        images: how many images are shown.

    Raises:
        InputError: a model, images or a folder that cannot be used.
    """
    from maskevidence.kinds.images import prepare
    from maskevidence.report.reconstructions import RATES, reconstruct_images, reconstructions_picture
    from maskevidence.show.draw import image
    from maskevidence.support.files import write_atomic
    from maskevidence.support.provenance import command, versions

    if kind_of_model(model) != "images":
        raise InputError(
            f"{model!r} is not a masked image model; give a ViT-MAE's folder, or OWNER/NAME on the hub"
        )
    seed = options.sample.seed
    ready = prepare(model, data, options)
    assert ready.images is not None
    tokens = ready.tokens[slice(images)]
    pictures = reconstruct_images(ready.model, tokens, RATES, seed)
    title = f"{model} on {data}: log p of hidden patches given visible ones ({ready.model.density.name})"
    picture = reconstructions_picture(ready.images.pixels[:images], pictures)
    write_atomic(out / PICTURE, image(picture, title))
    result: dict[str, Any] = {
        "model": model,
        "data": data,
        "images": [int(number) for number in tokens.ids],
        "rates": [
            {
                "rate": picture.rate,
                "size": picture.size,
                "log_prob": picture.log_prob.tolist(),
                "per_pixel": picture.per_pixel.tolist(),
            }
            for picture in pictures
        ],
        "notes": list(ready.notes),
        "seed": seed,
        "versions": versions(),
        "command": command(),
        **ready.details,
    }
    table = _table(result, ready.model.n_patches)
    page = Page("", table.title, parts=[replace(table, title="")], notes=ready.notes)
    return Reported(page, result, [f"Written to {out}: {PICTURE}"])


def _table(result: dict[str, Any], n_patches: int) -> Table:
    """log p by mask rate, for the first images."""
    cells = [
        [
            f"{rate['rate']:.0%}, {rate['size']} of {n_patches}",
            *(f"{log_p:,.1f}" for log_p in rate["log_prob"][:MAX_COLUMNS]),
        ]
        for rate in result["rates"]
    ]
    names = ["hidden", *(f"image {number}" for number in result["images"][:MAX_COLUMNS])]
    return Table(names, cells, "log p of the hidden patches, nats")
