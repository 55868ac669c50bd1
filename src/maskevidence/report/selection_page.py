"""The page of a selection: what was chosen among which models, and how well holes are filled."""

from dataclasses import replace
from pathlib import Path

from maskevidence.comparing.selection import SELECTION, below_picture, page_of_selection, picture_of_selection
from maskevidence.runs.folder import read_sealed
from maskevidence.show.parts import Page, Part
from maskevidence.show.pictures import Lines
from maskevidence.show.words import count, typeset
from maskevidence.support.provenance import made_of


def read_selection(folder: Path) -> Page:
    """Read a folder that `select --out` wrote, as a page."""
    result = read_sealed(folder / SELECTION, "select again with --overwrite")
    page, (picture, _) = page_of_selection(result), picture_of_selection(result)
    parts: list[Part] = [*page.parts, picture]
    if isinstance(picture, Lines) and (below := below_picture(result)):
        listed = ", ".join(f"{each['name']} ({typeset(each['log_evidence'])})" for each in below)
        parts.append(f"Below the picture: {listed}.")
    compared = f"{count(len(result['candidates']), 'candidate')}, each fitted in {result['folds']} folds"
    return replace(page, parts=parts, made=made_of(result) | {"Selection": compared})
