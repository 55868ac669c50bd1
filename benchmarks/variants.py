"""Scores of protein variants: passes, small models of three families, and how conventions agree.

    python benchmarks/variants.py --models FOLDER        # the trained models are kept there, and used again

- passes: the distinct contexts of 1,000 single and 1,000 double mutants against one context per mutant and
  convention.
- families: small BERTs trained by random sizes and at 15 % on each of three families of homologues. Held-out
  log evidence per residue beside frequencies of residues by site and a Markov chain. With `--models`, an
  interrupted training resumes from its last checkpoint.
- agreement: all single mutants of one member by every convention, and mutants of four neighbouring and of
  four random sites, with the rank correlations of the conventions.

Takes about 20 minutes on one core; the data sets are those of MASKEVIDENCE_DATA.
"""

import math
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from _timing import Target, arguments, data, finish, random_bert, show

# isort: split
import numpy as np
import torch

import maskevidence as me
from maskevidence.proteins.conventions import CONVENTIONS, FEW_PASSES
from maskevidence.texts.fasta import read_fasta
from maskevidence.texts.vocabulary import letter_tokenizer

FAMILIES = ("usp_5ahw", "pts_iia_1a3a", "marr_UPI0003674933")
OBJECTIVES = {"random sizes": me.RandomSize(1), "15 %": me.FixedRate(0.15, 1)}
RESIDUES = "ACDEFGHIKLMNPQRSTVWY"
LONGEST = 160
HELD_OUT = 64
WEIGHTS = (5.0, 20.0, 80.0, 320.0)  # of smoothing; the best for the held-out members is the opponent
SECTIONS = ("passes", "families", "agreement")


def main() -> int:
    parser = arguments(__doc__.splitlines()[0])
    parser.add_argument("--only", choices=SECTIONS, action="append", help="leave the other parts out")
    parser.add_argument(
        "--models", type=Path, help="folder of the trained models; by default a temporary one"
    )
    parser.add_argument("--steps", type=int, default=2000, help="of a training")
    parser.add_argument(
        "--hidden", type=int, default=64, help="width of the BERTs; another needs other --models"
    )
    parser.add_argument("--few", action="store_true", help="agreement: without pll, whole and single mutants")
    parser.add_argument("--picture", type=Path, help="agreement: draw it into this file")
    parser.add_argument("--family", choices=FAMILIES, action="append", help="leave the others out")
    options = parser.parse_args()
    if options.quick:
        options.family, options.few = FAMILIES[:1], True
    with tempfile.TemporaryDirectory() as temporary:
        options.models = options.models or Path(temporary)
        numbers, targets = {}, []
        for name in options.only or SECTIONS:
            start = time.process_time()
            numbers[name], reached = globals()[f"measure_{name}"](options)
            targets += reached
            print(f"{name}: {time.process_time() - start:.0f} s of computing", file=sys.stderr, flush=True)
        return finish(numbers, targets, options.json)


def bert(tokenizer: Any, hidden: int, layers: int, positions: int) -> me.models.MaskedLM:
    """A BERT with random weights. Its absolute positions suit the members of one family."""
    shape = {"intermediate_size": 2 * hidden, "max_position_embeddings": positions}
    without_dropout = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    more = {"pad_token_id": tokenizer.pad_token_id, **shape, **without_dropout}
    return me.models.MaskedLM(random_bert(len(tokenizer), hidden, layers, hidden // 16, **more), tokenizer)


def proteins(name: str) -> Path:
    return data("proteins", name)


def measure_passes(options: Any) -> tuple[dict[str, Any], list[Target]]:
    """Distinct contexts; the wild type is the first member of a family."""
    wild_type = read_fasta(proteins(f"{FAMILIES[0]}.fasta")).sequences[0]
    model = bert(letter_tokenizer([RESIDUES]), 16, 1, 320)
    rng = np.random.default_rng(0)
    singles = single_mutants(wild_type)
    by_site = [singles[19 * j : 19 * j + 19] for j in range(len(wild_type))]
    doubles, n = set(), 20 if options.quick else 1000
    while len(doubles) < n:
        first, second = rng.choice(60, size=2, replace=False)
        if first < second:
            doubles.add(f"{rng.choice(by_site[first])}:{rng.choice(by_site[second])}")
    mutants = [*rng.choice(singles[: 60 * 19], size=n, replace=False).tolist(), *sorted(doubles)]
    plan = me.variants(model, wild_type, mutants).plan
    asked = sum(plan.asked.values())
    rows = [(name, f"{plan.asked[name]:,}", f"{plan.distinct[name]:,}") for name in plan.asked]
    show(
        f"Contexts of {n:,} single and {n:,} double mutants at 60 sites of {len(wild_type)} residues",
        ("convention", "one per mutant", "distinct"),
        [*rows, ("all", f"{asked:,}", f"{plan.passes:,}")],
    )
    return {"plan": vars(plan), "asked": asked}, [Target("times fewer passes", asked / plan.passes, low=5)]


def single_mutants(wild_type: str) -> list[str]:
    """All of them, site by site."""
    return [f"{a}{j + 1}{b}" for j, a in enumerate(wild_type) for b in RESIDUES if b != a]


def family(name: str) -> tuple[list[str], list[str]]:
    """Training and held-out members of a family: those of at most LONGEST known residues, in random order."""
    members = [one for one in read_fasta(proteins(f"{name}.fasta")).sequences if len(one) <= LONGEST]
    members = [one for one in members if set(one) <= set(RESIDUES)]
    order = np.random.default_rng(0).permutation(len(members))
    shuffled = [members[place] for place in order]
    return shuffled[HELD_OUT:], shuffled[:HELD_OUT]


def trained(name: str, objective: str, train: Sequence[str], options: Any) -> me.models.MaskedLM:
    """A small BERT of a family, from its folder if it was trained before."""
    from maskevidence.huggingface.recipe import Recipe
    from maskevidence.huggingface.training import TrainerOptions, train_masked_lm

    folder = options.models / f"{name}-{'area' if objective == 'random sizes' else 'mlm'}"
    if (folder / "config.json").exists():
        return me.models.MaskedLM.from_pretrained(folder, device="cpu")
    model = bert(letter_tokenizer([RESIDUES]), options.hidden, 2, LONGEST + 2)
    rate = 4e-3 * 64 / options.hidden
    recipe = Recipe(steps=2 if options.quick else options.steps, batch_size=8, learning_rate=rate)
    start, unfinished = time.process_time(), folder.with_name(f"{folder.name}-unfinished")
    where = TrainerOptions(unfinished, device="cpu")  # resumes from its last checkpoint
    train_masked_lm(model, model.tokens(train), OBJECTIVES[objective], recipe, where)
    print(f"{folder.name}: {time.process_time() - start:.0f} s of training", file=sys.stderr, flush=True)
    model.save(folder)
    shutil.rmtree(unfinished)
    return model


def site_frequencies(train: Sequence[str], test: Sequence[str]) -> np.ndarray:
    """log p of each sequence by the frequencies at each site, smoothed towards those of all sites."""
    overall = np.array([sum(one.count(letter) for one in train) + 1 for letter in RESIDUES], dtype=float)
    overall /= overall.sum()
    number = {letter: place for place, letter in enumerate(RESIDUES)}
    counts = np.zeros((LONGEST, len(RESIDUES)))
    for one in train:
        counts[np.arange(len(one)), [number[letter] for letter in one]] += 1
    found = []
    for weight in WEIGHTS:
        p = (counts + weight * overall) / (counts.sum(1, keepdims=True) + weight)
        found.append([sum(math.log(p[j, number[a]]) for j, a in enumerate(one)) for one in test])
    return np.array(max(found, key=sum))


def markov_chain(train: Sequence[str], test: Sequence[str], order: int = 2) -> np.ndarray:
    """log p of each sequence by the residues before each residue, smoothed towards shorter pasts."""
    counts: dict[str, np.ndarray] = {}
    number = {letter: place for place, letter in enumerate(RESIDUES)}
    for one in train:
        for j, letter in enumerate(one):
            for length in range(order + 1):
                past = one[max(0, j - length) : j]
                counts.setdefault(past, np.zeros(len(RESIDUES)))[number[letter]] += len(past) == length
    found = []
    for weight in WEIGHTS:

        def probability(past: str, weight: float = weight) -> np.ndarray:
            shorter = probability(past[1:]) if past else np.full(len(RESIDUES), 1 / len(RESIDUES))
            seen = counts.get(past, np.zeros(len(RESIDUES)))
            return (seen + weight * shorter) / (seen.sum() + weight)

        known: dict[str, np.ndarray] = {}
        values = []
        for one in test:
            values.append(0.0)
            for j, letter in enumerate(one):
                past = one[max(0, j - order) : j]
                if past not in known:
                    known[past] = probability(past)
                values[-1] += math.log(known[past][number[letter]])
        found.append(values)
    return np.array(max(found, key=sum))


def measure_families(options: Any) -> tuple[dict[str, Any], list[Target]]:
    """Held-out evidence per residue of both models and of the baselines, with paired differences."""
    numbers, targets, rows = {}, [], []
    for name in options.family or FAMILIES:
        train, test = family(name)
        test = test[:4] if options.quick else test
        n_residues = sum(map(len, test))
        known = {
            "site frequencies": site_frequencies(train, test),
            "Markov chain": markov_chain(train, test),
        }
        best = max(known.values(), key=sum)
        estimates = {}
        for objective in OBJECTIVES:
            model = trained(name, objective, train, options)
            estimates[objective] = me.estimate_evidence(model, model.tokens(test), me.RandomSize(16), seed=1)
            known[objective] = estimates[objective].per_observation
        gain = known["random sizes"] - best
        spread = gain.std(ddof=1) * math.sqrt(len(gain)) / n_residues  # of masks and of members
        difference = me.compare(estimates).between("random sizes", "15 %")
        found = {what: float(values.sum()) / n_residues for what, values in known.items()}
        mean = float(gain.sum()) / n_residues
        numbers[name] = found | {"members": len(train), "gain": mean, "gain_se": float(spread)}
        rows.append(
            (
                name,
                f"{len(train):,}",
                *(f"{value:.3f}" for value in found.values()),
                f"{mean:+.3f} ± {spread:.3f}",
                f"{difference.difference:+.1f} ± {difference.standard_error:.1f}",
            )
        )
        targets.append(Target(f"above the baselines, {name}, nats per residue", mean, low=0))
    show(
        f"Held-out log evidence of {HELD_OUT} members, nats per residue; BERTs with 2 layers of "
        f"{options.hidden}, {options.steps:,} steps. Gain: of random sizes over the better baseline, "
        "nats per residue; difference: of random sizes and 15 %, nats per protein",
        ("family", "members", "site frequencies", "Markov chain", *OBJECTIVES, "gain", "difference"),
        rows,
    )
    return numbers, targets


def measure_agreement(options: Any) -> tuple[dict[str, Any], list[Target]]:
    """Rank correlations of the conventions on single mutants and on mutants of four sites."""
    name = (options.family or FAMILIES)[0]
    train, test = family(name)
    wild_type = min(test, key=len)
    singles = single_mutants(wild_type)
    rng = np.random.default_rng(1)
    middle, n = len(wild_type) // 2, 4 if options.quick else 200
    close = [mutant_of(wild_type, range(middle, middle + 4), rng) for _ in range(n)]
    apart = [
        mutant_of(wild_type, np.sort(rng.choice(len(wild_type), size=4, replace=False)), rng)
        for _ in range(n)
    ]
    of_four = {"four neighbouring sites": close, "four random sites": apart}
    exact = tuple(one for one in FEW_PASSES if one != "unmasked")  # a density that sees a residue knows it
    contests = [(f"Markov chain, {n} mutants of {name}", exact, some) for name, some in of_four.items()]
    if not options.few:
        every = {f"all {len(singles):,} single mutants": singles[:4] if options.quick else singles}
        every |= {f"{n} mutants of {title}": mutants for title, mutants in of_four.items()}
        contests += [(f"BERT, {title}", tuple(CONVENTIONS), mutants) for title, mutants in every.items()]
    models = {"Markov chain": markov_model(train)}
    numbers, tables, worst = {}, {}, 0.0
    for title, conventions, mutants in contests:
        kind = title.split(",")[0]
        if kind not in models:
            models[kind] = trained(name, "random sizes", train, options)
        scores = me.variants(models[kind], wild_type, mutants, conventions, draws=32)
        pairs = scores.agreement()
        pairs |= {(b, a): value for (a, b), value in pairs.items()}
        table = np.array([[pairs.get((a, b), 1.0) for b in conventions] for a in conventions])
        rows = [
            (one, *(f"{value:.2f}" for value in line)) for one, line in zip(conventions, table, strict=True)
        ]
        show(
            f"Spearman between conventions, {title} of a member of {name} with {len(wild_type)} residues "
            f"({scores.plan.passes:,} passes)",
            ("", *conventions),
            rows,
        )
        tables[title] = (conventions, table)
        numbers[title] = {f"{a}, {b}": value for (a, b), value in pairs.items()}
        if kind == "Markov chain":
            truth = np.array([log_density(train, mutated(wild_type, one)) for one in mutants])
            errors = {
                one: float(abs(scores[one] - truth + log_density(train, wild_type)).max())
                for one in conventions
            }
            worst = max(worst, errors["joint"])
            numbers[title] |= {f"error of {one}": error for one, error in errors.items()}
            show(
                "Largest difference from log p(mutant) - log p(wild type), nats",
                conventions,
                [[f"{error:.2g}" for error in errors.values()]],
            )
    if options.picture is not None:
        draw(dict(list(tables.items())[:2]), options.picture)
    return numbers, [Target("error of joint against the log density, nats", worst, high=1e-4)]


def mutated(wild_type: str, mutant: str) -> str:
    letters = list(wild_type)
    for one in mutant.split(":"):
        letters[int(one[1:-1]) - 1] = one[-1]
    return "".join(letters)


@cache
def transitions(train: tuple[str, ...]) -> tuple[np.ndarray, np.ndarray]:
    """log p of the first two residues, and of a residue given the two before it, smoothed; of a family."""
    number = {letter: place for place, letter in enumerate(RESIDUES)}
    first, next_ = np.full((20, 20), 0.5), np.zeros((20, 20, 20))
    for one in train:
        ids = np.array([number[letter] for letter in one])
        first[ids[0], ids[1]] += 1
        np.add.at(next_, (ids[:-2], ids[1:-1], ids[2:]), 1)
    overall = next_.sum((0, 1))
    next_ += 2 * overall / overall.sum()
    return np.log(first / first.sum()), np.log(next_ / next_.sum(-1, keepdims=True))


def log_density(train: Sequence[str], letters: str) -> float:
    """log p of a sequence under the Markov chain of a family."""
    first, next_ = transitions(tuple(train))
    ids = [RESIDUES.index(letter) for letter in letters]
    return first[ids[0], ids[1]] + sum(next_[a, b, c] for a, b, c in zip(ids, ids[1:], ids[2:], strict=False))


def markov_model(train: Sequence[str]) -> me.models.MaskedLM:
    """The Markov chain of second order of a family as a masked language model, with exact conditionals."""
    first, next_ = (torch.from_numpy(one).exp() for one in transitions(tuple(train)))
    tokenizer = letter_tokenizer([RESIDUES])
    offset, mask = len(tokenizer) - 20, tokenizer.mask_token_id

    def logits(ids: torch.Tensor) -> torch.Tensor:
        inner = ids[:, 1:-1]
        seen = torch.nn.functional.one_hot((inner - offset).clamp(min=0), 20).double()
        seen[inner == mask] = 1.0
        n = inner.shape[1]
        forward, backward = (
            [first * seen[:, 0, :, None] * seen[:, 1, None, :]],
            [torch.ones(len(ids), 20, 20, dtype=torch.float64)],
        )
        for place in range(2, n):
            state = torch.einsum("xab,abc->xbc", forward[-1], next_) * seen[:, place, None, :]
            forward.append(state / state.sum((1, 2), keepdim=True))
        for place in range(n - 1, 1, -1):
            state = torch.einsum("abc,xc,xbc->xab", next_, seen[:, place], backward[-1])
            backward.append(state / state.sum((1, 2), keepdim=True))
        both = torch.stack([f * b for f, b in zip(forward, backward[::-1], strict=True)], dim=1)
        p = torch.cat([both[:, :1].sum(3), both.sum(2)], dim=1)
        answer = torch.full((*ids.shape, len(tokenizer)), -1e9, dtype=torch.float64)
        answer[:, 1:-1, offset:] = (p / p.sum(-1, keepdim=True)).clamp(min=1e-300).log()
        return answer

    return me.models.MaskedLM.from_callable(
        logits, mask_token_id=mask, tokenizer=tokenizer, conditionals="exact", batch_tokens=8192
    )


def mutant_of(wild_type: str, sites: Sequence[int], rng: np.random.Generator) -> str:
    """Other residues at all of these sites."""
    new = [rng.choice([one for one in RESIDUES if one != wild_type[site]]) for site in sites]
    return ":".join(f"{wild_type[site]}{site + 1}{one}" for site, one in zip(sites, new, strict=True))


def draw(tables: dict[str, tuple[Sequence[str], np.ndarray]], file: Path) -> None:
    """The rank correlations as two pictures side by side."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 5.2), layout="constrained")
    FigureCanvasAgg(figure)
    for axes, (title, (names, table)) in zip(figure.subplots(1, 2), tables.items(), strict=True):
        image = axes.imshow(table, vmin=0, vmax=1, cmap="viridis")
        axes.set_xticks(range(len(names)), names, rotation=45, ha="right")
        axes.set_yticks(range(len(names)), names)
        for (row, column), value in np.ndenumerate(table):
            colour = "white" if value < 0.6 else "black"
            axes.text(column, row, f"{value:.2f}", ha="center", va="center", color=colour)
        axes.set_title(title)
    figure.colorbar(image, ax=figure.axes, label="Spearman's rank correlation", shrink=0.8)
    figure.savefig(file, dpi=90)


if __name__ == "__main__":
    sys.exit(main())
