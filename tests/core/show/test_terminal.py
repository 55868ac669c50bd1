"""Tables on terminals of any width: they fit, and no number is cut."""

import json
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from command_line import CommandLine
from maskevidence.core.show.parts import Page, Table, Value, ValueRows
from maskevidence.core.show.terminal import print_page
from maskevidence.core.show.words import digits_for, plus_minus, typeset
from report_runs import write_table

COLUMNS = ["run", "log evidence", "behind best", "wins"]
ROWS = [
    ["runs/a-rather-long-name-of-a-run-directory", "-1234.5678", "best", ""],
    ["runs/b", "-12345.6789", "123.4567 ± 12.3456", "12 %"],
]


def printed(page: Page, width: int) -> str:
    file = StringIO()
    print_page(Console(file=file, width=width, markup=False, emoji=False), page)
    return file.getvalue()


def of_table(table: Table, width: int) -> str:
    return printed(Page("", "", parts=[table]), width)


WIDE = Table(COLUMNS, ROWS, "Log evidence, nats per observation, over 1,000 observations")


@pytest.mark.parametrize("width", [24, 40, 60, 79, 80, 100, 120, 200])
def test_every_character_of_every_cell_is_printed(width: int) -> None:
    text = of_table(WIDE, width)
    assert max(map(len, text.splitlines())) <= width
    assert "…" not in text
    cells = "1,000" + "".join(cell for row in ROWS for cell in row)
    assert sorted(filter(str.isdigit, text)) == sorted(filter(str.isdigit, cells))


@pytest.mark.parametrize(("width", "numbers_per_line"), [(40, 1), (80, 2), (200, 2)])
def test_numbers_are_whole(width: int, numbers_per_line: int) -> None:
    """On 40 columns, rows are blocks; on 80, only the name is folded."""
    lines = of_table(WIDE, width).splitlines()
    line = next(line for line in lines if "-12345.6789" in line)
    whole = ("-12345.6789", "123.4567 ± 12.3456")
    assert sum(number in line for number in whole) == numbers_per_line
    assert all(any(number in line for line in lines) for number in whole)


@pytest.mark.parametrize("columns", [40, 80])
def test_compare_fits(
    columns: int, run: CommandLine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    write_table(tmp_path / "table.csv")
    runs = [tmp_path / "ppca", tmp_path / "factor-analysis"]
    for model, folder in zip(("ppca:2", "factor-analysis:1"), runs, strict=True):
        assert run("score", model, tmp_path / "table.csv", "--out", folder).code == 0
    monkeypatch.setenv("COLUMNS", str(columns))
    result = run("compare", *runs, "--json", tmp_path / "compared.json")
    assert result.code == 0, result.err
    compared = json.loads((tmp_path / "compared.json").read_text())
    (behind,) = compared["differences"]
    assert max(map(len, result.out.splitlines())) <= columns
    assert "…" not in result.out
    digits = digits_for(behind["standard_error"])
    for entry in compared["ranking"]:
        assert typeset(entry["log_evidence"], digits) in result.out
    assert plus_minus(behind["difference"], behind["standard_error"], digits, typeset) in result.out
    assert "Bayes" not in result.out


@pytest.mark.parametrize("width", [40, 80, 140])
def test_a_page_has_bars_that_fit(width: int) -> None:
    rows = [Value("ppca:8", 0.0), Value("gaussian", -2.0, (-3.0, -1.0)), Value("a", -0.5, (-1.5, 0.5))]
    page = Page("", "ppca:8 is best", "(nats)", [ValueRows(rows, "minus the best", zero=True)], ["a note"])
    lines = printed(page, width).splitlines()
    assert max(map(len, lines)) <= width
    assert lines.pop(0) == "ppca:8 is best (nats)"
    best, behind, close = (next(line for line in lines if row.label in line.split()[:1]) for row in rows)
    zero = best.index("●")
    assert behind.index("●") < behind.rindex("─") < zero < close.rindex("─")
    assert behind[zero] == "┊"
    assert lines[-1] == "note: a note"


@pytest.mark.parametrize("width", [80, 96])
def test_a_selection_on_80_columns_has_whole_names_in_one_table(width: int) -> None:
    """Words of the other columns are folded first."""
    rows = [
        ["factor-analysis:3", "chosen", "1,270", "−111.39 ± 0.16", "± 0.03", "best"],
        ["factor-analysis:2", "smallest not told apart", "32", "−111.44 ± 0.16", "± 0.02", "0.05 ± 0.02"],
        ["masked-net", "worse", "81,432", "−119.44 ± 0.16", "± 0.02", "8.05 ± 0.12"],
    ]
    columns = ["model", "", "parameters", "log evidence", "mask error", "behind the best"]
    title = "Held-out log evidence ± data error, nats per row, 160 rows in 5 folds"
    text = of_table(Table(columns, rows, title, words=(0, 1)), width)
    lines = text.splitlines()
    assert max(map(len, lines)) <= width
    for name, _, *numbers in rows:
        line = next(line for line in lines if name in line)
        assert all(number in line for number in numbers)
    assert "smallest" in text


@pytest.mark.parametrize("width", [50, 80, 100, 120])
def test_sentences_beside_each_other_are_folded_and_not_cut(width: int) -> None:
    """As the claims of the paper's figures, their verdicts and what was measured."""
    rows = [
        [
            "K=50, P=2: the score falls from about 50 % on (a window chosen after)",
            "does not hold",
            "2.5 nats",
        ],
        ["it converges", "too short to tell", "5 % of the fall is lost after a rate of 0.870 (se 0.02)"],
    ]
    text = of_table(Table(["claim", "verdict", "seen"], rows, "", (0, 1, 2)), width)
    assert max(map(len, text.splitlines())) <= width
    expected = sorted(word for row in rows for cell in row for word in cell.split())
    assert not [word for word in expected if word not in text.split()]
    if width >= 80:
        assert "too short to tell" in text
