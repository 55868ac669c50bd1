"""The English text that comes with Python: the documentation behind `help("if")` and other topics."""

from maskevidence.errors import InputError


def python_topics() -> tuple[str, ...]:
    """The lines of the text, with their ends; they differ between versions of Python.

    Raises:
        InputError: this Python has no such text.

    Example:
        >>> sum(map(len, python_topics())) > 300_000
        True
    """
    try:
        from pydoc_data.topics import topics
    except ImportError as error:
        raise InputError("this Python has no text of its documentation (pydoc_data); give a file") from error
    return tuple(line for topic in topics.values() for line in topic.splitlines(keepends=True))
