"""Train a masked language model on text: tokenizer, model, blocks, and held-out log evidence."""

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch

from maskevidence import __version__
from maskevidence.command.options import Result
from maskevidence.command.training_folder import (
    HISTORY,
    RESULT,
    SETTINGS,
    begin_training,
    check_training_folder,
    finished_training,
    page_of_transformer,
    remove_checkpoints,
    training_folder,
    training_result,
    write_result,
)
from maskevidence.core.errors import InputError, NumericalError
from maskevidence.core.evidence.precise import estimate_evidence
from maskevidence.core.masks.design import MaskDesign
from maskevidence.core.masks.design_words import parse_design
from maskevidence.core.masks.sizes import RandomSize
from maskevidence.core.model import weights_fingerprint
from maskevidence.core.show.parts import Page, Part
from maskevidence.core.show.words import typeset
from maskevidence.core.support.files import write_atomic
from maskevidence.core.tokens import Tokens
from maskevidence.huggingface.processes import is_main_process, main_process_first, training_device
from maskevidence.huggingface.recipe import Recipe, Trained
from maskevidence.huggingface.training import TrainerOptions
from maskevidence.huggingface.training import train_masked_lm as train_in_place
from maskevidence.huggingface.training_options import MASKED_LM, TextTraining
from maskevidence.runs.folder import locked
from maskevidence.runs.prepared import recorded
from maskevidence.texts.call_sizes import default_tokens
from maskevidence.texts.fasta import is_fasta
from maskevidence.texts.loading import load_tokenizer
from maskevidence.texts.masked_lm import MaskedLM
from maskevidence.texts.new_bert import SIZES, frequency_score, new_bert, word_pieces
from maskevidence.texts.pieces import reads_residues
from maskevidence.texts.text_files import Texts, read_texts
from maskevidence.texts.vocabulary import letter_tokenizer

TEXT_TEST_FRACTION = 0.1
CHECKPOINT_EVERY = 200
_TOKENIZER = "tokenizer.json"
_ENDS = 2  # special tokens around a sequence

_LITTLE = 0.05  # nats per token; a smaller gain over token frequencies means that the context was not used


def train_texts(data: str, options: TextTraining) -> Result | None:
    """Train a masked language model, save it, and estimate its held-out log evidence.

    The model is a new BERT, by default with word pieces learned from the text, or an existing model that is
    trained further. Each record of a FASTA file is one observation, with single letters as tokens. The same
    call resumes an interrupted training. Under `torchrun` all processes train, and the main process writes.

    Returns:
        The result; None in a process that is not the main one.
    """
    device = training_device(options.device)
    if is_main_process():  # the main process may be writing while others look
        check_training_folder(options, SETTINGS)
    design, recipe = _design(options.objective), _recipe(options)
    texts = _read(data, options)
    train_texts, test_texts = _parts(texts, options.test_fraction)
    given = _given_model(options, device)
    main, settings = is_main_process(), _settings(given, texts, options, recipe)
    with ExitStack() as until_the_end:
        with main_process_first(device):
            finished = finished_training(options, settings) if main else None
            if finished is not None or (not main and (options.out / RESULT).exists()):
                return finished
            longest = max(map(len, texts.fields[0])) + _ENDS if is_fasta(Path(data)) else 0
            model = _new_model(options, train_texts, main=main, longest=longest) if given is None else given
            block_size = None if longest and not options.block_size else _block_size(options, model)
            encode = partial(model.encode, block_size=block_size, allow_unknown=options.allow_unknown)
            encoded = encode(train_texts)
            held_out = None if test_texts is None else encode(test_texts).tokens
            if main:  # written only once the texts are known to fit
                until_the_end.enter_context(locked(options.out))
                finished = begin_training(options, settings)
                if finished is not None:
                    return finished
                if given is None:
                    model.save_tokenizer(options.out)  # for the other processes, and to resume
        where = TrainerOptions(options.out, options.checkpoint_every or CHECKPOINT_EVERY, device=device)
        trained = train_in_place(model, encoded.tokens, design, recipe, where)
        if not main:
            return None
        _save(model, trained, options.out)
        result = write_result(
            MASKED_LM,
            data,
            design.settings(),
            options,
            **_of_training(model, trained, recipe),
            n_train=len(encoded.tokens),
            n_test=0 if held_out is None else len(held_out),
            held_out=None if held_out is None else _evidence(model, encoded.tokens, held_out, options.seed),
            of_residues=reads_residues(model.tokenizer),
            notes=[*texts.notes, *encoded.notes, *_on_vocabulary(len(model.tokenizer), options)],
        )
        remove_checkpoints(options.out)
        return training_result(result, training_folder(options.out).written())


def _design(word: str) -> MaskDesign:
    """The masks of training, one for each text and step."""
    if word == "likelihood":
        raise InputError(f"the likelihood of {MASKED_LM} has no closed form; give --objective random-size")
    masks = parse_design(word, draws=1, replicates=1).without_tokens("train")
    if masks.masks == "shared":
        raise InputError(f"{MASKED_LM} draws masks for each text; leave shared out of --objective {word}")
    return masks.design.in_training()


def _recipe(options: TextTraining) -> Recipe:
    """The recipe with what the options ask for."""
    names = ("steps", "batch_size", "learning_rate", "seed")
    asked = {name: value for name in names if (value := getattr(options, name)) is not None}
    return replace(Recipe(), **asked)


def _of_training(model: MaskedLM, trained: Trained, recipe: Recipe) -> dict[str, Any]:
    """What `train.json` says of the model and its training."""
    return {
        "recipe": asdict(recipe),
        "resumed_from": trained.resumed_from,
        "devices": list(trained.devices),
        **recorded(model),
        "n_parameters": sum(parameter.numel() for parameter in model.parameters()),
        "loss": trained.history[-1]["loss"],
    }


def _on_vocabulary(size: int, options: TextTraining) -> list[str]:
    """A note on a vocabulary that is larger than was asked for."""
    if options.vocabulary_size is None or size <= options.vocabulary_size:
        return []
    return [
        f"the vocabulary has {size:,} pieces, not {options.vocabulary_size:,}: the letters of the text alone "
        "take as many"
    ]


def _save(model: MaskedLM, trained: Trained, out: Path) -> None:
    """Save the trained model and its history in the folder."""
    model.save(out)
    write_atomic(out / HISTORY, trained.to_csv())


def _read(data: str, options: TextTraining) -> Texts:
    """Read the texts to train on and to hold out."""
    return read_texts(
        data,
        None if options.text is None else [name.strip() for name in options.text.split(",")],
        limit=options.limit,
        running=not is_fasta(Path(data)),
        skip_empty=() if options.skip_empty else None,
        upper=options.upper,
    )


def _settings(given: MaskedLM | None, texts: Texts, options: TextTraining, recipe: Recipe) -> dict[str, Any]:
    """All settings that the training depends on; a folder is continued only with the same."""
    return {
        "config": options.config or "small",
        "weights": None if given is None else weights_fingerprint(given),
        "tokenizer": options.tokenizer,
        **({} if options.pattern is None else {"pattern": options.pattern}),
        "vocabulary_size": options.vocabulary_size,
        "block_size": options.block_size,
        "text": texts.fingerprint(),
        "test_fraction": options.test_fraction,
        "objective": options.objective,
        **asdict(recipe),
        "version": __version__,
    }


def _evidence(model: MaskedLM, trained_on: Tokens, held_out: Tokens, seed: int) -> dict[str, Any]:
    """The log evidence of the held-out texts, and the score of the training texts' token frequencies."""
    # fixed call sizes, so that a resumed training reports the same number to the last bit
    model.batch_tokens = model.batch_tokens or default_tokens(model.device)
    try:
        numbers = estimate_evidence(model, held_out, RandomSize(8), seed=seed).to_dict()
    except NumericalError as error:
        raise NumericalError(f"after the training, {error}; give a lower --learning-rate") from error
    of_file = ("versions", "command")  # in train.json already
    numbers = {name: value for name, value in numbers.items() if name not in of_file}
    return numbers | {"frequencies_per_token": frequency_score(trained_on, held_out, len(model.tokenizer))}


def _parts(texts: Texts, test_fraction: float | None) -> tuple[list[str], list[str] | None]:
    """Split the rows, unshuffled: the first to train on, the last held out."""
    test_fraction = TEXT_TEST_FRACTION if test_fraction is None else test_fraction
    if not 0 <= test_fraction < 1:
        raise InputError(f"--test-fraction {test_fraction:g}; give a share of the text in [0, 1)")
    rows = list(zip(*texts.fields, strict=True))
    n_train = len(rows) - round(len(rows) * test_fraction)
    train, test = ([text for row in part for text in row] for part in (rows[:n_train], rows[n_train:]))
    if not any(text.strip() for text in train):
        raise InputError(f"{texts.name!r} has no word to train on; give a text")
    return train, test if any(text.strip() for text in test) else None


def _given_model(options: TextTraining, device: torch.device | None) -> MaskedLM | None:
    """Load the model to train further; None for a new model."""
    config = options.config or "small"
    if config not in SIZES:
        if options.vocabulary_size is not None:
            raise InputError(f"--vocabulary-size belongs to new models; {config!r} has its tokenizer")
        return MaskedLM.from_pretrained(config, tokenizer=options.tokenizer, device=device)
    if options.tokenizer is not None and options.vocabulary_size is not None:
        raise InputError("--tokenizer brings its vocabulary; leave --vocabulary-size out")
    return None


def _new_model(options: TextTraining, texts: list[str], *, main: bool, longest: int) -> MaskedLM:
    """A new BERT of a named size, with the folder's tokenizer if training saved one."""
    config = options.config or "small"
    size = SIZES[config]
    if (options.out / _TOKENIZER).exists() and not (main and options.overwrite):
        tokenizer = load_tokenizer(options.out)
    else:
        tokenizer = _tokenizer(texts, options, size.vocabulary_size, letters=bool(longest))
    positions = max(size.block_size, options.block_size or 0, longest)
    return new_bert(tokenizer, config, positions=positions, seed=options.seed)


def _tokenizer(texts: list[str], asked: TextTraining, vocabulary_size: int, *, letters: bool) -> Any:
    """The tokenizer asked for, or a new one of word pieces; of single letters for sequences."""
    if asked.tokenizer is not None:
        return load_tokenizer(asked.tokenizer, asked.pattern)
    if asked.pattern is not None:
        raise InputError("--pattern reads a vocab.txt; name that by --tokenizer")
    if letters and asked.vocabulary_size is None:
        both = {letter for text in texts for letter in text if letter.islower()}
        both &= {letter.lower() for text in texts for letter in text if letter.isupper()}
        if both:
            raise InputError(
                f"the sequences have small letters ({', '.join(sorted(both))}) beside the same capital ones, "
                "which would be further letters; make them capital with --upper, or name a --tokenizer"
            )
        return letter_tokenizer(texts)
    return word_pieces(texts, asked.vocabulary_size or vocabulary_size)


def _block_size(options: TextTraining, model: MaskedLM) -> int:
    """Tokens per block: as given, else the size's or the model's length, at most 512."""
    if options.block_size is not None:
        return options.block_size
    size = SIZES.get(options.config or "small")
    return min(model.max_tokens or 512, 512 if size is None else size.block_size)


def page_of_text_training(result: Mapping[str, Any]) -> Page:
    """A page with the model's held-out evidence, compared with token frequencies."""
    recipe = result["recipe"]
    noun, token = ("protein", "residue") if result.get("of_residues") else ("text", "token")
    title = (
        f"{result['model']} on {result['data']}: {result['n_parameters']:,} parameters, {recipe['steps']:,} "
        f"steps of {recipe['batch_size']} {noun}s, {result['n_train']:,} {noun}s to train on"
    )
    more: list[Part] = []
    held_out, notes = result["held_out"], []
    if held_out is not None and "frequencies_per_token" in held_out:
        frequencies = held_out["frequencies_per_token"]
        more.append(f"the frequencies of {token}s alone give {typeset(frequencies, 4)} nats per {token}")
        if held_out["per_token"] < frequencies + _LITTLE:
            notes.append(
                "the model does hardly better than these, so that it has not learnt from the context; "
                "give more --steps or another --learning-rate"
            )
    return page_of_transformer(Page("", title, parts=more, notes=notes), result, "held out:", noun, token)
