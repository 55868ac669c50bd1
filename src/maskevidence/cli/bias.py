"""maskevidence bias: what one mask rate estimates, beside the log evidence."""

from dataclasses import asdict
from typing import Annotated

import typer

from maskevidence.cli import options, output
from maskevidence.errors import InputError
from maskevidence.rate_bias import bias as bias_of
from maskevidence.tasks.parse import parse_data, parse_model
from maskevidence.tasks.prepare_rows import fit_held_out, use_saved


def bias(
    model: Annotated[
        str, typer.Argument(metavar="MODEL", help="gaussian, ppca:8, factor-analysis:8, or a saved model.")
    ],
    data: Annotated[str, typer.Argument(metavar="DATA", help="digits, or a .csv, .npy or .parquet table.")],
    rates: Annotated[
        str, typer.Option("--rates", help="Mask rates in (0, 1] between commas.")
    ] = "0.05,0.15,0.25,0.5,0.75,0.85,1",
    masks_per_row: Annotated[
        int, typer.Option("--masks-per-row", min=2, help="Masks per row and rate.")
    ] = 16,
    test_fraction: Annotated[
        float | None, typer.Option("--test-fraction", help="Share of the rows held out; see score.")
    ] = None,
    seed: options.Seed = 0,
    limit: options.Limit = None,
    threads: options.Threads = None,
    json: options.Json = None,
) -> None:
    """Bias, variance and cost of one mask rate as an estimator of the log evidence, by rate.

    Bias is D·S(x; M) - log p(x), nats per observation; one mask's standard deviation and root mean square
    error say which rate is tightest, and the variance times the seconds of a mask which is cheapest.

    Examples:

        maskevidence bias ppca:8 digits

        maskevidence bias runs/masked table.csv --rates 0.15,0.25
    """
    options.use_threads(threads)
    try:
        chosen = [float(part) for part in rates.split(",")]
    except ValueError as error:
        raise InputError(f"rates {rates!r} are not numbers between commas; write 0.15,0.25") from error
    build, saved = parse_model(model)
    table = parse_data(data, limit)
    if build is not None:
        ready = fit_held_out(build, table, 0.2 if test_fraction is None else test_fraction, seed)
    else:
        ready = use_saved(saved, table, test_fraction, seed)
    found = bias_of(ready.model, chosen, ready.table.tokens(), masks_per_row=masks_per_row, seed=seed)
    screen = output.console(json)
    rows = [
        [
            f"{b.rate:.0%}",
            f"{b.size:.0f}",
            f"{b.bias:+.3f}",
            _number(b.mask_se, "± {:.3f}"),
            _number(b.data_se, "± {:.3f}"),
            _number(None if b.mask_variance is None else b.mask_variance**0.5, "{:.2f}"),
            _number(b.rmse, "{:.2f}"),
        ]
        for b in found
    ]
    columns = ["rate", "M", "bias", "mask error", "data error", "sd of a mask", "rmse"]
    screen.print(output.table(columns, rows, "D·S(x; M) - log p(x) by mask rate, nats per observation"))
    rows = [
        [
            f"{b.rate:.0%}",
            _number(b.variance_seconds, "{:.2e}"),
            f"{b.block_bias:+.2f}",
            f"{-b.visible_evidence:+.2f}",
        ]
        for b in found
    ]
    columns = ["rate", "variance · seconds", "joint block's bias", "-E log p(visible)"]
    screen.print(output.table(columns, rows, "Cost of a mask, and the bias of the unscaled joint block"))
    random = [b for b in found if b.rmse is not None and b.variance_seconds]
    if random:
        tightest = min(random, key=lambda b: b.rmse or 0.0)
        cheapest = min(random, key=lambda b: b.variance_seconds or 0.0)
        screen.print(
            f"tightest (least rmse of one mask of one row): {tightest.rate:.0%}\n"
            f"least variance per unit of time: {cheapest.rate:.0%}\n"
            f"joint block's bias + E log p(visible): at most {max(b.identity_error for b in found):.1e}"
        )
    for note in ready.notes:
        screen.print(f"note: {note}")
    output.write_json({"model": model, "data": data, "seed": seed, "rates": [asdict(b) for b in found]}, json)


def _number(value: float | None, form: str) -> str:
    return "–" if value is None else form.format(value)
