"""What commands do with rows of numbers: their options for them, and a model fitted to or used on rows."""

from dataclasses import dataclass

from maskevidence.data.binarise import binarise
from maskevidence.data.tabular import Table
from maskevidence.errors import InputError
from maskevidence.tasks.parse import parse_data, parse_model, parse_size
from maskevidence.tasks.prepare_rows import Prepared, fit_held_out, use_saved


@dataclass(frozen=True)
class RowOptions:
    """The options that belong to rows of numbers; None or False where not given.

    Attributes:
        test_fraction: share of the rows held out and scored.
        binarise: how values in [0, 1] become 0 or 1.
        column: of the images.
        resize: "28x28", the size that images are brought to.
        skip_bad: leave images out that cannot be read.
    """

    test_fraction: float | None = None
    binarise: str | None = None
    column: str | None = None
    resize: str | None = None
    skip_bad: bool = False

    def refuse(self, what: str, names: tuple[str, ...]) -> None:
        """Raise if one of these was given, for `what` that is no row of numbers.

        Example:
            >>> RowOptions(test_fraction=0.5).refuse("texts", ("test_fraction",))
            Traceback (most recent call last):
            ...
            maskevidence.errors.InputError: --test-fraction belongs to rows of numbers; leave it out for texts
        """
        for name in names:
            if getattr(self, name):
                flag = "--" + name.replace("_", "-")
                raise InputError(f"{flag} belongs to rows of numbers; leave it out for {what}")

    def read(self, data: str, limit: int | None, seed: int) -> Table:
        """The rows behind a DATA word.

        Raises:
            InputError: whatever is wrong with the data, or options that do not belong to them.
        """
        rows = parse_data(
            data, limit, column=self.column, resize=parse_size(self.resize), skip_bad=self.skip_bad
        )
        return rows if self.binarise is None else binarise(rows, self.binarise, seed)

    def prepare(self, model: str, data: str, limit: int | None, seed: int) -> Prepared:
        """Read the rows, and fit the model to a training part of them or load it.

        Raises:
            InputError: whatever is wrong with model or data.
        """
        build, saved = parse_model(model)
        rows = self.read(data, limit, seed)
        if build is None:
            return use_saved(saved, rows, self.test_fraction, seed)
        return fit_held_out(build, rows, 0.2 if self.test_fraction is None else self.test_fraction, seed)
