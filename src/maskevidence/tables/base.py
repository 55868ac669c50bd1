"""Base class of all models of table rows: the methods they have beyond the protocol of `MaskedModel`."""

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float, Float64, Int64
from torch import Tensor, nn

import maskevidence
from maskevidence.command.options import parse_words
from maskevidence.core.errors import InputError, NumericalError
from maskevidence.core.evidence.precise import estimate_evidence
from maskevidence.core.masks.orders import Orderings
from maskevidence.core.model import Conditionals, columns_read, refuse_training_mode
from maskevidence.core.model_page import model_page
from maskevidence.core.show.parts import Page
from maskevidence.core.show.shown import HasPage
from maskevidence.core.show.words import count
from maskevidence.core.support.checks import check_memory, whole_number
from maskevidence.core.support.files import write_atomic, write_json
from maskevidence.core.support.keyed_random import keyed_bits
from maskevidence.core.support.progress import progress
from maskevidence.core.table import Table, as_table, varies, with_levels_of
from maskevidence.core.tokens import Tokens, called, column_names
from maskevidence.tables.category_columns import with_columns_of
from maskevidence.tables.imputation import Imputation
from maskevidence.tables.limits import with_limits
from maskevidence.tables.table_files import dated_frame, join_days

FORMAT = 1  # of the folder of a saved model
_ROWS_AT_ONCE, _CELLS_AT_ONCE = 8192, 2**21  # at most, of the rows that are filled together
_ORDERS = 16  # for `score_samples`, as in the evaluation of EoNADE
_MOST_SAMPLES = 20  # bootstrap samples to try before giving up
_KEPT = 1_000  # the smallest hashes, a random sample of rows
_UNIQUE = 0.9  # fewest distinct hashes, as a share of rows; below it, many rows are equal
_NOTED, _FEWEST = 0.2, 3  # share and number of matching rows that are noted
_DIGITS = 14  # hexadecimal digits of a 53-bit hash
MANY_EQUAL = "="  # prefix of the hashes if many rows are equal
_MOST_FITTED = 0.5  # share of the fitted rows from which a table counts as the fitted one


_IN_WORDS = {
    "FactorAnalysis": "factor analysis",
    "KernelGaussian": "kernel Gaussian",
    "BernoulliPCA": "Bernoulli PCA",
    "MaskedNetwork": "masked network",
}


class TableModel(HasPage, nn.Module, ABC):
    """A density over the columns of a table: fitted, saved, sampled and scored by the same methods.

    A subclass is a `MaskedModel`. It may also have the optional methods of `maskevidence.core.model`
    (`log_evidence`, `refine`, `elbo`, `score_orderings`, `score_moments`), which callers ask for with
    `hasattr(model, "log_evidence")` and so on.

    Attributes:
        conditionals: the kind of the conditionals; see `MaskedModel`.
        base_measure: the base measure of log-probabilities; see `MaskedModel`.
        n_features: D, the number of columns.
        columns: the names of the columns that the model was fitted to; None if unknown.
        read_with: the options by which a command read the table that it was fitted to, for the next command.
        fitted_rows: hashes of some of the rows that it was fitted to, which `save` keeps; see `marks_of`.
        bounded: after `fit`, the features whose noise variance is at its lower bound.
        n_iterations: after `fit`, the number of its iterations; 0 for a closed form.
        fit_notes: after `fit`, what a user should know of it, a sentence each.
        keeps_units: True if the model takes the values as they are, so that constant columns may stay. If
            False, callers drop constant columns, train on rows in the units of `units`, and call `rescale`.
        takes_words: True if columns may hold the positions of words, which `declare` tells the model.
        levels: the words of such columns, by the name of the column.
        learning_rate: the default learning rate of Adam.
        refits: True if `fit` takes so little time that it can be repeated for each draw of missing values.

    Args:
        n_features: D, 1 or more.
    """

    conditionals: Conditionals
    base_measure: str
    keeps_units: bool = True
    takes_words: bool = False
    learning_rate: float = 0.02
    refits: bool = False

    def __init__(self, n_features: int) -> None:
        super().__init__()
        self.n_features = whole_number("n_features", n_features, 1)
        self.columns: list[str] | None = None
        self.levels: Mapping[str, Sequence[str]] = {}
        self.read_with: Mapping[str, str] = {}
        self.fitted_rows = ""
        self.bounded: list[int] = []
        self.n_iterations = 0
        self.fit_notes: tuple[str, ...] = ()

    @property
    def dtype(self) -> torch.dtype:
        """The dtype of the model's computations; its location and scale parameters are float64 in any
        case.
        """
        return self._like().dtype

    @property
    def n_parameters(self) -> int:
        """The number of free parameters."""
        return sum(parameter.numel() for parameter in self.parameters())

    @abstractmethod
    def arguments(self) -> dict[str, Any]:
        """The constructor arguments that build the model again, as JSON values."""

    def in_words(self) -> str:
        """A short description of the model for reports.

        Example:
            >>> import maskevidence as me
            >>> me.models.FactorAnalysis(n_features=9, n_components=3).in_words()
            'factor analysis, 3 factors'
        """
        name, k = type(self).__name__, self.arguments().get("n_components")
        noun = "factor" if name == "FactorAnalysis" else "component"
        return _IN_WORDS.get(name, name) + ("" if k is None else f", {count(k, noun)}")

    def reloaded(self, folder: str | Path) -> Any:
        """Load a model that `save` wrote into a folder."""
        return maskevidence.models.load(folder)

    @abstractmethod
    def fit(self, x: object) -> "TableModel":
        """Train the model on rows, in place.

        Args:
            x: shape (N, D), NaN where a value is missing.
        """

    @abstractmethod
    def log_conditionals(self, tokens: Tokens, masked: Bool[Tensor, "B D"]) -> Float[Tensor, "B D"]:
        """log p(x_j | x_visible) in nats, shape (B, D); exactly 0 where `masked` is False."""

    def score_samples(self, x: object) -> Float64[np.ndarray, " N"]:
        """log p of each row, nats, shape (N,); NaN marks a missing value.

        Without a closed form it is a lower bound: the importance bound over 16 random orders.
        """
        log_evidence: Any = getattr(self, "log_evidence", None)
        if log_evidence is None:
            return self._bound_by_orders(x)
        with torch.no_grad():
            values: Float64[np.ndarray, " N"] = log_evidence(self.tokens(x)).cpu().double().numpy()
        return values

    def _bound_by_orders(self, x: object, seed: int = 0) -> Float64[np.ndarray, " N"]:
        """The importance bound over 16 random orders, a lower bound of each row's log evidence."""
        design, tokens = Orderings(_ORDERS, bound="importance"), self.tokens(x)
        parts = [
            estimate_evidence(self, tokens[rows], design, seed=seed).per_observation
            for rows in torch.split(torch.argsort(tokens.ids), _ROWS_AT_ONCE)
        ]
        return np.concatenate(parts)

    @abstractmethod
    def _draw_rows(self, n: int, seed: int) -> Float[Tensor, "n D"]:
        """Draw n rows; called without gradients."""

    @abstractmethod
    def _draw_missing(self, tokens: Tokens, seed: int) -> Float[Tensor, "B D"]:
        """Draw each row's absent tokens jointly given the present ones; values stored for absent tokens are
        ignored.

        Called without gradients. The draws of a row depend only on the seed, its id and its tokens.
        """

    @abstractmethod
    def _missing_moments(self, tokens: Tokens) -> tuple[Float[Tensor, "B D"], Float[Tensor, "B D"]]:
        """Mean and variance of the absent tokens given the present ones; values at present tokens are
        ignored.
        """

    def page(self) -> Page:
        """A page that describes the model and the columns it was fitted to."""
        return model_page(self, self.arguments(), self.columns)

    def sample(self, n: int, seed: int = 0) -> Float64[np.ndarray, "n D"]:
        """Draw n rows from the model, shape (n, D); equal seeds give equal rows.

        Raises:
            InputError: n is below 0.
        """
        n = whole_number("n", n, 0)
        refuse_training_mode(self)
        with torch.no_grad():
            return self._draw_rows(n, seed).cpu().double().numpy()

    def impute(self, x: object) -> Imputation:
        """Conditional mean and variance of every missing (NaN) value given the row's observed values.

        A row without any observed value gets the means and variances of the marginals. For 0/1 data the mean
        is P(x_j = 1 | the observed values), the variance p (1 - p).

        Args:
            x: shape (N, D).

        Returns:
            The filled table, with the model's columns in the order in which x has them.
        """
        tokens, order = self._with_holes(x), self._order_of(x)
        self.refuse_strange_cells(tokens)
        values, variance = tokens.values.clone(), torch.zeros_like(tokens.values)
        with torch.no_grad():
            for rows in _with_hole(tokens, "filling"):
                some, seen = tokens[rows], tokens.maskable[rows]
                mean, spread = self._missing_moments(some)
                values[rows] = torch.where(seen, some.values, mean.to(values))
                variance[rows] = torch.where(seen, 0.0, spread.to(values))
        names = self.columns or column_names(x)
        return Imputation(
            values.cpu().double().numpy()[:, order],
            variance.cpu().double().numpy()[:, order],
            None if names is None else tuple(names[k] for k in order),
            {name: tuple(words) for name, words in self.levels.items()},
            x if column_names(x) is not None or hasattr(x, "iloc") else None,
            self.day_0,
        )

    def draw_missing(
        self, x: object, draws: int = 1, seed: int = 0, *, refit: bool = False
    ) -> Float64[np.ndarray, "n N D"]:
        """Draw tables in which each row's missing (NaN) values come jointly from p(x_missing | x_observed).

        A row without any observed value is drawn from the model. The draws of a row depend only on the seed,
        the number of the draw and the row: asking for more draws does not change the first ones.

        Args:
            x: shape (N, D).
            draws: the number of tables.
            seed: of the draws.
            refit: whether each table is drawn by a copy of the model that is fitted to a bootstrap sample of
                the rows, so that the draws vary with the uncertainty of the parameters, too.

        Returns:
            Shape (draws, N, D), the model's columns in the order in which x has them; observed values are as
            they were in each of them. Words are their positions among the model's `levels`.

        Raises:
            InputError: `draws` is below 1, or none of 20 bootstrap samples can be fitted.
        """
        draws = whole_number("draws", draws, 1)
        tokens = self._with_holes(x)
        n_bytes = 16 * draws * tokens.values.numel()
        check_memory(n_bytes, f"{draws:,} draws of a table", "draw fewer at a time")
        self.refuse_strange_cells(tokens)
        tables = tokens.values.double().expand(draws, -1, -1).clone()
        with torch.no_grad(), progress("draws", draws, parts=True) as advance:
            for draw, table in enumerate(tables):
                key = int(keyed_bits(whole_number("seed", seed), draw))
                model = self._bootstrapped(tokens, key) if refit else self
                for rows in _with_hole(tokens, "drawing"):
                    some, seen = tokens[rows], tokens.maskable[rows]
                    table[rows] = torch.where(seen, table[rows], model._draw_missing(some, key).double())
                advance(1)
        return tables.cpu().numpy()[:, :, self._order_of(x)]

    def refits_to(self, x: object) -> bool:
        """Whether refitting is fast and the model was fitted to all or most of these rows.

        Args:
            x: shape (N, D), NaN where a value is missing.
        """
        return self.refits and includes_fitted(self.fitted_rows, self._with_holes(x))

    def _bootstrapped(self, tokens: Tokens, seed: int) -> "TableModel":
        """Fit a copy of the model to a bootstrap sample of the rows; draw again if the fit fails."""
        table = torch.where(tokens.maskable, tokens.values, torch.nan).cpu().numpy()
        table = table[tokens.maskable.any(1).cpu().numpy()]
        rng, varying = np.random.default_rng(seed), varies(table)
        why: Exception | str = "a column has one value in each sample"
        for _ in range(_MOST_SAMPLES):
            sample = table[rng.integers(len(table), size=len(table))]
            if not varies(sample)[varying].all():
                continue
            again = copy.deepcopy(self)
            try:
                with torch.enable_grad():
                    again._fit_again(sample, seed)
            except (InputError, NumericalError) as error:
                why = error
            else:
                return again
        raise InputError(
            f"the model cannot be fitted to {_MOST_SAMPLES} bootstrap samples of the rows: {why}; with "
            "refit=False its parameters are taken as known"
        )

    def _fit_again(self, table: Float64[np.ndarray, "N D"], seed: int) -> None:
        """Fit to a bootstrap sample with the settings of the last fit; `seed` is for any randomness in the
        fit.
        """
        self.fit(table)

    def tokens(self, x: object) -> Tokens:
        """Rows as tokens on the model's device.

        The values are float64 in a model of any dtype, because a model centres rows before it casts them.
        From a `Table` or a data frame, a model fitted to named columns takes its own columns, in its order.

        Args:
            x: shape (N, D), NaN where a value is missing; `Tokens` stay as they are.

        Raises:
            InputError: not a table of numbers, or a table without a column of the model.
        """
        self._refuse_half()
        if isinstance(x, Tokens):
            return x.to(self._like().device)
        return Tokens.from_array(self._own_columns(x)).to(self._like().device)

    def with_limits(self, table: Table) -> tuple[Any, tuple[str, ...]]:
        """The model that also scores the limits of a table, and a note if it cannot; see `WithLimits`."""
        return with_limits(self, self.table(table))

    def check_width(self, width: int) -> None:
        """Check that data have as many columns as the model has features.

        Raises:
            InputError: they do not.
        """
        if width != self.n_features:
            raise InputError(
                f"the data have {width} columns, the model has {self.n_features} features; "
                "give the columns that it was fitted to"
            )

    def strange_cell(self, tokens: Tokens, read: Bool[Tensor, "B D"]) -> tuple[int, int, str] | None:
        """Find the first read cell whose value the model has no distribution for; None if there is none.

        Returns:
            Its row and column, and a clause on the values that the model takes and what to do.
        """
        return None

    def refuse_strange_cells(
        self,
        tokens: Tokens,
        read: Bool[Tensor, "B D"] | None = None,
        place: Callable[[int], str] = "observation {}".format,
    ) -> None:
        """Check that rows have the model's width, and that it has a distribution for every cell.

        Args:
            read: the cells that are read; all that are present by default.
            place: names a row by its id.

        Raises:
            InputError: it has none for a value, such as a third one of a yes/no column.
        """
        self.check_width(tokens.width)
        found = self.strange_cell(tokens, tokens.maskable | tokens.context if read is None else read)
        if found is not None:
            row, column, advice = found
            raise InputError(
                f"{place(int(tokens.ids[row]))} has {tokens.values[row, column].item():g} in column "
                f"{called(self.columns, column)}; {advice}"
            )

    def save(self, folder: str | Path) -> None:
        """Write `config.json` and `model.safetensors` into a folder; `me.models.load` reads them."""
        from safetensors.torch import save

        state = {name: value.detach().contiguous() for name, value in self.state_dict().items()}
        write_atomic(Path(folder) / "model.safetensors", save(state))
        config = {
            "format": FORMAT,
            "class": type(self).__name__,
            "arguments": self.arguments(),
            "columns": self.columns,
            "read_with": dict(self.read_with),
            "fitted_rows": self.fitted_rows,
        }
        write_json(Path(folder) / "config.json", config)

    def notes_on(self, tokens: Tokens, data: object = None) -> tuple[str, ...]:
        """A note if the model was fitted to some of these rows."""
        share = share_fitted(self.fitted_rows, tokens)
        if share == 0.0:
            return ()
        rows = "the rows" if share == 1.0 else f"{share:.0%} of the rows"
        return (f"the model was fitted to {rows} that are scored; new rows have a lower log evidence",)

    def fingerprint_settings(self) -> dict[str, Any]:
        """The settings, besides class and weights, that determine the model's numbers; see
        `fingerprint`.
        """
        return self.arguments()

    def units(
        self, values: Float64[np.ndarray, "N D"]
    ) -> tuple[Float64[np.ndarray, " D"], Float64[np.ndarray, " D"]]:
        """Shift and scale for training on (x - shift) / scale; 0 and 1 if the model `keeps_units`.

        Args:
            values: shape (N, D), NaN where a value is missing.

        Returns:
            Shift and scale, each of shape (D,), in the units of the data.

        Raises:
            InputError: a column that does not vary.

        Example:
            >>> import maskevidence as me
            >>> model = me.models.Gaussian(n_features=1)
            >>> shift, scale = model.units(np.array([[1.0], [5.0]]))
            >>> shift.tolist(), scale.tolist()
            ([3.0], [2.0])
        """
        return np.zeros(self.n_features), np.ones(self.n_features)

    def rescale(self, shift: Float64[np.ndarray, " D"], scale: Float64[np.ndarray, " D"]) -> None:
        """Turn a model of (x - shift) / scale into the same density of x, in place.

        Does nothing if the model `keeps_units`.

        Args:
            shift: shape (D,), as `units` gives it.
            scale: shape (D,), likewise.

        Example:
            >>> import maskevidence as me
            >>> model = me.models.Gaussian(torch.zeros(1), torch.eye(1))
            >>> model.rescale(np.array([5.0]), np.array([2.0]))
            >>> model.mean.item(), round(model.covariance.item(), 12)
            (5.0, 4.0)
        """

    def for_table(self, table: Table) -> "TableModel":
        """The new model that takes a table's columns: this one, unless the family has another for words.

        Example:
            >>> import maskevidence as me
            >>> table = Table("t", np.zeros((2, 1)), ("c",), np.arange(2), levels={"c": ("a", "b")})
            >>> type(me.models.KernelGaussian(1, 1).for_table(table)).__name__
            'MixedKernelGaussian'
        """
        return self

    def declare(self, x: object) -> None:
        """Show the model all rows before a fit to some of them, so that it knows the kind of every column.

        Does nothing unless `takes_words`.

        Args:
            x: shape (N, D), NaN where a value is missing; a `Table` or a data frame may have words.

        Raises:
            InputError: a column that the model cannot take.
        """

    def set_units(self, x: object) -> None:
        """Set the model's own shift and scale from rows, in place, before training.

        Does nothing unless the model has such units, as a `VAE` with a Gaussian likelihood does.

        Args:
            x: shape (N, D), NaN where a value is missing.
        """

    def add_encoder(self, seed: int = 0) -> None:
        """Add the encoder that the ELBO needs, in place.

        Does nothing if the model has one already or cannot have one.
        """

    def _table(self, x: object) -> Float64[np.ndarray, "N D"]:
        """Check the rows to fit; return float64 with NaN where a value is missing."""
        self._refuse_half()
        if isinstance(x, Table) and x.levels and not self.takes_words:
            raise InputError(
                f"column {next(iter(x.levels))!r} holds words, which {type(self).__name__} cannot take; give "
                "a MixedKernelGaussian or a MaskedNetwork, or leave such columns out"
            )
        x = self._dated(x, fit=True)
        tokens = Tokens.from_array(x)
        self.check_width(tokens.width)
        self.columns = column_names(x) or self.columns
        self._remember(x, tokens)
        table = np.where(tokens.maskable.numpy(), tokens.values.numpy(), np.nan)
        unseen = np.flatnonzero(np.isnan(table).all(axis=0))
        if len(unseen):
            raise InputError(
                f"column {called(self.columns, int(unseen[0]))} has no observed value; leave it out"
            )
        return table

    @property
    def day_0(self) -> dict[str, str]:
        """The day from which each column of dates counts, by name."""
        known = (part.rpartition("=") for part in parse_words("day_0", self.read_with.get("day_0")))
        return {name: day for name, _, day in known}

    def count_days(self, day_0: Mapping[str, str]) -> None:
        """Set the day from which each column of dates counts, by name."""
        others = {name: word for name, word in self.read_with.items() if name != "day_0"}
        self.read_with = others | ({"day_0": join_days(day_0)} if day_0 else {})

    def _dated(self, x: Any, *, fit: bool = False) -> Any:
        """A data frame with dates as days since the model's days 0, in a fit since their first."""
        known = {} if fit else self.day_0
        frame, forms = dated_frame(x, known)
        if fit and hasattr(x, "iloc"):
            self.count_days({name: form.origin for name, form in forms.items()})
        own = [name for name in forms if self.columns is None or name in self.columns]
        if not fit and {*own} - {*known}:
            raise InputError(
                f"column {own[0]!r} holds dates, and the model was fitted to none there; give days since the "
                "same day as in the fit"
            )
        return frame

    def _with_holes(self, x: object) -> Tokens:
        """Rows to fill as tokens; a row may have no observed value."""
        refuse_training_mode(self)
        self._refuse_half()
        tokens = Tokens.from_array(self._own_columns(x), empty_rows=True).to(self._like().device)
        self.check_width(tokens.width)
        return tokens

    def _remember(self, x: object, tokens: Tokens) -> None:
        """Record hashes of the fitted rows, and the column names unless the model has some."""
        self.columns = self.columns or column_names(x)
        self.fitted_rows = marks_of(tokens)

    def table(self, x: object) -> Table:
        """Rows as a `Table` with the model's columns in the model's order, and their words.

        Args:
            x: shape (N, D): a `Table`, a data frame, or an array with the model's columns in its order.

        Raises:
            InputError: not a table, or a table without a column of the model.
        """
        if isinstance(x, Table) and x.categories and self.columns is not None:
            return with_columns_of(x, self.columns)
        x = self._dated(x)
        places = columns_read(self, x)
        rows = as_table(x if places is None else self._cut(x, places), self.levels)
        self.check_width(len(rows.columns))
        given = rows.columns if places is None else map(str, self._cut(x, places).columns)
        return replace(rows, columns=tuple(self.columns or given))

    def _cut(self, x: Any, places: Sequence[int]) -> Any:
        """Select columns of a data frame or a `Table`, in this order."""
        if hasattr(x, "iloc"):
            return x.iloc[:, places]
        names = [x.columns[place] for place in places]
        return x.select(names) if isinstance(x, Table) else x[names]

    def _own_columns(self, x: Any) -> object:
        """Cut named data to the model's columns, in its order, with words as codes; leave other data
        alone.
        """
        if isinstance(x, Table) or (self.levels and column_names(x) is not None):
            return with_levels_of(self.table(x), self.levels)
        x = self._dated(x)
        places = columns_read(self, x)
        return x if places is None else self._cut(x, places)

    def _order_of(self, x: object) -> Int64[np.ndarray, " D"]:
        """The positions of the model's columns, in the order of the data."""
        one_hot = isinstance(x, Table) and x.categories and not {*(self.columns or ())} <= {*x.columns}
        places = None if one_hot else columns_read(self, x)
        return np.arange(self.n_features) if places is None else np.argsort(places)

    def _refuse_half(self) -> None:
        if self.dtype not in (torch.float32, torch.float64):
            dtype = str(self.dtype).removeprefix("torch.")
            raise InputError(f"models of rows do not compute in {dtype}; give float32 or float64")

    def _refuse_context(self, tokens: Tokens) -> None:
        if bool(tokens.context.any()):
            raise InputError(
                "this bound is not available for tokens with context; give tokens without context"
            )

    def _like(self) -> Tensor:
        """A parameter that has the model's dtype and device."""
        return next(p for p in self.parameters() if p.is_floating_point())


def _with_hole(tokens: Tokens, description: str) -> Iterator[Int64[Tensor, " b"]]:
    """The positions of the rows with a missing value, some of like masks at a time, with a progress."""
    rows = torch.nonzero(~tokens.maskable.all(1)).flatten()
    at_once = max(1, min(_ROWS_AT_ONCE, _CELLS_AT_ONCE // tokens.width))
    if len(rows) > at_once:
        seen = tokens.maskable[rows].cpu().numpy()
        rows = rows[torch.from_numpy(np.lexsort([*np.packbits(seen, axis=1).T, seen.sum(1)])).to(rows.device)]
    with progress(description, len(rows)) as advance:
        for some in torch.split(rows, at_once) if len(rows) else ():
            yield some
            advance(len(some))


def keeping_dtype(convert: Callable[[Tensor], Tensor], kept: Sequence[Tensor]) -> Callable[[Tensor], Tensor]:
    """Wrap a conversion for `nn.Module._apply` so that the tensors in `kept` change device but keep their
    dtype.

    Location and scale parameters stay in float64 in a model of any dtype, because rows are centred before
    they are cast. In float32, values near 10⁸ differ by 8 at least.

    Example:
        >>> mean = torch.zeros(2, dtype=torch.float64)
        >>> keeping_dtype(torch.Tensor.float, [mean])(mean).dtype
        torch.float64
    """

    def converted(tensor: Tensor) -> Tensor:
        if not any(tensor is other for other in kept):
            return convert(tensor)
        device = convert(torch.zeros((), dtype=torch.float32, device=tensor.device)).device
        if device.type == "mps":
            raise InputError("models of rows compute in float64, which mps does not have; use cpu or cuda")
        return tensor.to(device)

    return converted


def marks_of(tokens: Tokens) -> str:
    """Hash the float32 values of up to 1,000 rows, in hexadecimal, after "=" if many rows are equal.

    Example:
        >>> len(marks_of(Tokens.from_array([[1.0, 2.0], [3.0, 4.0]]))) // 14
        2
        >>> marks_of(Tokens.from_array([[1.0, 2.0], [1.0, 2.0]]))[0]
        '='
    """
    values, counts = np.unique(_hashes(tokens), return_counts=True)
    equal = MANY_EQUAL if (counts == 1).sum() < _UNIQUE * len(tokens) else ""
    return equal + "".join(f"{value:0{_DIGITS}x}" for value in values[:_KEPT])


def includes_fitted(marks: str, tokens: Tokens) -> bool:
    """Whether rows include most rows that a model was fitted to; False for a model that was not fitted.

    Example:
        >>> fitted, some, few = (Tokens.from_array(np.arange(n)[:, None]) for n in (8, 6, 3))
        >>> [includes_fitted(marks_of(fitted), rows) for rows in (fitted, some, few)]
        [True, True, False]
    """
    kept = _kept(marks)
    return bool(len(kept)) and bool(np.isin(kept, _hashes(tokens)).mean() >= _MOST_FITTED)


def share_fitted(marks: str, tokens: Tokens) -> float:
    """Estimate the share of rows that a model was fitted to, from its marks; 0 below a threshold.

    Of more than 1,000 fitted rows, those with the smallest hashes are known, and only rows with as small
    hashes are counted.

    Example:
        >>> fitted, scored = (Tokens.from_array(np.arange(n)[:, None]) for n in (8, 10))
        >>> share_fitted(marks_of(fitted), scored)
        0.8
    """
    if marks.startswith(MANY_EQUAL):  # new rows would match, too
        return 0.0
    kept, hashes = _kept(marks), _hashes(tokens)
    if len(kept) == _KEPT:
        hashes = hashes[hashes <= kept.max()]
    n_found = int(np.isin(hashes, kept).sum())
    enough = n_found >= max(1, _NOTED * len(hashes), min(_FEWEST, len(tokens)))
    return n_found / len(hashes) if enough else 0.0


def _kept(marks: str) -> Int64[np.ndarray, " n"]:
    """The row hashes packed into `marks`."""
    marks = marks.removeprefix(MANY_EQUAL)
    return np.array([int(marks[i : i + _DIGITS], 16) for i in range(0, len(marks), _DIGITS)], dtype=np.int64)


def _hashes(tokens: Tokens) -> Int64[np.ndarray, " B"]:
    """53-bit hash of each row's float32 values and missing cells."""
    at_once = max(1, min(_ROWS_AT_ONCE, _CELLS_AT_ONCE // max(1, tokens.width)))
    starts = range(0, max(1, len(tokens)), at_once)
    return np.concatenate([_hashed(tokens[at : at + at_once]) for at in starts])


def _hashed(tokens: Tokens) -> Int64[np.ndarray, " B"]:
    values = torch.where(tokens.maskable, tokens.values.detach(), 0).float().cpu() + 0.0  # -0.0 + 0.0 is 0.0
    present = tokens.maskable.cpu().numpy()
    words = np.where(present, values.numpy().view(np.int32), -1).astype(np.int64)
    factors = (keyed_bits(np.arange(words.shape[1])) | np.uint64(1)).astype(np.int64)
    return (keyed_bits(words @ factors) >> np.uint64(11)).astype(np.int64)  # sums modulo 2^64
