"""Data to score: tables from files, and bundled data sets."""

from maskevidence.data.table import Table
from maskevidence.data.tabular import digits, read_table

__all__ = ["Table", "digits", "read_table"]
