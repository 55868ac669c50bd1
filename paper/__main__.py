"""The paper's tables and figures from a shell: `python -m paper table-1 --quick`, or `all` of them."""

import argparse
import json
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn

from rich.console import Console

import maskevidence as me
from maskevidence.core.show import print_page

_DATASET = {"dataset": {"choices": ("mnist", "fashion-mnist"), "help": "by default mnist"}}
_LARGE = "pre-trained BERT; by default bert-base-uncased, or none"
_BERT = {"model": {"metavar": "NAME|FOLDER", "help": _LARGE}}
_STEPS = {"steps": {"type": int, "metavar": "N", "help": "steps of each training, by default 700"}}
_SMALL = "a trained ViT-MAE, or small to train small ones; by default facebook/vit-mae-base, or small"
_VIT_MAE = {"model": {"metavar": "NAME|FOLDER|small", "help": _SMALL}}


def _seeds(word: str) -> tuple[int, ...]:
    """The whole numbers of a comma-separated list."""
    try:
        return tuple(int(part) for part in word.split(","))
    except ValueError as error:
        message = f"{word!r} are not whole numbers between commas; write 4,44,444"
        raise argparse.ArgumentTypeError(message) from error


def _device(word: str) -> Any:
    """A device of torch that computes in float64."""
    import torch

    try:
        return torch.empty(1, dtype=torch.float64, device=word).device
    except (RuntimeError, AssertionError, NotImplementedError, TypeError) as error:
        message = f"device {word!r} cannot be used; give cpu, cuda or cuda:N ({str(error).splitlines()[0]})"
        raise argparse.ArgumentTypeError(message) from error


@dataclass(frozen=True)
class Entry:
    """A table or figure as a command: `figure-1` calls `paper.figure_1.figure_1`.

    Attributes:
        takes, quick: how long it takes on two cores, and with --quick.
        options: its own options, with argparse's settings.
        optional: whether `all` skips it when its data, model or extra is missing.
    """

    word: str
    help: str
    takes: str
    quick: str
    options: dict[str, dict[str, Any]] = field(default_factory=dict)
    optional: bool = False

    def make(self, given: argparse.Namespace, out: Path | None, screen: Any) -> dict[str, Any]:
        """Compute the table or figure, show it, write its files, and return its JSON."""
        from paper.figures import computing_on

        function = self.word.replace("-", "_")
        module = import_module(f"paper.{function}")
        settings = dict(module.QUICK) if given.quick else {}
        own = {name: value for name in self.options if (value := getattr(given, name, None)) is not None}
        for option in settings.keys() & own.keys():
            raise me.InputError(f"--quick has its own number of {option}; leave --{option} out")
        if given.seeds is not None:
            own["seeds"] = given.seeds
        start = time.perf_counter()
        with computing_on(given.device):
            figure = getattr(module, function)(**settings | own)
        print_page(Console(file=screen), figure.page())
        print(f"{time.perf_counter() - start:.1f} s", file=screen)
        if out is not None:
            print(figure.write(out), file=screen)
        content: dict[str, Any] = figure.to_dict()
        return content


ENTRIES = (
    Entry("table-1", "The sum of scores over mask sizes and the true log evidence of PPCA.", "6 s", "2 s"),
    Entry("figure-1", "Convergence in the number of masks, and the bias of 15 %.", "4 s", "3 s"),
    Entry("figure-2", "PPCA trained by all sizes, by random sizes and by 20 %.", "67 s", "9 s"),
    Entry("figure-3-upper", "Linear Bernoulli models, masks and ELBO.", "6 minutes", "11 s", _DATASET, True),
    Entry("figure-3-lower", "A deep VAE, by masks and by the ELBO.", "14 minutes", "43 s", _DATASET, True),
    Entry("figure-4", "The score by mask size of trained PPCA models.", "8 s", "4 s"),
    Entry("figure-5-left", "The curve of PPCA during training.", "11 s", "5 s"),
    Entry("table-2", "The area under BERT-base's curve on GLUE text.", "10 minutes", "30 s", _BERT, True),
    Entry("figure-5-right", "Curves of BERT-base and of a small BERT.", "4 minutes", "60 s", _BERT, True),
    Entry("figure-6", "The curves of masked autoencoders of images.", "11 minutes", "160 s", _VIT_MAE, True),
    Entry("rate-bound", "One rate as an upper or a lower bound of the log evidence.", "2 s", "1 s"),
    Entry("masking-rates", "Small BERTs trained at several rates.", "12 minutes", "92 s", _STEPS, True),
)


def _make_all(given: argparse.Namespace, out: Path | None, screen: Any) -> dict[str, Any]:
    """The JSON of every entry by its word; what lacks data, a model or an extra is skipped."""
    results = {}
    for entry in ENTRIES:
        try:
            results[entry.word] = entry.make(given, out and out / entry.word, screen)
        except (me.InputError, ImportError) as error:
            if not entry.optional:
                raise
            print(f"{entry.word} was skipped: {error}", file=screen)
    return results


class Parser(argparse.ArgumentParser):
    """A parser whose errors are one line."""

    def error(self, message: str) -> NoReturn:
        """Exit with code 2."""
        self.exit(2, f"error: {message} Try: {self.prog} --help\n")


def parser() -> Parser:
    """The commands and their options."""
    common = Parser(add_help=False)
    common.add_argument("--out", type=Path, metavar="DIR", help="write pictures and numbers into this folder")
    common.add_argument("--json", metavar="FILE", help="write the numbers as JSON; - is standard output")
    common.add_argument("--seeds", type=_seeds, metavar="S,S,...", help="by default those of the paper")
    smaller = "a smaller version, in which some claims get no verdict"
    common.add_argument("--quick", action="store_true", help=smaller)
    common.add_argument("--device", type=_device, help="cpu, cuda or cuda:N; by default each model's own")
    what = "The paper's tables and figures, with our numbers beside."
    top = Parser(prog="python -m paper", description=what)
    commands = top.add_subparsers(dest="word", metavar="ENTRY")

    def add(word: str, help_: str, make: Callable[..., Any]) -> Parser:
        short = help_.replace("%", "%%")
        command = commands.add_parser(word, help=short, description=help_, parents=[common])
        command.set_defaults(make=make)
        return command

    for entry in ENTRIES:
        takes = f"Takes {entry.takes}, with --quick {entry.quick}, on two cores."
        command = add(entry.word, f"{entry.help} {takes}", entry.make)
        for name, settings in entry.options.items():
            command.add_argument(f"--{name}", **settings)
    every = "Each in its own folder below --out, in about an hour; what lacks data or a model is skipped."
    add("all", every, _make_all)
    return top


def _prepare(out: Path | None, file: Path | None) -> None:
    """Refuse a place that cannot be written to, before any work."""
    place = out
    try:
        if out is not None:
            out.mkdir(parents=True, exist_ok=True)
        if file is not None:
            place = file
            file.parent.mkdir(parents=True, exist_ok=True)
            file.open("ab").close()
    except OSError as error:
        message = f"{str(place)!r} cannot be written ({error.strerror}); give another place"
        raise me.InputError(message) from error


def main(words: Sequence[str] | None = None) -> int:
    """Run a command; the exit code is 0, 2 after bad input (one line), or 130 after Ctrl-C."""
    top = parser()
    given = top.parse_args(words)
    if given.word is None:
        top.print_help()
        return 0
    file = None if given.json in (None, "-") else Path(given.json)
    screen = sys.stderr if given.json == "-" else sys.stdout
    try:
        _prepare(given.out, file)
        content = json.dumps(given.make(given, given.out, screen), indent=2, ensure_ascii=False) + "\n"
        if file is not None:
            file.write_text(content, encoding="utf-8")
        elif given.json == "-":
            sys.stdout.write(content)
    except (me.MaskEvidenceError, ImportError) as error:
        print("error:", " ".join(str(error).split()), file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
