"""The command line: it turns words into objects, calls the tasks, and prints their results as tables."""

from maskevidence.cli.app import main

__all__ = ["main"]
