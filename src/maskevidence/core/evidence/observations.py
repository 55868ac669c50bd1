"""The log evidence, mask error and length of each observation."""

import io
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields
from itertools import chain
from typing import Any

import numpy as np
from jaxtyping import Float64, Integer

from maskevidence.core.evidence.result import EvidenceEstimate
from maskevidence.core.evidence.score_means import errors_of_rows
from maskevidence.core.masks.design import MaskDesign
from maskevidence.core.masks.sizes import LeaveOneOut
from maskevidence.core.support.files import csv_lines, csv_text

_COLUMNS = (
    "id",
    "label",
    "n_tokens",
    "n_bytes",
    "log_evidence",
    "mask_se",
    "mask_df",
    "per_token",
    "pll",
    "closed_form",
)
_TEXT = "text"  # the last column, of texts

_ROWS_AT_ONCE = 2**14  # of CSV text
_ROWS_OF_GROUP = 2**15  # of a Parquet file


@dataclass(frozen=True)
class ObservationTable:
    """One row per observation of an estimate, ordered by id; nats.

    The mean of `log_evidence` is the estimate. The square of `mask_se` is unbiased for the variance
    over masks; an interval takes Student's t with `mask_df` degrees of freedom, which are few unless an
    observation has many masks.
    """

    id: Integer[np.ndarray, " N"]
    label: tuple[str, ...] | None  # N names; None if the observations have none
    n_tokens: Integer[np.ndarray, " N"]  # number of tokens that can be hidden
    n_bytes: Integer[np.ndarray, " N"] | None  # bytes of text; None for data that are not text
    log_evidence: Float64[np.ndarray, " N"]
    # shape (N,); Monte-Carlo standard error of the masks; NaN where the design has no replicates or all of
    # them gave the same number, 0 where every mask was scored
    mask_se: Float64[np.ndarray, " N"]
    # its degrees of freedom (Welch-Satterthwaite); NaN where there are none
    mask_df: Float64[np.ndarray, " N"]
    # shape (N,); the pseudo-log-likelihood, which is `log_evidence` where each token was hidden alone; None
    # for other designs
    pll: Float64[np.ndarray, " N"] | None
    # the log evidence by the model itself, without masks; None where it has none
    closed_form: Float64[np.ndarray, " N"] | None
    text: tuple[str, ...] | None = None  # the beginning of each text; None for other data

    @property
    def per_token(self) -> Float64[np.ndarray, " N"]:
        """Log evidence per token, shape (N,), nats."""
        return self.log_evidence / self.n_tokens

    def __len__(self) -> int:
        return len(self.id)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns of `observations.csv`."""
        return _COLUMNS if self.text is None else (*_COLUMNS, _TEXT)

    def columns(self) -> dict[str, list[object]]:
        """The columns of `observations.csv`; None for unknown numbers."""
        columns: dict[str, list[object]] = {}
        for name in self.names:
            values = getattr(self, name)
            unknown = np.flatnonzero(np.isnan(values)) if isinstance(values, np.ndarray) else ()
            values = ["" if name == "label" else None] * len(self) if values is None else values
            columns[name] = values.tolist() if isinstance(values, np.ndarray) else list(values)
            for place in unknown:
                columns[name][place] = None
        return columns

    def to_csv(self) -> str:
        """CSV text with the columns of `columns`."""
        return "".join(csv_in_parts([self]))

    def parts(self, n_rows: int) -> Iterator["ObservationTable"]:
        """Some rows at a time."""
        columns = {field.name: getattr(self, field.name) for field in fields(self)}
        for start in range(0, len(self), n_rows):
            part = slice(start, start + n_rows)
            some: dict[str, Any] = {name: x if x is None else x[part] for name, x in columns.items()}
            yield ObservationTable(**some)


def csv_in_parts(tables: Iterable[ObservationTable]) -> Iterator[str]:
    """The text of `ObservationTable.to_csv` for tables that follow each other."""
    first, tables = _first(tables)
    yield csv_text(first.names, ())
    for table in tables:
        for part in table.parts(_ROWS_AT_ONCE):
            yield csv_lines(part.columns().values())


def parquet_in_parts(tables: Iterable[ObservationTable]) -> Iterator[bytes]:
    """A Parquet file with the columns of tables that follow each other, a group of rows at a time."""
    import pyarrow as pa

    first, tables = _first(tables)
    kinds = dict.fromkeys(("label", _TEXT), pa.string())
    kinds |= dict.fromkeys(("id", "n_tokens", "n_bytes"), pa.int64())
    schema = pa.schema([(name, kinds.get(name, pa.float64())) for name in first.names])
    groups = chain.from_iterable(table.parts(_ROWS_OF_GROUP) for table in tables)
    return parquet_of(schema, (group.columns() for group in groups))


def parquet_of(schema: Any, groups: Iterable[dict[str, Any]]) -> Iterator[bytes]:
    """A Parquet file of groups of rows, each of which has the columns of the schema."""
    import pyarrow as pa
    from pyarrow import parquet

    sink = _Pieces()
    with parquet.ParquetWriter(pa.PythonFile(sink, "w"), schema, compression="zstd") as writer:
        for group in groups:
            writer.write_table(pa.table(group, schema))
            yield sink.taken()
    yield sink.taken()


def _first(tables: Iterable[ObservationTable]) -> tuple[ObservationTable, Iterator[ObservationTable]]:
    """The first table, and all of them."""
    left = iter(tables)
    first = next(left)
    return first, chain([first], left)


class _Pieces(io.RawIOBase):
    """A file whose content is taken away as it is written."""

    def __init__(self) -> None:
        self._pieces, self._length = list[bytes](), 0

    def writable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._length

    def write(self, data: Any) -> int:
        self._pieces.append(bytes(data))
        self._length += len(self._pieces[-1])
        return len(self._pieces[-1])

    def taken(self) -> bytes:
        taken = b"".join(self._pieces)
        self._pieces.clear()
        return taken


def observation_table(estimate: EvidenceEstimate, design: MaskDesign) -> ObservationTable:
    """Build the table of an estimate's observations.

    Example:
        >>> import maskevidence as me
        >>> model = me.models.PPCA(n_features=6, n_components=2)
        >>> design = me.EverySize(masks_per_size=8)
        >>> estimate = me.estimate_evidence(model, model.sample(5, seed=1), design)
        >>> table = observation_table(estimate, design)
        >>> table.label, bool((table.mask_se > 0).all())
        (None, True)
        >>> bool(abs(table.log_evidence.mean() - estimate.log_evidence) < 1e-9)
        True
    """
    return joined(observation_tables(estimate, design))


def joined(tables: Iterable[ObservationTable]) -> ObservationTable:
    """One table of tables that follow each other."""
    columns = zip(*(vars(table).items() for table in tables), strict=True)
    whole: dict[str, Any] = {}
    for named in columns:
        (name, *_), parts = named[0], [part for _, part in named]
        is_tuple = isinstance(parts[0], tuple)
        join = (lambda x: tuple(chain.from_iterable(x))) if is_tuple else np.concatenate
        whole[name] = None if parts[0] is None else join(parts)
    return ObservationTable(**whole)


def observation_tables(estimate: EvidenceEstimate, design: MaskDesign) -> Iterator[ObservationTable]:
    """The rows of `observation_table`, some at a time."""
    scores, values = estimate.record, estimate.per_observation
    labels, exact = estimate.labels, estimate.closed_form
    for rows, mask_se, mask_df in errors_of_rows(scores, design, estimate.how.key):
        yield ObservationTable(
            id=scores.ids[rows],
            label=None if labels is None else tuple(map(str, labels[rows])),
            n_tokens=scores.n_tokens[rows],
            n_bytes=None if scores.n_bytes is None else scores.n_bytes[rows],
            log_evidence=values[rows],
            mask_se=mask_se,
            mask_df=mask_df,
            pll=values[rows] if isinstance(design, LeaveOneOut) else None,
            closed_form=None if exact is None else exact[rows],
        )
