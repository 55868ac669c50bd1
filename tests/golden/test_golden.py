"""The numbers of today: every model, mask design and kind of run gives them again.

golden_numbers.py computes them, and writes tests/golden/numbers.json where a number was meant to change.
"""

import json

import pytest

from golden_numbers import FILE, SECTIONS, computed, differences, tolerance

pytest.importorskip("transformers", reason="the extra hf is not installed")

WANTED = json.loads(FILE.read_text())


@pytest.mark.parametrize("section", SECTIONS)
def test_numbers_come_out_again(section: str) -> None:
    wrong = list(differences(computed(section), WANTED[section], *tolerance(section)))
    assert not wrong, "\n".join([f"{len(wrong)} differences, of which the first:", *wrong[:10]])
