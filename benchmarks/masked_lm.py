"""Speed of scoring with masked language models on QNLI text, and peak memory for long and for many texts.

The package packs calls and computes the head at masked positions only. The straightforward loop takes the
texts in the order of the data, 32 at a time, padded to the longest of them, and computes full logits and
their log-softmax. Both sides use the same token ids and the same masks of 15 %, and must agree on every
score. Tokens are counted without padding. Takes about three minutes on two cores.
"""

import argparse
import subprocess
import sys
from typing import Any

from _timing import (
    Target,
    arguments,
    data,
    finish,
    interleaved,
    machine,
    random_bert,
    resident,
    show,
    spread_of_ratio,
    times_faster,
)

# isort: split
import numpy as np
import torch
import torch.nn.functional as F

import maskevidence as me
from maskevidence.core.masks.design import MaskKey
from maskevidence.core.tokens import Tokens
from maskevidence.texts.text_files import read_texts

RATE = 0.15
DESIGN = me.FixedRate(RATE, 1)
LOOP_BATCH = 32
# name -> hidden size, layers, heads, texts scored, rounds, target over the loop
SHAPES = {
    "2 layers of 128": (128, 2, 2, 384, 3, 6.0),
    "4 layers of 256": (256, 4, 4, 192, 3, 3.5),
    "BERT-base shape": (768, 12, 12, 32, 3, 1.4),
}
QUICK = {"2 layers of 128": (128, 2, 2, 4, 3, 6.0)}
ENCODER_SHARE = 0.85
MEMORY_BUDGET_MIB = 1024
MEMORY_RUNS = ("one text of 20,000 tokens", "10,000 short sentences")


def main() -> int:
    parser = arguments(__doc__.splitlines()[0])
    parser.add_argument("--memory", choices=MEMORY_RUNS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.memory:
        print(peak_memory(options.memory))
        return 0
    rows, numbers, targets = [], {}, []
    for name, shape in (QUICK if options.quick else SHAPES).items():
        result = measure(*shape[:5])
        numbers[name] = result
        print(f"{name}: {result['times']:.2f} times the loop", file=sys.stderr, flush=True)
        rows.append(
            (
                name,
                str(shape[3]),
                f"{result['ours']:,.0f}",
                f"{result['loop']:,.0f}",
                f"{result['times']:.2f} ({result['times_spread']})",
                f"{result['encoder_share']:.2f} ({result['encoder_share_spread']})",
                f"{result['largest_difference']:.1e}",
            )
        )
        targets.append(Target(f"times the loop, {name}", result["times"], low=shape[5]))
        if name == "BERT-base shape":
            targets.append(Target("share of its encoder's speed", result["encoder_share"], low=ENCODER_SHARE))
        targets.append(
            Target(f"largest difference of a score, {name}", result["largest_difference"], high=1e-4)
        )
    columns = (
        "BERT",
        "texts",
        "tokens/s, ours",
        "tokens/s, loop",
        "times faster (range)",
        "share of the encoder's speed (range)",
        "largest difference",
    )
    show(f"QNLI validation, {RATE:.0%} masked, float32; {machine()}", columns, rows)
    memory = {
        what: peak_memory(what, 0.03) if options.quick else in_new_process(what) for what in MEMORY_RUNS
    }
    show(
        f"Peak memory, BERT with 2 layers of 128, random sizes; budget {MEMORY_BUDGET_MIB:,} MiB",
        ("scored", "peak, MiB"),
        [(what, f"{peak:,.0f}") for what, peak in memory.items()],
    )
    targets += [Target(f"peak MiB, {what}", peak, high=MEMORY_BUDGET_MIB) for what, peak in memory.items()]
    return finish({"speed": numbers, "peak_mib": memory}, targets, options.json)


def bert(hidden_size: int, layers: int, heads: int) -> me.models.MaskedLM:
    """A BERT with random weights and the vocabulary of bert-base-uncased."""
    from transformers import BertTokenizerFast

    vocabulary = data("bert-base-uncased-vocab", "vocab.txt")
    tokenizer = BertTokenizerFast(vocab=str(vocabulary), do_lower_case=True)
    return me.models.MaskedLM(random_bert(len(tokenizer), hidden_size, layers, heads), tokenizer)


def measure(hidden_size: int, layers: int, heads: int, n_texts: int, rounds: int) -> dict[str, Any]:
    """Measure the tokens per second of the package, the loop and the encoder alone; compare the scores."""
    model = bert(hidden_size, layers, heads)
    texts = read_texts("glue/qnli:validation", ["question", "sentence"])
    every = model.encode(texts["question"], second=texts["sentence"]).tokens
    rows = np.sort(np.random.default_rng(0).choice(len(every), n_texts, replace=False))
    tokens = every[torch.from_numpy(rows)]
    present = tokens.maskable | tokens.context
    key = MaskKey(0)
    ids = tokens.ids.numpy()
    draw, size = DESIGN.plan(key, ids, tokens.n_tokens.numpy(), np.zeros_like(ids))
    masked = torch.from_numpy(DESIGN.masked(key, ids, draw, size, tokens.maskable.numpy()))
    scores: dict[str, torch.Tensor] = {}

    def ours() -> None:
        estimate = me.estimate_evidence(model, tokens, DESIGN)
        scores["ours"] = torch.from_numpy(estimate.scores.score)

    def loop() -> None:
        scores["loop"] = user_loop(model, tokens, present, masked)

    lengths = present.sum(1)
    packed = []
    for part in model.batches(lengths.numpy()):
        row = torch.from_numpy(part)
        width = int(lengths[row].max())
        packed.append((tokens.values[row, :width], present[row, :width].long()))

    def encoder() -> None:
        with torch.no_grad():
            for input_ids, attention_mask in packed:
                model.network.base_model(input_ids=input_ids, attention_mask=attention_mask)

    timings = interleaved(
        {"ours": ours, "loop": loop, "encoder": encoder}, rounds, warmups=0 if layers > 4 else 1
    )
    n_tokens = int(present.sum())
    return {
        "ours": n_tokens / timings["ours"].median,
        "loop": n_tokens / timings["loop"].median,
        "encoder": n_tokens / timings["encoder"].median,
        "times": times_faster(timings, "loop", "ours"),
        "times_spread": spread_of_ratio(timings, "loop", "ours"),
        "encoder_share": times_faster(timings, "encoder", "ours"),
        "encoder_share_spread": spread_of_ratio(timings, "encoder", "ours"),
        "largest_difference": float((scores["ours"] - scores["loop"]).abs().max()),
    }


def user_loop(
    model: me.models.MaskedLM, tokens: Tokens, present: torch.Tensor, masked: torch.Tensor
) -> torch.Tensor:
    """The score of each text's mask, computed by the straightforward loop."""
    scores = []
    with torch.no_grad():
        for start in range(0, len(tokens), LOOP_BATCH):
            part = slice(start, start + LOOP_BATCH)
            width = int(present[part].sum(1).max())
            labels, hidden = tokens.values[part, :width], masked[part, :width]
            input_ids = labels.clone()
            input_ids[hidden] = model.mask_token_id
            ends = ((labels == model.tokenizer.sep_token_id) & present[part, :width]).long()
            logits = model.network(
                input_ids=input_ids,
                attention_mask=present[part, :width].long(),
                token_type_ids=(ends.cumsum(1) - ends).clamp(max=1),
            ).logits
            log_probs = F.log_softmax(logits, dim=-1).gather(-1, labels[..., None])[..., 0]
            scores.append((log_probs * hidden).sum(1) / hidden.sum(1))
    return torch.cat(scores).double()


def peak_memory(what: str, share: float = 1.0) -> float:
    """Score the texts, or a share of them, and return the peak memory of this process in MiB."""
    model = bert(128, 2, 2)
    if what == MEMORY_RUNS[0]:
        text = "\n".join(read_texts("tiny-shakespeare")["text"])
        tokens = model.encode([text[: round(20_000 * share) * 4]], block_size=512).tokens
        design = me.RandomSize(4)
        assert int(tokens.n_tokens.sum()) > 15_000 * share
    else:
        questions = read_texts("glue/qnli:validation", ["question"])["question"]
        tokens = model.encode((list(questions) * 2)[: round(10_000 * share)]).tokens
        design = me.RandomSize(1, replicates=1)
    me.estimate_evidence(model, tokens, design)
    return resident("VmHWM")


def in_new_process(what: str) -> float:
    """The peak memory of a process that scores all texts, in MiB."""
    command = [sys.executable, __file__, "--memory", what]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()[-1])


if __name__ == "__main__":
    sys.exit(main())
