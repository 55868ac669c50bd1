"""The kind of model that a MODEL word names, which decides the options of a command; needs no torch."""

import re
from pathlib import Path
from typing import Any

from maskevidence.errors import InputError
from maskevidence.support.files import read_json
from maskevidence.support.hub import hub_file
from maskevidence.tasks.declaring import Kind

_ON_THE_HUB = re.compile(r"[\w-][\w.-]*/[\w-][\w.-]*")
TRANSFORMERS: dict[str, Kind] = {"masked-lm": "texts", "vit-mae": "images"}


def kind_of_training(word: str) -> Kind:
    """The kind of a new model that `train` makes.

    Example:
        >>> kind_of_training("ppca:8"), kind_of_training("vit-mae")
        ('rows', 'images')
    """
    return TRANSFORMERS.get(word, "rows")


def kind_of_model(word: str) -> Kind:
    """The kind of model that a MODEL word names.

    A folder is asked for its config.json. A name on the hub is asked, too; if its config.json cannot be had,
    a name with "vit" or "mae" is a masked image model, and any other a masked language model.

    Example:
        >>> kind_of_model("ppca:8"), kind_of_model("google-bert/bert-base-uncased")
        ('rows', 'texts')
    """
    folder = Path(word)
    if folder.is_dir():
        config = _config(folder / "config.json")
        if config is None:
            return "texts" if (folder / "tokenizer_config.json").exists() else "rows"
        if not isinstance(config, dict) or "class" in config:  # a model that this package has saved
            return "rows"
        return "images" if "image_size" in config else "texts"
    if _ON_THE_HUB.fullmatch(word) is None:
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
