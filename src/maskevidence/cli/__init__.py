"""The command line: arguments in, the layers below called, tables out."""

from maskevidence.cli.app import app, main

__all__ = ["app", "main"]
