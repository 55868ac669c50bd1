"""Masked language models and tokenizers, loaded from a folder or the hub."""

import importlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from maskevidence.errors import InputError, import_extra
from maskevidence.models.pretrained import first_sentence, load_network, loading, unread_note
from maskevidence.models.saving import counted_weights
from maskevidence.models.text.diffusion import (
    Diffusion,
    DiffusionNetwork,
    named_diffusion,
    recognised_diffusion,
)
from maskevidence.models.text.vocabulary import pattern_tokenizer, read_vocabulary
from maskevidence.support.files import reading
from maskevidence.support.hub import check_revision, hub_reachable
from maskevidence.support.progress import quiet

_SUFFIXES = (".safetensors", ".bin", ".pt", ".pth", ".ckpt")
_NESTED = ("state_dict", "model", "module")  # where training frameworks put the weights


def load_checkpoint(
    name: str,
    model_class: str | None,
    state_prefix: str | None,
    *,
    revision: str | None = None,
    trust_remote_code: bool = False,
) -> tuple[Any, tuple[str, ...]]:
    """A network in float32 from a folder or the hub, and notes on its weights.

    Args:
        model_class: the name of a class in transformers, or MODULE:CLASS of an installed package, with a
            `from_pretrained`; by default the class that the configuration names for masked language models.
        state_prefix: what the names of the weights begin with in the folder's file of weights; others are
            left out.

    Example:
        >>> load_checkpoint("a/b", "BertForMaskedLMs", None)
        Traceback (most recent call last):
        ...
        maskevidence.errors.InputError: transformers has no class 'BertForMaskedLMs'; give the name of one,
        or MODULE:CLASS
    """
    transformers = import_extra("transformers", "hf", "a masked language model")
    network_class = None if model_class is None else _class(transformers, model_class)
    if network_class is not None and not hasattr(network_class, "from_pretrained"):
        raise InputError(f"{model_class!r} has no from_pretrained; give a class that loads itself")
    if network_class is not None and not issubclass(network_class, transformers.PreTrainedModel):
        if state_prefix is not None:
            raise InputError("--state-prefix needs a class of transformers; leave it out")
        return _by_itself(network_class, name, revision), ()
    with loading(name, revision, trust_remote_code=trust_remote_code) as options:
        if state_prefix is None:
            return load_network(network_class or transformers.AutoModelForMaskedLM, name, "head", **options)
        config = transformers.AutoConfig.from_pretrained(name, **options)
        network = (network_class or transformers.AutoModelForMaskedLM.from_config)(config)
        return network, _load_weights(network.float(), Path(name), state_prefix)


def _class(transformers: Any, name: str) -> Any:
    module, _, own = name.rpartition(":")
    if not module:
        network_class = getattr(transformers, name, None)
        if not isinstance(network_class, type):
            raise InputError(f"transformers has no class {name!r}; give the name of one, or MODULE:CLASS")
        return network_class
    try:
        return getattr(importlib.import_module(module), own)
    except (ImportError, AttributeError, ValueError) as error:
        raise InputError(f"--model-class {name!r} cannot be imported ({first_sentence(error)})") from error


def _by_itself(found: Any, name: str, revision: str | None) -> Any:
    """A network of a class outside transformers, which loads its weights in its own way."""
    check_revision(name, revision)
    try:
        network = found.from_pretrained(name, **({} if revision is None else {"revision": revision}))
    except Exception as error:
        raise InputError(
            f"{found.__name__} cannot load {name!r}: {first_sentence(error)}; check the name"
        ) from error
    if not isinstance(network, torch.nn.Module):
        raise InputError(f"{found.__name__}.from_pretrained gives no torch module; give another class")
    return network


def _load_weights(network: Any, folder: Path, prefix: str) -> tuple[str, ...]:
    """Load the weights of a folder whose names begin with a prefix; a note on those that are not read."""
    with reading(folder):
        files = sorted(p for p in folder.iterdir() if p.suffix in _SUFFIXES) if folder.is_dir() else []
    if len(files) != 1:
        what = "no file" if not files else f"{len(files)} files"
        raise InputError(f"{str(folder)!r} has {what} of weights ({', '.join(_SUFFIXES)}); leave one there")
    stored = _read_weights(files[0])
    weights = {
        name.removeprefix(prefix): tensor for name, tensor in stored.items() if name.startswith(prefix)
    }
    if not weights:
        first = min(stored, default="none")
        raise InputError(
            f"no weight in {str(files[0])!r} begins with {prefix!r} (the first is {first}); correct "
            "--state-prefix"
        )
    try:
        report = network.load_state_dict(weights, strict=False)
    except RuntimeError as error:
        raise InputError(f"the weights in {str(files[0])!r} do not fit: {first_sentence(error)}") from error
    network.tie_weights()
    own = network.state_dict(keep_vars=True)
    loaded = {own[name].data_ptr() for name in weights if name in own}
    missing = [name for name in report.missing_keys if own[name].data_ptr() not in loaded]
    if missing:
        raise InputError(
            f"{str(files[0])!r} lacks {counted_weights(missing)}; check --model-class and --state-prefix"
        )
    return unread_note(network, report.unexpected_keys, repr(str(files[0])))


def _read_weights(file: Path) -> Mapping[str, Tensor]:
    """Names and weights of a file, without running code that it may hold."""
    try:
        if file.suffix == ".safetensors":
            from safetensors.torch import load_file

            return load_file(file)
        content = torch.load(file, map_location="cpu", weights_only=True)
    except Exception as error:  # of many kinds, for damaged files and for pickled code
        raise InputError(
            f"the weights in {str(file)!r} cannot be read without running code: {first_sentence(error)}; "
            "save them as .safetensors"
        ) from error
    names = [name for name in _NESTED if isinstance(content, dict) and name in content]
    nested = content[names[0]] if names else content
    if not isinstance(nested, dict) or not all(isinstance(tensor, Tensor) for tensor in nested.values()):
        raise InputError(f"{str(file)!r} holds no weights by name; save them as .safetensors")
    return nested


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


def load_masked_lm(
    name: str, tokenizer: Any, reading: Reading = Reading()
) -> tuple[Any, Any, int, tuple[str, ...]]:
    """A model with a masked-LM head, its tokenizer, its mask token and notes on its weights.

    See `MaskedLM.from_pretrained`.
    """
    transformers = import_extra("transformers", "hf", "a masked language model")
    named = None if reading.diffusion is None else named_diffusion(reading.diffusion)
    recognised_diffusion("", name)  # refuses what cannot be scored before its code is asked for
    with loading(name, reading.revision, trust_remote_code=reading.trust_remote_code) as options:
        config = transformers.AutoConfig.from_pretrained(name, **options)
        diffusion = named or recognised_diffusion(str(getattr(config, "model_type", "")), name)
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
        own = _mask_of_diffusion(diffusion, reading.mask_id, tokenizer, config)
        return DiffusionNetwork(model, diffusion, own), tokenizer, own, notes
    mask_id = getattr(tokenizer, "mask_token_id", None) if reading.mask_id is None else reading.mask_id
    if mask_id is None:
        raise InputError(
            f"the tokenizer of {name!r} has no mask token; give a masked language model, or the id of its "
            "mask token with --mask-id"
        )
    return model, tokenizer, int(mask_id), notes


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


def load_tokenizer(
    place: str | Path,
    pattern: str | None = None,
    mask_token: str | None = None,
    revision: str | None = None,
) -> Any:
    """A tokenizer from a folder, from the hub or its cache, or from a vocab.txt.

    Args:
        place: a folder, a vocab.txt, or OWNER/NAME on the hub.
        pattern: a regular expression of a token; the vocab.txt is then read as `pattern_tokenizer` does.
        mask_token: the word that stands for a hidden token, if the tokenizer does not say.
        revision: branch, tag or commit on the hub.

    Raises:
        InputError: no tokenizer, or one without a mask token.

    Example:
        >>> load_tokenizer("no/such/vocab.txt")
        Traceback (most recent call last):
        ...
        maskevidence.errors.InputError: there is no tokenizer in 'no/such/vocab.txt'; give a folder that \
save_pretrained wrote, a vocab.txt, or OWNER/NAME on the hub
    """
    transformers = import_extra("transformers", "hf", "a tokenizer")
    path = Path(place)
    if pattern is not None:
        return pattern_tokenizer(read_vocabulary(_vocabulary_file(path)), pattern, mask_token)
    if path.is_file():
        return transformers.BertTokenizerFast(vocab=str(path), do_lower_case=not _is_cased(path))
    local_only = path.is_dir() or not hub_reachable()
    try:
        tokenizer = _auto_tokenizer(str(place), revision=revision or "main", local_files_only=local_only)
    except (InputError, MemoryError):
        raise
    except Exception as error:  # transformers fails in any way on damaged files
        raise InputError(
            f"there is no tokenizer in {str(place)!r}; give a folder that save_pretrained wrote, a "
            "vocab.txt, or OWNER/NAME on the hub"
        ) from error
    if mask_token is not None:
        if mask_token not in tokenizer.get_vocab():
            raise InputError(f"the tokenizer in {str(place)!r} has no word {mask_token!r} (--mask-token)")
        tokenizer.add_special_tokens({"mask_token": mask_token})
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
            f"the folder {place!r} has no tokenizer; save it there too (tokenizer.save_pretrained), "
            "or name another with --tokenizer"
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
