"""What `score` does with texts: its options for them, the encoding, and the score of each token."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from maskevidence.cli import output
from maskevidence.data.text import read_texts
from maskevidence.errors import InputError
from maskevidence.masks import LeaveOneOut, MaskDesign
from maskevidence.models.text.encoding import EncodedTexts
from maskevidence.runs.directory import TOKENS
from maskevidence.score_table import ScoreTable
from maskevidence.support.choices import Long
from maskevidence.support.files import csv_text, write_atomic
from maskevidence.support.progress import progress
from maskevidence.tasks.prepare_rows import Prepared
from maskevidence.tasks.text_rows import TextRows

_SHOWN = 40


@dataclass(frozen=True)
class TextOptions:
    """The options of `score` that belong to texts; None or False where not given."""

    text: str | None = None
    context_field: str | None = None
    block_size: int | None = None
    long: Long | None = None
    whole_words: bool = False
    per_token: bool = False
    tokenizer: str | None = None
    batch_tokens: int | None = None
    device: str | None = None
    bf16: bool = False
    trust_remote_code: bool = False

    def refuse(self, model: str, *, but: tuple[str, ...] = (), kind: str = "a model of numbers") -> None:
        """Raise if any was given, for another kind of model.

        Args:
            model: its word.
            but: options that it has too.
            kind: what it is.
        """
        for name, value in vars(self).items():
            if value is not None and value is not False and name not in but:
                raise InputError(
                    f"--{name.replace('_', '-')} belongs to masked language models; {model!r} is {kind}"
                )

    def prepare(self, model: str, data: str, design: MaskDesign, limit: int | None) -> Prepared:
        """Load the model, read the texts and encode them.

        Raises:
            InputError: options that do not go together, or whatever is wrong with model or texts.
        """
        for flag in ("whole_words", "per_token"):
            if getattr(self, flag) and not isinstance(design, LeaveOneOut):
                raise InputError(f"--{flag.replace('_', '-')} belongs to --design leave-one-out; add that")
        columns = None if self.text is None else [name.strip() for name in self.text.split(",")]
        if columns is not None and len(columns) > 2:
            raise InputError(f"--text {self.text!r} names {len(columns)} columns; give one, or two for pairs")
        extra = [] if self.context_field is None else [self.context_field]
        running = self.block_size is not None
        texts = read_texts(data, columns, extra=extra, limit=limit, running=running)
        scored = [texts.columns[0]] if columns is None else columns
        if extra and extra[0] in scored:
            raise InputError(f"--context-field {extra[0]!r} is scored too; choose another --text")

        from maskevidence.models.text.whole_words import WholeWords

        loaded = self.load(model, self.tokenizer)
        with progress("encoding texts", len(texts)) as advance:
            encoded = loaded.encode(
                texts[scored[0]],
                second=texts[scored[1]] if len(scored) == 2 else None,
                context=texts[extra[0]] if extra else None,
                long=self.long or "error",
                block_size=self.block_size,
            )
            advance(len(texts))
        rows = TextRows(data, texts.columns, encoded, texts.fingerprint())
        ready = WholeWords(loaded, encoded) if self.whole_words else loaded
        notes = [*loaded.notes, *encoded.notes]
        if self.whole_words:
            notes.append("all tokens of a word are hidden together")
        if self.bf16:
            notes.append("computed under bfloat16 autocast")
        tokenizer = None if self.tokenizer is None else _full_path(self.tokenizer)
        words = encoded if self.whole_words else None
        again = partial(self.load, _full_path(model), tokenizer, words)
        return Prepared(ready, rows, tuple(notes), load=again)

    def load(self, model: str, tokenizer: str | None, words: EncodedTexts | None = None) -> Any:
        """The model as these options have it, with whole words hidden together where `words` are given."""
        from maskevidence.models.text.masked_lm import MaskedLM
        from maskevidence.models.text.whole_words import WholeWords

        loaded = MaskedLM.from_pretrained(
            model,
            tokenizer=tokenizer,
            device=self.device,
            bfloat16=self.bf16,
            batch_tokens=self.batch_tokens,
            trust_remote_code=self.trust_remote_code,
        )
        return loaded if words is None else WholeWords(loaded, words)


def _full_path(name: str) -> str:
    """A folder's name for processes that stand elsewhere; a name on the hub as it is."""
    return str(Path(name).resolve()) if Path(name).is_dir() else name


def token_scores(prepared: Prepared, scores: ScoreTable) -> list[dict[str, Any]]:
    """log p of each token given all others, from the record of a leave-one-out run."""
    rows = prepared.table
    assert isinstance(rows, TextRows)
    model = getattr(prepared.model, "model", prepared.model)
    tokens = rows.tokens()
    place = {int(number): row for row, number in enumerate(tokens.ids)}
    columns = [row.nonzero().flatten() for row in tokens.maskable]
    listed = []
    for number, draw, score in zip(scores.id, scores.draw, scores.score, strict=True):
        row = place[int(number)]
        token_id = int(tokens.values[row, columns[row][int(draw)]])
        token = model.tokenizer.convert_ids_to_tokens(token_id)
        listed.append({"id": int(number), "position": int(draw), "token": token, "log_prob": float(score)})
    return listed


def show_token_scores(screen: Any, listed: Sequence[Mapping[str, Any]], out: Path | None) -> None:
    """The first tokens on the screen, all of them into tokens.csv of a run."""
    cells = [
        [str(entry["id"]), str(entry["position"]), entry["token"], f"{entry['log_prob']:.4f}"]
        for entry in listed[:_SHOWN]
    ]
    title = "log-probability of each token given all others, nats"
    screen.print(output.table(["observation", "position", "token", "log p"], cells, title))
    if len(listed) > _SHOWN:
        where = "--json" if out is None else str(out / TOKENS)
        screen.print(f"The first {_SHOWN} of {len(listed):,} tokens; all are in {where}.")
    if out is not None:
        columns = ("id", "position", "token", "log_prob")
        write_atomic(out / TOKENS, csv_text(columns, ([entry[name] for name in columns] for entry in listed)))
