"""Reports: one self-contained page on one or more runs."""

from maskevidence.command.report.page import write_report
from maskevidence.command.report.reading import read_runs
from maskevidence.tables.selection_page import read_selection
from maskevidence.proteins.variants_page import read_variants

__all__ = ["read_runs", "read_selection", "read_variants", "write_report"]
