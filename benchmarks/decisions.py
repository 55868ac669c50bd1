"""Decisions of a masked language model between four choices: races against a reference of many masks.

Which of four products belongs to these reactants? The model is an ALBERT trained on chemical reactions
(package `rxnmapper`: `pip install --no-deps rxnmapper==0.4.3`; it is not imported, only its files are
read). The other three products are those of other reactions, drawn at random.

With --lines FOLDER, a small ModernBERT is asked which of four lines of a play goes on after this one. It is
trained first if the folder is not there, on the rest of the play, in one to two minutes of a core.

A race decides as the adapter for the lm-evaluation-harness does. It is held against a reference with masks of
its own, up to --reference a choice: after 48, 96, 192, ... masks, a choice that is 6 standard errors behind
the leader gets no more of them, and the reference is finished when one choice is left. A question is resolved
if the best choice is 3 standard errors ahead of all others.

Results are written to --out after every question, and the same command resumes an interrupted run.
"""

import json
import sys
import tempfile
from collections.abc import Iterable
from itertools import islice
from pathlib import Path
from typing import Any

from _timing import Target, arguments, finish, machine, show

# isort: split
import numpy as np
import torch

from _lines_model import lines_model
from _questions import Asked, of_lines, of_reactions, smiles_model
from maskevidence.lm_eval.harness import Contest
from maskevidence.lm_eval.race import Decider, Question, Race, looks_up_to
from maskevidence.lm_eval.texts import Continuation, Encoder, TextScorer
from maskevidence.lm_eval.values import PER_ORDER, QuestionKey, Windows, key_of_texts
from maskevidence.texts.masked_lm import MaskedLM

CAP, FIRST, RESOLVED, SURE = 64, 48, 3.0, 6.0
RACE = Race(0.995, looks_up_to(CAP))
OF_REFERENCE = 10**6  # the seed of masks that no race has

Choices = tuple[Continuation, ...]


def main() -> int:
    parser = arguments(__doc__.splitlines()[0])
    parser.add_argument("--lines", type=Path, help="folder of a model that is asked about lines of a play")
    parser.add_argument("--questions", type=int, default=300, help="how many questions there are")
    parser.add_argument("--races", type=int, default=1, help="races of each question, with other masks")
    parser.add_argument("--reference", type=int, default=4096, help="masks of the reference, 48 or more")
    parser.add_argument("--skip", type=int, default=10, help="questions that the rule was chosen with")
    parser.add_argument(
        "--bfloat16", action="store_true", help="compute in bfloat16, which is 1.6 times faster"
    )
    parser.add_argument("--longest", type=int, default=100, help="longest reaction, in tokens")
    parser.add_argument("--out", type=Path, default=Path("decisions.jsonl"), help="file of results so far")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        if options.quick:  # two questions, of a model that has hardly been trained
            options.questions, options.reference = 2, FIRST
            options.lines, options.out = Path(temporary) / "model", Path(temporary) / "decisions.jsonl"
        return decide(options)


def decide(options: Any) -> int:
    """Ask all questions that have not been asked before, and report."""
    torch.set_num_threads(1)
    if options.lines:
        model: MaskedLM | None = lines_model(options.lines, bfloat16=options.bfloat16)
    else:
        model = smiles_model(bfloat16=options.bfloat16)
    if model is None:
        print("rxnmapper is not installed; install it, or give --lines", file=sys.stderr)
        return 2
    tokenizer = model.tokenizer
    questions = of_lines(tokenizer) if options.lines else of_reactions(tokenizer, options.longest)
    done = [json.loads(line) for line in options.out.read_text().splitlines()] if options.out.exists() else []
    scorer = TextScorer(model, Encoder(tokenizer, model.max_tokens))
    with options.out.open("a") as out:
        for place, asked in enumerate(islice(questions, options.skip, options.skip + options.questions)):
            if place < len(done):
                assert done[place]["number"] == asked.number, "--out is of other questions"
                continue
            done.append(decided(scorer, asked, options))
            out.write(json.dumps(done[-1]) + "\n")
            out.flush()
    return report(done[: options.questions], options)


def decided(scorer: TextScorer, asked: Asked, options: Any) -> dict[str, Any]:
    """The results of the races, with their passes a choice, and the reference."""
    key = key_of_texts([asked.context])
    choices = tuple(scorer.encoder.pair(asked.context, choice) for choice in asked.choices)
    races = [raced(scorer, choices, key, seed) for seed in range(options.races)]
    best, z, masks = reference(scorer, choices, key, options.reference)
    tokens = [len(choice.scored) for choice in choices]
    return {"number": asked.number, "tokens": tokens, "best": best, "z": z, "masks": masks, "races": races}


def raced(scorer: TextScorer, choices: Choices, key: int, seed: int) -> tuple[int, float, list[int]]:
    """The winner of a race, its passes a choice, and the choices among which a tie is called."""
    n = len(choices)
    question = Question(key, choices, (Contest("acc", np.ones(n)),))
    values = Decider(scorer, seed, RACE).answers([question], [{}])[0]
    tied = [number for number, one in enumerate(values) if one.ties]
    return int(np.argmax(values)), float(np.mean([one.n_passes for one in values])), tied


def reference(scorer: TextScorer, choices: Choices, key: int, at_most: int) -> tuple[int, float, float]:
    """The best choice, by how many standard errors it leads at least, and the masks that this took."""
    values: list[list[float]] = [[] for _ in choices]
    ahead = np.full(len(choices), np.inf)
    left, n_masks = list(range(len(choices))), FIRST
    while True:
        for choice in left:
            done = len(values[choice])
            values[choice] += by_order(scorer, choices[choice], key, range(done, n_masks // PER_ORDER))
        best = max(left, key=lambda choice: np.mean(values[choice]))
        for other in set(left) - {best}:
            apart = np.array(values[best]) - values[other]
            ahead[other] = apart.mean() / (apart.std(ddof=1) / np.sqrt(len(apart)))
        ahead[best] = np.inf
        left = [choice for choice in left if choice == best or ahead[choice] < SURE]
        if len(left) == 1 or 2 * n_masks > at_most:
            return best, float(ahead.min()), PER_ORDER * float(np.mean([len(one) for one in values]))
        n_masks *= 2


def by_order(scorer: TextScorer, text: Continuation, key: int, orders: range) -> list[float]:
    """The estimate of each order of the reference, nats."""
    masks = QuestionKey(OF_REFERENCE, questions=(key,))
    table = scorer.scores([text], Windows(orders.stop), masks, orders)
    return (table.n_tokens * table.score).reshape(-1, PER_ORDER).mean(1).tolist()


def report(done: list[dict[str, Any]], options: Any) -> int:
    """Agreement of the races with the reference, accuracy and passes."""
    decisions = [
        (one["z"] >= RESOLVED, tied, choice == one["best"], choice == 0, passes)
        for one in done
        for choice, passes, tied in one["races"]
    ]
    passes = [passes for *_, passes in decisions]
    numbers = {
        "resolved, no tie called": share(
            agrees for resolved, tied, agrees, *_ in decisions if resolved and not tied
        ),
        "all resolved": share(agrees for resolved, _, agrees, *_ in decisions if resolved),
        "others": share(agrees for resolved, _, agrees, *_ in decisions if not resolved),
        "right": share(right for *_, right, _ in decisions),
        "decisions": len(decisions),
        "passes a choice": float(np.mean(passes)),
        "95th percentile": float(np.quantile(passes, 0.95)),
    }
    n_resolved = sum(one["z"] >= RESOLVED for one in done)
    title = f"{len(done)} questions, {n_resolved} resolved; {machine()}"
    show(title, tuple(numbers), [tuple(f"{value:.4g}" for value in numbers.values())])
    called = {
        kind: share(bool(tied) for one in done if (one["z"] >= RESOLVED) == kind for *_, tied in one["races"])
        for kind in (True, False)
    }
    print(f"Called a tie: {called[True]:.1%} of the resolved, {called[False]:.1%} of the others.")
    lost = share(
        one["best"] not in (tied or [winner])
        for one in done
        if one["z"] >= RESOLVED
        for winner, _, tied in one["races"]
    )
    print(f"Neither the winner nor in the tie, best choices of resolved questions: {lost:.2%}.")
    print(f"Right by the reference: {share(one['best'] == 0 for one in done):.1%}.")
    masks = [one["masks"] for one in done]
    print(f"Masks of the reference, a choice: {np.mean(masks):.0f}, at most {np.max(masks):.0f}.")
    targets = [
        Target(
            "agreement of the race, resolved and no tie called", numbers["resolved, no tie called"], low=0.995
        ),
        Target("mean passes of the race, a choice", numbers["passes a choice"], high=20),
    ]
    return finish(
        {"decisions": numbers, "ties": {str(k): v for k, v in called.items()}, "lost": lost},
        targets,
        options.json,
    )


def share(values: Iterable[bool]) -> float:
    """The share of true ones; NaN of nothing."""
    listed = list(values)
    return float(np.mean(listed)) if listed else float("nan")


if __name__ == "__main__":
    sys.exit(main())
