"""What an observation of a report is called."""

from collections.abc import Sequence

from maskevidence.data.images import is_image_source
from maskevidence.report.reading import ReportedRun
from maskevidence.report.sources import are_pixels


def noun_of(runs: Sequence[ReportedRun]) -> str:
    """What an observation of these runs is: a text, an image or a row; otherwise an observation."""
    nouns = {_noun(run) for run in runs}
    return nouns.pop() if len(nouns) == 1 else "observation"


def _noun(run: ReportedRun) -> str:
    data = run.manifest.data
    if data.text_fingerprint is not None:
        return "text"
    return "image" if are_pixels(data.columns) or is_image_source(data.name) else "row"
