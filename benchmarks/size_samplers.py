"""Error of the log evidence for different ways of drawing mask sizes, at equal numbers of forward passes.

There are two models. One is a small BERT, which is trained on the English text that comes with Python, saved
and loaded again. The other is a model of near-deterministic text, 32 random letters repeated four times: it
knows a hidden letter as soon as one of its copies is visible, so that its curve is steep. A table holds the
scores of `MASKS` random masks of every size for some texts. Each repetition of a sampler draws sizes, and for
each size one mask of the table. Many repetitions therefore cost no additional passes, and the true value is
known: the area under the mean of the table.

The samplers are the paper's 99 rates, assigned to the passes in turn; independent sizes; the rounded linspace
of masked diffusion models (a first size k uniform on 1..D, then k + i·D/n rounded half to even, within each
text); sizes stratified within each text (systematic); and ours, stratified over the data set
(`me.RandomSize`).
"""

import math
import sys
import tempfile
from collections.abc import Callable
from typing import Any

from _timing import Target, arguments, finish, is_quick, machine, random_bert, show

# isort: split
import numpy as np
import torch

import maskevidence as me
from maskevidence.core.masks.design import MaskKey
from maskevidence.core.masks.sizes import size_of_rate
from maskevidence.core.tokens import positions

N_TEXTS, MASKS, REPETITIONS = (8, 1, 3) if is_quick() else (128, 4, 200)
PASSES_PER_TEXT = (4, 8, 16)
BERT_TOKENS = 62
PATTERN, COPIES, LETTERS, CERTAINTY = 32, 4, 26, 0.97  # the near-deterministic text
OURS = "over the data set (ours)"
INDEPENDENT = "independent"
Sampler = Callable[[int, int, int, np.random.Generator], np.ndarray]


def rate_sweep(n: int, n_tokens: int, _seed: int, _rng: np.random.Generator) -> np.ndarray:
    turn = np.arange(N_TEXTS * n).reshape(n, N_TEXTS).T
    return size_of_rate((turn % 99 + 1) / 100, np.full(turn.shape, n_tokens))


def independent(n: int, n_tokens: int, _seed: int, rng: np.random.Generator) -> np.ndarray:
    return rng.integers(1, n_tokens + 1, size=(N_TEXTS, n))


def rounded_linspace(n: int, n_tokens: int, _seed: int, rng: np.random.Generator) -> np.ndarray:
    steps = rng.integers(1, n_tokens + 1, size=(N_TEXTS, 1)) + np.arange(n) * (n_tokens / n)
    return (np.rint(steps).astype(np.int64) - 1) % n_tokens + 1


def within_each_text(n: int, n_tokens: int, _seed: int, rng: np.random.Generator) -> np.ndarray:
    u = (rng.random((N_TEXTS, 1)) + np.arange(n) / n) % 1.0
    return np.minimum(n_tokens, np.floor(u * n_tokens).astype(np.int64) + 1)


def over_the_data_set(n: int, n_tokens: int, seed: int, _rng: np.random.Generator) -> np.ndarray:
    text, index = (grid.ravel() for grid in np.indices((N_TEXTS, n)))
    position, lengths = positions(np.arange(N_TEXTS))[text], np.full(text.shape, n_tokens)
    _, size = me.RandomSize(n).plan(MaskKey(seed), text, lengths, index, position)
    return size.reshape(N_TEXTS, n)


SAMPLERS: dict[str, Sampler] = {
    "99 rates in turn": rate_sweep,
    INDEPENDENT: independent,
    "rounded linspace": rounded_linspace,
    "within each text": within_each_text,
    OURS: over_the_data_set,
}


def train(network: Any, batch: Callable[[torch.Generator], torch.Tensor], mask_id: int, steps: int) -> None:
    """Train with AdamW at 2e-3, a warm-up and a linear decay, 32 texts per step, and rates up to 0.6."""
    generator = torch.Generator().manual_seed(0)
    optimizer = torch.optim.AdamW(network.parameters(), lr=2e-3)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda i: min((i + 1) / 50, 1 - i / steps))
    network.train()
    for step in range(steps):
        ids = batch(generator)
        hidden = torch.rand(ids.shape, generator=generator) < 0.6 * torch.rand(
            len(ids), 1, generator=generator
        )
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


def saved_and_loaded(network: Any, tokenizer: Any) -> me.models.MaskedLM:
    with tempfile.TemporaryDirectory() as folder:
        me.models.MaskedLM(network.eval(), tokenizer).save(folder)
        return me.models.MaskedLM.from_pretrained(folder, device="cpu")


def trained_bert(
    steps: int, n_texts: int = N_TEXTS, share: float = 0.9
) -> tuple[me.models.MaskedLM, me.Tokens]:
    """A BERT with 2,048 word pieces trained on a share of the text, and blocks of the rest of it."""
    from pydoc_data.topics import topics

    from tokenizers import BertWordPieceTokenizer
    from transformers import BertTokenizerFast

    lines = [line for topic in topics.values() for line in topic.splitlines() if line.strip()]
    n_training = round(len(lines) * share)
    training, held_out = lines[:n_training], lines[n_training:]
    pieces = BertWordPieceTokenizer(lowercase=True)
    pieces.train_from_iterator(training, vocab_size=2048, show_progress=False)
    tokenizer = BertTokenizerFast(vocab=pieces.get_vocab(), do_lower_case=True)
    without_dropout = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    network = random_bert(len(tokenizer), 128, 2, 2, max_position_embeddings=64, **without_dropout)
    model = me.models.MaskedLM(network, tokenizer)
    blocks = model.tokens(training, block_size=BERT_TOKENS + 2).values

    def batch(generator: torch.Generator) -> torch.Tensor:
        return blocks[torch.randint(len(blocks), (32,), generator=generator)]

    train(network, batch, tokenizer.mask_token_id, steps)
    tokens = model.tokens(held_out, block_size=BERT_TOKENS + 2)[:n_texts]
    return saved_and_loaded(network, tokenizer), tokens


def near_deterministic() -> tuple[me.models.MaskedLM, me.Tokens]:
    """A model of repeated patterns of random letters, and such texts; id 26 is [MASK]."""

    def network(ids: torch.Tensor) -> torch.Tensor:
        letters = torch.nn.functional.one_hot(ids, LETTERS + 1)[..., :LETTERS]
        seen = letters.reshape(len(ids), COPIES, PATTERN, LETTERS).sum(1).clamp(max=1)
        known = CERTAINTY * seen + (1 - CERTAINTY) / LETTERS
        p = torch.where(seen.any(2, keepdim=True), known, 1 / LETTERS).repeat(1, COPIES, 1)
        return torch.log(torch.cat([p, torch.full_like(p[..., :1], 1e-30)], dim=2))

    generator = torch.Generator().manual_seed(1)
    values = torch.randint(LETTERS, (N_TEXTS, PATTERN), generator=generator).repeat(1, COPIES)
    every = torch.ones(values.shape, dtype=torch.bool)
    tokens = me.Tokens(values, every, ~every, torch.arange(len(values)))
    return me.models.MaskedLM.from_callable(network, mask_token_id=LETTERS), tokens


def table_of_scores(model: me.models.MaskedLM, tokens: me.Tokens) -> np.ndarray:
    """Scores of MASKS masks of every size for every text in nats, shape (N_TEXTS, n_tokens, MASKS)."""
    n_tokens = tokens.width if not tokens.context.any() else tokens.width - 2
    assert tokens.n_tokens.tolist() == [n_tokens] * N_TEXTS
    scores = me.estimate_evidence(model, tokens, me.EverySize(MASKS).in_training()).scores
    table = np.empty((N_TEXTS, n_tokens, MASKS))
    table[np.searchsorted(np.unique(scores.id), scores.id), scores.size - 1, scores.draw] = scores.score
    return table


def errors(table: np.ndarray, sampler: Sampler, n: int, repetitions: int) -> np.ndarray:
    """Error of the mean log evidence in every repetition, in nats per text."""
    n_tokens = table.shape[1]
    truth = table.mean(2).sum(1).mean()
    rows = np.arange(N_TEXTS)[:, None]
    differences = []
    for seed in range(repetitions):
        rng = np.random.default_rng([seed, n])
        size = sampler(n, n_tokens, seed, rng)
        mask = rng.integers(MASKS, size=size.shape)
        differences.append(n_tokens * table[rows, size - 1, mask].mean() - truth)
    return np.array(differences)


def main() -> int:
    parser = arguments(__doc__.splitlines()[0])
    options = parser.parse_args()
    print(machine())
    numbers: dict[str, Any] = {}
    targets = []
    subjects = {
        "BERT on English": trained_bert(4 if options.quick else 1000),
        "near-deterministic": near_deterministic(),
    }
    for name, (model, tokens) in subjects.items():
        table = table_of_scores(model, tokens)
        curve = table.mean((0, 2))
        n_tokens = len(curve)
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
            f"{name}: area {curve.sum():.1f} nats per text of {n_tokens} tokens, scores {curve[0]:.2f} at "
            f"size 1, {curve[n_tokens // 2 - 1]:.2f} at {n_tokens // 2}, {curve[-1]:.2f} at {n_tokens}; "
            f"standard error over {REPETITIONS} repetitions (root mean square error), nats per text"
        )
        show(title, ("sizes", *(f"{n * N_TEXTS:,} passes" for n in PASSES_PER_TEXT)), rows)
        for i, n in enumerate(PASSES_PER_TEXT):
            rms_of = {key: value["rms"][i] for key, value in numbers[name]["samplers"].items()}
            best = min(rms_of.values())
            se = math.hypot(best, rms_of[OURS]) / math.sqrt(2 * REPETITIONS)  # error of the difference
            what = f"{name}, {n * N_TEXTS} passes: ours behind the best, in standard errors"
            targets.append(Target(what, (rms_of[OURS] - best) / se, high=2.0))
        if name == "near-deterministic":
            gain = float(np.median([(a / b) ** 2 for a, b in zip(sd[INDEPENDENT], sd[OURS], strict=True)]))
            targets.append(Target(f"{name}: variance, independent over ours (median)", gain, low=10.0))
    return finish(numbers, targets, options.json)


if __name__ == "__main__":
    sys.exit(main())
