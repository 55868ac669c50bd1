"""maskevidence bias: what one mask rate estimates, beside the log evidence."""

from dataclasses import asdict, replace
from typing import Annotated

from maskevidence.errors import InputError
from maskevidence.kinds.declaring import Argument, Option
from maskevidence.kinds.options import RowDevice, RowOptions, RowReading, RowSample, TableOptions
from maskevidence.kinds.result import Reported


def bias(
    model: Annotated[str, Argument("MODEL", "gaussian, ppca:8, factor-analysis:8, or a saved model.")],
    data: Annotated[str, Argument("DATA", "digits, or a .csv, .parquet, .feather or .npy table.")],
    sample: RowSample = RowSample(),
    device: RowDevice = RowDevice(),
    table: TableOptions = TableOptions(),
    rates: Annotated[
        str, Option("Mask rates in (0, 1], separated by commas.")
    ] = "0.05,0.15,0.25,0.5,0.75,0.85,1",
    masks_per_row: Annotated[int, Option("Masks per row and rate.", min=2)] = 16,
) -> Reported:
    """Bias, variance and cost of one mask rate as an estimator of the log evidence, by rate.

    The bias is D·S(x; M) - log p(x), in nats per observation. The standard deviation and the root mean square
    error of one mask show which rate is the most accurate; the variance times the seconds of a mask shows
    which one is the cheapest.

    Examples:

        maskevidence bias ppca:8 digits
        maskevidence bias runs/masked table.csv --rates 0.15,0.25

    Args:
        model: a word such as "ppca:8", or the folder of a saved model.
        data: a table, or the name of a data set.
        sample: which rows are used.
        device: where the model computes.
        table: how the table is read.
        rates: numbers between commas.
        masks_per_row: masks per row and rate.

    Raises:
        InputError: rates, a model or data that cannot be used.
    """
    try:
        asked = [float(part) for part in rates.split(",")]
    except ValueError as error:
        raise InputError(f"rates {rates!r} are not numbers between commas; write 0.15,0.25") from error
    from maskevidence.comparing.rate_bias import bias as bias_by_rate
    from maskevidence.kinds.rows import prepare
    from maskevidence.masks.sizes import FixedRate

    for rate in asked:
        FixedRate(rate)  # refuses a rate that is none, before a model is fitted
    ready = prepare(model, data, RowOptions(sample, RowReading(table=table), device))
    biases = bias_by_rate(ready.model, asked, ready.tokens, masks_per_row=masks_per_row, seed=sample.seed)
    page = biases.page()
    content = {"model": model, "data": data, "seed": sample.seed, "rates": [asdict(each) for each in biases]}
    return Reported(replace(page, notes=[*page.notes, *ready.notes]), content)
