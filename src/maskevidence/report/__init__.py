"""What a run looks like: its figures, and the files it leaves."""

from maskevidence.runs.curve_picture import draw_curves
from maskevidence.runs.summary_files import write_run, write_summary

__all__ = ["draw_curves", "write_run", "write_summary"]
