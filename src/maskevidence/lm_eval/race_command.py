"""maskevidence lm-eval: EleutherAI's lm-evaluation-harness with masked and diffusion language models."""

import sys
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

import typer

from maskevidence.core.errors import InputError, MaskEvidenceError, import_extra

_EVIDENCE = "evidence.json"


def lm_eval(context: typer.Context) -> None:
    """Evaluate a masked or diffusion language model in EleutherAI's lm-evaluation-harness.

    All arguments of `lm_eval` are passed on: --tasks, --limit, --num_fewshot, --output_path, --log_samples,
    --use_cache, --apply_chat_template, --device ... The defaults are --model maskevidence and --batch_size
    auto. --model_args takes pretrained=, and among others target=decision:0.995, masks=64, seed=0,
    score=evidence|mixture|pll|llada, dtype=, mask_id=, steps=, block_length=.

    Below the harness's table, the Monte-Carlo errors of the metrics and the ties are printed; with
    --output_path, they are also written to evidence.json in that folder, or evidence-2.json the second time.
    lm-eval 0.4.13 loads no models by entry point, so `lm_eval --model maskevidence` does not find this model;
    later releases may. `maskevidence lm-eval run --help` lists the arguments of the harness.

    Examples:

        maskevidence lm-eval --model_args pretrained=answerdotai/ModernBERT-base --tasks arc_easy --limit 100
        maskevidence lm-eval --model_args pretrained=runs/bert,target=64 --tasks wikitext
        --output_path out
    """
    if not context.args:
        typer.echo(context.get_help())
        raise typer.Exit(2)
    _run_harness(context.args)


def _run_harness(words: Sequence[str]) -> None:
    """Run the harness's command line with this package's model class, then print the metrics' errors."""
    import_extra("lm_eval", "lm-eval", "maskevidence lm-eval")
    from lm_eval._cli import HarnessCLI
    from rich.console import Console

    from maskevidence.core.show.terminal import print_page
    from maskevidence.lm_eval.harness import errors_page
    from maskevidence.lm_eval.model import NAME, MaskedEvidenceLM

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
    """Fill in this package's defaults."""
    if not hasattr(arguments, "batch_size"):
        arguments.batch_size = "auto"
    if arguments.device is None:
        arguments.device = "auto"
    model_args = dict(arguments.model_args or {})
    if not model_args.get("pretrained"):
        raise InputError("there is no model; give --model_args pretrained=FOLDER, or OWNER/NAME on the hub")
    if arguments.output_path is not None and "evidence" not in model_args:
        path = Path(arguments.output_path)
        folder = path.parent if path.suffix == ".json" else path
        names = (_EVIDENCE, *(f"evidence-{k}.json" for k in range(2, 10_000)))  # the first free name
        model_args["evidence"] = str(next(folder / name for name in names if not (folder / name).exists()))
    arguments.model_args = model_args


def _refuse(message: str) -> NoReturn:
    raise InputError(f"{message}; `maskevidence lm-eval run --help` lists the arguments")


@contextmanager
def _program(words: Sequence[str]) -> Iterator[None]:
    """Set `sys.argv` for the harness."""
    before = sys.argv
    sys.argv = ["lm-eval", *words]
    try:
        yield
    finally:
        sys.argv = before


@contextmanager
def _as_input_errors() -> Iterator[None]:
    """Turn the harness's exceptions into one-line errors; pass on this package's exceptions."""
    try:
        yield
    except (MaskEvidenceError, MemoryError):
        raise
    except Exception as error:
        here, last = str(Path(__file__).parents[1]), traceback.extract_tb(error.__traceback__)[-1]
        if last.filename.startswith(here):
            raise
        if isinstance(error, IndexError) and "choice[0]" in (last.line or ""):
            raise InputError(
                "a choice of a task's first document is empty, and the harness reads its first letter; put "
                "another document first, or leave this one out (process_docs)"
            ) from error
        reason = " ".join(str(error).split()).strip("'\"") or type(error).__name__
        raise InputError(
            f"the harness cannot run this: {reason}; check --tasks and the other arguments"
        ) from error
