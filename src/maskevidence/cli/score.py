"""maskevidence score: the log evidence of a model on data."""

from pathlib import Path
from typing import Any

from maskevidence.cli import output
from maskevidence.cli.arguments import Data, Model
from maskevidence.cli.options import use_threads
from maskevidence.kinds.options import Design, Json, Preparation, RunOptions
from maskevidence.show.parts import Table
from maskevidence.show.terminal import FittingTable

MAX_TOKENS_SHOWN = 40


def score(
    model: Model,
    data: Data,
    *,
    design: Design = None,
    preparation: Preparation,
    run: RunOptions,
    json: Json = None,
) -> None:
    """Estimate the log evidence of MODEL on DATA, with error bars and the curve over mask sizes.

    With --out the scores are saved while they are computed: the same command resumes an interrupted run, and
    a larger number of masks, as of random-size:16 after random-size:8, adds to the existing scores.

    A model word such as `ppca:8` is fitted to a training part of the rows and scored on the others; a saved
    model is scored as it is. Standard errors are given for the masks (Monte Carlo) and for the observations.

    Examples:

        maskevidence score ppca:8 digits

        maskevidence score gaussian table.csv --design orderings:16 --out runs/a

        maskevidence score runs/a/model table.csv --design leave-one-out --json -

        maskevidence score google-bert/bert-base-uncased glue/qnli:validation --text question,sentence

        maskevidence score runs/a/model table.csv --out runs/b --engine ray --workers 8
    """
    use_threads(run.threads)
    from maskevidence.tasks.score import score as score_task

    scored = score_task(model, data, design, preparation, run)
    screen = output.console(json)
    output.show_scored(screen, scored)
    result = scored.result
    if scored.tokens is not None:
        result = result | {"tokens": scored.tokens}
        _show_tokens(screen, scored.tokens, run.out)
    output.write_json(result, json)


def _show_tokens(screen: Any, tokens: list[dict[str, Any]], out: Path | None) -> None:
    """Print the scores of the first tokens."""
    cells = [
        [str(entry["id"]), str(entry["position"]), entry["token"], f"{entry['log_prob']:.4f}"]
        for entry in tokens[:MAX_TOKENS_SHOWN]
    ]
    title = "log-probability of each token given all others, nats"
    screen.print(FittingTable(Table(["observation", "position", "token", "log p"], cells, title)))
    if len(tokens) > MAX_TOKENS_SHOWN:
        place = "--json" if out is None else str(out / "tokens.csv")
        screen.print(f"The first {MAX_TOKENS_SHOWN} of {len(tokens):,} tokens; {place} has all of them.")
