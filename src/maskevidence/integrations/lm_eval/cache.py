"""The harness's cache of answers, which must not mix those of different models, scores or seeds."""

import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from maskevidence.errors import InputError, UntrustedFileWarning

_KEY = "maskevidence: what the answers depend on"
_own_files: set[Path] = set()  # which were empty when this process opened them


class AnswerCache:
    """Writes finished answers into the harness's cache, several at once as one transaction.

    The harness reads Python pickles from the cache, which can run any code: a file that this process did not
    write is named in a warning before anything is read from it.

    Args:
        hook: the harness's hook, whose database may be None.
        settings: what the answers depend on, as text by name.

    Raises:
        InputError: the cache holds answers that depend on something else.
    """

    def __init__(self, hook: Any, settings: Mapping[str, str]) -> None:
        self.database = getattr(hook, "dbdict", None)
        if self.database is None:
            return
        file, filled = Path(self.database.filename).absolute(), len(self.database) > 0
        if not filled:
            _own_files.add(file)
        elif file not in _own_files:
            warnings.warn(
                f"--use_cache reads {file}, which this run has not written, as Python pickles, and these can "
                "run any code; use a cache only if you trust who wrote it",
                UntrustedFileWarning,
                stacklevel=2,
            )
        known = self.database.get(_KEY)
        if known is None and filled:
            raise InputError(
                "the cache of --use_cache holds answers of another kind of model; give a new name"
            )
        if known is not None and known != dict(settings):
            names = sorted(name for name in {*known, *settings} if known.get(name) != settings.get(name))
            raise InputError(
                f"the cache of --use_cache holds answers with another {' and '.join(names)}; give a new name"
            )
        if known is None:
            self.database[_KEY] = dict(settings)

    def add(self, method: str, answers: Sequence[tuple[tuple[Any, ...], Any]]) -> None:
        """Write answers with the arguments of their requests: all of them, or after a kill none."""
        if self.database is None:
            return
        from lm_eval.api.model import hash_args

        self.database.update({hash_args(method, arguments): answer for arguments, answer in answers})
