"""What is refused, in one line."""

from collections.abc import Callable

import pytest

import maskevidence as me


def one_line(
    ask: Callable[[], object],
    words: str = "",
    *,
    match: str | None = None,
    error: type[Exception] = me.InputError,
) -> str:
    """The message of a refusal, which is one line, holds the words and fits the pattern."""
    with pytest.raises(error, match=match) as caught:
        ask()
    message = str(caught.value)
    assert words in message
    assert "\n" not in message
    return message
