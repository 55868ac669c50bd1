"""The log evidence, mask error and length of each observation."""

import io
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np

from maskevidence.core.evidence.score_means import errors_of_rows
from maskevidence.core.masks.sizes import LeaveOneOut
from maskevidence.core.support.files import csv_lines, csv_text

if TYPE_CHECKING:
    from maskevidence.core.evidence.result import EvidenceEstimate

_COLUMNS = "id label n_tokens n_bytes log_evidence mask_se mask_df per_token pll closed_form"
Rows = Mapping[str, Any]  # columns by name; None for one that an estimate lacks


def observation_tables(estimate: "EvidenceEstimate") -> Iterator[Rows]:
    """The columns of an estimate's observations, some observations at a time, ordered by id; nats.

    - label: their names; None if they have none.
    - n_bytes: bytes of text; None for data that are not text.
    - log_evidence: its mean is the estimate.
    - mask_se: Monte-Carlo standard error of the masks; NaN where the design has no replicates or all of them
      gave the same number, 0 where every mask was scored. Its square is unbiased for the variance over masks.
    - mask_df: its degrees of freedom (Welch-Satterthwaite), which are few unless an observation has many
      masks; NaN where there are none.
    - pll: the pseudo-log-likelihood, which is `log_evidence` where each token was hidden alone.
    - closed_form: the log evidence by the model itself, without masks.

    Example:
        >>> import maskevidence as me
        >>> model = me.models.PPCA(n_features=6, n_components=2)
        >>> estimate = me.estimate_evidence(model, model.sample(5, seed=1), me.EverySize(masks_per_size=8))
        >>> table = joined(observation_tables(estimate))
        >>> table["label"], bool((table["mask_se"] > 0).all())
        (None, True)
        >>> bool(abs(table["log_evidence"].mean() - estimate.log_evidence) < 1e-9)
        True
    """
    record, values, how = estimate.record, estimate.per_observation, estimate.how
    columns: dict[str, Any] = dict.fromkeys(_COLUMNS.split()) | {
        "id": record.ids,
        "label": estimate.labels,
        "n_tokens": record.n_tokens,
        "n_bytes": record.n_bytes,
        "log_evidence": values,
        "per_token": values / record.n_tokens,
        "pll": values if isinstance(how.design, LeaveOneOut) else None,
        "closed_form": estimate.closed_form,
    }
    for rows, mask_se, mask_df in errors_of_rows(record, how.design, how.key):
        some = {name: column if column is None else column[rows] for name, column in columns.items()}
        yield some | {"mask_se": mask_se, "mask_df": mask_df}


def joined(tables: Iterable[Rows]) -> Rows:
    """One table of tables that follow each other."""
    first, *others = tables
    whole = dict(first)
    for name, column in first.items():
        if column is not None:
            parts = [column, *(table[name] for table in others)]
            is_array = isinstance(column, np.ndarray)
            whole[name] = np.concatenate(parts) if is_array else tuple(chain.from_iterable(parts))
    return whole


def listed(table: Rows) -> dict[str, list[Any]]:
    """The columns as lists: None for what is not known, "" for labels that there are not."""
    lists: dict[str, list[Any]] = {}
    for name, column in table.items():
        if isinstance(column, np.ndarray):
            lists[name] = column.tolist()
            for place in np.flatnonzero(np.isnan(column)):
                lists[name][place] = None
        elif column is None:
            lists[name] = ["" if name == "label" else None] * len(table["id"])
        else:
            lists[name] = list(map(str, column))
    return lists


def csv_in_parts(tables: Iterable[Rows]) -> Iterator[str]:
    """CSV text with a header; values that are not known are empty."""
    for number, table in enumerate(tables):
        if number == 0:
            yield csv_text(table, ())
        yield csv_lines(listed(table).values())


def parquet_of(groups: Iterable[Rows], metadata: Mapping[bytes, str] | None = None) -> Iterator[bytes]:
    """A Parquet file of groups of rows, each with these columns as lists; values not known are null."""
    import pyarrow as pa
    from pyarrow import parquet

    left = iter(groups)
    first, sink = next(left), _Pieces()
    types = dict.fromkeys(("label", "text"), pa.string())
    types |= dict.fromkeys(("id", "n_tokens", "n_bytes"), pa.int64())
    schema = pa.schema([(name, types.get(name, pa.float64())) for name in first], metadata)
    with parquet.ParquetWriter(pa.PythonFile(sink, "w"), schema, compression="zstd") as writer:
        for group in chain([first], left):
            writer.write_table(pa.table(group, schema))
            yield sink.taken()
    yield sink.taken()


class _Pieces(io.BytesIO):
    """A file whose content is taken away as it is written."""

    n_taken = 0

    def tell(self) -> int:
        return self.n_taken + super().tell()

    def taken(self) -> bytes:
        content = self.getvalue()
        self.n_taken += len(content)
        self.seek(0)
        self.truncate()
        return content
