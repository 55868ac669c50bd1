"""Choose a family of models for a table by held-out evidence, train a small BERT, and write a report."""

import argparse
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table
from sklearn.datasets import load_wine

import maskevidence as me
from maskevidence.core.show import print_page
from maskevidence.huggingface import Recipe, new_modern_bert, train_masked_lm, word_pieces
from maskevidence.report import write_report

MODELS = "masked-net:64x1,factor-analysis:3,ppca:3,gaussian"
RATES = (0.05, 0.15, 0.3, 0.5, 0.7, 0.85, 1.0)  # shares of hidden tokens
WIDTH = 22  # characters of a bar
screen = Console()


def show(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table whose last column holds bars."""
    table = Table(title=title, title_justify="left", title_style="bold", box=None, min_width=79)
    for column in columns:
        table.add_column(column, justify="left" if column in (columns[0], columns[-1]) else "right")
    for row in rows:
        table.add_row(*row)
    screen.print(table, "")


def choose_family(out: Path, models: str) -> str:
    """Choose a family of models for 178 wines by held-out evidence, and write the page of the choice."""
    load_wine(as_frame=True).frame.to_csv(out / "wines.csv", index=False)
    selection = me.select(me.data.read_table(out / "wines.csv"), models, folds=3)
    page = selection.page()
    print_page(screen, page)
    selection.model.save(out / "chosen")
    write_report(page, out / "report.html")
    return page.headline


def train_bert(steps: int, limit: int, out: Path) -> str:
    """Train a small ModernBERT on the text that comes with Python; show how much visible tokens help."""
    lines = me.data.read_texts("python-topics", running=True)["text"]
    first, last = lines[: 9 * len(lines) // 10], lines[9 * len(lines) // 10 :]
    model = new_modern_bert(word_pieces(first, vocabulary_size=1024))
    train, held_out = model.tokens(first, block_size=64), model.tokens(last, block_size=64)[:limit]
    before = me.estimate_evidence(model, held_out, me.Rates(RATES)).curve
    train_masked_lm(model, train, recipe=Recipe(steps=steps, batch_size=16, learning_rate=5e-3))
    after = me.estimate_evidence(model, held_out, me.Rates(RATES)).curve
    model.save(out / "bert")
    gains, rows = after.score - after.score[-1], []  # over the score where no token is visible
    for rate, random, score, gain in zip(RATES, before.score, after.score, gains, strict=True):
        bar = "█" * round(WIDTH * max(gain / (gains.max() or 1.0), 0.0))
        rows.append([f"{rate:.0%}", f"{random:.2f}", f"{score:.2f}", bar])
    title = f"A small BERT, {steps} steps on Python's documentation: score, nats per hidden token"
    show(title, ["hidden", "before", "after", "gained from visible tokens"], rows)
    return f"Visible tokens raise the BERT's score of a hidden one by {gains[0]:.2f} nats"


def main(out: Path, steps: int = 300, limit: int = 100, models: str = MODELS) -> None:
    """Run both parts, and say what came out."""
    out.mkdir(parents=True, exist_ok=True)
    answers = [choose_family(out, models), train_bert(steps, limit, out)]
    impute = f"maskevidence impute {out / 'chosen'} TABLE_WITH_HOLES.csv --out filled.csv"
    check = f"maskevidence check {out / 'bert'} python-topics --block-size 64 --limit 200"
    screen.print(f"Report: {out / 'report.html'}\nTry next: {check}\n          {impute}", soft_wrap=True)
    screen.print(*reversed(answers), sep="\n", style="bold", soft_wrap=True, highlight=False)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("runs/first_run"))
    main(parser.parse_args().out)
