"""What a run looks like: its figures, and the files it leaves."""

from maskevidence.report.curves import draw_curves
from maskevidence.report.files import write_run, write_summary

__all__ = ["draw_curves", "write_run", "write_summary"]
