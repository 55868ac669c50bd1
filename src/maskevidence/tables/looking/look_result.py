"""The result of looking at a table."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from maskevidence.core.show.parts import Page, Picture
from maskevidence.core.show.shown import Columns, Shown
from maskevidence.tables.imputation import filled_column
from maskevidence.tables.looking.looked import Looked
from maskevidence.tables.reading.dates import DateForm
from maskevidence.tables.table_files import names_of


@dataclass(frozen=True, repr=False)
class Look(Looked, Shown):
    """A table's columns, its filled holes and its suspicious cells; see `look`.

    Attributes:
        description: of the columns, with the findings that a person has to decide or should see.
        raw: the columns as they were given.
        table: the columns and rows that models can take.
        given: the data frame; None for a file.
        modelled: what the model says; None without one, of which a note tells.
        options: how the table was read.
        seconds: that it took.
        notes: what a reader needs to know, one sentence each.
    """

    def page(self) -> Page:
        """The whole page."""
        from maskevidence.tables.looking.look_page import page_of_look

        return page_of_look(self)

    def picture(self) -> tuple[Picture, str]:
        """The table as a picture: holes, filled and suspicious cells."""
        from maskevidence.tables.looking.look_page import map_of_cells

        return map_of_cells(self), self.page().headline

    def columns(self) -> Columns:
        """The columns of the table with their kinds and errors, one a row."""
        from maskevidence.tables.looking.look_files import lines_of_columns

        names, rows = lines_of_columns(self)
        return Columns(dict(zip(names, map(list, zip(*rows, strict=True)), strict=True)))

    def to_frame(self) -> Any:
        """The filled table as a data frame, with the order, index and dtypes of the given one."""
        import pandas

        frame = self.raw.columns.to_pandas() if self.given is None else pandas.DataFrame(self.given).copy()
        if self.modelled is None:
            return frame
        table, filled = self.modelled.table, self.modelled.filled
        places = {name: k for k, name in enumerate(names_of(self.raw))}
        for j, name in enumerate(table.columns):
            column = frame.iloc[:, places[name]]
            holes, values = np.zeros(len(frame), dtype=bool), np.zeros(len(frame))
            holes[table.ids], values[table.ids] = self.modelled.holes[:, j], filled[:, j]
            form = table.forms.get(name)
            if isinstance(form, DateForm) and column.dtype.kind == "M":
                frame.isetitem(places[name], filled_column(column, values, holes, None, form.origin))
            elif self.given is None and name not in table.levels:  # a file's numbers are text
                values[table.ids] = filled[:, j]
                frame.isetitem(places[name], pandas.Series(values, frame.index))
            elif holes.any():
                words = table.levels.get(name)
                frame.isetitem(places[name], filled_column(column, values, holes, words))
        return frame

    def to_dict(self) -> dict[str, Any]:
        """The description, the options and the results as JSON values, as in `table.json`."""
        from maskevidence.tables.looking.look_files import content_of_look

        return content_of_look(self)
