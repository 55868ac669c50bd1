"""Options of `variants`."""

from dataclasses import dataclass
from typing import Annotated, Literal, get_args

from maskevidence.command.options import Limit, Option, Out, Overwrite

Convention = Literal[
    "wild-type-fill",
    "mutant-fill",
    "match-fill",
    "mask-fill",
    "unmasked",
    "joint",
    "joint-mixture",
    "pll",
    "whole",
]


@dataclass(frozen=True)
class VariantOptions:
    """Options of `variants`."""

    wild_type: Annotated[
        str, Option("The wild type: a FASTA file with one sequence, or its letters.", "FILE|LETTERS")
    ]
    mutant_column: Annotated[str, Option("Column of substitutions, such as A1P:D2N.", "COLUMN")] = "mutant"
    sequence_column: Annotated[
        str,
        Option("Column of whole mutated sequences.", "COLUMN"),
    ] = "mutated_sequence"
    start: Annotated[int, Option("The number of the wild type's first letter.")] = 1
    conventions: Annotated[
        str | None,
        Option(
            f"Among {', '.join(get_args(Convention))}, or all; by default all but pll and whole.",
            "NAME[,NAME...]",
        ),
    ] = None
    measured: Annotated[
        str | None, Option("Column with a measured effect, for rank correlations.", "COLUMN")
    ] = None
    given: Annotated[
        str | None, Option("Columns with scores of other tools, for --measured.", "COLUMN[,COLUMN...]")
    ] = None
    draws: Annotated[
        int, Option("Random masks of whole, and of joint beyond 10 sites.", min=2, max=10_000)
    ] = 32
    seed: Annotated[int, Option("Random seed of these masks and of the bootstrap.", min=0, max=2**63 - 1)] = 0
    limit: Limit = None
    out: Out = None
    overwrite: Overwrite = False
