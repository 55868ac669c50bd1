"""run.json: the settings behind the numbers of a run, and where the run came from."""

from collections.abc import Iterable, Iterator
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

from maskevidence.core.errors import InputError
from maskevidence.core.evidence.precise import Precise
from maskevidence.core.masks.design import MaskDesign, MaskKey
from maskevidence.core.masks.design_words import design_from_settings
from maskevidence.core.model import Conditionals
from maskevidence.core.support.provenance import command, differences, versions
from maskevidence.runs.blocks import Piece, missing_pieces, shard_blocks
from maskevidence.runs.folder import seal

SCHEMA = 3
# Fields on the origin of a run, or that follow from other fields: runs that differ in these alone
# are the same run.
_INCIDENTAL = {
    "schema_version",
    "versions",
    "command",
    "rows_per_block",
    "closed_form",
    "kept_model",
    "devices",
    "base_measure",
    "precise",
    "model_words",
}
_INCIDENTAL_DATA = {"name", "columns", "options", "notes", "text_fingerprint", "kind", "noun", "token"}
_INCIDENTAL_DATA |= {"spelled_fingerprint"}


class DataSource(BaseModel):
    """The scored rows and their origin.

    Attributes:
        name: the data as the user named them.
        fingerprint: SHA-256 of the scored data; for a table, of values, column names and row positions.
        source_fingerprint: SHA-256 of all rows from which a model was fitted for this run, if one was.
        n_observations: the number of scored rows, over all shards.
        columns: the scored columns.
        text_fingerprint: SHA-256 of the texts before they were cut into tokens; None for other data.
        spelled_fingerprint: SHA-256 of the texts that the tokens spell; None where it is unknown.
        test_fraction: the share of rows that was held out and is scored; None if all rows are.
        options: the options that the data were read with (limit, column, resize, skip_bad, binarise,
            block_size, context_field), as far as they were given.
        notes: changes of the data, one sentence each.
        kind: the name of the kind that reads them again for a report; None if none does.
        noun: the noun for an observation: protein, block of text, text, image or row.
        token: the noun for a token: token or residue.
    """

    model_config = ConfigDict(extra="forbid")

    name: str
    fingerprint: str
    source_fingerprint: str | None = None
    n_observations: int
    columns: list[str]
    text_fingerprint: str | None = None
    spelled_fingerprint: str | None = None
    test_fraction: float | None = None
    options: dict[str, str | int | bool] = Field(default_factory=dict)
    notes: list[str] = Field(default_factory=list)
    kind: str | None = None
    noun: str = "row"
    token: str = "token"


def common_noun(manifests: "Iterable[Manifest]") -> str:
    """The noun for one observation of several runs; "observation" if they differ."""
    nouns = {manifest.data.noun for manifest in manifests}
    return nouns.pop() if len(nouns) == 1 else "observation"


class Manifest(BaseModel):
    """The content of run.json: the settings behind a run's numbers, and its origin.

    Attributes:
        schema_version: version of the file format.
        model: the model as the user named it.
        revision: branch, tag or commit of a model on the hub, if it was given.
        model_words: a saved model of rows in words, such as "factor analysis, 3 factors"; None for others.
        model_fingerprint: the answer of `core.model.fingerprint`; None for a model that was fitted
            for this run and is kept in it.
        conditionals: the conditionals of the model, which decide the kind of the estimate.
        base_measure: what log-probabilities are relative to, a probability mass or a density and its unit;
            None if the model does not say.
        data: the rows that are scored.
        design: name and parameters of the mask design.
        masks: "own" or "shared".
        token_scores: whether the scores of hidden tokens are recorded, too.
        precise: the settings of the `Precise` that found the number of draws; None if it was given.
        seed: random seed for the masks and the train/test split.
        shard: (k, n): this run is the k-th of n shares of the rows, k = 1..n.
        rows_per_block: number of rows that are scored together; the model is always called in the same way
            for a block.
        kept_model: SHA-256 of the files of a model that was fitted for this run; None if no model was.
        closed_form: the log evidence of these rows by the model itself, nats per observation; None if the
            model has no closed form.
        details: other settings that affect the numbers, such as the density of images.
        dtype: the precision of the model; None if unknown. A run is not resumed in another one.
        devices: where the scores were computed: a device for each that the run was begun or resumed on.
        versions: versions of the packages that began the run.
        command: the command that began the run.
    """

    model_config = ConfigDict(extra="forbid")

    schema_version: Literal[3] = 3
    model: str
    revision: str | None = None
    model_words: str | None = None
    model_fingerprint: str | None = None
    conditionals: Conditionals
    base_measure: str | None = None
    data: DataSource
    design: dict[str, Any]
    masks: Literal["own", "shared"]
    token_scores: bool = False
    precise: dict[str, int | float] | None = None
    seed: int
    shard: tuple[int, int] = (1, 1)
    rows_per_block: int = Field(ge=1)
    kept_model: str | None = None
    closed_form: float | None = None
    details: dict[str, Any] = Field(default_factory=dict)
    dtype: str | None = None
    devices: list[str] = Field(default_factory=list)
    versions: dict[str, str] = Field(default_factory=versions)
    command: str = Field(default_factory=command)

    @field_validator("shard")
    @classmethod
    def _is_shard(cls, shard: tuple[int, int]) -> tuple[int, int]:
        if not 1 <= shard[0] <= shard[1]:
            raise ValueError(f"shard {shard}")
        return shard

    @property
    def named(self) -> str:
        """The model as the user named it, with its revision if given."""
        return self.model if self.revision is None else f"{self.model} (revision {self.revision})"

    @property
    def key(self) -> MaskKey:
        """Seed of the masks, and whether rows share them."""
        return MaskKey(self.seed, self.masks)

    @property
    def version(self) -> str:
        """The version of maskevidence that computed the scores."""
        return self.versions.get("maskevidence", "of an unknown version")

    def identity(self) -> str:
        """SHA-256 of everything that affects a score.

        All shards of a run have the same identity, and so has the run with more masks.
        """
        apart = ("shard", self.mask_design().extended_by)
        deciding = {name: value for name, value in _flat(self) if name not in apart}
        return seal([deciding, self.rows_per_block, self.kept_model, self.version])

    def holds(self, piece: Piece) -> bool:
        """Whether all blocks and repeats of a piece are in this run."""
        blocks = self.blocks()
        of_blocks = blocks.start <= piece.first_block < piece.last_block <= blocks.stop
        return of_blocks and piece.first_repeat < piece.last_repeat <= self.mask_design().n_repeats

    def mask_design(self) -> MaskDesign:
        """The run's mask design.

        Raises:
            InputError: this version does not know the design.
        """
        try:
            return design_from_settings(self.design)
        except InputError as error:
            raise InputError(f"run.json has a design that this version cannot read: {self.design}") from error

    def target(self) -> Precise | None:
        """The `Precise` that chose the number of draws; None if the user chose it."""
        if self.precise is None:
            return None
        return Precise(**self.precise)  # type: ignore[arg-type]  # a whole max_passes

    def blocks(self) -> range:
        """The blocks of this run's rows.

        Raises:
            InputError: there are more shards than blocks.
        """
        return shard_blocks(self.data.n_observations, self.rows_per_block, self.shard)

    def missing(self, done: Iterable[Piece]) -> list[Piece]:
        """The pieces still to be scored, one block at a time, when the pieces in `done` are scored."""
        return list(missing_pieces(done, self.blocks(), self.mask_design().n_repeats))

    def resuming(self, existing: "Manifest | None") -> "Manifest":
        """Take blocks, kept model, closed form and precision from the run that is resumed."""
        if existing is None:
            return self
        kept = ("rows_per_block", "kept_model", "closed_form", "dtype")
        devices = [*existing.devices, *(device for device in self.devices if device not in existing.devices)]
        return self.model_copy(update={name: getattr(existing, name) for name in kept} | {"devices": devices})

    def differences(self, other: "Manifest", *, but: tuple[str, ...] = ()) -> list[str]:
        """List the differences to another run, such as "seed 1 instead of 0"; [] if there are none.

        Args:
            other: the run that is asked for; its values come first.
            but: names of fields to ignore.
        """
        mine, theirs = (
            {name: value for name, value in _flat(each) if name not in but} for each in (self, other)
        )
        if None in (self.dtype, other.dtype):  # an unknown precision equals any
            mine |= {"dtype": other.dtype}
            theirs |= {"dtype": other.dtype}
        return differences(theirs, mine)

    def extended_by(self, other: "Manifest") -> bool:
        """Whether `other` is this run with more masks, as random-size:16 is of random-size:8."""
        option = self.mask_design().extended_by
        if option is None or self.design["name"] != other.design["name"]:
            return False
        return not self.differences(other, but=(option,)) and other.design[option] > self.design[option]


def _flat(manifest: Manifest) -> Iterator[tuple[str, Any]]:
    """Yield names and values of all settings that distinguish runs."""
    content = manifest.model_dump(mode="json", exclude=_INCIDENTAL)
    design, data = content.pop("design"), content.pop("data")
    yield from content.items()
    yield "design", design.pop("name")
    yield from design.items()
    yield from ((name, value) for name, value in data.items() if name not in _INCIDENTAL_DATA)
