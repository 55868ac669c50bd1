"""The numbers of today: every model, mask design and kind of run gives them again.

golden_numbers.py computes them, and writes tests/golden/numbers.json where a number was meant to change.
"""

import json
from typing import Any

import pytest

from golden_numbers import FILE, SECTIONS, computed, tolerance

pytest.importorskip("transformers", reason="the extra hf is not installed")

WANTED = json.loads(FILE.read_text())


def same(found: list[Any], wanted: list[Any], within: dict[str, float]) -> bool:
    """Whether two rows of numbers, words and None agree."""
    return len(found) == len(wanted) and all(
        a == b or (isinstance(a, float) and isinstance(b, float) and a == pytest.approx(b, **within))
        for a, b in zip(found, wanted, strict=True)
    )


@pytest.mark.parametrize("section", SECTIONS)
def test_numbers_come_out_again(section: str) -> None:
    found, wanted = computed(section), WANTED[section]
    assert found.keys() == wanted.keys()
    wrong = [
        f"{name}: {found[name]} instead of {numbers}"
        for name, numbers in wanted.items()
        if not same(found[name], numbers, tolerance(section))
    ]
    assert not wrong, "\n".join([f"{len(wrong)} differences, of which the first:", *wrong[:10]])
