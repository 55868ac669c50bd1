"""The English text that comes with Python: the documentation behind `help("if")` and its kin."""

from maskevidence.errors import InputError


def python_topics() -> tuple[str, ...]:
    """Its lines, with their ends. The text is another in each version of Python.

    Raises:
        InputError: this Python came without it.

    Example:
        >>> sum(map(len, python_topics())) > 300_000
        True
    """
    try:
        from pydoc_data.topics import topics
    except ImportError as error:
        raise InputError("this Python has no text of its documentation (pydoc_data); give a file") from error
    return tuple(line for topic in topics.values() for line in topic.splitlines(keepends=True))
