"""The page of a selection: the choice, all candidates, and how well holes are filled."""

from dataclasses import replace
from pathlib import Path

from maskevidence.core.errors import InputError
from maskevidence.core.show.parts import Page, Part
from maskevidence.core.show.pictures import Lines
from maskevidence.core.show.words import count, typeset
from maskevidence.core.support.provenance import made_of
from maskevidence.runs.folder import read_sealed
from maskevidence.tables.choosing.selection import (
    SELECTION,
    below_picture,
    page_of_selection,
    picture_of_selection,
)


def read_selection(folder: Path) -> Page:
    """Build the page of a folder that `select --out` wrote."""
    remedy = "select again with --overwrite"
    result = read_sealed(folder / SELECTION, remedy)
    try:
        page, (picture, _) = page_of_selection(result), picture_of_selection(result)
    except KeyError as error:
        raise InputError(
            f"{str(folder)!r} is a selection of another version, without {error}; {remedy}"
        ) from error
    parts: list[Part] = [*page.parts, picture]
    if isinstance(picture, Lines) and (below := below_picture(result)):
        listed = ", ".join(f"{each['name']} ({typeset(each['log_evidence'])})" for each in below)
        parts.append(f"Below the picture: {listed}.")
    compared = f"{count(len(result['candidates']), 'candidate')}, each fitted in {result['folds']} folds"
    return replace(page, parts=parts, made=made_of(result) | {"Selection": compared})
