"""Reports: one self-contained page on one or more runs."""

from maskevidence.command.pages.page import write_report
from maskevidence.command.pages.reported_runs import read_runs

__all__ = ["read_runs", "write_report"]
