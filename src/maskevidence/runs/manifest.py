"""run.json: what a run is of, and what made it."""

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from maskevidence.provenance import command, versions


class DataSource(BaseModel):
    """The rows that are scored.

    Attributes:
        name: as the user named them.
        fingerprint: SHA-256 of values, column names and row positions.
        n_observations: how many rows are scored.
        columns: the columns that are scored.
        test_fraction: the share of rows held out and scored; None where all are.
        notes: what was done to them, one sentence each.
    """

    model_config = ConfigDict(extra="forbid")

    name: str
    fingerprint: str
    n_observations: int
    columns: list[str]
    test_fraction: float | None = None
    notes: list[str] = Field(default_factory=list)


class Manifest(BaseModel):
    """What decides a run's numbers, and how it was made.

    Attributes:
        schema_version: of this file.
        model: as the user named it.
        data: the rows that are scored.
        design: name and parameters of the mask design.
        masks: "own" or "shared".
        seed: of the masks and of the held-out part.
        versions: of the packages that it was made with.
        command: that made it.
    """

    model_config = ConfigDict(extra="forbid")

    schema_version: Literal[1] = 1
    model: str
    data: DataSource
    design: dict[str, Any]
    masks: Literal["own", "shared"]
    seed: int
    versions: dict[str, str] = Field(default_factory=versions)
    command: str = Field(default_factory=command)

    def differences(self, other: "Manifest") -> list[str]:
        """What makes the two different runs, a phrase each; how they were made does not count."""
        mine, theirs = (
            manifest.model_dump(mode="json", exclude={"versions", "command"}) for manifest in (self, other)
        )
        mine |= mine.pop("data")
        theirs |= theirs.pop("data")
        return [
            f"{name} {theirs[name]!r} instead of {mine[name]!r}"
            for name in mine
            if mine[name] != theirs[name] and name not in ("columns", "notes")
        ]
