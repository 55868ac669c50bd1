"""Sequences of symbols, one in each line of a .seq file, and Markov chains; imports no torch at first."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from maskevidence import InputError
from maskevidence.command.options import Sample
from maskevidence.core.kind import Kind


@dataclass(frozen=True)
class SequenceOptions(Sample):  # which declares --seed and --limit
    kind: ClassVar[str] = "sequences"


class Sequences(Kind):
    name, nouns, models = "sequences", "Markov chains", ("markov",)
    files = ("a .seq file of sequences",)
    options: Mapping[str, type] = {"score": SequenceOptions, "check": SequenceOptions}
    designs: Mapping[str, str] = {"odd-even": "maskevidence_markov.model:OddEven"}

    def prepare(self, model: str, data: str, design: Any, options: Any, out: Path | None) -> Any:
        lines, seal = read(data, options.limit)
        from maskevidence.runs import DataSource
        from maskevidence.runs.prepared import Prepared
        from maskevidence_markov.model import MarkovChain, encoded

        tokens, symbols = encoded(lines)
        fit, rest = tokens[: len(lines) // 2], tokens[len(lines) // 2 :]
        notes = [f"fitted to the first {len(fit)} sequences, scored on the others"]
        about: dict[str, Any] = {"kind": self.name, "noun": "sequence", "token": "symbol", "notes": notes}
        source = DataSource(name=data, fingerprint=seal, n_observations=len(rest), columns=symbols, **about)
        ready = Prepared(MarkovChain(fit, len(symbols)), rest, source)
        return ready.read_with(data, {"limit": options.limit})

    def read_again(self, manifest: Any, ids: Any) -> Any:
        from maskevidence.command.pages.reported_runs import TextContent

        lines, seal = read(manifest.data.name, manifest.data.options.get("limit"))
        return None if seal != manifest.data.fingerprint else lambda number: TextContent(lines[number])


def read(data: str, limit: int | None) -> tuple[list[str], str]:
    """The sequences of a file, and their hash."""
    is_file = Path(data).suffix == ".seq" and Path(data).is_file()
    lines = Path(data).read_text().split()[:limit] if is_file else []
    if len(lines) < 4:
        raise InputError(f"{data!r} has {len(lines)} sequences; give a .seq file with 4 lines or more")
    return lines, hashlib.sha256("\n".join(lines).encode()).hexdigest()
