"""maskevidence bias: what one mask rate estimates, beside the log evidence."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

from maskevidence.cli import output
from maskevidence.cli.options import use_threads
from maskevidence.errors import InputError
from maskevidence.show.parts import Table
from maskevidence.show.terminal import FittingTable
from maskevidence.tasks.declaring import Argument, Option
from maskevidence.tasks.options import Common, RowDevice, RowReading, Sample, TableOptions

if TYPE_CHECKING:
    from maskevidence.rate_bias import RateBias


def bias(
    model: Annotated[str, Argument("MODEL", "gaussian, ppca:8, factor-analysis:8, or a saved model.")],
    data: Annotated[str, Argument("DATA", "digits, or a .csv, .parquet, .feather or .npy table.")],
    sample: Sample,
    common: Common,
    device: RowDevice,
    table: TableOptions,
    rates: Annotated[
        str, Option("Mask rates in (0, 1], separated by commas.")
    ] = "0.05,0.15,0.25,0.5,0.75,0.85,1",
    masks_per_row: Annotated[int, Option("Masks per row and rate.", min=2)] = 16,
) -> None:
    """Bias, variance and cost of one mask rate as an estimator of the log evidence, by rate.

    The bias is D·S(x; M) - log p(x), in nats per observation. The standard deviation and the root mean square
    error of one mask show which rate is the most accurate; the variance times the seconds of a mask shows
    which one is the cheapest.

    Examples:

        maskevidence bias ppca:8 digits

        maskevidence bias runs/masked table.csv --rates 0.15,0.25
    """
    use_threads(common.threads)
    try:
        asked = [float(part) for part in rates.split(",")]
    except ValueError as error:
        raise InputError(f"rates {rates!r} are not numbers between commas; write 0.15,0.25") from error
    from maskevidence.masks import FixedRate
    from maskevidence.rate_bias import bias as bias_by_rate
    from maskevidence.tasks.prepare_rows import prepare_rows

    for rate in asked:
        FixedRate(rate)  # refuses a rate that is none, before a model is fitted
    ready = prepare_rows(model, data, sample, RowReading(table=table), device)
    biases = bias_by_rate(ready.model, asked, ready.tokens, masks_per_row=masks_per_row, seed=sample.seed)
    screen = output.console(common.json)
    screen.print(_accuracy(biases))
    screen.print(_cost(biases))
    if (best := _best(biases)) is not None:
        screen.print(best)
    for note in ready.notes:
        screen.print(f"note: {note}")
    result = {"model": model, "data": data, "seed": sample.seed, "rates": [asdict(one) for one in biases]}
    output.write_json(result, common.json)


def _accuracy(biases: "Sequence[RateBias]") -> Any:
    rows = [
        [
            f"{one.rate:.0%}",
            f"{one.size:.0f}",
            f"{one.bias:+.3f}",
            _number(one.mask_se, "± {:.3f}"),
            _number(one.data_se, "± {:.3f}", "not resolved"),
            _number(None if one.mask_variance is None else one.mask_variance**0.5, "{:.2f}"),
            _number(one.rmse, "{:.2f}"),
        ]
        for one in biases
    ]
    columns = ["rate", "M", "bias", "mask error", "data error", "sd of a mask", "rmse"]
    return FittingTable(Table(columns, rows, "D·S(x; M) - log p(x) by mask rate, nats per observation"))


def _cost(biases: "Sequence[RateBias]") -> Any:
    rows = [
        [
            f"{one.rate:.0%}",
            _number(one.variance_seconds, "{:.2e}"),
            f"{one.block_bias:+.2f}",
            f"{-one.visible_evidence:+.2f}",
        ]
        for one in biases
    ]
    columns = ["rate", "variance · seconds", "joint block's bias", "-E log p(visible)"]
    return FittingTable(Table(columns, rows, "Cost of a mask, and the bias of the unscaled joint block"))


def _best(biases: "Sequence[RateBias]") -> str | None:
    """The most accurate and the cheapest rate, among those whose masks are random, or None."""
    random = [one for one in biases if one.rmse is not None and one.variance_seconds]
    if not random:
        return None
    accurate = min(random, key=lambda one: one.rmse or 0.0)
    cheapest = min(random, key=lambda one: one.variance_seconds or 0.0)
    return (
        f"most accurate (smallest rmse of one mask of one row): {accurate.rate:.0%}\n"
        f"smallest variance per unit of time: {cheapest.rate:.0%}\n"
        f"joint block's bias + E log p(visible): at most {max(one.identity_error for one in biases):.1e}"
    )


def _number(value: float | None, form: str, unknown: str = "–") -> str:
    return unknown if value is None else form.format(value)
