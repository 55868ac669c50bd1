"""The harness's command line with this package's model class."""

import sys
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

from rich.console import Console

from maskevidence.errors import InputError, MaskEvidenceError, import_extra
from maskevidence.show.terminal import print_page

_EVIDENCE = "evidence.json"


def run_harness(words: Sequence[str]) -> None:
    """Run the harness's command line.

    `--model maskevidence` and `--batch_size auto` are added unless the words say otherwise. The errors of the
    metrics and the ties are printed below the harness's table. With `--output_path`, they are written to
    evidence.json in the folder of the results.
    """
    import_extra("lm_eval", "lm-eval", "maskevidence lm-eval")
    from lm_eval._cli import HarnessCLI

    from maskevidence.integrations.lm_eval.model import NAME, MaskedEvidenceLM
    from maskevidence.integrations.lm_eval.report import errors_page

    MaskedEvidenceLM.latest = None
    parser = HarnessCLI()
    for part in (parser._parser, *parser._subparsers.choices.values()):
        part.error = _refuse
    with _program(words), _as_input_errors():
        arguments = parser.parse_args()
        if getattr(arguments, "command", None) == "run":
            arguments.model = arguments.model or NAME
            if arguments.model == NAME:
                _complete(arguments)
        parser.execute(arguments)
    if MaskedEvidenceLM.latest is not None:
        print_page(Console(highlight=False, markup=False), errors_page(MaskedEvidenceLM.latest))


def _complete(arguments: Any) -> None:
    """Fill in the defaults of this package."""
    if not hasattr(arguments, "batch_size"):
        arguments.batch_size = "auto"
    if arguments.device is None:
        arguments.device = "auto"
    model_args = dict(arguments.model_args or {})
    if not model_args.get("pretrained"):
        raise InputError("there is no model; give --model_args pretrained=FOLDER, or OWNER/NAME on the hub")
    if arguments.output_path is not None and "evidence" not in model_args:
        path = Path(arguments.output_path)
        model_args["evidence"] = str((path.parent if path.suffix == ".json" else path) / _EVIDENCE)
    arguments.model_args = model_args


def _refuse(message: str) -> NoReturn:
    raise InputError(f"{message}; `maskevidence lm-eval run --help` lists the arguments")


@contextmanager
def _program(words: Sequence[str]) -> Iterator[None]:
    """Put the words into `sys.argv`, where the harness reads them."""
    before = sys.argv
    sys.argv = ["lm-eval", *words]
    try:
        yield
    finally:
        sys.argv = before


@contextmanager
def _as_input_errors() -> Iterator[None]:
    """Turn errors of the harness into one line; errors of this package pass."""
    try:
        yield
    except (MaskEvidenceError, MemoryError):
        raise
    except Exception as error:
        here = str(Path(__file__).parents[2])
        if traceback.extract_tb(error.__traceback__)[-1].filename.startswith(here):
            raise
        reason = " ".join(str(error).split()).strip("'\"") or type(error).__name__
        raise InputError(
            f"the harness cannot run this: {reason}; check --tasks and the other arguments"
        ) from error
