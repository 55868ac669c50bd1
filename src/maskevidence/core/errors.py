"""All errors of this package, in one form: what was given, what is needed, what to do."""

import difflib
import importlib
from collections.abc import Iterable
from types import ModuleType


class MaskEvidenceError(Exception):
    """Base class of the errors raised on purpose; the command line prints them and exits with 2."""


class InputError(MaskEvidenceError, ValueError):
    """An argument, file or data set that cannot be used as given."""


class NumericalError(MaskEvidenceError, ArithmeticError):
    """A computation that has no finite result."""


class MissingExtraError(MaskEvidenceError, ImportError):
    """A missing optional dependency."""


class UnknownTokensWarning(UserWarning):
    """The tokenizer does not know more than 5 % of the letters of the texts."""


class CollapsedWeightsWarning(UserWarning):
    """A few draws dominate an estimate, so its standard error cannot be trusted."""


class ConvergenceWarning(UserWarning):
    """A fit reached its maximum number of iterations before the log evidence converged."""


class UntrustedFileWarning(UserWarning):
    """A file of Python pickles that another process wrote is about to be read."""


def unknown_name(kind: str, given: str, known: Iterable[str]) -> InputError:
    """The error for a name that is not in `known`, with the closest known names.

    Example:
        >>> print(unknown_name("design", "every-sise", ["every-size", "orderings"]))
        unknown design 'every-sise'; did you mean 'every-size'? Known: every-size, orderings
    """
    names = list(known)
    close = difflib.get_close_matches(given, names, n=3, cutoff=0.5)
    hint = f"; did you mean {' or '.join(repr(name) for name in close)}?" if close else "."
    return InputError(f"unknown {kind} {given!r}{hint} Known: {', '.join(names)}")


def missing_extra(package: str, extra: str, purpose: str) -> MissingExtraError:
    """The error for a missing package: what needs it, and how to install it."""
    how = f"in the folder of the repository, install it with: pip install '.[{extra}]'"
    return MissingExtraError(f"{purpose} needs {package}, which is not installed; {how}")


def import_extra(module: str, extra: str, purpose: str) -> ModuleType:
    """Import an optional dependency; if it is missing, say which extra installs it.

    Args:
        module: dotted name of the module.
        extra: the extra of this package that installs it.
        purpose: what needs it, as the subject of a sentence.

    Raises:
        MissingExtraError: the module is not installed.

    Example:
        >>> import_extra("no_such_module", "plots", "drawing a curve")
        Traceback (most recent call last):
        ...
        maskevidence.core.errors.MissingExtraError: drawing a curve needs no_such_module, which is not \
installed; in the folder of the repository, install it with: pip install '.[plots]'
    """
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        raise missing_extra(module.split(".")[0], extra, purpose) from error
