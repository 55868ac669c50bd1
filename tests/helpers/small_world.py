"""Small tables, texts, images, models and runs from fixed seeds, for the commands' tests."""

from contextlib import chdir, nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import torch

import maskevidence as me
from command_line import saving_every_block
from image_models import random_images, saved, small_vit_mae, write_images
from report_runs import command, write_texts
from text_models import SENTENCES, small_bert, small_tokenizer

COLUMNS = "abcde"
TEXTS = [*SENTENCES, "the sun falls on the cat", "is it rain that sings?", "a dog sleeps in the rain"]
_PARTIAL = "score ppca:1 data/table.csv --test-fraction 0.6 --design every-size:2 --threads 1"
RUNS = {  # name -> command that writes the run
    "table": "score ppca:2 data/table.csv --out runs/table",
    "factor-analysis": "score factor-analysis:1 data/table.csv --out runs/factor-analysis",
    "orderings": "score gaussian data/table.csv --design orderings:3,shared --out runs/orderings",
    "vae": "score models/vae data/table.csv --limit 20 --design every-size:2 --out runs/vae",
    "shard-1": "score models/ppca data/table.csv --design every-size:2 --shard 1/2 --out runs/shard-1",
    "shard-2": "score models/ppca data/table.csv --design every-size:2 --shard 2/2 --out runs/shard-2",
    "partial": f"{_PARTIAL} --out runs/partial",
    "text": "score models/bert data/texts.jsonl --out runs/text",
    "tokens": "score models/bert data/texts.jsonl --design leave-one-out:per-token --out runs/tokens",
    "image": "score models/vit-mae data/images --out runs/image",
    "train-ppca": "train ppca:2 data/table.csv --epochs 6 --checkpoint-every 3 --out runs/train-ppca",
}


def values(n: int = 5, d: int = 4, seed: int = 0) -> np.ndarray:
    """Random rows of correlated numbers."""
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, 2)) @ rng.normal(size=(2, d)) + 0.5 * rng.normal(size=(n, d))


def with_holes(x: np.ndarray) -> np.ndarray:
    """Remove some values from the rows, leaving at least two in each."""
    holed = x.copy()
    for row in range(0, len(x), 2):
        holed[row, row % x.shape[1]] = np.nan
        holed[row, (row + 1) % x.shape[1]] = np.nan
    return holed


def filled(module: Any, scale: float, seed: int) -> Any:
    """Fill a module's weights with numpy's random numbers, independent of torch's version."""
    rng = np.random.default_rng(seed)
    with torch.no_grad():
        for _, parameter in sorted(module.named_parameters()):
            parameter.copy_(torch.from_numpy(rng.normal(0.0, scale, tuple(parameter.shape))))
    return module


def bert() -> me.models.MaskedLM:
    """A one-layer BERT of width 8, with its tokenizer."""
    shape = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8}
    tokenizer = small_tokenizer()
    network = small_bert(tokenizer, max_position_embeddings=32, **shape)
    return me.models.MaskedLM(filled(network, 0.5, 4), tokenizer)


def vit_mae() -> Any:
    """A one-layer ViT-MAE of width 8, for images of 8×8 pixels in four patches."""
    shape = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8}
    network = small_vit_mae(patch_size=4, **shape, **{f"decoder_{name}": n for name, n in shape.items()})
    return filled(network, 0.3, 5)


def write_csv(file: Path, x: np.ndarray) -> None:
    """Write a CSV file with four decimals and empty cells for missing values."""
    rows = [",".join("" if np.isnan(value) else f"{value:.4f}" for value in row) for row in x]
    file.write_text("\n".join([",".join(COLUMNS[: x.shape[1]]), *rows]) + "\n")


def write_world(folder: Path) -> Path:
    """Write `data` and `models` into a folder."""
    data, models = folder / "data", folder / "models"
    write_images(data / "images", random_images(24, seed=6))
    models.mkdir()
    x = values(60, 5)
    write_csv(data / "table.csv", x)
    write_csv(data / "holes.csv", with_holes(x[:40]))
    write_csv(data / "binary.csv", (x > 0).astype(float))
    write_texts(data / "texts.jsonl", TEXTS)
    (data / "running.txt").write_text("\n".join(TEXTS * 4) + "\n")
    me.models.PPCA(5, 2).fit(x).save(models / "ppca")
    vae = me.models.VAE(n_features=5, n_components=2, hidden=(4,))
    vae.set_units(x)
    filled(vae.encoder, 0.5, 1)
    filled(vae.decoder, 0.5, 2)
    vae.save(models / "vae")
    bert().save(models / "bert")
    saved(vit_mae(), models / "vit-mae")
    return folder


def write_runs(folder: Path, names: tuple[str, ...] = tuple(RUNS)) -> Path:
    """Write runs of `RUNS` into a folder made by `write_world`; "partial" lacks some blocks."""
    with chdir(folder):
        for name in names:
            with saving_every_block() if name == "partial" else nullcontext():
                command(*RUNS[name].split())
    if "partial" in names:
        run = folder / "runs" / "partial"
        for file in sorted((run / "scores").iterdir())[5:]:
            file.unlink()
        for file in ("estimate.json", "curve.csv", "curve.png", "observations.csv", "observations.parquet"):
            (run / file).unlink(missing_ok=True)
    return folder
