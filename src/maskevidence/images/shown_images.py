"""The images of a run, as a report shows them."""

from maskevidence.command.pages.reading import Contents, ImageContent
from maskevidence.images.image_files import Images


def contents_of(images: Images) -> Contents:
    """The image of each id."""
    place = {int(number): row for row, number in enumerate(images.ids)}
    return lambda number: ImageContent(images.pixels[place[number]]) if number in place else None
