"""Order mixtures, brackets and decoding orders of learned conditionals: how far apart the numbers are.

    python benchmarks/bounds.py                         # about 10 minutes on two cores
    python benchmarks/bounds.py --parts network         # one part: time, network, text

A masked network of one hidden layer is trained on 12 pixels of the digits with four levels, and a BERT (2
layers of 128) on the English text that comes with Python, by random sizes and at 15 %: with 12 tokens the
order mixture is known exactly.
"""

import resource
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from typing import Any

from _timing import Target, arguments, finish, machine, mean_and_se, show, timed

# isort: split
import numpy as np
import torch
from torch import Tensor, nn

import maskevidence as me
from maskevidence.core.model import MASS
from maskevidence.core.tokens import Tokens
from maskevidence.huggingface.recipe import Recipe
from maskevidence.huggingface.training import TrainerOptions, train_masked_lm
from maskevidence.texts.new_bert import SIZES, new_bert, word_pieces

D, ORDERS, VOCABULARY = 12, (16, 64), 160
TRAININGS = {"random sizes": me.RandomSize(1, 1), "15 %": me.FixedRate(0.15, 1)}
POLICIES = ("left-to-right", "right-to-left", "confidence", "margin", "entropy")
PARTS = ("time", "network", "text")


class MaskedNetwork(nn.Module):
    """A network of one hidden layer: from the visible values to the distribution of every hidden one."""

    conditionals = "learned"
    base_measure = MASS

    def __init__(self, n_tokens: int, n_values: int, width: int = 128) -> None:
        super().__init__()
        self.n_values = n_values
        n_inputs, n_outputs = n_tokens * (n_values + 1), n_tokens * n_values
        self.layers = nn.Sequential(nn.Linear(n_inputs, width), nn.ReLU(), nn.Linear(width, n_outputs))

    def _log_probs(self, tokens: Tokens, masked: Tensor) -> Tensor:
        shown = tokens.values.masked_fill(masked, self.n_values)
        inputs = nn.functional.one_hot(shown, self.n_values + 1).float().flatten(1)
        return self.layers(inputs).reshape(*masked.shape, self.n_values).log_softmax(-1)

    def log_conditionals(self, tokens: Tokens, masked: Tensor) -> Tensor:
        own = self._log_probs(tokens, masked).gather(-1, tokens.values[:, :, None])[..., 0]
        return torch.where(masked, own, 0.0)

    def log_distributions(self, tokens: Tokens, masked: Tensor) -> Tensor:
        return self._log_probs(tokens, masked)[masked]


def pixels() -> tuple[Tokens, Tokens]:
    """Four levels of twelve pixels in the middle of the digits, to train and to score."""
    from maskevidence.data import digits

    train, test = digits().split(test_fraction=0.2, seed=0)
    columns = [8 * row + column for row in (2, 3, 4) for column in (2, 3, 4, 5)]

    def tokens(table: Any) -> Tokens:
        values = torch.from_numpy(np.asarray(table.values)[:, columns] // 4.3).long()
        every = torch.ones(values.shape, dtype=torch.bool)
        return Tokens(values, every, ~every, torch.arange(len(values)))

    return tokens(train), tokens(test)


def trained(design: me.MaskDesign, train: Tokens, steps: int) -> MaskedNetwork:
    """A network after some steps of masked training on 64 rows, with a learning rate that decays to 0."""
    torch.manual_seed(0)
    model = MaskedNetwork(D, 4)
    objective, optimizer = me.MaskedObjective(design), torch.optim.Adam(model.parameters(), 2e-3)
    generator = torch.Generator().manual_seed(0)
    for step in range(steps):
        for group in optimizer.param_groups:
            group["lr"] = 2e-3 * min(1.0, (step + 1) / 50) * (1 - step / steps)
        rows = torch.randperm(len(train), generator=generator)[:64]
        optimizer.zero_grad()
        (objective(model, train[rows], step=step) / D).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    return model.eval()


def python_text() -> tuple[Any, Sequence[str], Sequence[str]]:
    """A few pieces of words, and nine tenths and one tenth of the text that comes with Python."""
    lines = me.data.read_texts("python-topics", running=True)["text"]
    n_train = len(lines) - round(len(lines) * 0.1)
    return word_pieces(lines[:n_train], VOCABULARY), lines[:n_train], lines[n_train:]


def trained_on_text(n_texts: int, steps: int) -> tuple[dict[str, Any], Tokens]:
    """A BERT for each way to train, and held-out blocks of 12 pieces of words beside the two special ones."""
    tokenizer, *parts = python_text()
    models, reader = {}, new_bert(tokenizer)
    train, test = (reader.tokens(part, block_size=D + 2) for part in parts)
    for name, design in TRAININGS.items():
        models[name] = new_bert(tokenizer, seed=1)
        recipe = Recipe(steps=steps, seed=1)
        train_masked_lm(models[name], train, design, recipe, TrainerOptions(device="cpu"))
    some = torch.linspace(0, len(test) - 1, n_texts).long()
    return models, replace(test[some], ids=torch.arange(n_texts))


@cache
def scored(model: Any, tokens: Tokens, design: me.MaskDesign | str) -> tuple[me.EvidenceEstimate, float]:
    return timed(partial(me.estimate_evidence, model, tokens, design, check=False))


def exact_numbers(model: Any, tokens: Tokens) -> tuple[me.EvidenceEstimate, float, np.ndarray]:
    """The order mixture, its seconds, and the area of each observation, from the same masks."""
    estimate, seconds = scored(model, tokens, me.Exhaustive(order_mixture=True))
    scores = estimate.scores
    weight = me.Exhaustive().summation(scores.n_tokens, scores.draw, scores.size).weight
    return estimate, seconds, np.bincount(np.unique(scores.id, return_inverse=True)[1], weight * scores.score)


def time_of_16() -> dict[str, float]:
    """Seconds and memory for the exact mixture of one text of 16 tokens with a small BERT."""
    tokenizer, _, held_out = python_text()
    model = new_bert(tokenizer)
    ids = model.tokens(held_out, block_size=SIZES["small"].block_size).values[:1, :18].clone()
    ids[:, -1] = model.tokenizer.sep_token_id
    context = torch.zeros(1, 18, dtype=torch.bool)
    context[:, [0, -1]] = True
    tokens = Tokens(ids, ~context, context, torch.arange(1))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    estimate, seconds = scored(model, tokens, me.Exhaustive(order_mixture=True))
    memory = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    print(
        f"\nD = 16, one text, a BERT of 2 layers of 128: {estimate.n_masks:,} masks, {seconds:.0f} s of one "
    )
    print(f"processor, {memory:.0f} MiB more memory, {estimate.n_model_calls:,} calls of the model")
    return {"seconds": seconds, "mebibytes": memory, "masks": estimate.n_masks}


def brackets(models: Mapping[str, tuple[Any, Tokens]]) -> tuple[dict[str, Any], list[Target]]:
    """Area, bounds and the exact mixture of each model; how often the lower ends hold."""
    rows, numbers, targets, gaps = [], {}, [], {}
    for name, (model, tokens) in models.items():
        exact, _, area = exact_numbers(model, tokens)
        mixture = exact.per_observation
        gaps[name] = mixture - area
        for n in ORDERS:
            estimate, _ = scored(model, tokens, me.Orderings(n, bound="importance"))
            found, spread = estimate.bracket, estimate.order_spread
            assert found is not None
            assert spread is not None
            holds = (found.low <= mixture).mean()
            rows.append(
                (
                    f"{name}, {n}",
                    f"{area.mean():.3f}",
                    f"{found.lower:.3f} ± {found.lower_se or 0:.3f}",
                    f"{mixture.mean():.3f}",
                    "none" if found.upper is None else f"{found.upper:.3f} ± {found.upper_se:.3f}",
                    f"{100 * holds:.1f} %",
                    mean_and_se(gaps[name]),
                    f"{np.sqrt(spread.within):.2f} ({100 * (spread.share_within or 0):.0f} %)",
                )
            )
            numbers[f"{name}, {n} orders"] = {
                **found.to_dict(), "exact": float(mixture.mean()), "exact_area": float(area.mean()),
                "holds": float(holds),
            }  # fmt: skip
        targets.append(Target(f"share of texts above their lower end, {name}", float(holds), low=0.95))
    columns = "model|area|lower|mixture|upper|lower end holds|mixture - area|sd of orders"
    show(f"Brackets at D = {D}, nats per observation; {machine()}", columns.split("|"), rows)
    print(
        "with upper: texts that have an upper bound; holds: brackets with errors that hold the exact mixture"
    )
    print("width: of these brackets, median; sd of orders: of log p in nats, and its share of the variance")
    other, usual = gaps.values()
    print(f"mixture - area: at 15 % less that of random sizes, paired: {mean_and_se(usual - other)} nats")
    numbers["gap at 15 % less that of random sizes"] = [float(x) for x in usual - other]
    return numbers, targets


def policies(name: str, model: Any, tokens: Tokens, others: Mapping[str, me.MaskDesign]) -> dict[str, Any]:
    """One table of all numbers that a text can be given, with errors paired with left-to-right."""
    designs: dict[str, me.MaskDesign | str] = {**others}
    designs |= {word: f"policy:{word}" for word in POLICIES}
    found = {word: scored(model, tokens, design) for word, design in designs.items()}
    mixture, seconds, area = exact_numbers(model, tokens)
    as_area = replace(mixture, per_observation=area, kind="lower_bound", log_evidence=float(area.mean()))
    found = {"area": (as_area, seconds), "order mixture": (mixture, seconds), **found}
    base = found["left-to-right"][0].per_observation
    rows, numbers = [], {}
    for word, (estimate, seconds) in found.items():
        less = estimate.per_observation - base
        passes = estimate.n_masks / len(tokens)
        rows.append(
            (
                word,
                estimate.kind.replace("_", " "),
                mean_and_se(estimate.per_observation),
                f"{estimate.per_token:.4f}",
                "" if word == "left-to-right" else mean_and_se(less),
                f"{passes:,.1f}",
                f"{seconds / len(tokens):.2f}",
            )
        )
        numbers[word] = {
            "log_prob": estimate.log_evidence, "minus_left_to_right": float(less.mean()),
            "se": float(less.std(ddof=1) / len(less) ** 0.5), "passes": passes, "seconds": seconds,
        }  # fmt: skip
    columns = ("number", "kind", "nats per text", "per token", "minus left-to-right", "passes", "s per text")
    lengths = tokens.n_tokens
    title = f"{name}: {len(tokens)} texts of {int(lengths.min())} to {int(lengths.max())} tokens"
    show(title, columns, rows)
    return numbers


def main() -> int:
    parser = arguments(__doc__.splitlines()[0])
    parser.add_argument("--parts", default=",".join(PARTS), help="which parts, separated by commas")
    parser.add_argument("--texts", type=int, default=20, help="how many texts; ten times as many rows")
    parser.add_argument("--steps", type=int, default=500, help="steps on text; 4 times as many on pixels")
    options = parser.parse_args()
    parts = options.parts.split(",")
    n_texts, steps = (2, 8) if options.quick else (options.texts, options.steps)
    if options.quick and options.parts == ",".join(PARTS):
        parts = ["network"]
    numbers: dict[str, Any] = {}
    targets: list[Target] = []
    if "time" in parts:
        numbers["time"] = time_of_16()
        targets.append(Target("seconds for 65,535 masks", numbers["time"]["seconds"], high=600))
    pseudo: dict[str, me.MaskDesign] = {"pseudo-log-likelihood": me.LeaveOneOut()}
    train, test = pixels()
    n_rows = n_texts if options.quick else 10 * n_texts
    for kind in ("network", "text"):
        if kind not in parts:
            continue
        if kind == "text":
            models, texts = trained_on_text(n_texts, steps)
        else:
            texts = test[:n_rows]
            models = {way: trained(design, train, 4 * steps) for way, design in TRAININGS.items()}
        named = {f"{kind}, {way}": (model, texts) for way, model in models.items()}
        numbers[kind], found = brackets(named)
        targets += found
        for name, (model, _) in named.items():
            numbers[name] = policies(name, model, texts, pseudo)
    return finish(numbers, targets, options.json)


if __name__ == "__main__":
    sys.exit(main())
