"""Build models of rows from MODEL words such as "ppca:8", without importing torch, and fit them to tables."""

import re
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import maskevidence as me
from maskevidence.core.errors import InputError, unknown_name

if TYPE_CHECKING:
    from maskevidence.core.table import Table
    from maskevidence.tables.base import TableModel
_WITH_COMPONENTS: dict[str, Callable[[int, int], "TableModel"]] = {
    "ppca": lambda d, k: me.models.PPCA(d, k),
    "factor-analysis": lambda d, k: me.models.FactorAnalysis(d, k),
    "bernoulli-pca": lambda d, k: me.models.BernoulliPCA(d, k),
    "vae": lambda d, k: me.models.VAE(n_features=d, n_components=k),
    "bernoulli-vae": lambda d, k: me.models.VAE(likelihood="bernoulli", n_features=d, n_components=k),
}
COUNTS, GAUSSIAN = "mixture-transition", "gaussian"
_WITHOUT_COMPONENTS: dict[str, Callable[[int], "TableModel"]] = {
    GAUSSIAN: lambda d: me.models.Gaussian(n_features=d),
    "kernel-gaussian": lambda d: me.models.KernelGaussian(d),
    COUNTS: lambda d: me.models.MixtureTransition(d),
}
NETWORK = "masked-net"  # or with width and layers: masked-net:256x2
KERNELS = "kernel-gaussian"
AUTO = "auto"  # the model that a table decides; see `auto_word`
MODELS = (AUTO, NETWORK, *_WITHOUT_COMPONENTS, *(f"{name}:K" for name in _WITH_COMPONENTS))
TAKE_WORDS = (COUNTS, KERNELS, NETWORK)  # whose new models take words
LOW_RANK = ("ppca", "factor-analysis")  # families whose fit with K components starts from the fit with fewer
FAMILIES = tuple(_WITH_COMPONENTS)  # words that need a number of components
SINGLE = (NETWORK, *_WITHOUT_COMPONENTS)  # words without a number of components
_MAX_COMPONENTS = 10_000


def parse_model(word: str) -> tuple[Callable[[int], "TableModel"] | None, Any]:
    """Parse a MODEL word into a builder of new models or a saved model.

    Args:
        word: "auto" (whose builder refuses, since a table decides), "masked-net", "masked-net:256x2" (width
            and layers), "gaussian", "kernel-gaussian", "mixture-transition", "ppca:8", "factor-analysis:3",
            "bernoulli-pca:2", "vae:20", or the folder of a saved model.

    Returns:
        (builder, None) for a new model, where the builder takes the number of features; (None, model) for a
        saved one.

    Example:
        >>> builder, _ = parse_model("ppca:2")
        >>> builder(5).loadings.shape
        torch.Size([5, 2])
    """
    name, _, components = word.partition(":")
    if word == AUTO:
        return _undecided, None
    if is_network(word):
        sizes = _network_sizes(word)
        return lambda n_features: me.models.MaskedNetwork(n_features, *sizes), None
    if word in _WITHOUT_COMPONENTS:
        return _WITHOUT_COMPONENTS[word], None
    if name in _WITH_COMPONENTS:
        if not components.isascii() or not components.isdigit() or int(components) < 1:
            raise InputError(f"model {word!r} lacks its number of components; write {name}:8, for example")
        return lambda n_features: _WITH_COMPONENTS[name](n_features, int(components)), None
    if Path(word).is_dir() or "/" in word or word.startswith("."):
        return None, me.models.load(word)
    raise unknown_name("model", word, [*MODELS, "a saved model's folder", "OWNER/NAME on the hub"])


def _undecided(n_features: int) -> "TableModel":
    raise InputError(
        "auto is decided by a table, in cells, impute, score and check; give one model, such as masked-net"
    )


def takes_words(word: str, saved: Any = None) -> bool:
    """Whether the new or saved model of a MODEL word takes columns of words.

    Example:
        >>> takes_words("auto"), takes_words("masked-net:64x2"), takes_words("ppca:8")
        (True, True, False)
    """
    if saved is not None:
        return getattr(saved, "takes_words", False)
    return word.partition(":")[0] in (AUTO, *TAKE_WORDS)


def is_network(word: str) -> bool:
    """Whether a MODEL word stands for a new masked network, with or without its sizes.

    Example:
        >>> is_network("masked-net"), is_network("masked-net:64x2"), is_network("ppca:8")
        (True, True, False)
    """
    return word.partition(":")[0] == NETWORK


def _network_sizes(word: str) -> tuple[int, ...]:
    """Width and layers of a new masked network; an empty tuple for the defaults."""
    _, colon, text = word.partition(":")
    if not colon:
        return ()
    parts = text.split("x")
    if len(parts) != 2 or not all(re.fullmatch("[1-9][0-9]{0,4}", part) for part in parts):
        raise InputError(f"model {word!r} lacks its width and layers; write {NETWORK}:256x2, for example")
    return tuple(map(int, parts))


def parse_components(word: str) -> tuple[int, ...]:
    """Parse a --components word, such as "1-20", "2-56-6" (first, last, step) or "1,2,4".

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


def fit_each(
    family: str, x: Any, ks: Sequence[int], names: Sequence[str] | None = None
) -> "Iterator[TableModel]":
    """Fit a low-rank family with each K in ascending order, each fit starting from the last one."""
    from maskevidence.tables.gaussian.low_rank import fit_each_rank

    return fit_each_rank(me.models.PPCA if family == "ppca" else me.models.FactorAnalysis, x, ks, names)


def fit_table(
    build: Callable[[int], "TableModel"], table: "Table", rows: "Table", *, empty_rows: bool = False
) -> tuple["TableModel", list[str]]:
    """Fit a new model to some rows of a table.

    Args:
        build: makes a model for this number of columns.
        table: all rows, which decide the kinds of the columns.
        rows: the rows of the fit.
        empty_rows: whether rows without any value in the model's columns are left out, or refused.

    Returns:
        The model, and the columns that were dropped; see `new_model`.
    """
    from maskevidence.core.table import with_values
    from maskevidence.tables.table_files import days_0_of

    model, dropped = new_model(build, rows, table)
    values = rows.select(model.columns or []).values
    model.count_days(days_0_of(rows.select(model.columns or [])))
    return model.fit(values[with_values(values)] if empty_rows else values), dropped


def new_model(
    build: Callable[[int], "TableModel"], rows: "Table", table: "Table", purpose: str = "fit"
) -> tuple["TableModel", list[str]]:
    """Build a model for the rows' columns, without constant ones unless the model `keeps_units`.

    Returns:
        The model, which names its columns, and the columns that were dropped.
    """
    from maskevidence.core.table import place_of
    from maskevidence.tables.table_files import refuse_empty_columns

    refuse_empty_columns(table)
    model = build(len(rows.columns)).for_table(table)
    dropped = [] if model.keeps_units else rows.constant_columns()
    kept = [column for column in rows.columns if column not in dropped]
    if not kept:
        raise InputError(f"every column of {rows.name} is constant; there is nothing to {purpose}")
    chosen = table.select(kept)
    model = declared(build(len(kept)) if dropped else model, chosen, kept)
    model.refuse_strange_cells(model.tokens(chosen), place=partial(place_of, lines=chosen.lines))
    return model, dropped


def declared(model: "TableModel", table: "Table", names: Sequence[str] | None) -> "TableModel":
    """A new model that knows the kinds of the columns of a table, and their names if they have some."""
    model = model.for_table(table)
    model.declare(table)
    model.columns = None if names is None else list(names)
    return model
