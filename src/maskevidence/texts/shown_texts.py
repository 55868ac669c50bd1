"""Read the texts of a run again for a report."""

from maskevidence.command.pages.reported_runs import Content, Contents, Reason, TextContent
from maskevidence.runs import Manifest
from maskevidence.texts.text_files import read_texts


def read_texts_again(manifest: Manifest) -> Contents | Reason | None:
    """Read the texts of a run again; None if they have changed."""
    data = manifest.data
    if "block_size" in data.options:
        return "The observations are blocks of running text; the run does not record which text they hold."
    limit, skipped = (data.options.get(name) for name in ("limit", "skip_empty"))
    assert not isinstance(limit, str)
    skip_empty = None if skipped is None else str(skipped).split(",")
    upper = bool(data.options.get("upper"))
    texts = read_texts(data.name, data.columns, limit=limit, skip_empty=skip_empty, upper=upper)
    if texts.fingerprint() != data.text_fingerprint:
        return None
    if len(texts) != data.n_observations:
        return (
            f"The {data.n_observations:,} observations are parts of {len(texts):,} texts; the run does not "
            "record which."
        )
    context = data.options.get("context_field")
    scored = [column for column in texts.columns if column != context] or list(texts.columns)

    def content(number: int) -> Content | None:
        if not 0 <= number < len(texts):
            return None
        prompt = texts[context][number] if context in texts.columns and context not in scored else None
        return TextContent("\n".join(texts[column][number] for column in scored), prompt)

    return content
