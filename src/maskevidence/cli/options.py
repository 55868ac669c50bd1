"""Options that several commands have, in one wording."""

from pathlib import Path
from typing import Annotated

import typer

Json = Annotated[
    str | None,
    typer.Option("--json", metavar="FILE", help="Write the result as JSON; - for standard output alone."),
]
Out = Annotated[Path | None, typer.Option("--out", metavar="DIR", help="Leave the run in this folder.")]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace another run in --out.")]
Seed = Annotated[int, typer.Option("--seed", help="Of the masks and of the held-out rows.")]
Threads = Annotated[
    int | None, typer.Option("--threads", min=1, help="How many processor threads to use; by default all.")
]
Limit = Annotated[int | None, typer.Option("--limit", min=1, metavar="N", help="Use the first N rows only.")]
Quick = Annotated[bool, typer.Option("--quick", help="A smaller version, in a few seconds.")]


def use_threads(threads: int | None) -> None:
    """Let torch use so many threads in this process."""
    if threads is not None:
        import torch

        torch.set_num_threads(threads)
