"""Masked language models and tokenizers, loaded from a folder or the hub."""

import importlib
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from maskevidence.core.errors import InputError, import_extra
from maskevidence.core.pretrained import first_sentence, load_network, loading
from maskevidence.core.support.hub import hub_reachable
from maskevidence.core.support.progress import quiet
from maskevidence.texts.diffusion import (
    Diffusion,
    DiffusionNetwork,
    named_diffusion,
    recognised_diffusion,
)
from maskevidence.texts.vocabulary import pattern_tokenizer, read_vocabulary

_TOKENIZER_FILES = ("tokenizer.json", "tokenizer_config.json", "vocab.txt", "vocab.json", "spiece.model")


@dataclass(frozen=True)
class Reading:
    """How a checkpoint is read."""

    revision: str | None = None  # branch, tag or commit on the hub
    trust_remote_code: bool = False  # whether code that comes with the model may run
    # of the weights: the name of one, or "auto" for that of the checkpoint; None for float32, and for that of
    # the checkpoint of a diffusion language model
    dtype: str | None = None
    device_map: str | None = None  # how accelerate spreads the weights over devices; None for one device
    mask_id: int | None = None  # the id of the mask token; None for that of the tokenizer or of the family
    diffusion: str | None = None  # the family of a diffusion language model, for one that is not recognised
    attn_implementation: str | None = None  # which attention transformers uses; None leaves it to the model
    model_class: str | None = None  # MODULE:CLASS of an installed package, for a class outside transformers


def load_masked_lm(
    name: str, tokenizer: Any, reading: Reading = Reading()
) -> tuple[Any, Any, int, tuple[str, ...]]:
    """A model with a masked-LM head, its tokenizer, its mask token and notes on its weights.

    See `MaskedLM.from_pretrained`.
    """
    transformers = import_extra("transformers", "hf", "a masked language model")
    diffusion = None if reading.diffusion is None else named_diffusion(reading.diffusion)
    recognised_diffusion("", name)  # refuses what cannot be scored before its code is asked for
    with loading(name, reading.revision, trust_remote_code=reading.trust_remote_code) as options:
        if reading.model_class is not None:
            model, notes = _of_class(transformers, name, reading, options)
        else:
            config = transformers.AutoConfig.from_pretrained(name, **options)
            diffusion = diffusion or recognised_diffusion(str(getattr(config, "model_type", "")), name)
            if diffusion is None:
                _check_has_head(transformers, config, name, reading.trust_remote_code)
            auto_class = "AutoModelForMaskedLM" if diffusion is None else diffusion.auto_class
            dtype = reading.dtype or ("float32" if diffusion is None else "auto")
            spread = {} if reading.device_map is None else {"device_map": reading.device_map}
            attention = reading.attn_implementation
            chosen = {} if attention is None else {"attn_implementation": attention}
            more = {"config": config, **spread, **chosen, **options}
            kind = getattr(transformers, auto_class)
            model, notes = load_network(kind, name, "masked-LM head", dtype=dtype, **more)
    if tokenizer is None or isinstance(tokenizer, str | Path):
        elsewhere = {} if tokenizer is None else {"revision": "main"}
        tokenizer = _tokenizer_of_model(str(tokenizer or name), name, options | elsewhere)
    if diffusion is not None:
        config = getattr(model, "config", None)
        own = _mask_of_diffusion(diffusion, reading.mask_id, tokenizer, config)
        return DiffusionNetwork(model, diffusion, own), tokenizer, own, notes
    mask_id = getattr(tokenizer, "mask_token_id", None) if reading.mask_id is None else reading.mask_id
    if mask_id is None:
        raise InputError(
            f"the tokenizer of {name!r} has no mask token; give a masked language model, or the id of its "
            "mask token with --mask-id"
        )
    return model, tokenizer, int(mask_id), notes


def _of_class(
    transformers: Any, name: str, reading: Reading, options: dict[str, Any]
) -> tuple[Any, tuple[str, ...]]:
    """A network of the class of an installed package, which loads its weights in its own way."""
    if (reading.dtype, reading.device_map, reading.attn_implementation) != (None, None, None):
        raise InputError(
            "--model-class loads the weights in its own way; leave --dtype, device_map and "
            "--attn-implementation out"
        )
    module, _, own = str(reading.model_class).rpartition(":")
    try:
        network_class = getattr(importlib.import_module(module), own)
    except (ImportError, AttributeError, ValueError) as error:
        raise InputError(
            f"--model-class {reading.model_class!r} cannot be imported ({first_sentence(error)}); give "
            "MODULE:CLASS of an installed package"
        ) from error
    if not hasattr(network_class, "from_pretrained"):
        raise InputError(f"{reading.model_class!r} has no from_pretrained; give a class that loads itself")
    if issubclass(network_class, transformers.PreTrainedModel):
        return load_network(network_class, name, "head", **options)
    revision = {} if reading.revision is None else {"revision": reading.revision}
    try:
        network = network_class.from_pretrained(name, **revision)
    except Exception as error:
        raise InputError(
            f"{network_class.__name__} cannot load {name!r}: {first_sentence(error)}; check the name"
        ) from error
    if not isinstance(network, torch.nn.Module):
        raise InputError(
            f"{network_class.__name__}.from_pretrained gives no torch module; give another class"
        )
    return network, ()


def _mask_of_diffusion(diffusion: Diffusion, asked: int | None, tokenizer: Any, config: Any) -> int:
    """The id of the mask token: as asked for, of the configuration, tokenizer or family, or the last id."""
    candidates = (
        asked,
        getattr(config, "mask_token_id", None),
        getattr(tokenizer, "mask_token_id", None),
        diffusion.mask_token_id,
        getattr(config, "vocab_size", 0) - 1 if diffusion.without_mask else None,
    )
    token_id = next((candidate for candidate in candidates if candidate is not None and candidate >= 0), None)
    if token_id is None:
        raise InputError("the model does not say which id its mask token has; give --mask-id")
    return int(token_id)


def load_tokenizer(place: str | Path, pattern: str | None = None) -> Any:
    """A tokenizer from a folder, from the hub or its cache, or from a vocab.txt.

    Args:
        place: a folder, a vocab.txt, or OWNER/NAME on the hub.
        pattern: a regular expression of a token; the vocab.txt is then read as `pattern_tokenizer` does.

    Raises:
        InputError: no tokenizer, or one without a mask token.

    Example:
        >>> load_tokenizer("no/such/vocab.txt")
        Traceback (most recent call last):
        ...
        maskevidence.core.errors.InputError: there is no tokenizer in 'no/such/vocab.txt'; give a folder \
that save_pretrained wrote, a vocab.txt, or OWNER/NAME on the hub
    """
    transformers = import_extra("transformers", "hf", "a tokenizer")
    path = Path(place)
    if pattern is not None:
        return pattern_tokenizer(read_vocabulary(_vocabulary_file(path)), pattern)
    if path.is_file():
        return transformers.BertTokenizerFast(vocab=str(path), do_lower_case=not _is_cased(path))
    local_only = path.is_dir() or not hub_reachable()
    try:
        tokenizer = _auto_tokenizer(str(place), local_files_only=local_only)
    except (InputError, MemoryError):
        raise
    except Exception as error:  # transformers fails in any way on damaged files
        raise InputError(
            f"there is no tokenizer in {str(place)!r}; give a folder that save_pretrained wrote, a "
            "vocab.txt, or OWNER/NAME on the hub"
        ) from error
    if tokenizer.mask_token_id is None:
        raise InputError(f"the tokenizer in {str(place)!r} has no mask token; give one that has one")
    return tokenizer


def _vocabulary_file(folder: Path) -> Path:
    file = folder / "vocab.txt" if folder.is_dir() else folder
    if not file.is_file():
        raise InputError(
            f"--pattern needs a vocab.txt, and there is none in {str(folder)!r}; name one by --tokenizer"
        )
    return file


def _check_has_head(transformers: Any, config: Any, name: str, trust_remote_code: bool) -> None:
    if type(config) in transformers.MODEL_FOR_MASKED_LM_MAPPING:
        return
    if trust_remote_code and "AutoModelForMaskedLM" in (getattr(config, "auto_map", None) or {}):
        return
    raise InputError(
        f"{name!r} is a {config.model_type} model, which has no masked-LM head; "
        "give a masked language model (BERT, RoBERTa, DeBERTa, ModernBERT, ...)"
    )


def _tokenizer_of_model(place: str, model: str, options: dict[str, Any]) -> Any:
    """The tokenizer that belongs to a model, by default from the same place."""
    if Path(place).is_dir() and not any((Path(place) / file).is_file() for file in _TOKENIZER_FILES):
        raise InputError(
            f"the folder {place!r} has no tokenizer; name one with --tokenizer FOLDER, and with --pattern "
            "WORD, too, if that folder has only a vocab.txt of words that a pattern cuts, as of molecules; "
            "or save one there (tokenizer.save_pretrained)"
        )
    try:
        with quiet():
            return _auto_tokenizer(place, **options)
    except (InputError, MemoryError):
        raise
    except Exception as error:  # transformers fails in any way on damaged files
        raise InputError(
            f"the tokenizer of {model!r} cannot be loaded from {place!r}: {first_sentence(error)}; "
            "name another with --tokenizer"
        ) from error


def _auto_tokenizer(place: str, **options: Any) -> Any:
    """The tokenizer in a folder or on the hub; a vocab.txt without settings is cased if its words are."""
    transformers = import_extra("transformers", "hf", "a tokenizer")
    vocabulary = Path(place) / "vocab.txt"
    has_file = vocabulary.is_file()
    if has_file and not _states_case(Path(place)) and _is_cased(vocabulary):
        options = {**options, "do_lower_case": False}
    tokenizer = transformers.AutoTokenizer.from_pretrained(place, **options)
    tokenizer("")  # some damage shows only in use
    n_words = len(set(_words(vocabulary))) if has_file else 0
    if n_words > len(tokenizer):
        raise InputError(
            f"the tokenizer knows {len(tokenizer):,} tokens, the model {n_words:,}: AutoTokenizer does not "
            f"read the vocab.txt in {place!r}; give --pattern, a regular expression of a token, or build a "
            "tokenizer as docs/masked_lm.md shows, and name it with --tokenizer"
        )
    return tokenizer


def _words(vocabulary: Path) -> list[str]:
    lines = vocabulary.read_text(encoding="utf-8", errors="replace").split("\n")
    return [line.strip() for line in lines if line.strip()]


def _is_cased(vocabulary: Path) -> bool:
    """Whether the words of a vocab.txt of word pieces have capital letters, special tokens aside."""
    words = _words(vocabulary)
    return "[UNK]" in words and any(re.search("[A-Z]", word) for word in words if not word.startswith("["))


def _states_case(folder: Path) -> bool:
    """Whether other files of a tokenizer say if it lower-cases."""
    settings = folder / "tokenizer_config.json"
    return (folder / "tokenizer.json").is_file() or (
        settings.is_file() and "do_lower_case" in settings.read_text(encoding="utf-8", errors="replace")
    )
