"""maskevidence paper: the paper's tables and figures."""

import contextlib
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from maskevidence.cli import options, output
from maskevidence.errors import InputError, MissingExtraError
from maskevidence.support.files import csv_text, write_atomic

app = typer.Typer(
    no_args_is_help=True, help="The paper's tables and figures, ours beside the printed numbers."
)


@app.callback(invoke_without_command=True)
def paper(context: typer.Context) -> None:
    """The paper's tables and figures, ours beside the printed numbers."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


@app.command("table-1")
def table_1(
    json: options.Json = None,
    out: options.Out = None,
    seeds: Annotated[
        str | None, typer.Option("--seeds", help="Mask seeds, such as 4,44,444; the paper's five by default.")
    ] = None,
    quick: options.Quick = False,
    threads: options.Threads = None,
) -> dict[str, Any]:
    """Table 1: the sum of scores over mask sizes against the true log evidence (PPCA, D=200, K=5, N=1000)."""
    options.use_threads(threads)
    from maskevidence.paper import table_1 as module

    chosen = module.SEEDS if seeds is None else parse_seeds(seeds)
    result = module.table_1((1, 10) if quick else tuple(module.PRINTED), chosen)
    output.console(json).print(table_1_view(result))
    if out is not None:
        columns = ("masks_per_size", "mean", "sd", "paper_mean", "paper_sd")
        rows = ([row[name] for name in columns] for row in result["rows"])
        write_atomic(out / "table_1.csv", csv_text(columns, rows))
    output.write_json(result, json)
    return result


def table_1_view(result: dict[str, Any]) -> Any:
    """Table 1 for the terminal."""
    rows = [
        [
            f"P = {row['masks_per_size']}",
            _plus_minus(row["mean"], row["sd"]),
            _plus_minus(row["paper_mean"], row["paper_sd"]),
        ]
        for row in result["rows"]
    ]
    rows.append(["closed form", f"{result['true']:.2f}", f"{result['paper_true']:.2f}"])
    title = f"Table 1: log evidence, nats per observation, mean ± sd over {len(result['seeds'])} mask seeds"
    return output.table(["masks per size", "here", "printed"], rows, title)


def parse_seeds(text: str) -> tuple[int, ...]:
    """Whole numbers between commas."""
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError as error:
        raise InputError(f"seeds {text!r} are not whole numbers between commas; write 4,44,444") from error


def _plus_minus(mean: float | None, sd: float | None) -> str:
    if mean is None:
        return "–"
    return f"{mean:.2f}" if sd is None else f"{mean:.2f} ± {sd:.2f}"


Seeds = Annotated[
    str | None, typer.Option("--seeds", help="Such as 4,44,444; the paper's by default.", metavar="S,S,...")
]


def _figure(
    make: Callable[..., Any],
    quick_options: dict[str, Any],
    json: str | None,
    out: Path | None,
    seeds: str | None,
    quick: bool,
    threads: int | None,
) -> dict[str, Any]:
    """Make a figure, print its claims, and write its files."""
    options.use_threads(threads)
    start = time.perf_counter()
    chosen = {} if seeds is None else {"seeds": parse_seeds(seeds)}
    made = make(**chosen, **(quick_options if quick else {}))
    screen = output.console(json)
    verdicts = {True: "holds", False: "does not hold", None: ""}
    screen.print(f"{made.title}\n", style="bold")
    for part in made.tables:
        screen.print(output.table(part.columns, part.rows, part.title))
    for claim in made.claims:
        screen.print(f"  {claim.claim}")
        screen.print(f"    {verdicts[claim.holds]}: {claim.measured}")
    screen.print(f"\n{time.perf_counter() - start:.1f} s")
    if out is not None:
        screen.print(f"Left in {out}: {', '.join(made.write(out))}")
        if made.missing:
            screen.print(made.missing)
    result = made.to_dict()
    output.write_json(result, json)
    return result


@app.command("figure-1")
def figure_1(
    json: options.Json = None,
    out: options.Out = None,
    seeds: Seeds = None,
    quick: options.Quick = False,
    threads: options.Threads = None,
) -> dict[str, Any]:
    """Figure 1: convergence in the number of masks, and the bias of 15 % (PPCA, D=5, 50, 512)."""
    from maskevidence.paper.figure_1 import figure_1 as make

    return _figure(make, {"most_masks": 20}, json, out, seeds, quick, threads)


@app.command("figure-2")
def figure_2(
    json: options.Json = None,
    out: options.Out = None,
    seeds: Seeds = None,
    quick: options.Quick = False,
    threads: options.Threads = None,
) -> dict[str, Any]:
    """Figure 2: PPCA trained by all sizes, by random sizes and by 20 % (D=10, N=2000, 1000 epochs)."""
    from maskevidence.paper.figure_2 import figure_2 as make

    return _figure(make, {"epochs": 100}, json, out, seeds, quick, threads)


@app.command("figure-3-upper")
def figure_3_upper(
    json: options.Json = None,
    out: options.Out = None,
    seeds: Seeds = None,
    quick: options.Quick = False,
    threads: options.Threads = None,
    dataset: Annotated[str, typer.Option("--dataset", help="mnist or fashion-mnist.")] = "mnist",
) -> dict[str, Any]:
    """Figure 3, upper: linear Bernoulli models, masked training and the ELBO (2000 images, 800 epochs)."""
    from maskevidence.paper.figure_3 import figure_3_upper as make

    small = {"epochs": 60, "n_images": 500, "n_points": 5}
    if quick and seeds is None:
        seeds = "4,44"
    return _figure(partial(make, dataset=dataset), small, json, out, seeds, quick, threads)


@app.command("figure-3-lower")
def figure_3_lower(
    json: options.Json = None,
    out: options.Out = None,
    seeds: Seeds = None,
    quick: options.Quick = False,
    threads: options.Threads = None,
    dataset: Annotated[str, typer.Option("--dataset", help="mnist or fashion-mnist.")] = "mnist",
) -> dict[str, Any]:
    """Figure 3, lower: a deep VAE, masked training and the ELBO (2000 grey images, 600 steps)."""
    from maskevidence.paper.figure_3_lower import figure_3_lower as make

    small = {"epochs": 40, "n_images": 500, "n_points": 5, "n_judged": 12}
    if quick and seeds is None:
        seeds = "4"
    return _figure(partial(make, dataset=dataset), small, json, out, seeds, quick, threads)


@app.command("figure-4")
def figure_4(
    json: options.Json = None,
    out: options.Out = None,
    seeds: Seeds = None,
    quick: options.Quick = False,
    threads: options.Threads = None,
) -> dict[str, Any]:
    """Figure 4: the score by mask size of trained PPCA models (D=200, K=5 and 50)."""
    from maskevidence.paper.figure_4 import figure_4 as make

    return _figure(make, {"masks_per_size": (1, 10, 2)}, json, out, seeds, quick, threads)


@app.command("figure-5-left")
def figure_5_left(
    json: options.Json = None,
    out: options.Out = None,
    seeds: Seeds = None,
    quick: options.Quick = False,
    threads: options.Threads = None,
) -> dict[str, Any]:
    """Figure 5, left: the curve of PPCA at epochs 0, 100, ..., 600 of training (D=50, K=2)."""
    from maskevidence.paper.figure_5 import figure_5_left as make

    return _figure(make, {"epochs": 120, "masks_per_size": 5}, json, out, seeds, quick, threads)


@app.command("figure-6")
def figure_6(
    json: options.Json = None,
    out: options.Out = None,
    seeds: Seeds = None,
    quick: options.Quick = False,
    threads: options.Threads = None,
    model: Annotated[
        str | None,
        typer.Option(
            "--model",
            metavar="NAME|FOLDER|small",
            help="A trained ViT-MAE; by default facebook/vit-mae-base where the hub answers, else small ones "
            "that are trained here, 20 minutes in all.",
        ),
    ] = None,
) -> dict[str, Any]:
    """Figure 6: masked autoencoders of images, random against trained weights, on three data sets."""
    from maskevidence.paper.figure_6 import PRETRAINED, QUICK
    from maskevidence.paper.figure_6 import figure_6 as make
    from maskevidence.support.hub import hub_reachable

    chosen = model or (PRETRAINED if hub_reachable() else "small")
    return _figure(
        partial(make, model=None if chosen == "small" else chosen), QUICK, json, out, seeds, quick, threads
    )


Bert = Annotated[
    str | None,
    typer.Option(
        "--model",
        metavar="NAME|FOLDER",
        help="BERT with pre-trained weights; by default bert-base-uncased where the hub answers, else none.",
    ),
]


@app.command("table-2")
def table_2(
    json: options.Json = None,
    out: options.Out = None,
    seeds: Seeds = None,
    quick: options.Quick = False,
    threads: options.Threads = None,
    model: Bert = None,
) -> dict[str, Any]:
    """Table 2: the area under BERT-base's curve, random and pre-trained weights, GLUE text (10 minutes)."""
    from maskevidence.paper.table_2 import table_2 as make

    small = {"n_blocks": 27, "block_size": 64}
    if quick and seeds is None:
        seeds = "1"
    return _figure(partial(make, model=model), small, json, out, seeds, quick, threads)


@app.command("figure-5-right")
def figure_5_right(
    json: options.Json = None,
    out: options.Out = None,
    seeds: Seeds = None,
    quick: options.Quick = False,
    threads: options.Threads = None,
    model: Bert = None,
) -> dict[str, Any]:
    """Figure 5, right: BERT-base beside the published curves; a small BERT before and after training."""
    from maskevidence.paper.figure_5_right import figure_5_right as make

    small = {"steps": 100, "block_size": 64, "limit": 32}
    return _figure(partial(make, model=model), small, json, out, seeds, quick, threads)


@app.command("masking-rates")
def masking_rates(
    json: options.Json = None,
    out: options.Out = None,
    seeds: Seeds = None,
    steps: Annotated[
        int | None, typer.Option("--steps", min=1, help="Of each training; 700 by default.")
    ] = None,
    quick: options.Quick = False,
    threads: options.Threads = None,
) -> dict[str, Any]:
    """The outlook's question: small BERTs trained at 15, 25, 40, 75 % and by random sizes (12 minutes)."""
    from maskevidence.paper.masking_rates import masking_rates as make

    if steps is not None:
        if quick:
            raise InputError("--quick has its own number of steps; leave --steps out")
        make = partial(make, steps=steps)
    return _figure(make, {"steps": 80, "limit": 64}, json, out, seeds, quick, threads)


# They need texts, a vocabulary, images or an extra.
_MAY_BE_LEFT_OUT = (
    "figure-3-upper",
    "figure-3-lower",
    "table-2",
    "figure-5-right",
    "figure-6",
    "masking-rates",
)


@app.command("all")
def everything(
    json: options.Json = None,
    out: options.Out = None,
    seeds: Seeds = None,
    quick: options.Quick = False,
    threads: options.Threads = None,
) -> None:
    """Every table and figure, each in a folder of its own under --out, in about an hour: VAEs, BERT and
    masked autoencoders are trained here. One whose data or model is not to be had is left out, and said."""
    if seeds is not None:
        parse_seeds(seeds)
    made: dict[str, Any] = {}
    with contextlib.redirect_stdout(sys.stderr if json == "-" else sys.stdout):
        for name, make in (
            ("table-1", table_1),
            ("figure-1", figure_1),
            ("figure-2", figure_2),
            ("figure-3-upper", partial(figure_3_upper, dataset="mnist")),
            ("figure-3-lower", partial(figure_3_lower, dataset="mnist")),
            ("figure-4", figure_4),
            ("figure-5-left", figure_5_left),
            ("table-2", partial(table_2, model=None)),
            ("figure-5-right", partial(figure_5_right, model=None)),
            ("figure-6", partial(figure_6, model=None)),
            ("masking-rates", partial(masking_rates, steps=None)),
        ):
            folder = None if out is None else out / name
            try:
                made[name] = make(json=None, out=folder, seeds=seeds, quick=quick, threads=threads)
            except (InputError, MissingExtraError) as error:
                if name not in _MAY_BE_LEFT_OUT:
                    raise
                output.console(json).print(f"{name} was left out: {error}")
    output.write_json(made, json)
