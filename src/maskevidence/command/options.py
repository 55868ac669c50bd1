"""What commands and kinds share: options, dataclasses for Python users, too, and results; without torch."""

import csv
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, get_args

from maskevidence.core.errors import InputError
from maskevidence.core.kind import Kind, ModelWord, data_words, kinds, model_words
from maskevidence.core.support.hub import hub_file

if TYPE_CHECKING:
    from maskevidence.core.show.parts import Page

_OWN = re.compile(r"(.+\.py)(:.*)?", re.S)
_ON_THE_HUB = re.compile(r"[\w-][\w.-]*/[\w-][\w.-]*")


@dataclass(frozen=True)
class Argument:
    """A positional argument of a command."""

    metavar: str  # name on the help page
    help: str | Callable[[], str]  # description; a function if it depends on the installed kinds


@dataclass(frozen=True)
class OptionsOf:
    """Marks a parameter whose options depend on the kind of MODEL."""

    command: str  # the name under which kinds declare the options


@dataclass(frozen=True)
class Option:
    """The declaration of an option; name, type and default are the field's own."""

    help: str  # one sentence for the help page
    metavar: str | None = None  # placeholder of the value on the help page; by default the type
    min: float | None = None  # smallest value
    max: float | None = None  # largest value
    panel: str | None = None  # section of the help page; by default the dataclass's
    # whether the value names a file or folder to write, which is checked before any work
    writes: Literal["file", "folder"] | None = None


def flag(name: str) -> str:
    """The command line flag of a field.

    Example:
        >>> flag("batch_size")
        '--batch-size'
    """
    return "--" + name.replace("_", "-")


def declaration(annotation: Any) -> Option | Argument | None:
    """The `Option` or `Argument` in an `Annotated` type; None if it has neither."""
    declared = (part for part in get_args(annotation)[1:] if isinstance(part, Option | Argument))
    return next(declared, None)


def kind_of_training(word: str) -> Kind:
    """The kind of a MODEL word of `train`.

    Example:
        >>> kind_of_training("ppca:8").name
        'rows'
    """
    return _claimed(ModelWord(word), "train")


def kind_of_model(word: str) -> Kind:
    """The kind of a MODEL word.

    Example:
        >>> kind_of_model("ppca:8").name, kind_of_model("google-bert/bert-base-uncased").name
        ('rows', 'texts')
    """
    return _claimed(_looked_up(word), "score")


def _claimed(word: ModelWord, command: str) -> Kind:
    """The kind of highest precedence that names a word; where none does, that claims it."""
    asked = [kind for kind in reversed(kinds()) if command in kind.options]
    naming = (kind for kind in asked if kind.names(word.text) and not word.is_folder)
    return next(naming, None) or next(kind for kind in asked if kind.claims(word))


def _looked_up(word: str) -> ModelWord:
    """Look up the config.json of a MODEL word; refuse a run of the user's own code."""
    folder = Path(word)
    for run in (folder, folder.parent):
        _refuse_code_of_run(run)
    if folder.is_dir():
        return ModelWord(word, is_folder=True, config=_config(folder / "config.json"))
    if _ON_THE_HUB.fullmatch(word) is None or own_file(word) is not None:
        return ModelWord(word)
    file = hub_file(word, "config.json")
    return ModelWord(word, on_hub=True, config=None if file is None else _config(file))


def _config(file: Path) -> Any:
    """Read a model's config.json; None if it is missing or damaged."""
    from maskevidence.core.support.files import read_json

    try:
        return read_json(file)
    except InputError:
        return None


def own_file(word: str) -> Path | None:
    """The Python file of a MODEL word FILE.py:FUNCTION; None for other words.

    Example:
        >>> own_file("/home/me/model.py:make").name, own_file("ppca:8")
        ('model.py', None)
    """
    match = _OWN.fullmatch(word)
    return None if match is None else Path(match[1]).resolve()


def _refuse_code_of_run(folder: Path) -> None:
    """Refuse a run of a user's own code: runs do not store code, and none is run from there."""
    run = _config(folder / "run.json") if (folder / "run.json").is_file() else None
    word = run.get("model") if isinstance(run, dict) else None
    if isinstance(word, str) and own_file(word) is not None:
        raise InputError(
            f"the run in {str(folder)!r} is of {word!r}, code that a run does not hold; type that as MODEL"
        )


def parse_words(option: str, text: str | None) -> list[str]:
    """Split words at commas; a word that contains a comma is in quotes.

    Example:
        >>> parse_words("columns", 'a,"b, in m"')
        ['a', 'b, in m']
    """
    if text is None:
        return []
    try:
        lines = list(csv.reader([text], skipinitialspace=True, strict=True))
    except csv.Error as error:
        raise InputError(
            f'{flag(option)} {text!r} cannot be read ({error}); write a,b or a,"b, c"'
        ) from error
    words = lines[0] if lines else []
    if not words or not all(words):
        raise InputError(f"{flag(option)} {text!r} lacks a word; write words between commas, such as a,b")
    if len(set(words)) < len(words):
        twice = next(word for number, word in enumerate(words) if word in words[:number])
        raise InputError(f"{flag(option)} names {twice!r} twice; name it once")
    return words


def parse_size(word: str | None) -> tuple[int, int] | None:
    """Parse a --resize word, such as "28x24" or "28", into (height, width); None stays None.

    Example:
        >>> parse_size("32x24"), parse_size("28")
        ((32, 24), (28, 28))
    """
    if word is None:
        return None
    parts = word.lower().split("x")
    if len(parts) > 2 or not all(part.isascii() and part.isdigit() and int(part) for part in parts):
        raise InputError(f"{word!r} is not an image size; write 28x28 (height x width)")
    return int(parts[0]), int(parts[-1])


Model = Annotated[str, Argument("MODEL", model_words)]
Data = Annotated[str, Argument("DATA", data_words)]
Json = Annotated[str | None, Option("Write the result as JSON; - is standard output.", "FILE", writes="file")]
Out = Annotated[Path | None, Option("Write the run into this folder.", "DIR", writes="folder")]
Overwrite = Annotated[bool, Option("Replace another run in --out and the file that --json names.")]
OverwriteFiles = Annotated[bool, Option("Replace the files that the command writes.")]
Seed = Annotated[int, Option("Random seed of the masks and the train/test split.", min=0, max=2**63 - 1)]
Threads = Annotated[int | None, Option("Number of processor threads; by default all.", min=1, max=1024)]
Limit = Annotated[int | None, Option("Use only the first N rows, texts or images.", "N", min=1)]
Design = Annotated[
    str | None,
    Option(
        "Masks: every-size:4, random-size:8, orderings:8, leave-one-out, exhaustive, fixed-rate:0.15, "
        "rates:0.1-0.9-0.2 or policy:entropy; with ,shared or ,per-token, too (docs/concepts.md).",
        "DESIGN",
    ),
]
TestFraction = Annotated[
    float | None, Option("Share to hold out and score; by default 0.2, and all for a saved model.")
]
IdColumn = Annotated[
    str | None, Option("Column with names of the observations, which are not data.", "COLUMN")
]


@dataclass(frozen=True)
class Sample:
    """Number of observations, and the seed of the masks."""

    seed: Seed = 0
    limit: Limit = None


@dataclass(frozen=True)
class ImageFiles:
    """Options for reading images."""

    panel: ClassVar[str] = "Images"

    column: Annotated[str | None, Option("Column of the images, if there are several.", "NAME")] = None
    resize: Annotated[str | None, Option("Resize images to this size, such as 28x28.", "HxW")] = None
    skip_bad: Annotated[bool, Option("Skip images that cannot be read, and list them.")] = False


Device = Annotated[
    str | None,
    Option(
        "cpu, cuda, cuda:N, mps or auto; by default cpu for rows, auto for transformers.",
        "DEVICE",
        panel="Options",
    ),
]
BatchTokens = Annotated[
    int | None,
    Option(
        "Tokens in one call of the model; by default 1024 or more on a CPU, and 16384 elsewhere.",
        min=1,
        panel="Model",
    ),
]
Revision = Annotated[
    str | None, Option("Branch, tag or commit of a model on the hub; by default main.", "NAME", panel="Model")
]


@dataclass(frozen=True)
class RunOptions:
    """Options for computing scores and saving them in a run directory."""

    out: Out = None
    overwrite: Overwrite = False
    shard: Annotated[
        str | None, Option("Score the K-th of N parts of the rows (summarize joins them).", "K/N")
    ] = None
    target_se: Annotated[
        str | None,
        Option(
            "Draw random sizes until the mask error is this small: 0.05 nats, 1% of the log evidence, or "
            "0.05,max_passes=100000 with a limit on the masks of all observations.",
            "NATS|SHARE%",
        ),
    ] = None
    engine: Annotated[
        str | None,
        Option(
            "Score in Ray workers, with --out: ray, ray:8, ray:8,gpus=0.5 or ray:address=HOST:PORT.", "ENGINE"
        ),
    ] = None
    threads: Threads = None


@dataclass(frozen=True)
class Training:
    """Options for training a model of any kind."""

    out: Annotated[Path, Option("Write the model into this folder.", "DIR", writes="folder")]
    objective: Annotated[
        str,
        Option(
            "likelihood, elbo, iwae:5, or a design as of score, by default with one mask a step.", "DESIGN"
        ),
    ] = "random-size"
    learning_rate: Annotated[
        float | None, Option("Of Adam; by default 0.02 for rows, 0.002 for VAEs, masked-net and masked-lm.")
    ] = None
    batch_size: Annotated[int | None, Option("In one step; by default 512 rows or 32 texts.", min=1)] = None
    test_fraction: Annotated[
        float | None, Option("Share to hold out; by default 0.2, and 0.1 of a text.")
    ] = None
    checkpoint_every: Annotated[
        int | None, Option("Epochs (20) or steps (masked-lm: 200) between two checkpoints.", min=1)
    ] = None
    seed: Seed = 0
    limit: Limit = None
    overwrite: Overwrite = False
    device: Device = None


@dataclass(frozen=True)
class Result:
    """The result of a command."""

    page: "Page"  # printed for people
    content: Mapping[str, Any]  # written as JSON
    lines: Sequence[str] = ()  # printed after the page, such as where files are
    code: int = 0  # exit code
