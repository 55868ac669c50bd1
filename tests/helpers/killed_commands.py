"""Kill commands at random moments, run them again, and compare the results.

Each command runs in a process forked after the imports, so that no kill hits an import. benchmarks/kills.py
kills more often than the tests do.
"""

import hashlib
import json
import os
import random
import signal
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from forked import exit_code, fork
from image_models import write_images

MAX_ATTEMPTS = 3  # per kill: a command faster than usual may end before it
ROWS = ("--checkpoint-every", "2", "--epochs", "12", "--batch-size", "40", "--limit", "100")
TRANSFORMER = ("--steps", "6", "--checkpoint-every", "2", "--batch-size", "4")
SCORE = ("--design", "every-size:4")
CASES: dict[str, tuple[str, ...]] = {
    "score, a fitted model": ("score", "ppca:2", "rows.npy", *SCORE),
    "score, a saved model": ("score", "saved", "rows.npy", *SCORE),
    "score, texts": ("score", "bert", "text.txt", "--design", "random-size:4"),
    "score, images": ("score", "vit-mae", "images", "--design", "random-size:4"),
    "train gaussian": ("train", "gaussian", "rows.npy", *ROWS),
    "train ppca": ("train", "ppca:2", "rows.npy", *ROWS),
    "train ppca, likelihood, patience": (
        *("train", "ppca:2", "rows.npy", *ROWS),
        *("--objective", "likelihood", "--patience", "50"),
    ),
    "train factor-analysis": ("train", "factor-analysis:2", "holes.npy", *ROWS),
    "train bernoulli-pca": ("train", "bernoulli-pca:1", "binary.npy", *ROWS),
    "train vae, elbo": ("train", "vae:2", "rows.npy", *ROWS, "--objective", "elbo"),
    "train bernoulli-vae, iwae:3": ("train", "bernoulli-vae:2", "binary.npy", *ROWS, "--objective", "iwae:3"),
    "train masked-lm": (
        *("train", "masked-lm", "text.txt", *TRANSFORMER),
        *("--block-size", "16", "--vocabulary-size", "60"),
    ),
    "train masked-lm, continued": (
        *("train", "masked-lm", "text.txt", *TRANSFORMER),
        *("--config", "bert", "--block-size", "16"),
    ),
}
LOCKS = (
    ".lock",
    ".lock.pid",
)  # may be left by a kill; the next process to write replaces them
CHANGING = ("versions", "command", "seal", "resumed_from")  # JSON entries that differ between runs


@dataclass
class Killed:
    """The kills of one command.

    Attributes:
        seconds: the duration of the uninterrupted command.
        moments: of the kills, as shares of `seconds`.
        partial: the number of kills after some, but not all, work was saved.
        different: the files that differed afterwards, one list for each kill.
    """

    seconds: float
    moments: list[float] = field(default_factory=list)
    partial: int = 0
    different: list[list[str]] = field(default_factory=list)

    @property
    def equal(self) -> int:
        return sum(not names for names in self.different)


def prepare() -> None:
    """Write rows, texts, images and models into the working directory; import the commands' modules."""
    import numpy as np
    import torch
    from transformers import BertConfig, BertForMaskedLM, Trainer, ViTMAEConfig

    import maskevidence as me
    from maskevidence.command import scoring
    from maskevidence.core.show import draw
    from maskevidence.huggingface import word_pieces
    from maskevidence.huggingface.masked_lm_training import train_texts
    from maskevidence.tables import train_rows
    from paper.vit_mae import random_vit_mae

    assert all((Trainer, draw, train_rows, train_texts, scoring))
    torch.set_num_threads(1)
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(300, 6)) @ rng.normal(size=(6, 6))
    np.save("rows.npy", rows)
    np.save("holes.npy", np.where(rng.random(rows.shape) < 0.1, np.nan, rows))
    np.save("binary.npy", (rows > 0).astype(float))
    me.models.PPCA(6, 2).fit(rows).save("saved")
    words = "the rain falls on the roof and the cat sleeps by the warm fire".split()  # noqa: SIM905
    texts = [" ".join(rng.choice(words, 9)) for _ in range(200)]
    Path("text.txt").write_text("\n".join(texts))
    write_images(Path("images"), rng.integers(0, 256, size=(60, 8, 8), dtype=np.uint8))
    shape = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    tokenizer = word_pieces(texts, 60)
    bert = BertForMaskedLM(BertConfig(vocab_size=len(tokenizer), max_position_embeddings=64, **shape))
    me.models.MaskedLM(bert, tokenizer).save("bert")
    decoder = {f"decoder_{name}": value for name, value in shape.items()}
    config = ViTMAEConfig(image_size=8, patch_size=2, num_channels=1, **shape, **decoder)
    me.models.MaskedImage(random_vit_mae(config), pixel_mean=[0.5], pixel_std=[0.3]).save("vit-mae")


def uninterrupted(case: str, *, warm: bool = True) -> Killed:
    """Run a command without a kill; twice for a better time, because the first call may be slower."""
    for out in ([Path(f"{case}, warm")] if warm else []) + [Path(f"{case}, whole")]:
        start = time.perf_counter()
        assert give(CASES[case], out) == 0, f"{case} failed"
        seconds = time.perf_counter() - start
    return Killed(seconds)


def kill(case: str, number: int, killed: Killed) -> None:
    """Run a command in a new folder, kill it, run it again and compare.

    Args:
        case: the command.
        number: of the kill, which decides the moment, too.
        killed: the kills of this command so far; this kill is added.
    """
    moments, words = random.Random(f"{case} {number}"), CASES[case]
    for attempt in range(MAX_ATTEMPTS):
        out, moment = Path(f"{case}, {number}.{attempt}"), moments.random()
        if give(words, out, moment * killed.seconds) == -signal.SIGKILL:
            break
    killed.moments.append(moment)
    killed.partial += is_partial(out)
    assert give(words, out) == 0, f"{case} failed after a kill in {str(out)!r}"
    found, wanted = content(out), content(Path(f"{case}, whole"))
    different = [name for name in wanted | found if wanted.get(name) != found.get(name)]
    killed.different.append(different + [str(path) for path in out.rglob("*.tmp")])


def give(words: Sequence[str], out: Path, seconds: float | None = None) -> int:
    """Run a command in a forked process; return its exit code, or -9 if it was killed after `seconds`."""
    child = begin(words, out)
    try:
        if seconds is not None:
            time.sleep(seconds)
            os.kill(child, signal.SIGKILL)
        return exit_code(child)
    except KeyboardInterrupt:
        os.kill(child, signal.SIGKILL)
        raise


def begin(words: Sequence[object], out: Path) -> int:
    """Start a command with one thread in a forked process; return its process id."""
    return fork(partial(run_as_child, [*map(str, words), "--threads", "1", "--out", str(out)]))


def run_as_child(words: Sequence[str]) -> None:
    """Run the program in this process: save every block, print only errors, and exit."""
    import jaxtyping

    from maskevidence.command.app import main as program

    os.environ["MASKEVIDENCE_SAVE_EVERY"] = "0"
    jaxtyping.config.update("jaxtyping_disable", True)  # typer's context has another type than annotated
    code: Any = 1
    try:
        sys.argv = ["maskevidence", *words]
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        program()
    except SystemExit as end:
        code = end.code or 0
    finally:
        os._exit(code)


def is_partial(out: Path) -> bool:
    """Whether some work was saved, but not the result."""
    finished = any((out / name).exists() for name in ("train.json", "estimate.json"))
    saved = [*out.glob("checkpoint*"), *out.glob("scores/*.parquet")]
    return bool(saved) and not finished


def content(out: Path) -> dict[str, Any]:
    """The contents of an output folder: rows of scores, JSON without changing entries, hashes of other
    files.
    """
    found: dict[str, Any] = {}
    for path in sorted(path for path in out.rglob("*") if path.is_file()):
        name = str(path.relative_to(out))
        if path.suffix == ".json":
            data = json.loads(path.read_text())
            found[name] = {key: value for key, value in data.items() if key not in CHANGING}
        elif path.suffix != ".parquet" and path.name not in LOCKS:
            found[name] = hashlib.sha256(path.read_bytes()).hexdigest()
    if (out / "scores").is_dir():
        found["scores"] = sorted_rows(out / "scores")
    return found


def sorted_rows(folder: Path) -> list[tuple[Any, ...]]:
    """The rows of all Parquet files, sorted."""
    from pyarrow import parquet

    table = parquet.read_table(folder).to_pydict()
    return sorted(zip(*table.values(), strict=True), key=lambda row: row[:3])
