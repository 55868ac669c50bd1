"""A small model with rows and a manifest, and readers of run directories."""

import csv
import json
from pathlib import Path

import numpy as np
import pandas
import pytest
import torch
from pyarrow import parquet

import maskevidence as me
from maskevidence.core.masks.design import MaskDesign, MaskKey
from maskevidence.runs import DataSource, Manifest, rows_per_block

N_ROWS, N_FEATURES = 70, 6
OBSERVATION_COLUMNS = [
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
]


def make_model(seed: int = 0) -> me.models.Gaussian:
    rng = np.random.default_rng(seed)
    root = rng.normal(size=(N_FEATURES, N_FEATURES))
    return me.models.Gaussian(
        torch.zeros(N_FEATURES).double(), torch.from_numpy(root @ root.T + np.eye(N_FEATURES))
    )


def make_tokens(n_rows: int = N_ROWS, *, n_bytes: bool = False) -> me.Tokens:
    """Rows with a missing value in every seventh."""
    values = np.random.default_rng(1).normal(size=(n_rows, N_FEATURES))
    values[::7, 2] = np.nan
    tokens = me.Tokens.from_array(values, ids=np.arange(n_rows) * 3 + 5)
    if not n_bytes:
        return tokens
    return me.Tokens(tokens.values, tokens.maskable, tokens.context, tokens.ids, 4 * tokens.n_tokens + 1)


def make_manifest(
    model: me.MaskedModel, tokens: me.Tokens, design: MaskDesign, /, **changes: object
) -> Manifest:
    key = MaskKey(0, changes.get("masks", "own"))
    settings = {
        "model": "a model",
        "conditionals": model.conditionals,
        "data": DataSource(name="rows", fingerprint="0" * 64, n_observations=len(tokens), columns=[]),
        "design": design.settings(),
        "masks": "own",
        "seed": 0,
        "rows_per_block": rows_per_block(model, tokens, design, key),
    }
    return Manifest.model_validate(settings | changes)


def read_rows(folder: Path | str) -> pandas.DataFrame:
    """All rows of a run's Parquet files, sorted, for exact comparison."""
    table = parquet.read_table(Path(folder) / "scores").to_pandas()
    return table.sort_values(["id", "draw", "size"], ignore_index=True)


def bytes_of(rows: pandas.DataFrame) -> list[tuple[str, bytes]]:
    """A table's columns as bytes, for exact comparison; a cell may hold several numbers."""
    values = {name: rows[name].to_numpy() for name in rows.columns}
    flat = {name: np.concatenate(v) if v.dtype == object else v for name, v in values.items()}
    return [(name, v.tobytes()) for name, v in flat.items()]


def same_rows(first: Path | str, second: Path | str) -> bool:
    return bytes_of(read_rows(first)) == bytes_of(read_rows(second))


def read_numbers(folder: Path | str) -> dict[str, object]:
    """Read estimate.json without versions and command."""
    content = json.loads((Path(folder) / "estimate.json").read_text())
    return {name: value for name, value in content.items() if name not in ("command", "versions")}


def checked_observations(run: Path) -> list[dict[str, str]]:
    """Read observations.csv, and check that its rows average to the estimate."""
    with (run / "observations.csv").open(newline="") as file:
        reader = csv.DictReader(file)
        rows = list(reader)
    texts = ["text"] if json.loads((run / "run.json").read_text())["data"]["kind"] == "texts" else []
    assert reader.fieldnames == [*OBSERVATION_COLUMNS, *texts]
    estimate = json.loads((run / "estimate.json").read_text())
    values = [float(row["log_evidence"]) for row in rows]
    assert np.mean(values) == pytest.approx(estimate["log_evidence"], abs=1e-9)
    assert sum(int(row["n_tokens"]) for row in rows) == estimate["n_tokens"]
    return rows
