"""The words of the command line as objects: MODEL and its kind, names, numbers, sizes; imports no torch."""

import csv
import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from maskevidence import models
from maskevidence.errors import InputError, unknown_name
from maskevidence.kinds.declaring import Kind, flag
from maskevidence.support.files import read_json
from maskevidence.support.hub import hub_file

if TYPE_CHECKING:
    from maskevidence.models.base import TableModel

_OWN = re.compile(r"(.+\.py)(:.*)?", re.S)
_ON_THE_HUB = re.compile(r"[\w-][\w.-]*/[\w-][\w.-]*")
_TRANSFORMERS: dict[str, Kind] = {"masked-lm": "texts", "vit-mae": "images"}
_WITH_COMPONENTS: dict[str, Callable[[int, int], "TableModel"]] = {
    "ppca": lambda d, k: models.PPCA(d, k),
    "factor-analysis": lambda d, k: models.FactorAnalysis(d, k),
    "bernoulli-pca": lambda d, k: models.BernoulliPCA(d, k),
    "vae": lambda d, k: models.VAE(n_features=d, n_components=k),
    "bernoulli-vae": lambda d, k: models.VAE(likelihood="bernoulli", n_features=d, n_components=k),
}
_WITHOUT_COMPONENTS: dict[str, Callable[[int], "TableModel"]] = {
    "gaussian": lambda d: models.Gaussian(n_features=d),
    "kernel-gaussian": lambda d: models.KernelGaussian(d, n_centres=1),  # the fit takes one for each row
}
NETWORK = "masked-net"  # alone, or masked-net:256x2 with its width and layers
MODELS = (NETWORK, *_WITHOUT_COMPONENTS, *(f"{name}:K" for name in _WITH_COMPONENTS))
FAMILIES = tuple(_WITH_COMPONENTS)  # words that a number of components follows
SINGLE = (NETWORK, *_WITHOUT_COMPONENTS)  # words that stand alone
_MAX_COMPONENTS = 10_000


def kind_of_training(word: str) -> Kind:
    """The kind of a new model that `train` makes.

    Example:
        >>> kind_of_training("ppca:8"), kind_of_training("vit-mae")
        ('rows', 'images')
    """
    return _TRANSFORMERS.get(word, "rows")


def kind_of_model(word: str) -> Kind:
    """The kind of model that a MODEL word names.

    A folder is asked for its config.json. A name on the hub is asked, too; if its config.json cannot be had,
    a name with "vit" or "mae" is a masked image model, and any other a masked language model.

    Example:
        >>> kind_of_model("ppca:8"), kind_of_model("google-bert/bert-base-uncased")
        ('rows', 'texts')
    """
    folder = Path(word)
    for run in (folder, folder.parent):
        _refuse_code_of_run(run)
    if folder.is_dir():
        config = _config(folder / "config.json")
        if config is None:
            return "texts" if (folder / "tokenizer_config.json").exists() else "rows"
        if not isinstance(config, dict) or "class" in config:  # a model that this package has saved
            return "rows"
        return "images" if "image_size" in config else "texts"
    if _ON_THE_HUB.fullmatch(word) is None or own_file(word) is not None:
        return "rows"
    file = hub_file(word, "config.json")
    if file is None:
        return "images" if re.search(r"vit|mae", word.lower()) else "texts"
    config = _config(file)
    return "images" if isinstance(config, dict) and "image_size" in config else "texts"


def _config(file: Path) -> Any:
    """The content of a model's config.json; None if it is missing or damaged."""
    try:
        return read_json(file)
    except InputError:
        return None


def own_file(word: str) -> Path | None:
    """The Python file of a MODEL word FILE.py:FUNCTION; None for another word.

    Example:
        >>> own_file("/home/me/model.py:make").name, own_file("ppca:8")
        ('model.py', None)
    """
    match = _OWN.fullmatch(word)
    return None if match is None else Path(match[1]).resolve()


def parse_model(word: str) -> tuple[Callable[[int], "TableModel"] | None, Any]:
    """Turn a MODEL word into a builder of new models, or into a saved model.

    Args:
        word: "masked-net", "masked-net:256x2" (width and layers), "gaussian", "kernel-gaussian", "ppca:8",
            "factor-analysis:3", "bernoulli-pca:2", "vae:20", or the folder of a saved model.

    Returns:
        (builder, None) for a new model, where the builder takes the number of features; (None, model) for a
        saved one.

    Example:
        >>> builder, _ = parse_model("ppca:2")
        >>> builder(5).loadings.shape
        torch.Size([5, 2])
    """
    name, _, components = word.partition(":")
    if is_network(word):
        sizes = _network_sizes(word)
        return lambda n_features: models.MaskedNetwork(n_features, *sizes), None
    if word in _WITHOUT_COMPONENTS:
        return _WITHOUT_COMPONENTS[word], None
    if name in _WITH_COMPONENTS:
        if not components.isascii() or not components.isdigit() or int(components) < 1:
            raise InputError(f"model {word!r} lacks its number of components; write {name}:8, for example")
        return lambda n_features: _WITH_COMPONENTS[name](n_features, int(components)), None
    if Path(word).is_dir():
        return None, models.load(word)
    if own_file(word) is not None:
        raise InputError(f"{word!r} is code of yours, which check and score run; give another model")
    if "/" in word or word.startswith("."):
        raise InputError(f"there is no folder {word!r}; give one that a model was saved into")
    raise unknown_name("model", word, [*MODELS, "a saved model's folder", "OWNER/NAME on the hub"])


def _refuse_code_of_run(folder: Path) -> None:
    """Refuse a run of a user's own code, which the run does not hold: it is never run from there."""
    run = _config(folder / "run.json") if (folder / "run.json").is_file() else None
    word = run.get("model") if isinstance(run, dict) else None
    if isinstance(word, str) and own_file(word) is not None:
        raise InputError(
            f"the run in {str(folder)!r} is of {word!r}, code that a run does not hold; type that as MODEL"
        )


def is_network(word: str) -> bool:
    """Whether a MODEL word stands for a new masked network, with or without its sizes.

    Example:
        >>> is_network("masked-net"), is_network("masked-net:64x2"), is_network("ppca:8")
        (True, True, False)
    """
    return word.partition(":")[0] == NETWORK


def _network_sizes(word: str) -> tuple[int, ...]:
    """Width and layers of a new masked network; nothing for the default ones."""
    _, colon, text = word.partition(":")
    if not colon:
        return ()
    parts = text.split("x")
    if len(parts) != 2 or not all(re.fullmatch("[1-9][0-9]{0,4}", part) for part in parts):
        raise InputError(f"model {word!r} lacks its width and layers; write {NETWORK}:256x2, for example")
    return tuple(map(int, parts))


def parse_words(option: str, text: str | None) -> list[str]:
    """Words between commas, such as names of columns; a word that holds a comma stands in quotes.

    Example:
        >>> parse_words("columns", 'a,"b, in m"')
        ['a', 'b, in m']
    """
    if text is None:
        return []
    try:
        lines = list(csv.reader([text], skipinitialspace=True, strict=True))
    except csv.Error as error:
        raise InputError(
            f'{flag(option)} {text!r} cannot be read ({error}); write a,b or a,"b, c"'
        ) from error
    words = lines[0] if lines else []
    if not words or not all(words):
        raise InputError(f"{flag(option)} {text!r} lacks a word; write words between commas, such as a,b")
    if len(set(words)) < len(words):
        twice = next(word for number, word in enumerate(words) if word in words[:number])
        raise InputError(f"{flag(option)} names {twice!r} twice; name it once")
    return words


def parse_components(word: str) -> tuple[int, ...]:
    """Turn a --components word, such as "1-20", "2-56-6" (first, last, step) or "1,2,4", into whole numbers.

    Example:
        >>> parse_components("1-4"), parse_components("2-9-3,1")
        ((1, 2, 3, 4), (1, 2, 5, 8))
    """
    found: set[int] = set()
    for part in word.split(","):
        numbers = [
            int(end) if end.isascii() and end.isdigit() and len(end) < 6 else 0 for end in part.split("-")
        ]
        if not 1 <= len(numbers) <= 3 or min(numbers) < 1 or numbers[0] > numbers[min(1, len(numbers) - 1)]:
            raise InputError(
                f"--components {word!r}: {part!r} is no number and no range of numbers of 1 to 99,999; write "
                "1-20, 2-56-6 (first, last, step) or 1,2,4,8"
            )
        first, last, step = (*numbers, numbers[0], 1)[:3] if len(numbers) == 1 else (*numbers, 1)[:3]
        found |= set(range(first, last + 1, step))
    if len(found) > _MAX_COMPONENTS:
        raise InputError(
            f"--components {word!r} has {len(found):,} numbers; give at most {_MAX_COMPONENTS:,}"
        )
    return tuple(sorted(found))


def parse_size(word: str | None) -> tuple[int, int] | None:
    """Turn a --resize word, such as "28x24" or "28", into (height, width), and None into None.

    Example:
        >>> parse_size("32x24"), parse_size("28")
        ((32, 24), (28, 28))
    """
    if word is None:
        return None
    parts = word.lower().split("x")
    if len(parts) > 2 or not all(part.isascii() and part.isdigit() and int(part) for part in parts):
        raise InputError(f"{word!r} is not an image size; write 28x28 (height x width)")
    return int(parts[0]), int(parts[-1])
