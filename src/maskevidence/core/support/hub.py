"""The Hugging Face hub: check quickly whether it answers, and get small files."""

from functools import cache
from pathlib import Path

from maskevidence.core.errors import InputError, import_extra

_SECONDS = 5.0


@cache
def hub_reachable() -> bool:
    """Whether the hub answers and HF_HUB_OFFLINE is not set; checked once per process."""
    hub = import_extra("huggingface_hub", "hf", "the Hugging Face hub")
    constants = import_extra("huggingface_hub.constants", "hf", "the Hugging Face hub")
    if constants.HF_HUB_OFFLINE:
        return False
    try:
        hub.get_session().head(constants.ENDPOINT, timeout=_SECONDS)
    except Exception:  # the error's class depends on the installed HTTP library; any error means no answer
        return False
    return True


def hub_file(name: str, file: str) -> Path | None:
    """Get a small file of a model from the hub or the local cache; None if neither has it."""
    hub = import_extra("huggingface_hub", "hf", "the Hugging Face hub")
    try:
        return Path(hub.hf_hub_download(name, file, local_files_only=not hub_reachable()))
    except Exception:  # the error's class depends on the installed HTTP library; any error means no file
        return None


def check_revision(name: str, revision: str | None) -> None:
    """Raise an InputError for the revision of a folder.

    Example:
        >>> check_revision(".", "main")
        Traceback (most recent call last):
        ...
        maskevidence.core.errors.InputError: --revision 'main' is of a model on the hub, and '.' is ...
    """
    if revision is not None and Path(name).is_dir():
        raise InputError(
            f"--revision {revision!r} is of a model on the hub, and {name!r} is a folder; leave it out"
        )


def not_in_cache(what: str, alternative: str) -> InputError:
    """The error for a file that neither the local cache nor the hub provides.

    Example:
        >>> str(not_in_cache("model 'a/b'", "give a folder"))[:50]
        "model 'a/b' is not in the local cache, and the hub"
    """
    constants = import_extra("huggingface_hub.constants", "hf", "the Hugging Face hub")
    why = (
        "may not be asked (HF_HUB_OFFLINE is set)"
        if constants.HF_HUB_OFFLINE
        else f"({constants.ENDPOINT}) does not answer"
    )
    return InputError(
        f"{what} is not in the local cache, and the hub {why}; {alternative}, or set HF_HOME to a cache that "
        "holds it, HF_ENDPOINT to a mirror, HTTPS_PROXY to a proxy"
    )
