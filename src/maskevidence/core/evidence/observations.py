"""The log evidence, mask error and length of each observation."""

import io
from collections.abc import Iterator
from dataclasses import dataclass, fields
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

_ROWS_AT_ONCE = 2**14  # of CSV text
_ROWS_OF_GROUP = 2**18  # of a Parquet file


@dataclass(frozen=True)
class ObservationTable:
    """One row per observation of an estimate, ordered by id; nats.

    The mean of `log_evidence` is the estimate. The square of `mask_se` is unbiased for the variance
    over masks; an interval takes Student's t with `mask_df` degrees of freedom, which are few unless an
    observation has many masks.
    """

    id: Integer[np.ndarray, " N"]
    label: tuple[str, ...]  # N names; "" for an observation without a name
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

    @property
    def per_token(self) -> Float64[np.ndarray, " N"]:
        """Log evidence per token, shape (N,), nats."""
        return self.log_evidence / self.n_tokens

    def __len__(self) -> int:
        return len(self.id)

    def columns(self) -> dict[str, list[object]]:
        """The columns of `observations.csv`; None for unknown numbers."""
        columns: dict[str, list[object]] = {}
        for name in _COLUMNS:
            values = getattr(self, name)
            unknown = np.flatnonzero(np.isnan(values)) if isinstance(values, np.ndarray) else ()
            values = [None] * len(self) if values is None else values
            columns[name] = values.tolist() if isinstance(values, np.ndarray) else list(values)
            for place in unknown:
                columns[name][place] = None
        return columns

    def to_csv(self) -> str:
        """CSV text with the columns of `columns`."""
        return "".join(self.csv_in_parts())

    def csv_in_parts(self) -> Iterator[str]:
        """The text of `to_csv` in parts."""
        yield csv_text(_COLUMNS, ())
        for part in self._parts(_ROWS_AT_ONCE):
            yield csv_lines(part.columns().values())

    def parquet_in_parts(self) -> Iterator[bytes]:
        """A Parquet file with the columns of `columns`, a group of rows at a time."""
        import pyarrow as pa
        from pyarrow import parquet

        kinds = {"label": pa.string()} | dict.fromkeys(("id", "n_tokens", "n_bytes"), pa.int64())
        schema = pa.schema([(name, kinds.get(name, pa.float64())) for name in _COLUMNS])
        sink = _Pieces()
        with parquet.ParquetWriter(pa.PythonFile(sink, "w"), schema, compression="zstd") as writer:
            for part in self._parts(_ROWS_OF_GROUP):
                writer.write_table(pa.table(part.columns(), schema))
                yield sink.taken()
        yield sink.taken()

    def _parts(self, n_rows: int) -> Iterator["ObservationTable"]:
        columns = {field.name: getattr(self, field.name) for field in fields(self)}
        for start in range(0, len(self), n_rows):
            part = slice(start, start + n_rows)
            some: dict[str, Any] = {name: x if x is None else x[part] for name, x in columns.items()}
            yield ObservationTable(**some)


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
        >>> table.label[0], bool((table.mask_se > 0).all())
        ('', True)
        >>> bool(abs(table.log_evidence.mean() - estimate.log_evidence) < 1e-9)
        True
    """
    scores = estimate.record
    mask_se, mask_df = errors_of_rows(scores, design, estimate.how.key)
    return ObservationTable(
        id=scores.ids,
        label=("",) * len(scores.ids) if estimate.labels is None else tuple(estimate.names),
        n_tokens=scores.n_tokens,
        n_bytes=scores.n_bytes,
        log_evidence=estimate.per_observation,
        mask_se=mask_se,
        mask_df=mask_df,
        pll=estimate.per_observation if isinstance(design, LeaveOneOut) else None,
        closed_form=estimate.closed_form,
    )
