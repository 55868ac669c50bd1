"""Speed of scoring with masked language models on QNLI text.

The package packs calls and computes the head at masked positions only. The straightforward loop takes the
texts in the order of the data, 32 at a time, padded to the longest of them, and computes full logits and
their log-softmax. Both sides use the same token ids and the same masks of 15 %, and must agree on every
score. Tokens are counted without padding. Takes about three minutes on two cores.
"""

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
    show_results,
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


def main() -> int:
    options = arguments(__doc__.splitlines()[0]).parse_args()
    numbers, targets = {}, []
    for name, shape in (QUICK if options.quick else SHAPES).items():
        result = numbers[name] = {"texts": shape[3]} | measure(*shape[:5])
        print(f"{name}: {result['times']:.2f} times the loop", file=sys.stderr, flush=True)
        targets.append(Target(f"times the loop, {name}", result["times"], low=shape[5]))
        if name == "BERT-base shape":
            targets.append(Target("share of its encoder's speed", result["encoder_share"], low=ENCODER_SHARE))
        targets.append(Target(f"largest difference of a score, {name}", result["apart"], high=1e-4))
    columns = {
        "texts": "{texts}",
        "tokens/s, ours": "{ours:,.0f}",
        "tokens/s, loop": "{loop:,.0f}",
        "times faster (range)": "{times:.2f} ({times_spread})",
        "share of the encoder's speed (range)": "{encoder_share:.2f} ({encoder_share_spread})",
        "largest difference": "{apart:.1e}",
    }
    title = f"QNLI validation, {RATE:.0%} masked, float32; {machine()}"
    show_results(title, "BERT", columns, numbers)
    return finish({"speed": numbers}, targets, options.json)


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
        "apart": float((scores["ours"] - scores["loop"]).abs().max()),
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


if __name__ == "__main__":
    sys.exit(main())
