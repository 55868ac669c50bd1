"""Data to score: tables from files, bundled data sets, draws from published generators."""

from maskevidence.data.synthetic import published_ppca_data
from maskevidence.data.table import Table
from maskevidence.data.tabular import digits, read_table

__all__ = ["Table", "digits", "published_ppca_data", "read_table"]
