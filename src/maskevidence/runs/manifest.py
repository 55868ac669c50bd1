"""run.json: what a run is of, and what made it."""

import re
from collections.abc import Iterator
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from maskevidence.errors import InputError
from maskevidence.masks import MaskDesign, MaskKey, design_from_settings
from maskevidence.model import Conditionals
from maskevidence.models.saving import same_fingerprint
from maskevidence.support.provenance import command, versions

SCHEMA = 1
# How a run was made, and what follows from the rest: a run is the same run without them.
_INCIDENTAL = {"versions", "command", "rows_per_block", "closed_form"}
_LONGEST = 60
_FINGERPRINT = re.compile(r"[0-9a-f]{64}(-[0-9a-f]{64})?")
_INCIDENTAL_DATA = {"name", "columns", "options", "notes", "text_fingerprint"}


class DataSource(BaseModel):
    """The rows that are scored.

    Attributes:
        name: as the user named them.
        fingerprint: SHA-256 of what is scored; for a table of values, column names and row positions.
        source_fingerprint: SHA-256 of all rows that a model fitted here came from; None where none was.
        n_observations: how many rows are scored, over all shards.
        columns: the columns that are scored.
        text_fingerprint: SHA-256 of the texts before they were cut into tokens; None where they are none.
        test_fraction: the share of rows held out and scored; None where all are.
        options: of the command that read them (limit, column, resize, skip_bad, binarise, block_size,
            context_field), those that were given.
        notes: what was done to them, one sentence each.
    """

    model_config = ConfigDict(extra="forbid")

    name: str
    fingerprint: str
    source_fingerprint: str | None = None
    n_observations: int
    columns: list[str]
    text_fingerprint: str | None = None
    test_fraction: float | None = None
    options: dict[str, str | int | bool] = Field(default_factory=dict)
    notes: list[str] = Field(default_factory=list)


class Manifest(BaseModel):
    """What decides a run's numbers, and how it was made.

    Attributes:
        schema_version: of this file.
        model: as the user named it.
        model_fingerprint: of `models.saving.fingerprint`; None for a model fitted for this run, which is
            kept in the run.
        conditionals: of the model, which says what kind of number comes out.
        data: the rows that are scored.
        design: name and parameters of the mask design.
        masks: "own" or "shared".
        seed: of the masks and of the held-out part.
        shard: (k, n): this run is the k-th of n shares of the rows, k = 1..n.
        rows_per_block: rows that are scored together; a block's calls of the model are always the same.
        closed_form: the model's own log evidence of these rows, nats per observation; None if it has none.
        details: what else decides the numbers, such as the density of images.
        versions: of the packages that it was made with.
        command: that made it.
    """

    model_config = ConfigDict(extra="forbid")

    schema_version: Literal[1] = 1
    model: str
    model_fingerprint: str | None = None
    conditionals: Conditionals
    data: DataSource
    design: dict[str, Any]
    masks: Literal["own", "shared"]
    seed: int
    shard: tuple[int, int] = (1, 1)
    rows_per_block: int = Field(ge=1)
    closed_form: float | None = None
    details: dict[str, Any] = Field(default_factory=dict)
    versions: dict[str, str] = Field(default_factory=versions)
    command: str = Field(default_factory=command)

    @property
    def key(self) -> MaskKey:
        """What the masks depend on."""
        return MaskKey(self.seed, self.masks)

    def mask_design(self) -> MaskDesign:
        """The design as an object.

        Raises:
            InputError: a design that this version does not know.
        """
        try:
            return design_from_settings(self.design)
        except InputError as error:
            raise InputError(f"run.json has a design that this version cannot read: {self.design}") from error

    def differences(self, other: "Manifest", *, but: tuple[str, ...] = ()) -> list[str]:
        """What makes the two different runs, a phrase each: "seed 1 instead of 0" where `other` has 1.

        Args:
            other: the run that is asked for.
            but: fields that do not count.
        """
        mine, theirs = dict(_flat(self)), dict(_flat(other))
        return [
            f"{name} {_short(theirs.get(name))} instead of {_short(mine.get(name))}"
            for name in mine | theirs
            if name not in but and not _equal(name, mine.get(name), theirs.get(name))
        ]

    def extended_by(self, other: "Manifest") -> bool:
        """Whether `other` is the same run with more masks of each kind, as `--draws 16` is after 8."""
        option = self.mask_design().extended_by
        if option is None or self.design["name"] != other.design["name"]:
            return False
        return not self.differences(other, but=(option,)) and other.design[option] > self.design[option]


def _flat(manifest: Manifest) -> Iterator[tuple[str, Any]]:
    content = manifest.model_dump(mode="json", exclude=_INCIDENTAL)
    design, data = content.pop("design"), content.pop("data")
    yield from content.items()
    yield "design", design.pop("name")
    yield from design.items()
    yield from ((name, value) for name, value in data.items() if name not in _INCIDENTAL_DATA)


def _equal(name: str, one: Any, other: Any) -> bool:
    return same_fingerprint(one, other) if name == "model_fingerprint" else one == other


def _short(value: Any) -> str:
    if isinstance(value, str) and _FINGERPRINT.fullmatch(value):
        return "-".join(part[:12] for part in value.split("-"))
    text = "none" if value is None else str(value)
    return text if len(text) <= _LONGEST else text[:_LONGEST] + "..."
