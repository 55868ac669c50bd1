"""What `train masked-lm` does: a tokenizer, a model, blocks of text, Trainer, and the held-out evidence."""

from contextlib import nullcontext
from dataclasses import asdict
from importlib import metadata
from pathlib import Path
from typing import Any

import typer

from maskevidence.cli import output
from maskevidence.cli.training_folder import (
    HISTORY,
    RESULT,
    SETTINGS,
    begin_training,
    finish_training,
    held_out_numbers,
)
from maskevidence.cli.transformer import TransformerOptions, objective_of_transformer
from maskevidence.data.text import Texts, read_texts
from maskevidence.errors import InputError
from maskevidence.evidence import estimate_evidence
from maskevidence.masks import RandomSize
from maskevidence.models.saving import weights_fingerprint
from maskevidence.models.text.masked_lm import MaskedLM
from maskevidence.runs import locked
from maskevidence.support.files import write_atomic

TEST_FRACTION = 0.1
CHECKPOINT_EVERY = 200


def train_masked_lm(asked: TransformerOptions, screen: Any) -> dict[str, Any]:
    """Train a masked language model on running text, save it, and print its held-out log evidence.

    Started by `torchrun`, all processes train, and the first one alone prints and writes.

    Returns:
        What train.json holds.
    """
    from maskevidence.integrations.huggingface import recipe as pretraining
    from maskevidence.integrations.huggingface.processes import is_main_process, main_process_first

    design = objective_of_transformer(asked.model, asked.objective)
    recipe = pretraining.Recipe(**_given(asked, ("steps", "batch_size", "learning_rate", "seed")))
    columns = None if asked.text is None else [name.strip() for name in asked.text.split(",")]
    texts = read_texts(asked.data, columns, limit=asked.limit, running=True)
    train_texts, test_texts = _parts(
        texts, TEST_FRACTION if asked.test_fraction is None else asked.test_fraction
    )
    start = _Start(asked)
    settings = {
        **start.settings(),
        "text": texts.fingerprint(),
        "test_fraction": asked.test_fraction,
        "objective": asked.objective,
        **asdict(recipe),
        "version": metadata.version("maskevidence"),
    }
    main = is_main_process()
    with locked(asked.out) if main else nullcontext():
        finished = None
        with main_process_first():
            if main:
                finished = begin_training(
                    asked.out, settings, overwrite=asked.overwrite, belongings=("tokenizer.json",)
                )
            tokenizer = start.tokenizer(asked.out, train_texts, save=main)
        if finished is not None:
            _show(screen, finished, asked.out)
            screen.print(f"This training in {asked.out} was finished before; --overwrite makes it anew.")
            return finished
        model = start.model(tokenizer)
        encoded = model.encode(train_texts, block_size=start.block_size(model))
        held_out = (
            None if test_texts is None else model.encode(test_texts, block_size=start.block_size(model))
        )
        trained = pretraining.train_masked_lm(
            model,
            encoded.tokens,
            design,
            recipe,
            out=asked.out,
            checkpoint_every=asked.checkpoint_every or CHECKPOINT_EVERY,
        )
        if not main:
            raise typer.Exit
        model.save(asked.out)
        write_atomic(asked.out / HISTORY, trained.to_csv())
        estimate = None
        if held_out is not None:
            estimate = estimate_evidence(model, held_out.tokens, RandomSize(8), seed=asked.seed)
        result = finish_training(
            asked,
            design,
            recipe,
            trained,
            model,
            n_train=len(encoded.tokens),
            n_test=0 if held_out is None else len(held_out.tokens),
            held_out=None if estimate is None else held_out_numbers(estimate),
            notes=list(encoded.notes),
        )
    _show(screen, result, asked.out)
    return result


class _Start:
    """What training starts from: a new BERT with word pieces of its own, or a model and its tokenizer."""

    def __init__(self, asked: TransformerOptions) -> None:
        from maskevidence.models.text.new_bert import SIZES

        self.asked = asked
        self.config = asked.config or "small"
        self.size = SIZES.get(self.config)
        self.given: MaskedLM | None = None
        if self.size is None:
            if asked.vocabulary_size is not None:
                raise InputError(
                    f"--vocabulary-size belongs to new models; {self.config!r} has its tokenizer"
                )
            self.given = MaskedLM.from_pretrained(self.config, tokenizer=asked.tokenizer)
        elif asked.tokenizer is not None and asked.vocabulary_size is not None:
            raise InputError("--tokenizer brings its vocabulary; leave --vocabulary-size out")

    def settings(self) -> dict[str, Any]:
        """What the model depends on, as it is written to training.json."""
        return {
            "config": self.config,
            "weights": None if self.given is None else weights_fingerprint(self.given),
            "tokenizer": self.asked.tokenizer,
            "vocabulary_size": self.asked.vocabulary_size,
            "block_size": self.asked.block_size,
        }

    def tokenizer(self, out: Path, texts: list[str], *, save: bool) -> Any:
        """The tokenizer: the one in `out` where training goes on, or in the other processes."""
        from maskevidence.models.text.new_bert import load_tokenizer, word_pieces

        if self.given is not None:
            return self.given.tokenizer
        if (out / "tokenizer.json").exists():
            return load_tokenizer(out)
        if self.asked.tokenizer is not None:
            return load_tokenizer(self.asked.tokenizer)
        assert self.size is not None
        made = word_pieces(texts, self.asked.vocabulary_size or self.size.vocabulary_size)
        if save:
            made.save_pretrained(str(out))
        return made

    def model(self, tokenizer: Any) -> MaskedLM:
        from maskevidence.models.text.new_bert import new_bert

        if self.given is not None:
            return self.given
        assert self.size is not None
        positions = max(self.size.block_size, self.asked.block_size or 0)
        return new_bert(tokenizer, self.config, positions=positions, seed=self.asked.seed)

    def block_size(self, model: MaskedLM) -> int:
        """Tokens of a block: as asked for, of the size, or as many as the model reads, up to 512."""
        if self.asked.block_size is not None:
            return self.asked.block_size
        return min(model.max_tokens or 512, 512 if self.size is None else self.size.block_size)


def _parts(texts: Texts, test_fraction: float) -> tuple[list[str], list[str] | None]:
    """The first rows to train on, the last ones held out: running text is not shuffled."""
    if not 0 <= test_fraction < 1:
        raise InputError(f"--test-fraction {test_fraction:g}; give a share of the text in [0, 1)")
    rows = list(zip(*texts.fields, strict=True))
    n_train = len(rows) - round(len(rows) * test_fraction)
    train, test = ([text for row in part for text in row] for part in (rows[:n_train], rows[n_train:]))
    if not any(text.strip() for text in train):
        raise InputError(f"{texts.name!r} has no word to train on; give a text")
    return train, test if any(text.strip() for text in test) else None


def _given(asked: TransformerOptions, names: tuple[str, ...]) -> dict[str, Any]:
    return {name: getattr(asked, name) for name in names if getattr(asked, name) is not None}


def _show(screen: Any, result: dict[str, Any], out: Path) -> None:
    recipe = result["recipe"]
    title = (
        f"{result['model']} on {result['data']}: {result['n_parameters']:,} parameters, {recipe['steps']:,} "
        f"steps of {recipe['batch_size']} texts, {result['n_train']:,} texts to train on"
    )
    output.show_training(screen, title, result, "held out:")
    screen.print(
        f"Left in {out}: config.json, model.safetensors, tokenizer.json, {HISTORY}, {RESULT}, {SETTINGS}"
    )
