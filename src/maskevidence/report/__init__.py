"""Reports: one self-contained page on one or more runs."""

from maskevidence.report.page import write_report
from maskevidence.report.reading import read_runs

__all__ = ["read_runs", "write_report"]
