"""The page that the site makes of a notebook has its texts, its code and what its cells show."""

import json

import pytest

from site_notebooks import page_of


@pytest.mark.slow
def test_the_page_of_a_notebook() -> None:
    def code(source: str) -> dict[str, object]:
        return {
            "cell_type": "code",
            "source": source,
            "metadata": {},
            "outputs": [],
            "execution_count": None,
            "id": f"c{len(source)}",
        }

    class_with_html = "class Shown:\n    def _repr_html_(self):\n        return '<b>bold</b>'\nShown()"
    cells = [
        {"cell_type": "markdown", "source": "# A title", "metadata": {}, "id": "a"},
        code("x = 20\nprint('said')"),
        code("x + 1"),
        code(class_with_html),
    ]
    notebook = {"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    page = page_of(json.dumps(notebook))
    assert page.startswith("# A title\n\n```python\nx = 20\nprint('said')\n```\n\n```text\nsaid\n```\n\n")
    assert "```python\nx + 1\n```\n\n```text\n21\n```" in page
    assert page.endswith('```\n\n<div class="output"><b>bold</b></div>\n')
