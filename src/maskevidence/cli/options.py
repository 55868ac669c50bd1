"""Commands of typer from functions whose options are declared as in `maskevidence.tasks.declaring`."""

import inspect
from collections.abc import Callable, Iterator
from dataclasses import MISSING, fields, is_dataclass
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, get_args

import typer

from maskevidence.support import choices
from maskevidence.tasks.declaring import Argument, declaration, flag


def add_command(app: typer.Typer, function: Callable[..., Any], name: str | None = None) -> None:
    """Make a function a command of the app.

    Args:
        app: the app, or a group of its commands.
        function: its parameters are dataclasses of options, or `Annotated` types that carry one `Option` or
            `Argument` each. Its docstring is the help page.
        name: of the command; by default the function's.
    """
    app.command(name)(with_flat_signature(function))


def with_flat_signature(function: Callable[..., Any]) -> Callable[..., Any]:
    """The same function for typer: one parameter for each option, in place of the dataclasses.

    Example:
        >>> from maskevidence.tasks.options import Common
        >>> def greet(name: Annotated[str, Argument("NAME", "Whom to greet.")], common: Common) -> str:
        ...     return f"{name}: {common.threads}"
        >>> flat = with_flat_signature(greet)
        >>> list(inspect.signature(flat).parameters)
        ['name', 'threads', 'json']
        >>> flat(name="world", threads=2, json=None)
        'world: 2'
    """
    parameters = inspect.signature(function).parameters.values()
    flat = [part for parameter in parameters for part in _flattened(parameter)]

    @wraps(function)
    def command(**values: Any) -> Any:
        return function(**{one.name: _filled(one.annotation, one.name, values) for one in parameters})

    command.__signature__ = inspect.Signature(flat)  # type: ignore[attr-defined]  # rejects equal names
    command.__annotations__ = {one.name: one.annotation for one in flat}
    return command


def _flattened(parameter: inspect.Parameter, owner: type | None = None) -> Iterator[inspect.Parameter]:
    annotation = parameter.annotation
    if is_dataclass(annotation):
        assert isinstance(annotation, type)
        for one in fields(annotation):
            default = inspect.Parameter.empty if one.default is MISSING else one.default
            inner = parameter.replace(name=one.name, annotation=one.type, default=default)
            yield from _flattened(inner, annotation)
    else:
        yield parameter.replace(
            annotation=_for_typer(parameter.name, annotation, owner), kind=inspect.Parameter.KEYWORD_ONLY
        )


def _filled(annotation: Any, name: str, values: dict[str, Any]) -> Any:
    if not is_dataclass(annotation):
        return values[name]
    assert isinstance(annotation, type)
    return annotation(**{one.name: _filled(one.type, one.name, values) for one in fields(annotation)})


def _for_typer(name: str, annotation: Any, owner: type | None) -> Any:
    """The `Annotated` type that typer reads, from ours."""
    declared = declaration(annotation)
    assert declared is not None, f"{name} declares neither an option nor an argument"
    if isinstance(declared, Argument):
        info: Any = typer.Argument(metavar=declared.metavar, help=declared.help)
    else:
        info = typer.Option(
            flag(name),
            metavar=declared.metavar,
            help=declared.help,
            min=declared.min,
            max=declared.max,
            rich_help_panel=declared.panel or getattr(owner, "panel", None),
        )
    return Annotated[get_args(annotation)[0], info]


def use_threads(threads: int | None) -> None:
    """Set the number of threads that torch uses in this process."""
    if threads is not None:
        import torch

        torch.set_num_threads(threads)


# For commands whose signatures are still written by hand.
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

_ROWS = "Rows of numbers and images"
TestFraction = Annotated[
    float | None,
    typer.Option(
        "--test-fraction",
        rich_help_panel=_ROWS,
        help="Share of the rows held out and scored. A model that is fitted first has 0.2, a saved one "
        "scores all rows unless this is given.",
    ),
]
Binarise = Annotated[
    str | None,
    typer.Option(
        "--binarise",
        metavar="HOW",
        rich_help_panel=_ROWS,
        help="Make values in [0, 1] binary: threshold:0.5 (1 above it), or stochastic (1 with the value as "
        "its probability, by --seed).",
    ),
]
Column = Annotated[
    str | None,
    typer.Option(
        "--column", metavar="NAME", rich_help_panel=_ROWS, help="The column with the images, of several."
    ),
]
Resize = Annotated[
    str | None,
    typer.Option(
        "--resize", metavar="HxW", rich_help_panel=_ROWS, help="Bring images to this size, such as 28x28."
    ),
]
SkipBad = Annotated[
    bool,
    typer.Option(
        "--skip-bad", rich_help_panel=_ROWS, help="Leave images out that cannot be read, and name them."
    ),
]

_IMAGES = "Masked image models"
Density = Annotated[
    choices.Density | None,
    typer.Option(
        "--density",
        rich_help_panel=_IMAGES,
        help="Of a hidden pixel around its prediction; discretised gives bits per dimension.",
    ),
]
PatchStatistics = Annotated[
    choices.PatchStatistics | None,
    typer.Option(
        "--patch-statistics",
        rich_help_panel=_IMAGES,
        help="Score the pixels of a model of normalised patches, by mean and variance of visible ones.",
    ),
]
CalibrationFraction = Annotated[
    float | None,
    typer.Option(
        "--calibration-fraction",
        rich_help_panel=_IMAGES,
        help="Share of the images that pixel variances are fitted to, at most 512, and that are not scored; "
        "0.2 unless the model has variances.",
    ),
]

_TEXTS = "Texts and masked language models"
Text = Annotated[
    str | None,
    typer.Option(
        "--text", metavar="COLUMN[,COLUMN]", rich_help_panel=_TEXTS, help="The texts; two columns make pairs."
    ),
]
ContextField = Annotated[
    str | None,
    typer.Option(
        "--context-field",
        metavar="COLUMN",
        rich_help_panel=_TEXTS,
        help="Prompts before the texts: always visible, never scored.",
    ),
]
BlockSize = Annotated[
    int | None,
    typer.Option(
        "--block-size",
        min=1,
        rich_help_panel=_TEXTS,
        help="Pack running text into blocks of so many tokens, special tokens included.",
    ),
]
LongTexts = Annotated[
    choices.Long | None,
    typer.Option(
        "--long",
        rich_help_panel=_TEXTS,
        help="What to do with a text that is longer than the model reads; by default it is an error.",
    ),
]
WholeWords = Annotated[
    bool,
    typer.Option(
        "--whole-words",
        rich_help_panel=_TEXTS,
        help="With leave-one-out: hide all tokens of a word together.",
    ),
]
PerToken = Annotated[
    bool,
    typer.Option(
        "--per-token", rich_help_panel=_TEXTS, help="With leave-one-out: the score of each token too."
    ),
]
Tokenizer = Annotated[
    str | None,
    typer.Option(
        "--tokenizer",
        metavar="FOLDER|NAME",
        rich_help_panel=_TEXTS,
        help="The model's tokenizer, where it is not beside the model.",
    ),
]
BatchTokens = Annotated[
    int | None,
    typer.Option(
        "--batch-tokens",
        min=1,
        rich_help_panel=_TEXTS,
        help="Tokens in one call of the model; by default 1024 on a CPU, 16384 else.",
    ),
]
Device = Annotated[
    str | None,
    typer.Option("--device", rich_help_panel=_TEXTS, help="cpu, cuda, mps; by default the fastest there."),
]
Bf16 = Annotated[
    bool, typer.Option("--bf16", rich_help_panel=_TEXTS, help="Compute under bfloat16 autocast.")
]
TrustRemoteCode = Annotated[
    bool,
    typer.Option("--trust-remote-code", rich_help_panel=_TEXTS, help="Run code that comes with the model."),
]
