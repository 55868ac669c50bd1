"""Save estimates that were computed in Python as runs; pydantic is imported on first use."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from maskevidence.core.errors import InputError
from maskevidence.core.evidence.result import EvidenceEstimate
from maskevidence.core.model import check_conditionals
from maskevidence.core.table import Table, as_table, with_levels_of

if TYPE_CHECKING:
    from maskevidence.core.tokens import Tokens
    from maskevidence.runs.manifest import DataSource

IN_PYTHON = "data in Python"


def save_run(
    estimate: EvidenceEstimate,
    folder: str | Path,
    *,
    name: str | None = None,
    data: object = None,
    model: Any = None,
    overwrite: bool = False,
) -> str | None:
    """Save an estimate that was computed in Python as a run, for `compare`, `report` and `summarize`.

    Args:
        estimate: the estimate.
        folder: the run directory; it is created if it does not exist.
        name: what the run calls its model, such as "ppca:3"; by default the name of the folder.
        data: the rows that were scored, a `Table`, a data frame or an array; with them, the report shows
            rows, and `compare` takes a run that a command has made of the same rows.
        model: the model that was scored; it is kept in `model/` if it has a method `save`, and its closed
            form is recorded if `data` are given.
        overwrite: replace another run in the folder.

    Returns:
        One line on a picture that could not be drawn, or None.

    Raises:
        InputError: the estimate is of other rows, of moments or of a design of your own, or the folder holds
            another run or other files, or cannot be written.

    Example:
        >>> import tempfile, maskevidence as me
        >>> from maskevidence.runs import read_run
        >>> x = me.models.PPCA(n_features=3, n_components=1, seed=1).sample(40)
        >>> folder = Path(tempfile.mkdtemp()) / "mine"
        >>> me.save_run(me.estimate_evidence(me.models.Gaussian(n_features=3).fit(x), x), folder)
        >>> read_run(folder).manifest.model, read_run(folder).estimate.n_observations
        ('mine', 40)
    """
    from maskevidence.runs.directory import LABELS, RunDirectory, write_beside
    from maskevidence.runs.folder import locked
    from maskevidence.runs.manifest import Manifest
    from maskevidence.runs.score_into import begin_run, closed_form_by_row, write_scores
    from maskevidence.runs.summary import read_run, write_summary

    name = Path(folder).name if name is None else name
    if model is not None:
        check_conditionals(model)
    table = None if data is None else getattr(model, "table", as_table)(data)
    tokens = None if table is None else _scored_tokens(estimate, name, table, model)
    if len(estimate.ids) != estimate.n_observations:
        raise InputError("an estimate from moments knows no observations; estimate from the rows")
    manifest = Manifest(
        model=name,
        conditionals=estimate.conditionals,
        base_measure=estimate.base_measure,
        data=_source(estimate, table),
        design=estimate.design,
        masks=estimate.masks,
        token_scores=estimate.scores.hidden is not None,
        seed=estimate.seed,
        rows_per_block=estimate.n_observations,
    )
    manifest.mask_design()  # raises for a user's own design
    directory = RunDirectory(folder)
    directory.check(manifest, overwrite=overwrite)
    with locked(directory.path):
        exact = None if tokens is None else closed_form_by_row(model, manifest, tokens)
        manifest = begin_run(directory, manifest, exact, getattr(model, "save", None))
        if estimate.labels is not None:
            write_beside(directory.path / LABELS, manifest, estimate.ids, estimate.names)
        write_scores(directory, manifest, estimate.scores, estimate.n_model_calls)
        run = read_run(directory.path)
        return write_summary(directory, run, run.result())


def _scored_tokens(estimate: EvidenceEstimate, name: str, table: Table, model: Any) -> "Tokens":
    """The rows as tokens, refused if they are not those of the estimate."""
    tokens = with_levels_of(table, getattr(model, "levels", table.levels)).tokens()
    if estimate.data_fingerprint not in (None, tokens.fingerprint()):
        with_model = "" if model is not None else ", and the model, which orders columns and words"
        raise InputError(
            f"the estimate of {name!r} is not of the rows of {table.name!r}; give those rows{with_model}"
        )
    return tokens


def _source(estimate: EvidenceEstimate, data: Table | None) -> "DataSource":
    """The origin of the observations, as in run.json."""
    from maskevidence.core.table import are_pixels
    from maskevidence.runs.manifest import DataSource

    of_pixels = data is not None and are_pixels(data.columns)
    noun = "image" if of_pixels else "row" if estimate.text_fingerprint is None else "text"
    return DataSource(
        name=IN_PYTHON if data is None else data.name,
        fingerprint=data.fingerprint() if data is not None else estimate.data_fingerprint or "",
        n_observations=estimate.n_observations,
        columns=[] if data is None else list(data.columns),
        text_fingerprint=estimate.text_fingerprint,
        spelled_fingerprint=estimate.spelled_fingerprint,
        notes=[*(() if data is None else data.notes), *estimate.notes],
        kind=None if data is None else data.kind,
        noun=noun,
    )
