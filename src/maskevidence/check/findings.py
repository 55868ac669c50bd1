"""What a check found, and the report of all checks of a model."""

import math
from collections import Counter
from dataclasses import asdict, dataclass
from typing import Any, Literal

from maskevidence.errors import InputError
from maskevidence.show.parts import Page, Table
from maskevidence.show.shown import Shown

Status = Literal["passed", "failed", "noted", "skipped"]
_COLUMNS = ("check", "result", "rows", "masks", "bound", "what was found")


@dataclass(frozen=True)
class Finding:
    """The result of one check.

    Attributes:
        check: the name of the check.
        status: "passed"; "failed"; "noted", for a number or a fact that is not a fault of the model but that
            a reader of its numbers should know; or "skipped", if the check does not apply, or if it fails as
            an earlier one does, which may explain it.
        found: what was found, one sentence; for "skipped", why.
        did: what was done, one sentence.
        n_rows: the number of observations that were looked at.
        n_masks: the number of masks.
        largest: the largest difference, error or share that was found; None if nothing was measured.
        allowed: the largest number that passes, with the room for rounding in it; None likewise.
        z: for statistical checks, the deviation in standard errors; None for others.
        look_at: for "failed" and "noted", what to look at in the model or the data.
    """

    check: str
    status: Status
    found: str
    did: str = ""
    n_rows: int = 0
    n_masks: int = 0
    largest: float | None = None
    allowed: float | None = None
    z: float | None = None
    look_at: str = ""


@dataclass(frozen=True, repr=False)
class CheckReport(Shown):
    """The findings of all checks of one model on some data; it prints as a table.

    Attributes:
        model: the name of the model's class.
        findings: one for each check, in the order in which they were made.
        n_passes: how many rows with a mask went through the model.
        seed: the seed of the rows, masks and replacements that were drawn.

    Example:
        >>> report = CheckReport("Gaussian", (Finding("leak", "passed", "no answer changed"),), 8, 0)
        >>> report.ok, len(report.failed)
        (True, 0)
    """

    model: str
    findings: tuple[Finding, ...]
    n_passes: int
    seed: int

    @property
    def failed(self) -> tuple[Finding, ...]:
        """The checks that failed."""
        return tuple(finding for finding in self.findings if finding.status == "failed")

    @property
    def ok(self) -> bool:
        """Whether no check failed."""
        return not self.failed

    def __getitem__(self, check: str) -> Finding:
        """The finding of a check, by its name."""
        for finding in self.findings:
            if finding.check == check:
                return finding
        known = ", ".join(finding.check for finding in self.findings)
        raise InputError(f"there is no check {check!r}; there are {known}")

    def raise_if_failed(self) -> None:
        """Raise an error of one line unless all checks passed.

        Raises:
            InputError: a check failed; names the failed checks, and says what the first one found.
        """
        if self.ok:
            return
        first, names = self.failed[0], ", ".join(finding.check for finding in self.failed)
        hint = f"; look at {first.look_at}" if first.look_at else ""
        raise InputError(
            f"{self.model} failed {len(self.failed)} of {len(self.findings)} checks ({names}): "
            f"{first.check}: {first.found}{hint}"
        )

    def to_dict(self) -> dict[str, Any]:
        """The report as content for JSON."""
        return {
            "model": self.model,
            "ok": self.ok,
            "n_passes": self.n_passes,
            "seed": self.seed,
            "findings": [
                {name: None if _not_finite(value) else value for name, value in asdict(finding).items()}
                for finding in self.findings
            ],
        }

    @property
    def summary(self) -> str:
        """One sentence: how many checks passed, failed, and so on."""
        counts = Counter(finding.status for finding in self.findings)
        order: tuple[Status, ...] = ("passed", "failed", "noted", "skipped")
        told = ", ".join(f"{counts[status]} {status}" for status in order if counts[status])
        return f"{self.model}: {told} ({self.n_passes:,} passes of the model)"

    def details(self) -> list[str]:
        """For each check that failed or noted something, what was done and what to look at, one line each."""
        told = [finding for finding in self.findings if finding.status in ("failed", "noted")]
        return [
            f"{one.check} {one.status}: {one.did}" + (f" Look at {one.look_at}." if one.look_at else "")
            for one in told
        ]

    def page(self) -> Page:
        """What each check found, and what to look at where one failed or noted something."""
        failed = ", ".join(finding.check for finding in self.failed)
        line = f"CheckReport({self.summary}{'; failed: ' + failed if failed else ''})"
        rows = [_cells(finding) for finding in self.findings]
        table = Table(_COLUMNS, rows, words=(0, 1, len(_COLUMNS) - 1))
        return Page(line, self.summary, parts=[table, *self.details()])

    def __str__(self) -> str:
        return self._text()


def _not_finite(value: object) -> bool:
    return isinstance(value, float) and not math.isfinite(value)


def _cells(finding: Finding) -> tuple[str, ...]:
    counts = (f"{n:,}" if n else "" for n in (finding.n_rows, finding.n_masks))
    bound = "" if finding.allowed is None else f"{finding.allowed:.2g}"
    sure = bound if finding.z is None else f"z = {finding.z:.1f}"
    return finding.check, finding.status, *counts, sure, finding.found
