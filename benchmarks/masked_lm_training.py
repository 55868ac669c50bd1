"""Time of a step of masked training with the head at hidden positions only, against the model's own loss.

The benchmark times the loss and gradients of 32 blocks of 64 tokens for a BERT with 2 layers of 128, with
vocabularies of 2,048 pieces and of 30,522 pieces (as in BERT-base), and with masks of
random sizes and of 15 %. Both sides use the same batches. It also counts how often two processes (`torchrun`,
on this machine) end with exit code 0, and compares their weights with those of a single process, in float64.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from _timing import arguments, finish, interleaved, machine, show, show_results, spread_of_ratio, times_faster

# isort: split
import torch
from safetensors.torch import load_file

import maskevidence as me
from maskevidence.huggingface.collator import WEIGHT, MaskSizeCollator
from maskevidence.huggingface.processes import is_main_process
from maskevidence.huggingface.recipe import Recipe, TrainingOrder
from maskevidence.huggingface.trainer import evidence_loss
from maskevidence.huggingface.training import train_masked_lm
from maskevidence.texts.new_bert import new_bert, word_pieces

BLOCK, BATCH = 64, 32
DESIGNS = {"random sizes": me.RandomSize(1, 1), "15 %": me.FixedRate(0.15, 1)}
WORDS = "the rain falls on a roof and dog sleeps while cat sings in sun who is it that said"
RECIPE = Recipe(steps=20, batch_size=8, warmup=5)


def model_with(vocabulary_size: int) -> me.models.MaskedLM:
    """A small BERT whose vocabulary is padded with words that never occur."""
    tokenizer = word_pieces([WORDS] * 3, 100)
    tokenizer.add_tokens([f"word{i}" for i in range(vocabulary_size - len(tokenizer))])
    return new_bert(tokenizer)


def batches(model: me.models.MaskedLM, design: me.MaskDesign, n: int) -> list[dict[str, torch.Tensor]]:
    text = " ".join(WORDS.split()[i * i % 19] for i in range(BLOCK * BATCH * 4))
    tokens = model.tokens([text], block_size=BLOCK)
    order = TrainingOrder(tokens, n * BATCH, seed=0)
    collator = MaskSizeCollator(model.tokenizer, design)
    return [collator([order[k] for k in range(i * BATCH, (i + 1) * BATCH)]) for i in range(n)]


def steps(model: me.models.MaskedLM, drawn: list[dict[str, torch.Tensor]], *, own_loss: bool) -> None:
    for batch in drawn:
        inputs = dict(batch)
        labels, weight = inputs.pop("labels"), inputs.pop(WEIGHT)
        if own_loss:
            loss = model.network(**inputs, labels=labels).loss
        else:
            loss = evidence_loss(model, inputs, labels, weight)
        loss.backward()
        model.network.zero_grad()


def trained() -> me.models.MaskedLM:
    model = model_with(150)
    model.double()
    train_masked_lm(model, model.tokens([WORDS, WORDS[::-1]] * 20, block_size=16), recipe=RECIPE)
    return model


def two_processes(folder: Path, quick: bool) -> tuple[int, float]:
    """Train in two processes; the exit code, and the largest difference of a weight from one process.

    A quick run trains in this process instead.
    """
    if quick:
        trained().save(folder)
        return 0, largest_difference(folder)
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    command = [*torchrun, __file__, "--worker", str(folder)]
    done = subprocess.run(command, env=environment, capture_output=True, check=False)
    if not (folder / "model.safetensors").exists():
        return done.returncode, float("nan")
    return done.returncode, largest_difference(folder)


def largest_difference(folder: Path) -> float:
    """The largest difference of a weight in the folder from one that a single process has trained."""
    theirs, ours = load_file(folder / "model.safetensors"), trained().network.state_dict()
    return max(float((ours[name] - value).abs().max()) for name, value in theirs.items())


def main() -> int:
    parser = arguments(__doc__.splitlines()[0])
    parser.add_argument(
        "--worker", type=Path, help="run as one of two processes and save the model to this folder"
    )
    options = parser.parse_args()
    if options.worker is not None:
        model = trained()
        if is_main_process():
            model.save(options.worker)
        return 0
    print(machine())
    numbers: dict[str, Any] = {}
    for vocabulary_size in (150,) if options.quick else (2048, 30522):
        model = model_with(vocabulary_size)
        model.network.train()
        for name, design in DESIGNS.items():
            drawn = batches(model, design, 1 if options.quick else 2)
            timings = interleaved(
                {
                    "own": lambda m=model, b=drawn: steps(m, b, own_loss=True),
                    "hidden": lambda m=model, b=drawn: steps(m, b, own_loss=False),
                },
                rounds=9,
            )
            numbers[f"{vocabulary_size:,} pieces, {name}"] = {
                **{side: 1000 * t.median / len(drawn) for side, t in timings.items()},
                "ratio": times_faster(timings, "own", "hidden"),
                "spread": spread_of_ratio(timings, "own", "hidden"),
            }
    columns = {"own loss, ms": "{own:.0f}", "hidden positions only, ms": "{hidden:.0f}"}
    columns |= {"times faster (range)": "{ratio:.2f} ({spread})"}
    show_results("Loss and gradients of a step, medians", "vocabulary, masks", columns, numbers)
    runs = 1 if options.quick else 20
    ends: list[tuple[int, float]] = []
    for _ in range(runs):
        with tempfile.TemporaryDirectory() as folder:
            ends.append(two_processes(Path(folder), options.quick))
    clean = sum(code == 0 for code, _ in ends)
    largest = max(difference for _, difference in ends)
    numbers["two processes"] = {"runs": runs, "clean": clean, "largest_difference": largest}
    show(
        "Two processes",
        ("runs", "ended with exit code 0", "largest difference of a weight from one process"),
        [(str(runs), str(clean), f"{largest:.1e}")],
    )
    return finish(numbers, [], options.json)


if __name__ == "__main__":
    sys.exit(main())
