"""Many short texts under a model that answers at once: peak memory of the process, and microseconds a text.

`tokens`: made-up ids of 25 tokens are packed, scored with random sizes, and summarised. `file`: lines of a
file are read and encoded by a tokenizer of words. Each runs in a process of its own.
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from _timing import Target, arguments, finish, is_quick, machine, show

# isort: split
import numpy as np
import torch

import maskevidence as me
from maskevidence.core.masks.design import MaskKey
from maskevidence.core.packed_tokens import PackedTokens
from maskevidence.core.scores.score_masks import Scoring
from maskevidence.core.tokens import Tokens
from maskevidence.runs import (
    DataSource,
    Recording,
    RunDirectory,
    read_run,
    record_run,
    rows_per_block,
    write_summary,
)
from maskevidence.runs.prepared import Prepared, manifest_of

LENGTH, WORDS, AT_ONCE = 25, 30_000, 2**13
PARTS = ("tokens", "file")
MOST_MEGABYTES, MOST_MICROSECONDS = 600, 25


def main() -> int:
    parser = arguments(__doc__.splitlines()[0])
    parser.add_argument("--texts", type=int, help="how many; by default a million")
    parser.add_argument("--parts", default=",".join(PARTS), help=f"of {', '.join(PARTS)}")
    parser.add_argument(
        "--sizes", type=int, default=8, help="random sizes of each text, which decide the time"
    )
    parser.add_argument("--alone", action="store_true", help=argparse.SUPPRESS)  # one part, in this process
    options = parser.parse_args()
    n = options.texts or (2_000 if is_quick() else 10**6)
    if options.alone:
        stages = of_tokens(n, options.sizes) if options.parts == "tokens" else of_file(n)
        print(json.dumps(stages))
        return 0
    numbers, targets = {}, []
    for part in options.parts.split(","):
        words = f"--alone --parts {part} --texts {n} --sizes {options.sizes}".split()
        answer = subprocess.run(
            [sys.executable, __file__, *words], check=True, stdout=subprocess.PIPE, text=True
        ).stdout
        stages: list[list[Any]] = json.loads(answer.splitlines()[-1])
        numbers[part] = {name: {"megabytes": peak, "microseconds": us} for name, peak, us in stages}
        rows = [map(str, row) for row in stages]
        show(f"{part}, {n:,} texts; {machine()}", ("after", "peak MB", "µs a text"), rows)
        targets.append(Target(f"megabytes, {part}", stages[-1][1], high=MOST_MEGABYTES))
    if "tokens" in numbers:
        spent = sum(numbers["tokens"][stage]["microseconds"] for stage in ("scoring", "summary"))
        targets.append(Target("microseconds a text", spent, high=MOST_MICROSECONDS))
    return finish(numbers, targets, options.json)


class Stages:
    """The peak memory of the process after each stage, and the CPU time that the stage took."""

    def __init__(self, n: int) -> None:
        self.n, self.found, self.start = n, list[tuple[str, float, float]](), time.process_time()

    def after(self, name: str) -> None:
        spent = time.process_time() - self.start
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        self.found.append((name, round(peak), round(spent / self.n * 1e6, 2)))
        self.start = time.process_time()


class AtOnce(torch.nn.Module):
    """A model whose answers take no time, called on 41 rows."""

    conditionals = "learned"

    def log_conditionals(self, tokens: Tokens, masked: torch.Tensor) -> torch.Tensor:
        return torch.where(masked, -1.0 - tokens.values.float() / WORDS, 0.0)

    def batches(self, n_present: np.ndarray) -> Iterator[np.ndarray]:
        order = np.argsort(-n_present, kind="stable")
        return (order[start : start + 41] for start in range(0, len(order), 41))


def of_tokens(n: int, sizes: int) -> list[tuple[str, float, float]]:
    """Pack, score and summarise made-up ids."""
    stages, generator = Stages(n), np.random.default_rng(0)
    stages.after("imports")

    def parts() -> Iterator[Tokens]:
        for first in range(0, n, AT_ONCE):
            ids = torch.arange(first, min(n, first + AT_ONCE))
            values = torch.from_numpy(generator.integers(0, WORDS, (len(ids), LENGTH)))
            every = torch.ones(values.shape, dtype=torch.bool)
            yield Tokens(values, every, ~every, ids)

    tokens = PackedTokens(parts())
    stages.after("packing")
    model: Any = AtOnce()
    scoring = Scoring(me.RandomSize(sizes), MaskKey(0))
    source = DataSource(name="made up", fingerprint="", n_observations=n, columns=[], noun="text")
    rows = rows_per_block(model, tokens, scoring.design, scoring.key)
    manifest = manifest_of("at once", Prepared(model, tokens, source), scoring, rows)
    with tempfile.TemporaryDirectory() as temporary:
        folder = RunDirectory(Path(temporary) / "run")
        record_run(folder, manifest, model, tokens, Recording())
        stages.after("scoring")
        run = read_run(folder.path)
        write_summary(folder, run, run.result())
        stages.after("summary")
    return stages.found


def of_file(n: int) -> list[tuple[str, float, float]]:
    """Read and encode the lines of a file."""
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    from maskevidence.texts import prepared_texts
    from maskevidence.texts.encoding import Encoding, pack_texts
    from maskevidence.texts.text_options import ScoredTextOptions

    special = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
    words = [f"w{k}" for k in range(WORDS)]
    vocabulary = {word: number for number, word in enumerate([*special, *words])}
    own = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    own.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=own, unk_token="[UNK]", pad_token="[PAD]", mask_token="[MASK]"
    )
    generator = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as temporary:
        file = Path(temporary) / "made_up.txt"
        with file.open("w") as lines:
            for first in range(0, n, AT_ONCE):
                drawn = generator.integers(0, WORDS, (min(AT_ONCE, n - first), 10))
                lines.writelines(" ".join(words[k] for k in row) + "\n" for row in drawn.tolist())
        stages = Stages(n)
        stages.after("imports")
        texts, (column,) = prepared_texts.read_texts_of(str(file), ScoredTextOptions())
        stages.after("reading")
        packed = pack_texts(tokenizer, texts[column], Encoding(lines=texts.lines, names=texts.labels))
        stages.after("encoding")
        prepared_texts.tokens_fingerprint(texts.columns, packed.tokens)
        texts.fingerprint()
        stages.after("hashes")
    return stages.found


if __name__ == "__main__":
    sys.exit(main())
