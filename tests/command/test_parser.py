"""Options are declared once; which belong to which kind of model is read from the declarations."""

import inspect
import json
from dataclasses import dataclass, is_dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar

import pytest
import typer.main

from command_line import CommandLine
from maskevidence.command import app as application
from maskevidence.command import options
from maskevidence.command.app import app, with_flat_signature
from maskevidence.command.options import Argument, Option, OptionsOf
from maskevidence.core.errors import InputError
from maskevidence.core.kind import Kind
from maskevidence.core.support.files import csv_text

REQUIRED = {"out": Path("model"), "wild_type": "MKTA"}  # of trainings and of variants
DECLARED = (Argument, Option)
GROUPS = [group for group in vars(options).values() if is_dataclass(group) and group not in DECLARED]


COMMANDS: dict[str, Any] = typer.main.get_command(app).commands  # type: ignore[attr-defined]
OF_COMMANDS = {
    name: {option for each in command.params for option in each.opts} for name, command in COMMANDS.items()
}


@pytest.mark.parametrize("name", [name for name in OF_COMMANDS if "--json" in OF_COMMANDS[name]])
def test_a_command_that_writes_a_file_can_be_told_to_replace_one(name: str) -> None:
    assert "--overwrite" in OF_COMMANDS[name]


def test_options_that_take_lists_add_up(
    tmp_path: Path, run: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    rows = [[k % 7, k % 5 or "none", k % 3 or "?", k**2 % 11] for k in range(60)]
    (tmp_path / "t.csv").write_text(csv_text("abcd", rows))
    words = (
        "score",
        "gaussian",
        "t.csv",
        "--drop",
        "a",
        "--json",
        "-",
        "--missing",
        "none",
        "--missing",
        "-1,?",
    )
    assert json.loads(run(*words).out)["n_tokens"] < 36  # 12 rows of 3 columns, some missing
    dropped = json.loads(run(*words, "--drop", "b", "--drop", "c").out)
    assert dropped["n_tokens"] == 12


@dataclass(frozen=True)
class Inner:
    """A group in a group."""

    depth: Annotated[int, Option("How deep.", min=1)] = 3


@dataclass(frozen=True)
class Outer:
    """A group of options."""

    out: Annotated[Path, Option("Where to.", "DIR")]
    inner: Inner


class TestSignature:
    def test_nested_groups_are_filled(self) -> None:
        def command(
            name: Annotated[str, Argument("NAME", "Who.")], outer: Outer, last: options.Seed = 7
        ) -> Any:
            return name, outer, last

        flat = with_flat_signature(command)
        signature = inspect.signature(flat)
        assert list(signature.parameters) == ["name", "out", "depth", "last"]
        assert signature.parameters["out"].default is inspect.Parameter.empty
        assert signature.parameters["depth"].default == 3
        assert flat(name="a", out=Path("x"), depth=4, last=5) == ("a", Outer(Path("x"), Inner(4)), 5)
        info = signature.parameters["depth"].annotation.__metadata__[0]
        assert (info.default, info.help) == ("--depth", "How deep.")
        with pytest.raises(InputError, match="--depth 0; give 1 or more"):
            flat(name="a", out=Path("x"), depth=0, last=5)

    def test_an_option_that_is_not_declared(self) -> None:
        def command(width: int = 1) -> None: ...

        with pytest.raises(InputError, match="'width' of a command has neither Option nor Argument"):
            with_flat_signature(command)

    def test_two_options_of_one_name(self) -> None:
        def command(inner: Inner, depth: options.Seed = 7) -> None: ...

        with pytest.raises(ValueError, match="duplicate parameter name: 'depth'"):
            with_flat_signature(command)


@dataclass(frozen=True)
class OfRows:
    """The options of one kind."""

    panel: ClassVar[str] = "Rows"
    kind: ClassVar[str] = "rows"

    depth: Annotated[int, Option("How deep.")] = 3
    width: Annotated[int, Option("How wide.")] = 4


@dataclass(frozen=True)
class OfTexts(Inner):
    """The options of another kind."""

    kind: ClassVar[str] = "texts"

    length: Annotated[int, Option("How long.", panel="Words")] = 5


class TestKinds:
    def command(
        self, model: Annotated[str, Argument("MODEL", "Which.")], how: Annotated[Any, OptionsOf("greet")]
    ) -> Any:
        return model, how

    @pytest.fixture(autouse=True)
    def two_kinds(self, monkeypatch: pytest.MonkeyPatch) -> None:
        both = [Kind(), Kind()]
        for kind, group in zip(both, (OfRows, OfTexts), strict=True):
            kind.name, kind.options = group.kind, {"greet": group}  # type: ignore[misc]
        monkeypatch.setattr(application, "kinds", lambda: tuple(both))

    @pytest.mark.parametrize(
        ("which", "names"),
        [
            ("rows", ["model", "depth", "width"]),
            ("texts", ["model", "depth", "length"]),
            ("some", ["model", "depth", "width", "length"]),
            ("all", ["model", "depth"]),
        ],
    )
    def test_the_options_of_a_kind(self, which: Any, names: list[str]) -> None:
        assert list(inspect.signature(with_flat_signature(self.command, which)).parameters) == names

    def test_the_dataclass_of_the_kind_is_filled(self) -> None:
        of_texts = with_flat_signature(self.command, "texts")
        assert of_texts(model="m", depth=1, length=2) == ("m", OfTexts(1, 2))
        assert with_flat_signature(self.command, "rows")(model="m", depth=1, width=2) == ("m", OfRows(1, 2))
