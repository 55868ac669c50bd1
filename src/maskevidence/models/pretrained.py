"""Transformers models and tokenizers, loaded with one clear line where something is wrong."""

import inspect
import json
from collections.abc import Collection
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from torch import nn

from maskevidence.errors import InputError, import_extra
from maskevidence.support.hub import hub_reachable, not_in_cache
from maskevidence.support.progress import quiet

# A vocabulary is often padded to a multiple of 64 or 128: so many embeddings may be without a token.
_SPARE_EMBEDDINGS = 256
_UNLIMITED = 10**9  # tokenizers without a limit say 10^30
# Entries of a configuration that decide no log-probability; those that begin with "_" do not either.
_NOT_NUMBERS = {
    "architectures",
    "auto_map",
    "dtype",
    "id2label",
    "label2id",
    "output_attentions",
    "output_hidden_states",
    "return_dict",
    "torch_dtype",
    "transformers_version",
    "use_cache",
}
# What transformers raises where a model is missing, damaged or of another kind.
LOADING_ERRORS = (
    OSError,
    ValueError,
    KeyError,
    ImportError,
    RuntimeError,
    AttributeError,
    SafetensorError,
)


def choose_device(device: str | torch.device | None) -> torch.device:
    """The device asked for, or the best there is: "cuda", "mps", "cpu".

    Raises:
        InputError: a device that torch does not know or cannot use here.
    """
    if device is None:
        if torch.cuda.is_available():
            return torch.device("cuda")
        return torch.device("mps" if torch.backends.mps.is_available() else "cpu")
    try:
        chosen = torch.device(device)
        torch.empty(1, device=chosen)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        reason = str(error).splitlines()[0]
        raise InputError(
            f"device {str(device)!r} cannot be used ({reason}); give cpu, cuda or mps"
        ) from error
    return chosen


def load_masked_lm(
    name: str, tokenizer: Any, *, revision: str | None, trust_remote_code: bool
) -> tuple[Any, Any]:
    """A model with a masked-LM head and its tokenizer, from a folder or the hub; weights in float32.

    Raises:
        InputError: for whatever is missing or does not fit.
    """
    transformers = import_extra("transformers", "hf", "a masked language model")
    is_folder = check_is_folder_or_name(name)
    options = {"trust_remote_code": trust_remote_code, **reachable_options(is_folder, revision)}
    with quiet():
        try:
            config = transformers.AutoConfig.from_pretrained(name, **options)
            _check_has_head(transformers, config, name, trust_remote_code)
            model, report = transformers.AutoModelForMaskedLM.from_pretrained(
                name, config=config, dtype=torch.float32, output_loading_info=True, **options
            )
        except LOADING_ERRORS as error:
            raise why_not_loaded(error, name, is_folder, options["local_files_only"]) from error
        missing = sorted(report["missing_keys"])
        if missing:
            raise InputError(
                f"the weights of {name!r} lack {len(missing)} of those of {type(model).__name__}, such as "
                f"{missing[0]}; give a model that was saved with its masked-LM head"
            )
        if tokenizer is None or isinstance(tokenizer, str | Path):
            tokenizer = _load_tokenizer(transformers, str(tokenizer or name), name, options)
    if getattr(tokenizer, "mask_token_id", None) is None:
        raise InputError(f"the tokenizer of {name!r} has no mask token; give a masked language model")
    return model, tokenizer


def check_is_folder_or_name(name: str) -> bool:
    """Whether a model is to come from a folder; if not, from the hub.

    Raises:
        InputError: a folder that is not there.
    """
    is_folder = Path(name).is_dir()
    if not is_folder and _looks_like_a_path(name):
        raise InputError(
            f"there is no folder {name!r}; give a folder that save_pretrained wrote, or OWNER/NAME on the hub"
        )
    return is_folder


def reachable_options(is_folder: bool, revision: str | None) -> dict[str, Any]:
    """The options of `from_pretrained` that say where to look: the network only where there is one."""
    return {"revision": revision or "main", "local_files_only": is_folder or not hub_reachable()}


def _looks_like_a_path(name: str) -> bool:
    return name.startswith((".", "/", "~", "\\")) or name.count("/") > 1 or name.endswith("/") or not name


def _check_has_head(transformers: Any, config: Any, name: str, trust_remote_code: bool) -> None:
    if type(config) in transformers.MODEL_FOR_MASKED_LM_MAPPING:
        return
    if trust_remote_code and "AutoModelForMaskedLM" in (getattr(config, "auto_map", None) or {}):
        return
    raise InputError(
        f"{name!r} is a {config.model_type} model, which has no masked-LM head; "
        "give a masked language model (BERT, RoBERTa, DeBERTa, ModernBERT, ...)"
    )


def why_not_loaded(error: Exception, name: str, is_folder: bool, local_only: bool) -> Exception:
    """What a user can do about an error of transformers while it loaded a model."""
    if isinstance(error, InputError):
        return error
    reason = _first_sentence(error)
    if "trust_remote_code" in str(error):
        return InputError(
            f"{name!r} comes with code of its own, which is not run unless asked; read it, then pass "
            "--trust-remote-code (trust_remote_code=True)"
        )
    if is_folder:
        if not (Path(name) / "config.json").is_file():
            return InputError(f"the folder {name!r} has no config.json; give one that save_pretrained wrote")
        if not any(Path(name).glob("*.safetensors")) and not any(Path(name).glob("*.bin")):
            return InputError(
                f"the folder {name!r} has no weights (model.safetensors); give one that save_pretrained wrote"
            )
        return InputError(f"the model in {name!r} cannot be loaded: {reason}; save it again")
    if local_only:
        return not_in_cache(
            f"model {name!r} is no folder here and",
            "save it with save_pretrained where there is a network and give that folder",
        )
    return InputError(f"model {name!r} cannot be loaded from the hub: {reason}; check its name")


def _load_tokenizer(transformers: Any, place: str, model: str, options: dict[str, Any]) -> Any:
    files = ("tokenizer.json", "tokenizer_config.json", "vocab.txt", "vocab.json", "spiece.model")
    if Path(place).is_dir() and not any((Path(place) / file).is_file() for file in files):
        raise InputError(
            f"the folder {place!r} has no tokenizer; save it there too (tokenizer.save_pretrained), "
            "or name another with --tokenizer"
        )
    try:
        return transformers.AutoTokenizer.from_pretrained(place, **options)
    except (OSError, ValueError, KeyError, ImportError, AttributeError, TypeError) as error:
        raise InputError(
            f"the tokenizer of {model!r} cannot be loaded from {place!r}: {_first_sentence(error)}; "
            "name another with --tokenizer"
        ) from error


def _first_sentence(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return (lines[0] if lines else type(error).__name__).rstrip(".")


def check_vocabulary(model: Any, tokenizer: Any, mask_token_id: int) -> None:
    """Raise unless every token has an embedding and all but a few embeddings have a token."""
    n_embeddings = model.get_input_embeddings().weight.shape[0]
    if mask_token_id >= n_embeddings:
        raise InputError(
            f"the mask token has id {mask_token_id}, the model {n_embeddings} embeddings; "
            "give the model's own tokenizer"
        )
    if tokenizer is None:
        return
    if not 0 <= n_embeddings - len(tokenizer) <= _SPARE_EMBEDDINGS:
        raise InputError(
            f"the tokenizer has {len(tokenizer):,} tokens, the model {n_embeddings:,} embeddings; "
            "give the model's own tokenizer"
        )


def longest_text(model: Any, tokenizer: Any) -> int | None:
    """How many positions the model has for tokens, special tokens included; None where it names no limit."""
    limits = []
    for name, module in model.named_modules():
        if name.endswith("position_embeddings") and isinstance(module, nn.Embedding):
            # RoBERTa and its kin number positions from padding_idx + 1
            used = 0 if module.padding_idx is None else module.padding_idx + 1
            limits.append(module.num_embeddings - used)
    stated = getattr(model.config, "max_position_embeddings", None)
    if not limits and isinstance(stated, int) and stated > 0:
        limits.append(stated)
    of_tokenizer = getattr(tokenizer, "model_max_length", None)
    if isinstance(of_tokenizer, int) and of_tokenizer < _UNLIMITED:
        limits.append(of_tokenizer)
    return min(limits, default=None)


def config_settings(model: Any, ignored: Collection[str] = ()) -> dict[str, Any]:
    """The architecture of a transformers model, and its configuration where it differs from the default.

    Args:
        model: the model.
        ignored: further entries to leave out.

    Returns:
        Content for JSON. It holds no paths, versions or dtypes, and does not change when a later version of
        transformers adds an entry.

    Example:
        >>> from transformers import BertConfig, BertForMaskedLM
        >>> small = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2}
        >>> config_settings(BertForMaskedLM(BertConfig(**small, _name_or_path="a/b")))["config"] == small
        True
    """
    config = model.config
    default = type(config)().to_dict()
    kept = {
        name: value
        for name, value in config.to_dict().items()
        if value != default.get(name)
        and not name.startswith("_")
        and name not in _NOT_NUMBERS
        and name not in ignored
    }
    return {"architecture": type(model).__name__, "config": json.loads(json.dumps(kept, default=str))}


def model_inputs(model: Any) -> frozenset[str]:
    """The names of the arguments of a model's forward."""
    return frozenset(inspect.signature(model.forward).parameters)
