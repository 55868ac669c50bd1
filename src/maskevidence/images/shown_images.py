"""Show the images of a run in a report."""

from maskevidence.command.pages.reported_runs import Contents, ImageContent
from maskevidence.images.image_files import Images


def contents_of(images: Images) -> Contents:
    """A function from an id to the image."""
    place = {int(number): row for row, number in enumerate(images.ids)}
    return lambda number: ImageContent(images.pixels[place[number]]) if number in place else None
