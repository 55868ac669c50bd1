"""maskevidence show: pictures of what a model does."""

from pathlib import Path
from typing import Annotated, Any

import typer

from maskevidence.cli import options, output
from maskevidence.cli.images import ImageOptions
from maskevidence.cli.rows import RowOptions
from maskevidence.errors import InputError
from maskevidence.report.reconstructions import RATES, draw_reconstructions, reconstruct_images
from maskevidence.support.files import write_atomic
from maskevidence.support.provenance import command, versions
from maskevidence.tasks.image_rows import ImageRows
from maskevidence.tasks.parse import is_masked_image

PICTURE = "reconstructions.png"
app = typer.Typer(no_args_is_help=True, help="Pictures of what a model does.")


@app.callback()
def show() -> None:
    """Pictures of what a model does."""


@app.command("reconstructions")
def reconstructions(
    model: Annotated[
        str, typer.Argument(metavar="MODEL", help="A ViT-MAE: its folder, or OWNER/NAME on the hub.")
    ],
    data: Annotated[str, typer.Argument(metavar="DATA", help="Images, as `score` takes them.")],
    out: Annotated[
        Path, typer.Option("--out", metavar="DIR", help=f"Leave {PICTURE} in this folder.")
    ] = Path("reconstructions"),
    images: Annotated[int, typer.Option("--images", min=1, max=50, help="How many to show.")] = 4,
    density: options.Density = None,
    patch_statistics: options.PatchStatistics = None,
    calibration_fraction: options.CalibrationFraction = None,
    column: options.Column = None,
    resize: options.Resize = None,
    skip_bad: options.SkipBad = False,
    test_fraction: options.TestFraction = None,
    device: options.Device = None,
    limit: options.Limit = None,
    seed: options.Seed = 0,
    threads: options.Threads = None,
    json: options.Json = None,
) -> None:
    """Show images with 25, 50, 75 and 90 % of their patches hidden, and what MODEL makes of them.

    Below each reconstruction stands log p of the hidden patches given the visible ones, nats, also by pixel.
    A model without pixel variances gets them from a part of the images, which is not shown.

    Examples:

        maskevidence show reconstructions runs/vit-mae mnist:test --limit 1000 --out pictures

        maskevidence show reconstructions facebook/vit-mae-base photographs --resize 224
    """
    options.use_threads(threads)
    if not is_masked_image(model):
        raise InputError(
            f"{model!r} is no model of images; give a ViT-MAE's folder, or OWNER/NAME on the hub"
        )
    asked = ImageOptions(density, patch_statistics, calibration_fraction, device)
    rows = RowOptions(test_fraction, None, column, resize, skip_bad)
    ready = asked.prepare(model, data, rows, limit, seed, None)
    tokens = ready.table.tokens()[slice(images)]
    found = reconstruct_images(ready.model, tokens, RATES, seed)
    assert isinstance(ready.table, ImageRows)
    originals = ready.table.images.pixels[:images]
    title = f"{model} on {data}: log p of hidden patches given visible ones ({ready.model.density.name})"
    write_atomic(out / PICTURE, draw_reconstructions(originals, found, title))
    result: dict[str, Any] = {
        "model": model,
        "data": data,
        "images": [int(number) for number in tokens.ids],
        "rates": [
            {
                "rate": of.rate,
                "size": of.size,
                "log_prob": of.log_prob.tolist(),
                "per_pixel": of.per_pixel.tolist(),
            }
            for of in found
        ],
        "notes": list(ready.notes),
        "seed": seed,
        "versions": versions(),
        "command": command(),
        **ready.details,
    }
    screen = output.console(json)
    cells = [
        [f"{of.rate:.0%}, {of.size} of {ready.model.n_patches}", *(f"{x:,.1f}" for x in of.log_prob[:8])]
        for of in found
    ]
    names = ["hidden", *(f"image {int(number)}" for number in tokens.ids[:8])]
    screen.print(output.table(names, cells, "log p of the hidden patches, nats"))
    for note in ready.notes:
        screen.print(f"note: {note}")
    screen.print(f"Left in {out}: {PICTURE}")
    output.write_json(result, json)
