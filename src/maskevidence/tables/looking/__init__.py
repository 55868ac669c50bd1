"""One command for a table: what its columns are, what stood in its holes, and what in it may be wrong."""

SD, CELLS, COLUMNS, MODEL = "filled_sd.csv", "cells.csv", "columns.csv", "model"  # files of a look's folder
TABLE, PAGE = "table.json", "index.html"
