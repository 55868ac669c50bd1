"""Load transformers models from a folder or the hub; errors become one clear line."""

import json
import re
from collections import Counter
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from safetensors import SafetensorError

from maskevidence.core.errors import InputError, import_extra
from maskevidence.core.support.checks import counted_weights
from maskevidence.core.support.files import model_inside, read_json
from maskevidence.core.support.hub import check_revision, hub_reachable, not_in_cache
from maskevidence.core.support.progress import quiet

# Weights of published checkpoints that a masked-LM head never reads and transformers does not ignore:
# the pooler and the second head of the pre-training of BERT and of ALBERT, and buffers of older versions.
_NEVER_READ = re.compile(r"(^|\.)(pooler|seq_relationship|sop_classifier)\.|(^|\.)position_ids$")
_MAX_LAYERS = 10_000
_COMPARED = 50  # names of weights
_IN_SENTENCES = (
    OSError,
    ValueError,
    ImportError,
    RuntimeError,
    SafetensorError,
)  # in the words of transformers
# Entries of a configuration that do not affect log-probabilities; nor do entries that begin with "_".
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


@contextmanager
def loading(name: str, revision: str | None, *, trust_remote_code: bool = False) -> Iterator[dict[str, Any]]:
    """Load something with transformers: silence its reports, turn its errors into one clear line.

    Yields:
        The options for `from_pretrained`; the network is used only if the hub can be reached.

    Raises:
        InputError: a folder that does not exist or is given a revision, or a model that cannot be loaded.
    """
    check_revision(name, revision)
    is_folder = Path(name).is_dir()
    if not is_folder and _looks_like_a_path(name):
        raise InputError(
            f"there is no folder {name!r}; give a folder that save_pretrained wrote, or OWNER/NAME on the hub"
        )
    if is_folder:
        _check_sizes(Path(name))
    local_only = is_folder or not hub_reachable()
    options = {
        "revision": revision or "main",
        "local_files_only": local_only,
        "trust_remote_code": trust_remote_code,  # without this argument, transformers would ask the user
    }
    with quiet():
        try:
            _refuse_adapter(name, options)
            yield options
        except (InputError, MemoryError):
            raise
        except Exception as error:  # on a damaged configuration, transformers raises errors of any class
            raise _why_not_loaded(error, name, revision, is_folder, local_only) from error


def load_network(
    auto_class: Any, name: str, part: str, *, dtype: str = "float32", **options: Any
) -> tuple[Any, tuple[str, ...]]:
    """Load a model with all its weights; note weights that it does not read, such as a classifier's.

    Args:
        dtype: the name of the dtype of the weights, or "auto" for the dtype of the checkpoint.
    """
    network, report = auto_class.from_pretrained(name, dtype=dtype, output_loading_info=True, **options)
    missing = sorted(report["missing_keys"])
    if missing:
        prefix = _prefix(missing, report["unexpected_keys"])
        if prefix:
            raise InputError(
                f"the names of the weights of {name!r} begin with {prefix!r}, which wrappers add "
                "(torch.compile, distributed training, Lightning); save the model inside the wrapper, or "
                f"take {prefix!r} off each name and save them again"
            )
        raise InputError(
            f"the weights of {name!r} lack {len(missing)} of those of {type(network).__name__}, such as "
            f"{missing[0]}; give a model that was saved with its {part}"
        )
    return network, _unread_note(network, report["unexpected_keys"], name)


def _refuse_adapter(name: str, options: dict[str, Any]) -> None:
    """Refuse an adapter of peft: transformers applies one beside weights only where peft is installed."""
    utils = import_extra("transformers.utils", "hf", "a model of transformers")
    file = utils.find_adapter_config_file(
        name, revision=options["revision"], local_files_only=options["local_files_only"]
    )
    if file is None:
        return
    content = read_json(file)
    base = content.get("base_model_name_or_path") if isinstance(content, dict) else None
    raise InputError(
        f"{name!r} holds an adapter of peft (adapter_config.json); score the model that it was trained on "
        f"({base!r}) without it, or merge it: PeftModel.from_pretrained(model, {name!r}).merge_and_unload(), "
        "then save_pretrained into a new folder"
    )


def _prefix(missing: Collection[str], unexpected: Collection[str]) -> str:
    """The prefix that a checkpoint puts before the names of most missing weights; "" if there is none.

    Example:
        >>> _prefix(["a.weight", "b.weight"], ["module.a.weight", "module.b.weight"])
        'module.'
    """
    names = list(missing)[:_COMPARED]
    found = Counter(
        name.removesuffix(weight) for name in unexpected for weight in names if name.endswith(f".{weight}")
    )
    prefix, count = next(iter(found.most_common(1)), ("", 0))
    return prefix if 2 * count > len(names) else ""


def _unread_note(network: Any, unexpected: Collection[str], name: str) -> tuple[str, ...]:
    """Note the weights of a checkpoint that a network does not read.

    Published checkpoints hold weights that no masked-LM head reads, such as BERT's pooler: no note on these.
    """
    unread = sorted(weight for weight in unexpected if not _NEVER_READ.search(weight))
    inside = [weight for weight in unread if _inside(network, weight)]
    model = type(network).__name__
    if inside:
        raise InputError(
            f"{name!r} holds {counted_weights(inside)} that {model} has no place for; "
            "give the config.json that they were saved with, or save the model without them"
        )
    if not unread:
        return ()
    return (f"the checkpoint also holds {counted_weights(unread)} that {model} does not read",)


def _inside(network: Any, name: str) -> bool:
    """Whether a weight belongs to the backbone or the head, rather than to another part of the checkpoint."""
    part = network
    for step in name.split(".")[:-1]:
        child = dict(part.named_children()).get(step)
        if child is None:
            break
        part = child
    children = list(part.children())
    wraps_head = (
        len(children) == 1 and bool(list(children[0].children())) and not list(part.parameters(False))
    )
    in_backbone = any(part is module for module in network.base_model.modules())
    return part is not network and (in_backbone or not wraps_head)


def _check_sizes(folder: Path) -> None:
    """Refuse a configuration of absurdly many layers, which would take hours to build, or of no heads."""
    try:
        config = read_json(folder / "config.json")
    except InputError:  # transformers reports the error
        return
    for entry, value in config.items() if isinstance(config, dict) else ():
        if not isinstance(value, int):
            continue
        if ("layers" in entry and value > _MAX_LAYERS) or (entry.endswith(("heads", "n_head")) and value < 1):
            limit = f"at most {_MAX_LAYERS:,} layers" if "layers" in entry else "1 head or more"
            raise InputError(f"config.json in {str(folder)!r} has {entry}={value}; give a model of {limit}")


def _looks_like_a_path(name: str) -> bool:
    return name.startswith((".", "/", "~", "\\")) or name.count("/") > 1 or name.endswith("/") or not name


def _why_not_loaded(
    error: Exception, name: str, revision: str | None, is_folder: bool, local_only: bool
) -> InputError:
    """Turn an error of transformers while loading into advice."""
    reason = first_sentence(error)
    if "trust_remote_code" in str(error):
        return InputError(
            f"{name!r} comes with its own code, which is not run unless you allow it; read it, then pass "
            "--trust-remote-code (trust_remote_code=True)"
        )
    if is_folder:
        if not (Path(name) / "config.json").is_file():
            remedy = model_inside(Path(name)) or "; give one that save_pretrained wrote"
            return InputError(f"the folder {name!r} has no config.json{remedy}")
        if not any(Path(name).glob("*.safetensors")) and not any(Path(name).glob("*.bin")):
            return InputError(
                f"the folder {name!r} has no weights (model.safetensors); give one that save_pretrained wrote"
            )
        remedy = 'add it, such as "model_type": "bert"' if "model_type" in reason else "save it again"
        return InputError(f"the model in {name!r} cannot be loaded: {reason}; {remedy}")
    named = repr(name) if revision is None else f"{name!r} of revision {revision!r}"
    if local_only:
        return not_in_cache(
            f"model {named} is not a folder and",
            "save it with save_pretrained on a machine with network access and give that folder",
        )
    return InputError(f"model {named} cannot be loaded from the hub: {reason}; check its name")


def first_sentence(error: Exception) -> str:
    """First line of an error's message, after the class name if that name is informative.

    Example:
        >>> first_sentence(ValueError("no such file.\\nTry again.")), first_sentence(KeyError("vocab"))
        ('no such file', "KeyError: 'vocab'")
    """
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    name = type(error).__name__
    if not lines:
        return name
    line = lines[0].rstrip(".")
    return line if isinstance(error, _IN_SENTENCES) else f"{name}: {line}"


def config_settings(model: Any, ignored: Collection[str] = ()) -> dict[str, Any]:
    """The architecture of a transformers model, and its configuration where it is not the default.

    Returns:
        Content for JSON. It holds no paths, versions or dtypes, and does not change when a later version of
        transformers adds an entry.

    Example:
        >>> from transformers import BertConfig, BertForMaskedLM
        >>> small = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2}
        >>> config_settings(BertForMaskedLM(BertConfig(**small, _name_or_path="a/b")))["config"] == small
        True
    """
    default = type(model.config)().to_dict()
    kept = {
        name: value
        for name, value in model.config.to_dict().items()
        if value != default.get(name)
        and not name.startswith("_")
        and name not in _NOT_NUMBERS
        and name not in ignored
    }
    return {"architecture": type(model).__name__, "config": json.loads(json.dumps(kept, default=str))}
