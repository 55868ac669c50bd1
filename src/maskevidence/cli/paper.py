"""maskevidence paper: the paper's tables and figures."""

from typing import Annotated, Any

import typer

from maskevidence.cli import options, output
from maskevidence.errors import InputError
from maskevidence.runs import write_atomic

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
) -> None:
    """Table 1: the sum of scores over mask sizes against the true log evidence (PPCA, D=200, K=5, N=1000)."""
    options.use_threads(threads)
    from maskevidence.paper import table_1 as module

    chosen = module.SEEDS if seeds is None else parse_seeds(seeds)
    result = module.table_1((1, 10) if quick else tuple(module.PRINTED), chosen)
    output.console(json).print(table_1_view(result))
    if out is not None:
        write_atomic(out / "table_1.csv", _csv(result))
    output.write_json(result, json)


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


def _csv(result: dict[str, Any]) -> str:
    names = ("masks_per_size", "mean", "sd", "paper_mean", "paper_sd")
    lines = [",".join(names)]
    lines += [
        ",".join("" if row[name] is None else str(row[name]) for name in names) for row in result["rows"]
    ]
    return "\n".join(lines) + "\n"
