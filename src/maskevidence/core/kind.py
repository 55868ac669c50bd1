"""Kinds of data: what a kind declares, and how kinds are found through entry points.

A kind is declared without torch, so that names, help pages and refusals come at once: its words and options
are plain Python, and everything else is named as "module:name" or imported inside a method.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any

from maskevidence.core.errors import InputError

GROUP = "maskevidence.kinds"


@dataclass(frozen=True)
class ModelWord:
    """A MODEL word, and facts about it that are known before torch is loaded.

    Attributes:
        text: the word.
        is_folder: whether it is a folder.
        on_hub: whether it may be OWNER/NAME on the hub.
        config: the content of its `config.json`, in the folder or on the hub; None without a readable one.
    """

    text: str
    is_folder: bool = False
    on_hub: bool = False
    config: Any = None


class Kind:
    """A kind of data with its models, options and commands.

    A package declares a subclass; an entry point of the group `maskevidence.kinds` names it or an instance.
    Every attribute and method has a default, so that a package may bring a mask design or a command alone.
    docs/plugins.md builds one.

    Attributes:
        name: the name of the kind in options and runs.
        nouns: its models in messages, such as "models of rows".
        models: MODEL words for help pages, such as "ppca:8".
        data: DATA words for help pages, such as "digits".
        data_sets: names of data sets, for refusals of unknown words.
        files: files that are DATA, for help pages, such as "a .csv table".
        examples: a MODEL word for each command whose options differ by kind; else the first of `models`.
        options: the dataclass of its options by command, such as `{"score": RowOptions}`, whose `kind` is
            `name`.
        design: the word of the mask design that `score` draws by default.
        may_race: whether `score` draws as many random sizes as an error takes where its default is slow.
        designs: classes of mask designs by name, as "module:Class".
        checks: further checks of models, as "module:name".
        commands: functions of its own commands by name, as "module:function".
        folders: what `report` reads: the file by which a folder is known, its noun, and "module:function",
            which reads the folder and gives a `Page`.
        engines: engines that score blocks of a run, by the first part of the word, as "module:function".
        precedence: kinds with a higher one are asked first whether a MODEL word is theirs, and listed last.
        tells_tokens: whether `leave-one-out:per-token` reports the scores of single tokens.
    """

    name: str = ""
    nouns: str = ""
    models: Sequence[str] = ()
    data: Sequence[str] = ()
    data_sets: Sequence[str] = ()
    files: Sequence[str] = ()
    examples: Mapping[str, str] = {}
    options: Mapping[str, type] = {}
    design: str = "random-size"
    may_race: bool = False
    designs: Mapping[str, str] = {}
    checks: Sequence[str] = ()
    commands: Mapping[str, str] = {}
    folders: Mapping[str, tuple[str, str]] = {}
    engines: Mapping[str, str] = {}
    precedence: int = 9
    tells_tokens: bool = False

    def claims(self, word: ModelWord) -> bool:
        """Whether a MODEL word belongs to this kind; kinds of higher `precedence` are asked first."""
        return self.names(word.text)

    def names(self, word: str) -> bool:
        """Whether a word is one of `models`, whatever its numbers."""
        return word.partition(":")[0] in {model.partition(":")[0] for model in self.models}

    def check_words(self, model: str | None, data: str) -> None:
        """Raise an InputError for unknown words before torch is loaded; `model` is None without MODEL."""

    def design_for(self, options: Any) -> str:
        """The word of the design that `score` uses by default with these options."""
        return self.design

    def prepare(self, model: str, data: str, design: Any, options: Any, out: Path | None) -> Any:
        """Fit or load a model, and read the observations to score.

        Args:
            model: the MODEL word.
            data: the DATA word.
            design: the `MaskDesign` that will be drawn.
            options: of the kind.
            out: a run directory that may hold this run already.

        Returns:
            The `maskevidence.runs.prepared.Prepared`.
        """
        raise NotImplementedError

    def score(self, model: str, data: str, design: Any, options: Any, run: Any) -> Any:
        """Return a result that is not one run, such as pairs; None to score one run."""
        return None

    def train(self, model: str, data: str, options: Any) -> Any:
        """Train a new model and return the `Result`."""
        raise NotImplementedError

    def training_page(self, content: Mapping[str, Any]) -> Any:
        """Show a finished training from the content of its `train.json`."""
        raise NotImplementedError

    def check_with(self, options: Any) -> tuple[str, float | None]:
        """The design of `check`, and the tolerance for answers; None for the tolerance of their dtype."""
        return "random-size", None

    def token_scores(self, prepared: Any, scores: Any) -> list[dict[str, Any]]:
        """The score of each token of a leave-one-out run; needed if `tells_tokens`."""
        raise NotImplementedError

    def summary(self, details: Mapping[str, Any], log_evidence: float, curve: Any) -> dict[str, Any]:
        """Additional entries of `estimate.json`, from the details of a run."""
        return {}

    def read_again(self, manifest: Any, ids: Any) -> Any:
        """Read the observations of a run again for a report.

        Returns:
            A function that gives the content of an observation by its id, a sentence that says why there is
            none, or None if the data have changed.
        """
        return f"The {manifest.data.noun}s cannot be read again."

    def remarks(self, *, has_scores: bool, coloured: bool) -> list[str]:
        """Remarks of a report on observations whose tokens have no scores or colours."""
        return []

    def cell_scores(self, run: Any, ids: Sequence[int]) -> dict[int, Any]:
        """log p of each token given all others, by observation, for reports of runs without such scores."""
        return {}

    def unlikely_cells(self, run: Any, places: Sequence[int], values: Any) -> dict[int, str]:
        """Name the least likely tokens of outlying observations, by position, for a report."""
        return {}

    def gives_rows(self, data: str) -> bool:
        """Whether `read_table` can read this DATA word."""
        return False

    def read_table(self, data: str, reading: Any, limit: int | None) -> Any:
        """Read DATA as a `Table`, for models of rows."""
        raise NotImplementedError


@cache
def kinds() -> tuple[Kind, ...]:
    """All installed kinds, in the order of their precedence and names."""
    found = sorted(entry_points(group=GROUP), key=lambda each: each.name)  # installers sort them, or not
    return tuple(sorted(map(_loaded, found), key=lambda kind: kind.precedence))


def _package(point: EntryPoint) -> str:
    return "" if point.dist is None else point.dist.name


def _loaded(point: EntryPoint) -> Kind:
    try:
        kind = point.load()
        kind = kind() if isinstance(kind, type) else kind
    except (Exception, SystemExit) as error:
        reason = f"{type(error).__name__}: {error}"
        raise InputError(
            f"the kind {point.name!r} of the package {_package(point)!r} cannot be loaded ({reason}); mend "
            "or uninstall that package"
        ) from error
    if not isinstance(kind, Kind):
        raise InputError(
            f"the kind {point.name!r} of the package {_package(point)!r} is {kind!r}, no "
            "maskevidence.core.kind.Kind; mend or uninstall that package"
        )
    return kind


def kind_named(name: str | None) -> Kind:
    """Return the kind with this name.

    Example:
        >>> kind_named("rows").nouns
        'models of rows'
    """
    for kind in kinds():
        if kind.name == name:
            return kind
    raise InputError(
        f"no installed package brings the kind {name!r}; install the package that the run was made with"
    )


def named(place: str) -> Any:
    """Import the object at "module:name"."""
    module, _, name = place.partition(":")
    try:
        return getattr(import_module(module), name)
    except (ModuleNotFoundError, AttributeError) as error:
        raise InputError(
            f"{place!r}, which a kind names, cannot be loaded ({error}); mend or uninstall its package"
        ) from error


def model_words() -> str:
    """What MODEL may be, for help pages: the words of all kinds, and what every kind takes."""
    words = ", ".join(word for kind in kinds() for word in kind.models)
    return (
        f"{words}, or a saved model or transformer: its folder, or OWNER/NAME on the hub; or your own "
        "FILE.py:FUNCTION."
    )


def data_words() -> str:
    """What DATA may be, for help pages."""
    words = ", ".join(word for kind in kinds() for word in kind.data)
    files = ", ".join(word for kind in kinds() for word in kind.files)
    return f"{words} ..., {files}, or hub:OWNER/NAME[/CONFIG][:SPLIT]."
