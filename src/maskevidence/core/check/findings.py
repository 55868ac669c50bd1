"""Findings of checks, the report of all checks, and the threshold of the statistical checks."""

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any, Literal

from maskevidence.core.errors import InputError
from maskevidence.core.evidence.standard_errors import student_t_quantile
from maskevidence.core.show.parts import Page, Table
from maskevidence.core.show.shown import Shown

Status = Literal["passed", "failed", "noted", "skipped"]
FALSE_ALARMS = 1e-3  # chance that a sound model fails any statistical check of a call
_N_TESTS = 7  # upper limit: the ids, 4 offsets and 2 high rates
_COLUMNS = ("check", "result", "rows", "masks", "bound", "what was found")


@dataclass(frozen=True)
class Finding:
    """The result of one check.

    Attributes:
        check: the name of the check.
        status: "passed"; "failed"; "noted" if the model may be sound, but readers of its numbers should know
            something; "skipped" if the check does not apply, or if an earlier failure may explain its own.
        found: the result in one sentence; for "skipped", the reason.
        did: what the check does, one sentence.
        n_rows: the number of observations.
        n_masks: the number of masks.
        largest: the largest difference, error or share; None if nothing was measured.
        allowed: the largest number that passes, rounding included; None if nothing was measured.
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


_Found = Callable[..., Finding]  # of what was found; the `Check` adds its name and the counts of the trial
passed: _Found = partial(Finding, "", "passed")
failed: _Found = partial(Finding, "", "failed")
noted: _Found = partial(Finding, "", "noted")  # no failure, but readers should know of it
skipped: _Found = partial(Finding, "", "skipped")  # of a check that does not apply


@dataclass(frozen=True, repr=False)
class CheckReport(Shown):
    """The findings of all checks of one model on some data; it prints as a table.

    Attributes:
        model: the name of the model's class.
        findings: one per check, in the order of the checks.
        n_passes: how many rows with a mask went through the model.
        seed: the seed of the random rows, masks and replacements.

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
        """The findings that failed."""
        return tuple(finding for finding in self.findings if finding.status == "failed")

    @property
    def ok(self) -> bool:
        """True if no check failed."""
        return not self.failed

    def __getitem__(self, check: str) -> Finding:
        """Return the finding of a check by name."""
        for finding in self.findings:
            if finding.check == check:
                return finding
        names = ", ".join(finding.check for finding in self.findings)
        raise InputError(f"there is no check {check!r}; there are {names}")

    def raise_if_failed(self) -> None:
        """Raise an error of one line unless all checks passed.

        Raises:
            InputError: a check failed; the message names all that failed, and quotes the first.
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
        """Return the report as JSON values."""
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
        """One sentence: how many checks passed, failed, were noted or skipped."""
        counts = Counter(finding.status for finding in self.findings)
        order: tuple[Status, ...] = ("passed", "failed", "noted", "skipped")
        numbers = ", ".join(f"{counts[status]} {status}" for status in order if counts[status])
        return f"{self.model}: {numbers} ({self.n_passes:,} passes of the model)"

    def details(self) -> list[str]:
        """One line per failed or noted check: what was tested and where to look."""
        return [
            f"{finding.check} {finding.status}: {finding.did}"
            + (f" Look at {finding.look_at}." if finding.look_at else "")
            for finding in self.findings
            if finding.status in ("failed", "noted")
        ]

    def page(self) -> Page:
        """A table of the findings, then the details of those that failed or noted something."""
        failed = ", ".join(finding.check for finding in self.failed)
        line = f"CheckReport({self.summary}{'; failed: ' + failed if failed else ''})"
        rows = [_cells(finding) for finding in self.findings]
        table = Table(_COLUMNS, rows, words=(0, 1, len(_COLUMNS) - 1))
        return Page(line, self.summary, parts=[table, *self.details()])

    def __str__(self) -> str:
        return self._text()


def critical(df: float) -> float:
    """Two-sided critical value of a statistical check in standard errors, Bonferroni-corrected per call.

    Example:
        >>> round(critical(math.inf), 2), round(critical(15), 2)
        (3.8, 5.05)
    """
    return student_t_quantile(1 - FALSE_ALARMS / _N_TESTS / 2, df)


def signs_by_chance(n_positive: int, n: int) -> bool:
    """One-sided sign test: could n_positive of n differences be positive by chance? Corrected as `critical`.

    Example:
        >>> signs_by_chance(15, 16), signs_by_chance(16, 16)
        (True, False)
    """
    from scipy import special

    chance = 1.0 if n_positive == 0 else float(special.bdtrc(n_positive - 1, n, 0.5))
    return chance > FALSE_ALARMS / _N_TESTS


def _not_finite(value: object) -> bool:
    """True for an infinite or NaN float, which JSON cannot hold."""
    return isinstance(value, float) and not math.isfinite(value)


def _cells(finding: Finding) -> tuple[str, ...]:
    """One row of the report's table."""
    counts = (f"{n:,}" if n else "" for n in (finding.n_rows, finding.n_masks))
    allowed = "" if finding.allowed is None else f"{finding.allowed:.2g}"
    bound = allowed if finding.z is None else f"z = {finding.z:.1f}"
    return finding.check, finding.status, *counts, bound, finding.found
