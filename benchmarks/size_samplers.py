"""How mask sizes are drawn: the error of the log evidence at equal numbers of forward passes.

Two small BERTs are trained here, saved and loaded again: one on tiny_shakespeare, one on near-deterministic
text (a random pattern of four letters, repeated), whose curve is steep. For some texts a table holds the
scores of `MASKS` random masks of every size; a repetition of a sampler draws sizes its own way and one mask
of the table for each, so that many repetitions cost no more passes, and the truth is known: the area under
the table's mean. Takes about four minutes on two cores, most of it training.

Samplers: the paper's 99 rates, dealt out in turn over the passes; independent sizes; the rounded linspace of
masked diffusion models (first size k uniform on 1..D, then k + i·D/n rounded half to even, within each text);
sizes stratified within each text (systematic); and ours, stratified over the data set (`me.RandomSize`).
"""

import math
import os
import sys
import tempfile
from collections.abc import Callable
from typing import Any

from _timing import Target, arguments, finish, machine, show

# isort: split
import numpy as np
import torch

import maskevidence as me
from maskevidence.data.text import read_texts
from maskevidence.masks import MaskKey, size_of_rate

N_TEXTS, D, MASKS, REPETITIONS = 32, 62, 8, 200
PASSES_PER_TEXT = (4, 8, 16, 32)
OURS = "over the data set (ours)"
INDEPENDENT = "independent"
Sampler = Callable[[int, int, np.random.Generator], np.ndarray]


def rate_sweep(n: int, _seed: int, _rng: np.random.Generator) -> np.ndarray:
    turn = np.arange(N_TEXTS * n).reshape(n, N_TEXTS).T
    return size_of_rate((turn % 99 + 1) / 100, np.full(turn.shape, D))


def independent(n: int, _seed: int, rng: np.random.Generator) -> np.ndarray:
    return rng.integers(1, D + 1, size=(N_TEXTS, n))


def rounded_linspace(n: int, _seed: int, rng: np.random.Generator) -> np.ndarray:
    first = rng.integers(1, D + 1, size=(N_TEXTS, 1))
    return _rounded(first, n, D)


def _rounded(first: np.ndarray, n: int, n_tokens: int) -> np.ndarray:
    steps = first + np.arange(n) * (n_tokens / n)
    return (np.rint(steps).astype(np.int64) - 1) % n_tokens + 1


def within_each_text(n: int, _seed: int, rng: np.random.Generator) -> np.ndarray:
    u = (rng.random((N_TEXTS, 1)) + np.arange(n) / n) % 1.0
    return np.minimum(D, np.floor(u * D).astype(np.int64) + 1)


def over_the_data_set(n: int, seed: int, _rng: np.random.Generator) -> np.ndarray:
    text, index = (grid.ravel() for grid in np.indices((N_TEXTS, n)))
    _, size = me.RandomSize(n).plan(MaskKey(seed), text, np.full(text.shape, D), index)
    return size.reshape(N_TEXTS, n)


SAMPLERS: dict[str, Sampler] = {
    "99 rates in turn": rate_sweep,
    INDEPENDENT: independent,
    "rounded linspace": rounded_linspace,
    "within each text": within_each_text,
    OURS: over_the_data_set,
}


def train(network: Any, batch: Callable[[torch.Generator], torch.Tensor], mask_id: int, steps: int) -> None:
    """AdamW at 2e-3 with a short rise and a linear fall; 32 texts a step, their rates uniform on (0, 1)."""
    generator = torch.Generator().manual_seed(0)
    optimizer = torch.optim.AdamW(network.parameters(), lr=2e-3, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda i: min((i + 1) / 50, 1 - i / steps))
    network.train()
    for step in range(steps):
        ids = batch(generator)
        hidden = torch.rand(ids.shape, generator=generator) < torch.rand(len(ids), 1, generator=generator)
        hidden[:, [0, -1]] = False
        labels = torch.where(hidden, ids, -100)
        loss = network(input_ids=ids.masked_fill(hidden, mask_id), labels=labels).loss
        if not bool(hidden.any()):
            continue
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        if sys.stderr.isatty() and step % 100 == 0:
            print(f"step {step}: loss {float(loss):.3f}", file=sys.stderr)


def small_bert(n_ids: int) -> Any:
    from transformers import BertConfig, BertForMaskedLM

    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=n_ids,
        hidden_size=128,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=512,
        max_position_embeddings=64,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )
    return BertForMaskedLM(config)


def saved_and_loaded(network: Any, tokenizer: Any) -> me.models.MaskedLM:
    with tempfile.TemporaryDirectory() as folder:
        me.models.MaskedLM(network.eval(), tokenizer).save(folder)
        return me.models.MaskedLM.from_pretrained(folder, device="cpu")


def shakespeare(steps: int) -> tuple[me.models.MaskedLM, me.Tokens]:
    """A BERT with a vocabulary of 2,048 word pieces, trained on nine tenths; texts of the last tenth."""
    from tokenizers import BertWordPieceTokenizer
    from transformers import BertTokenizerFast

    lines = [line for line in read_texts("tiny-shakespeare")["text"] if line]
    trained, held_out = lines[: len(lines) * 9 // 10], lines[len(lines) * 9 // 10 :]
    pieces = BertWordPieceTokenizer(lowercase=True)
    pieces.train_from_iterator(trained, vocab_size=2048, show_progress=False)
    tokenizer = BertTokenizerFast(vocab=pieces.get_vocab(), do_lower_case=True)
    network = small_bert(len(tokenizer))
    model = me.models.MaskedLM(network, tokenizer)
    blocks = model.tokens(trained, block_size=D + 2).values

    def batch(generator: torch.Generator) -> torch.Tensor:
        return blocks[torch.randint(len(blocks), (32,), generator=generator)]

    train(network, batch, tokenizer.mask_token_id, steps)
    tokens = model.tokens(held_out, block_size=D + 2)[:N_TEXTS]
    return saved_and_loaded(network, tokenizer), tokens


def near_deterministic(steps: int) -> tuple[me.models.MaskedLM, me.Tokens]:
    """A BERT trained on a pattern of four random letters that repeats to the end, and such texts."""
    from transformers import BertTokenizerFast

    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    letters = [chr(ord("a") + i) for i in range(26)]
    tokenizer = BertTokenizerFast(vocab={word: i for i, word in enumerate(special + letters)})
    network = small_bert(len(tokenizer))

    def batch(generator: torch.Generator) -> torch.Tensor:
        pattern = torch.randint(5, 31, (32, 4), generator=generator)
        body = pattern.repeat(1, math.ceil(D / 4))[:, :D]
        ends = torch.full((32, 1), 2), torch.full((32, 1), 3)
        return torch.cat([ends[0], body, ends[1]], dim=1)

    train(network, batch, 4, steps)
    values = batch(torch.Generator().manual_seed(1))[:N_TEXTS]
    context = torch.zeros(values.shape, dtype=torch.bool)
    context[:, [0, -1]] = True
    tokens = me.Tokens(values, ~context, context, torch.arange(len(values)))
    return saved_and_loaded(network, tokenizer), tokens


def table_of_scores(model: me.models.MaskedLM, tokens: me.Tokens) -> np.ndarray:
    """Scores of MASKS masks of every size of every text, shape (N_TEXTS, D, MASKS), nats."""
    assert tokens.n_tokens.tolist() == [D] * N_TEXTS
    scores = me.estimate_evidence(model, tokens, me.EverySize(MASKS)).scores
    table = np.empty((N_TEXTS, D, MASKS))
    table[np.searchsorted(np.unique(scores.id), scores.id), scores.size - 1, scores.draw] = scores.score
    return table


def errors(table: np.ndarray, sampler: Sampler, n: int, repetitions: int) -> np.ndarray:
    """Error of the mean log evidence in every repetition, nats per text."""
    truth = table.mean(2).sum(1).mean()
    rows = np.arange(N_TEXTS)[:, None]
    found = []
    for seed in range(repetitions):
        rng = np.random.default_rng([seed, n])
        size = sampler(n, seed, rng)
        mask = rng.integers(MASKS, size=size.shape)
        found.append(D * table[rows, size - 1, mask].mean() - truth)
    return np.array(found)


def unevenness(n_tokens: int = 100, n: int = 8) -> dict[str, Any]:
    """The exact marginals of the rounded sampler: each first size once."""
    counts = np.bincount(
        _rounded(np.arange(1, n_tokens + 1)[:, None], n, n_tokens).ravel(), minlength=n_tokens + 1
    )
    share = counts[1:] / (n * 1.0)  # 1 where even
    return {
        "least": float(share.min()),
        "most": float(share.max()),
        "odd": float(share[::2].mean()),
        "even": float(share[1::2].mean()),
    }


def main() -> int:
    parser = arguments(__doc__.splitlines()[0])
    options = parser.parse_args()
    if "MASKEVIDENCE_DATA" not in os.environ:
        print("MASKEVIDENCE_DATA is not set; point it at the folder of the data sets", file=sys.stderr)
        return 2
    steps = (60, 60) if options.quick else (1000, 400)
    print(machine())
    numbers: dict[str, Any] = {}
    targets = []
    made = {"tiny_shakespeare": shakespeare(steps[0]), "near-deterministic": near_deterministic(steps[1])}
    for name, (model, tokens) in made.items():
        table = table_of_scores(model, tokens)
        curve = table.mean((0, 2))
        rows = []
        numbers[name] = {"curve": curve.tolist(), "area": float(curve.sum()), "samplers": {}}
        sd: dict[str, list[float]] = {}
        for sampler_name, sampler in SAMPLERS.items():
            every = [errors(table, sampler, n, REPETITIONS) for n in PASSES_PER_TEXT]
            sd[sampler_name] = [float(e.std(ddof=1)) for e in every]
            rms = [float(np.sqrt((e**2).mean())) for e in every]
            numbers[name]["samplers"][sampler_name] = {"sd": sd[sampler_name], "rms": rms}
            cells = [f"{s:.3f} ({r:.3f})" for s, r in zip(sd[sampler_name], rms, strict=True)]
            rows.append((sampler_name, *cells))
        for other in (OURS, "within each text"):
            gains = [f"{(a / b) ** 2:.1f}" for a, b in zip(sd[INDEPENDENT], sd[other], strict=True)]
            rows.append((f"variance of independent / {other}", *gains))
        title = (
            f"{name}: area {curve.sum():.1f} nats per text of {D} tokens, scores {curve[0]:.2f} at size 1, "
            f"{curve[D // 2 - 1]:.2f} at {D // 2}, {curve[-1]:.2f} at {D}; standard error over {REPETITIONS} "
            "repetitions (root mean square error), nats per text"
        )
        show(title, ("sizes", *(f"{n * N_TEXTS:,} passes" for n in PASSES_PER_TEXT)), rows)
        for i, n in enumerate(PASSES_PER_TEXT):
            rms_of = {key: value["rms"][i] for key, value in numbers[name]["samplers"].items()}
            best = min(rms_of.values())
            se = math.hypot(best, rms_of[OURS]) / math.sqrt(2 * REPETITIONS)  # of the difference
            what = f"{name}, {n * N_TEXTS} passes: ours behind the best, in standard errors"
            targets.append(Target(what, (rms_of[OURS] - best) / se, high=2.0))
        if name == "near-deterministic":
            gain = float(np.median([(a / b) ** 2 for a, b in zip(sd[INDEPENDENT], sd[OURS], strict=True)]))
            targets.append(Target(f"{name}: variance, independent over ours (median)", gain, low=10.0))
    share = unevenness()
    show(
        "Rounded linspace, D = 100, n = 8: share of a size against 1/D, over all first sizes",
        ("least", "most", "mean of odd sizes", "mean of even sizes"),
        [tuple(f"{share[key]:.2f}" for key in ("least", "most", "odd", "even"))],
    )
    numbers["rounded_linspace_share"] = share
    return finish(numbers, targets, options.json)


if __name__ == "__main__":
    sys.exit(main())
