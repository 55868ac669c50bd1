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
    examples: Mapping[str, str] = {"score": "markov", "check": "markov"}
    options: Mapping[str, type] = {"score": SequenceOptions, "check": SequenceOptions}
    designs: Mapping[str, str] = {"odd-even": "maskevidence_markov.model:OddEven"}

    def prepare(self, model: str, data: str, design: Any, options: Any, out: Path | None) -> Any:
        lines, seal = read(data, options.limit)
        from maskevidence.runs import DataSource
        from maskevidence.runs.prepared import Prepared
        from maskevidence_markov.model import MarkovChain, encoded

        tokens, symbols = encoded(lines)
        n_fit = len(lines) // 2
        note = f"fitted to the first {n_fit} sequences, scored on the others"
        source = DataSource(name=data, fingerprint=seal, n_observations=len(lines) - n_fit, columns=symbols)
        about = {"kind": self.name, "noun": "sequence", "token": "symbol", "notes": [note]}
        chain = MarkovChain(tokens[:n_fit], len(symbols))
        ready = Prepared(chain, tokens[n_fit:], source.model_copy(update=about))
        return ready.read_with(data, {"limit": options.limit})

    def read_again(self, manifest: Any, ids: Any) -> Any:
        from maskevidence.command.pages.reported_runs import TextContent

        lines, seal = read(manifest.data.name, manifest.data.options.get("limit"))
        return None if seal != manifest.data.fingerprint else lambda number: TextContent(lines[number])


def read(data: str, limit: int | None) -> tuple[list[str], str]:
    """The sequences of a file, and their hash."""
    if Path(data).suffix != ".seq" or not Path(data).is_file():
        raise InputError(f"{data!r} is no .seq file; give one, with a sequence in each line")
    lines = [line.strip() for line in Path(data).read_text().split("\n") if line.strip()][:limit]
    if len(lines) < 4:
        raise InputError(f"{data!r} has {len(lines)} sequences; give 4 or more")
    return lines, hashlib.sha256("\n".join(lines).encode()).hexdigest()


sequences = Sequences()
