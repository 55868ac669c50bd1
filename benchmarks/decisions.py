"""Decisions of a masked language model between choices: races against LLaDA's estimator and others.

Which of four products belongs to these reactants? The model is an ALBERT trained on chemical reactions
(package `rxnmapper`: `pip install --no-deps rxnmapper==0.4.3`; it is not imported, only its files are
read). The other three products are those of other reactions: drawn at random, or with --products alike the
most similar one and two of nearly equal length, which is much harder. Every choice is scored with many masks,
whose mean is the reference; races are then run on blocks of 64 of these masks, so that one pass serves many
races. Beside them stand LLaDA's estimator with 128 masks of its own, the pseudo-log-likelihood, and the same
masks without a race.

A question is resolved if the reference has its best choice 3 standard errors ahead of the next one. Results
are written to --out after every question, and the same command resumes an interrupted run. A question
takes about 10 to 30 seconds of one core.
"""

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from _timing import Target, arguments, finish, machine, show
from leave_one_out import smiles_model

# isort: split
import numpy as np

from maskevidence.data.text import read_texts
from maskevidence.integrations.lm_eval.drawing import PER_DRAW, key_of_texts, llada_masks, window_masks
from maskevidence.integrations.lm_eval.requests import Encoder
from maskevidence.integrations.lm_eval.scoring import MaskedText, Scorer
from maskevidence.race import Race, run_race

CAP, LLADA, RESOLVED = 64, 128, 3.0
RACE = Race(0.995, (8, 12, 16, 24, 32, 48, CAP))
WITHOUT_RACE = (8, 16, 32)


def main() -> int:
    parser = arguments(__doc__.splitlines()[0])
    parser.add_argument("--questions", type=int, default=300, help="how many reactions are asked about")
    parser.add_argument("--reference", type=int, default=512, help="masks of the reference, a multiple of 64")
    parser.add_argument("--longest", type=int, default=100, help="longest reaction, in tokens")
    parser.add_argument("--products", choices=("random", "alike"), default="random", help="the wrong choices")
    parser.add_argument("--out", type=Path, default=Path("decisions.jsonl"), help="file of results so far")
    options = parser.parse_args()
    if "MASKEVIDENCE_DATA" not in os.environ:
        print("MASKEVIDENCE_DATA is not set; set it to the folder of the data sets", file=sys.stderr)
        return 2
    model = smiles_model()
    if model is None:
        print("rxnmapper is not installed", file=sys.stderr)
        return 2
    encoder = Encoder(model.tokenizer, model.max_tokens)
    limit = 2 if options.quick else options.questions
    reference = 128 if options.quick else options.reference
    done = [json.loads(line) for line in options.out.read_text().splitlines()] if options.out.exists() else []
    known = {one["number"] for one in done}
    with options.out.open("a") as out:
        for number, context, products in questions(model.tokenizer, options.longest, limit, options.products):
            if number not in known:
                done.append({"number": number, **score(Scorer(model, encoder), context, products, reference)})
                out.write(json.dumps(done[-1]) + "\n")
                out.flush()
    return report(done, options)


def questions(tokenizer: Any, longest: int, limit: int, wrong: str) -> Iterator[tuple[int, str, list[str]]]:
    """The number of a reaction, its reactants, and four products, of which the first is right."""
    texts = read_texts(str(Path(os.environ["MASKEVIDENCE_DATA"]) / "reactions" / "reactions.csv"))["reaction"]
    pairs = [text.split(">>") for text in texts]
    products = [product for _, product in pairs]
    grams = [{product[i : i + 4] for i in range(len(product) - 3)} for product in products]
    lengths = np.array([len(tokenizer(product, add_special_tokens=False).input_ids) for product in products])
    rng, n_asked = np.random.default_rng(0), 0
    for number in rng.permutation(len(pairs)).tolist():
        reactants, product = pairs[number]
        if lengths[number] < 7 or len(tokenizer(texts[number]).input_ids) > longest:
            continue
        known = {product, *reactants.split(".")}
        others = [i for i in range(len(pairs)) if products[i] not in known and lengths[i] >= 7]
        if wrong == "random":
            chosen = rng.choice(others, 3, replace=False).tolist()
        else:
            chosen = _alike(number, others, grams, lengths, rng)
        yield number, f"{reactants}>>", [product, *(products[i] for i in chosen)]
        n_asked += 1
        if n_asked == limit:
            return


def _alike(
    number: int, others: list[int], grams: list[set[str]], lengths: np.ndarray, rng: np.random.Generator
) -> list[int]:
    """The product that has most in common with that of a reaction, and two of nearly equal length."""
    alike = max(others, key=lambda i: len(grams[i] & grams[number]) / len(grams[i] | grams[number]))
    near = sorted((i for i in others if i != alike), key=lambda i: abs(lengths[i] - lengths[number]))[:20]
    return [alike, *rng.choice(near, 2, replace=False).tolist()]


def score(scorer: Scorer, context: str, products: list[str], reference: int) -> dict[str, Any]:
    """The value of every mask of every choice, nats: n/M times the sum of its log-probabilities."""
    key = key_of_texts([context])
    result: dict[str, Any] = {"tokens": [], "windows": [], "llada": [], "pll": []}
    for choice, product in enumerate(products):
        text = scorer.encoder.pair(context, product)
        n = len(text.scored)
        drawn = [window_masks(0, key, draw, n) for draw in range(reference // PER_DRAW)]
        llada = llada_masks(0, key + choice, LLADA, n)
        alone = np.eye(n, dtype=np.bool_)
        hidden = [*(one for draw in drawn for one in draw.hidden), *llada.hidden, *alone]
        sums = scorer.log_probs([MaskedText(text, one) for one in hidden])
        factor = np.concatenate([draw.factor * PER_DRAW for draw in drawn])
        result["tokens"].append(n)
        result["windows"].append((factor * sums[:reference]).round(4).tolist())
        result["llada"].append(float((llada.factor * sums[reference : reference + LLADA]).sum()))
        result["pll"].append(float(sums[reference + LLADA :].sum()))
    return result


def report(done: list[dict[str, Any]], options: Any) -> int:
    """Agreement with the reference, accuracy and passes of every way to decide."""
    ways: dict[str, list[tuple[bool, int, float, bool]]] = {}  # resolved, choice, passes a choice, right
    ties, z_values, references = [], [], []
    for one in done:
        values = np.array(one["windows"]).T
        best, z = reference_decision(values)
        resolved = z >= RESOLVED
        z_values.append(z)
        references.append((resolved, best, float(len(values)), best == 0))

        def add(way: str, choice: int, passes: float, resolved: bool = resolved, best: int = best) -> None:
            ways.setdefault(way, []).append((resolved, choice == best, passes, choice == 0))

        for start in range(0, len(values) - CAP + 1, CAP):
            block = values[start : start + CAP]
            verdict = run_race(RACE, block)
            add("race", verdict.winner, float(np.mean(verdict.n_draws)))
            ties.append((resolved, bool(verdict.tied)))
            for n_masks in WITHOUT_RACE:
                add(f"common masks, {n_masks}", int(block[:n_masks].mean(0).argmax()), n_masks)
        add(f"LLaDA's estimator, {LLADA}", int(np.argmax(one["llada"])), LLADA)
        add("pseudo-log-likelihood", int(np.argmax(one["pll"])), float(np.mean(one["tokens"])))
    n_resolved = sum(resolved for resolved, *_ in references)
    rows, numbers = [], {}
    for way, results in ways.items():
        passes = [passes for _, _, passes, _ in results]
        numbers[way] = {
            "resolved": share(agrees for resolved, agrees, _, _ in results if resolved),
            "near ties": share(agrees for resolved, agrees, _, _ in results if not resolved),
            "right": share(right for *_, right in results),
            "decisions": len(results),
            "passes": float(np.mean(passes)),
            "95 %": float(np.quantile(passes, 0.95)),
        }
        rows.append((way, *(f"{value:.4g}" for value in numbers[way].values())))
    name = f"{len(done)} questions, {n_resolved} resolved by {len(done[0]['windows'][0])} masks; {machine()}"
    columns = (
        "way",
        "agreement, resolved",
        "near ties",
        "right",
        "decisions",
        "passes a choice",
        "95th percentile",
    )
    show(name, columns, rows)
    called = {kind: share(tied for resolved, tied in ties if resolved == kind) for kind in (True, False)}
    print(f"Called a tie: {called[True]:.1%} of the resolved, {called[False]:.1%} of the others.")
    print(f"Right by the reference: {share(right for *_, right in references):.1%}.")
    race = numbers["race"]
    targets = [
        Target("agreement of the race, resolved questions", race["resolved"], low=0.995),
        Target("mean passes of the race, a choice", race["passes"], high=16),
    ]
    return finish(
        {"decisions": numbers, "ties": {str(k): v for k, v in called.items()}}, targets, options.json
    )


def reference_decision(values: np.ndarray) -> tuple[int, float]:
    """The choice with the largest mean, and how many standard errors it is ahead of the nearest one."""
    draws = values.reshape(-1, PER_DRAW, values.shape[1]).mean(1)
    best = int(draws.mean(0).argmax())
    apart = np.delete(draws[:, [best]] - draws, best, axis=1)
    z = apart.mean(0) / (apart.std(0, ddof=1) / np.sqrt(len(apart)))
    return best, float(z.min())


def share(values: Any) -> float:
    """The share of true ones; NaN of nothing."""
    listed = list(values)
    return float(np.mean(listed)) if listed else float("nan")


if __name__ == "__main__":
    sys.exit(main())
