"""Kinds of other packages that cannot be used are refused in one line, whatever they do."""

from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from maskevidence.core.kind import GROUP, _loaded, named
from refusals import one_line


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("a_kind_that_exits:K", "cannot be loaded (SystemExit: 3)"),
        ("json:loads", "no maskevidence.core.kind.Kind"),
    ],
)
def test_a_kind_that_cannot_be_loaded(
    value: str, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a_kind_that_exits.py").write_text("import sys\nsys.exit(3)\n")
    monkeypatch.syspath_prepend(tmp_path)
    one_line(lambda: _loaded(EntryPoint("x", value, GROUP)), words)


@pytest.mark.parametrize("place", ["no_such_module:D", "json:no_such_name"])
def test_what_a_kind_names_in_vain(place: str) -> None:
    """A design, a check, a command, an engine or a reader of folders."""
    one_line(lambda: named(place), "which a kind names, cannot be loaded")
