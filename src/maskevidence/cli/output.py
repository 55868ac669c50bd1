"""How results leave the command line: tables on the terminal, JSON to a file or to standard output."""

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich import box
from rich.console import Console
from rich.table import Table

from maskevidence.errors import InputError, MaskEvidenceError
from maskevidence.support import files
from maskevidence.wording import (
    ENUMERATED,
    OF_A_DENSITY,
    data_error,
    evidence_name,
    interval_95,
    kind_name,
    kind_words,
    orders_in_words,
    perplexity_name,
    standard_error,
    token_name,
)

if TYPE_CHECKING:
    from maskevidence.tasks.score import Scored

_NAMES = 22  # characters of a column of names


def console(json_target: str | None) -> Console:
    """The console for tables: standard output, or the error output if JSON goes to standard output."""
    return Console(stderr=json_target == "-", highlight=False, soft_wrap=False, markup=False, emoji=False)


def write_json(content: Mapping[str, Any], target: str | None) -> None:
    """Write JSON to a file, to standard output for "-", or nowhere for None."""
    if target is None:
        return
    if target == "-":
        sys.stdout.write(files.json_text(content))
    else:
        files.write_json(target, content)


@contextmanager
def read_from(file: Path | None, screen: Console) -> Iterator[None]:
    """Print what was read from a file that a finished command has written, as a whole or not at all.

    Args:
        file: the file; None if the result was not read from one.
        screen: where the block prints.

    Raises:
        InputError: the file was changed: an entry is missing, or has another type.
    """
    if file is None:
        yield
        return
    try:
        with screen.capture() as shown:
            yield
    except MaskEvidenceError:
        raise
    except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
        raise InputError(
            f"{str(file)!r} was changed after it was written ({type(error).__name__}: {error}); restore it, "
            "or use --overwrite"
        ) from error
    screen.file.write(shown.get())


def show_estimate(screen: Console, result: Mapping[str, Any]) -> None:
    """Print the numbers of an estimate.json, one per row, and its notes below."""
    grid = Table(box=box.SIMPLE, show_header=False)
    grid.add_column(style="bold", max_width=_NAMES)
    grid.add_column()
    kind, design = result["kind"], result["design"]["name"]
    exact, name = result.get("closed_form"), evidence_name(kind, design)
    data_se = data_error(result["data_se"], result["mask_se"], result["n_observations"], 4)
    if exact is not None and kind in OF_A_DENSITY:
        grid.add_row(name, f"{exact:.4f} nats per observation, in closed form")
        exact_se = result.get("closed_form_se")
        grid.add_row("  data error", data_se if exact_se is None else standard_error(exact_se, 4))
        grid.add_row("by masks", f"{result['log_evidence']:.4f} nats per observation")
        grid.add_row("  mask error", _mask_error(result))
    else:
        grid.add_row(name, f"{result['log_evidence']:.4f} nats per observation")
        grid.add_row("  mask error", _mask_error(result))
        grid.add_row("  data error", data_se)
        if exact is not None:
            row = "log evidence" if kind == "pseudo" else "closed form"
            grid.add_row(row, f"{exact:.4f} in closed form, on the same observations")
    for name, value in orders_in_words(result):
        grid.add_row(name, value)
    token = token_name(result["notes"])
    per_token, bits = result["per_token"], result["bits_per_token"]
    grid.add_row(f"per {token}", f"{per_token:.4f} nats ({bits:.4f} bits of code)")
    if result.get("bits_per_byte") is not None:
        grid.add_row("per byte", f"{result['bits_per_byte']:.4f} bits of code per byte of text")
    if result.get("bits_per_dimension") is not None:
        grid.add_row("per pixel", f"{result['bits_per_dimension']:.4f} bits of code per level (dimension)")
    if result.get("reconstruction_loss"):
        grid.add_row("loss", _reconstruction(result["reconstruction_loss"]))
    if result.get("perplexity_bound") is not None:
        grid.add_row(perplexity_name(result["kind"]), f"{result['perplexity_bound']:.4g} per {token}")
    grid.add_row("kind", f"{kind_name(kind)}: {kind_words(kind, design)}")
    grid.add_row(
        "scored",
        f"{result['n_observations']:,} observations, {result['n_tokens']:,} {token}s, "
        f"{result['n_masks']:,} masks, {result['n_model_calls']:,} model calls",
    )
    screen.print(grid)
    for note in result["notes"]:
        screen.print(f"note: {note}")


def show_scored(screen: Console, scored: "Scored") -> None:
    """Print an estimate, and the files of the run directory that holds it."""
    file = scored.folder / "estimate.json" if scored.folder and scored.finished_before else None
    with read_from(file, screen):
        show_estimate(screen, scored.result)
    if scored.finished_before:
        screen.print(f"This run in {scored.folder} was finished before; --overwrite computes it again.")
    elif scored.folder is not None:
        screen.print(f"Written to {scored.folder}: {', '.join(scored.files)}")
    if scored.missing:
        screen.print(scored.missing)


def _reconstruction(losses: Sequence[Mapping[str, Any]]) -> str:
    """The reconstruction loss, which is the quantity of the paper, at up to four rates."""
    count = min(4, len(losses))
    some = [losses[round(i * (len(losses) - 1) / max(1, count - 1))] for i in range(count)]
    text = ", ".join(f"{entry['loss']:.4g} at {entry['rate']:.0%}" for entry in some)
    return f"masked reconstruction loss (squared error): {text} hidden"


def _mask_error(result: Mapping[str, Any]) -> str:
    error = standard_error(result["mask_se"], 4)
    if result["mask_se"] is None:
        return error
    if result["mask_se"] == 0:
        return f"{error}: {ENUMERATED}"
    low, high = result["interval_95"]
    df = "" if result["mask_df"] is None else f", {result['mask_df']:.1f} df"
    return f"{error}  ({interval_95(low, high, 4)}{df})"
