"""Reports: one self-contained page on one or more runs."""

from maskevidence.report.page import write_report
from maskevidence.report.reading import read_runs
from maskevidence.report.selection_page import read_selection
from maskevidence.report.variants_page import read_variants

__all__ = ["read_runs", "read_selection", "read_variants", "write_report"]
