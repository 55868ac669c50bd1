"""A small model, its rows and its manifest, and what a run directory holds of them."""

import json
from pathlib import Path

import numpy as np
import pandas
import torch
from pyarrow import parquet

import maskevidence as me
from maskevidence.masks import MaskDesign, MaskKey
from maskevidence.runs import DataSource, Manifest, rows_per_block

N_ROWS, N_FEATURES = 70, 6


def a_model(seed: int = 0) -> me.models.Gaussian:
    rng = np.random.default_rng(seed)
    root = rng.normal(size=(N_FEATURES, N_FEATURES))
    return me.models.Gaussian(
        torch.zeros(N_FEATURES).double(), torch.from_numpy(root @ root.T + np.eye(N_FEATURES))
    )


def some_tokens(n_rows: int = N_ROWS, *, n_bytes: bool = False) -> me.Tokens:
    """Complete rows, with holes in every seventh."""
    values = np.random.default_rng(1).normal(size=(n_rows, N_FEATURES))
    values[::7, 2] = np.nan
    tokens = me.Tokens.from_array(values, ids=np.arange(n_rows) * 3 + 5)
    if not n_bytes:
        return tokens
    return me.Tokens(tokens.values, tokens.maskable, tokens.context, tokens.ids, 4 * tokens.n_tokens + 1)


def a_manifest(model: me.MaskedModel, tokens: me.Tokens, design: MaskDesign, **changes: object) -> Manifest:
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


def rows_of(folder: Path | str) -> pandas.DataFrame:
    """All rows of a run's Parquet files, sorted; to be compared to the last bit."""
    table = parquet.read_table(Path(folder) / "scores").to_pandas()
    return table.sort_values(["id", "draw", "size"], ignore_index=True)


def same_rows(first: Path | str, second: Path | str) -> bool:
    a, b = rows_of(first), rows_of(second)
    return list(a.columns) == list(b.columns) and all(
        a[name].to_numpy().tobytes() == b[name].to_numpy().tobytes() for name in a.columns
    )


def numbers_of(folder: Path | str) -> dict[str, object]:
    """estimate.json without what a folder's name or the moment may change."""
    content = json.loads((Path(folder) / "estimate.json").read_text())
    return {name: value for name, value in content.items() if name not in ("command", "versions")}
