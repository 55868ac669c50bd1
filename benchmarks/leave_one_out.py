"""Speed of leave-one-out with a masked language model, against the loop that a user would write.

The loop takes one text at a time: the masked copies of a text are one batch (or batches of 32), and the
log-softmax is taken at the masked positions. The package packs copies of all texts into calls of a size that
a short trial finds, and computes the head and the end of the last layer at masked positions only. Both sides
must agree on every score.

The model is an ALBERT trained on chemical reactions, if the package `rxnmapper` is installed (`pip install
--no-deps rxnmapper==0.4.3`; it is not imported, only its files are read), and a BERT with 2 layers of 128 and
random weights on QNLI text. Takes about ten minutes on two cores.
"""

import importlib.util
import sys
from pathlib import Path
from typing import Any

from _timing import (
    Target,
    arguments,
    data,
    finish,
    interleaved,
    machine,
    show,
    spread_of_ratio,
    times_faster,
)
from masked_lm import bert

# isort: split
import numpy as np
import torch
import torch.nn.functional as F

import maskevidence as me
from maskevidence.core.tokens import Tokens
from maskevidence.texts.text_files import read_texts

REACTIONS = "ALBERT, reactions"
QNLI = "2 layers of 128, QNLI"
LONGEST = 256
LOOPS = {"one batch per text": 10**9, "batches of 32": 32}
TIMES_FASTER = 1.2


def main() -> int:
    parser = arguments(__doc__.splitlines()[0])
    parser.add_argument("--texts", type=int, default=12, help="how many texts are scored")
    parser.add_argument("--rounds", type=int, default=5, help="how many times each side scores them")
    options = parser.parse_args()
    n_texts = 1 if options.quick else options.texts
    contests = {} if options.quick else {REACTIONS: reactions(n_texts)}
    contests[QNLI] = questions(3 * n_texts)
    rows, numbers, targets = [], {}, []
    for name, contest in contests.items():
        if contest is None:
            print("rxnmapper is not installed; its model is left out", file=sys.stderr)
            continue
        result = numbers[name] = measure(*contest, options.rounds)
        rows += [
            (
                name if loop == next(iter(LOOPS)) else "",
                f"{result['passes']:,}",
                loop,
                f"{result[loop]:,.0f}",
                f"{result['ours']:,.0f}",
                f"{result['times'][loop]:.2f} ({result['ranges'][loop]})",
                f"{result['pseudo_perplexity']:.3f}",
                f"{result['largest_difference']:.0e}",
            )
            for loop in LOOPS
        ]
        targets += [
            Target(f"times faster, {name}, {loop}", result["times"][loop], low=TIMES_FASTER) for loop in LOOPS
        ]
        targets.append(Target(f"largest difference, {name}", result["largest_difference"], high=1e-4))
        print(f"{name}: {result['note']}", file=sys.stderr, flush=True)
    columns = (
        "model",
        "passes",
        "the loop",
        "tokens/s, loop",
        "tokens/s, ours",
        "times faster (range)",
        "pseudo-perplexity",
        "largest difference",
    )
    show(f"Leave-one-out, float32; {machine()}", columns, rows)
    return finish({"speed": numbers}, targets, options.json)


def reactions(n_texts: int) -> tuple[me.models.MaskedLM, Tokens] | None:
    """A small ALBERT and reactions of at most 256 tokens; None if its package is not installed."""
    model = smiles_model()
    if model is None:
        return None
    every = read_texts(str(data("reactions", "reactions.csv")))["reaction"]
    texts = [text for text in every if len(model.tokenizer(text).input_ids) <= LONGEST]
    return model, model.tokens(texts[:n_texts])


def smiles_model(*, bfloat16: bool = False) -> me.models.MaskedLM | None:
    """The ALBERT of `rxnmapper`; None if that is not installed."""
    found = importlib.util.find_spec("rxnmapper")
    if found is None or found.origin is None:
        return None
    folder = Path(found.origin).parent / "models" / "transformers" / "albert_heads_8_uspto_all_1310k"
    tokenizer = smiles_tokenizer((folder / "vocab.txt").read_text().split("\n"))
    return me.models.MaskedLM.from_pretrained(folder, tokenizer=tokenizer, device="cpu", bfloat16=bfloat16)


def smiles_tokenizer(words: list[str]) -> Any:
    """Atoms and bonds as whole words."""
    from tokenizers import Regex, Tokenizer, models, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    number = {word: place for place, word in enumerate(filter(None, words))}
    cut = Tokenizer(models.WordLevel(number, unk_token="[UNK]"))
    pattern = r"\[[^]]+]|Br?|Cl?|[NOSPFIbcnosp().=#+\\/:~@?*$-]|>>?|%[0-9]{2}|[0-9]"
    cut.pre_tokenizer = pre_tokenizers.Split(Regex(pattern), "isolated")
    cut.post_processor = processors.BertProcessing(*[(word, number[word]) for word in ("[SEP]", "[CLS]")])
    special = {f"{name}_token": f"[{name.upper()}]" for name in ("pad", "unk", "cls", "sep", "mask")}
    return PreTrainedTokenizerFast(tokenizer_object=cut, **special)


def questions(n_texts: int) -> tuple[me.models.MaskedLM, Tokens]:
    """A small BERT with random weights, and sentences of QNLI."""
    model = bert(128, 2, 2)
    texts = read_texts("glue/qnli:validation", ["sentence"], limit=n_texts)["sentence"]
    return model, model.tokens(texts, long="truncate")


def measure(model: me.models.MaskedLM, tokens: Tokens, rounds: int) -> dict[str, Any]:
    """Tokens per second of the package and of both loops; the largest difference of a score."""
    scores: dict[str, Any] = {}

    def ours() -> None:
        scores["ours"] = me.estimate_evidence(model, tokens, me.LeaveOneOut())

    def loop(name: str) -> None:
        scores[name] = user_loop(model, tokens, LOOPS[name])

    contestants = {"ours": ours} | {name: lambda name=name: loop(name) for name in LOOPS}
    timings = interleaved(contestants, rounds, warmups=0)
    estimate = scores["ours"]
    found = torch.from_numpy(estimate.scores.score)
    passes = tokens.maskable.sum(1)
    n_tokens = int((passes * (tokens.maskable | tokens.context).sum(1)).sum())
    return {
        "passes": int(passes.sum()),
        **{name: n_tokens / timing.median for name, timing in timings.items()},
        "times": {name: times_faster(timings, name, "ours") for name in LOOPS},
        "ranges": {name: spread_of_ratio(timings, name, "ours") for name in LOOPS},
        "pseudo_perplexity": float(np.exp(-estimate.per_token)),
        "largest_difference": max(float((scores[name] - found).abs().max()) for name in LOOPS),
        "note": model.call_note or "there were too few tokens for a trial",
    }


def user_loop(model: me.models.MaskedLM, tokens: Tokens, rows_at_once: int) -> torch.Tensor:
    """log p of each token given all others, computed by the straightforward loop."""
    log_probs = []
    with torch.no_grad():
        for row in range(len(tokens)):
            length = int((tokens.maskable | tokens.context)[row].sum())
            ids = tokens.values[row, :length]
            for places in torch.nonzero(tokens.maskable[row]).flatten().split(rows_at_once):
                copy = torch.arange(len(places))
                masked = ids.repeat(len(places), 1)
                masked[copy, places] = model.mask_token_id
                logits = model.network(input_ids=masked, attention_mask=torch.ones_like(masked)).logits
                log_probs.append(F.log_softmax(logits[copy, places], dim=-1)[copy, ids[places]])
    return torch.cat(log_probs).double()


if __name__ == "__main__":
    sys.exit(main())
