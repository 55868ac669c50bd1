"""Texts: their bytes, which of their tokens are scored, tokens that are unknown, and how long they may be."""

import re
from dataclasses import replace
from typing import Any

import torch

from maskevidence.check.findings import Finding
from maskevidence.check.trial import Trial

_MOST_UNKNOWN = 0.2
_MOST_ROWS = 64
_APART = 1.5  # decoded texts have lost their case, some spaces and unknown words
_RESIDUES = re.compile(r"[A-Z](\s?[A-Z])*")


def n_bytes(trial: Trial) -> Finding:
    """The bytes of an observation, which bits per byte are divided by, are the UTF-8 bytes of its text."""
    did = "n_bytes was compared with the UTF-8 bytes of the texts."
    given, texts = trial.data.n_bytes, trial.texts
    if given is None:
        return Finding("bytes", "skipped", "the observations have no n_bytes", did)
    numbers = {"n_rows": len(given), "n_masks": 0}
    look_at = "what n_bytes counts: bytes of the scored text, without prompts and special tokens"
    total, n_tokens = int(given.sum()), int(trial.data.n_tokens.sum())
    if texts is None:
        return _of_decoded(trial)
    expected = [_bytes_of(fields) for fields in texts]
    all_bytes = sum(expected)
    per_token = f"{total / n_tokens:.2f} bytes a token, the texts have {all_bytes / n_tokens:.2f}"
    if len(texts) == len(given):
        wrong = [row for row, (a, b) in enumerate(zip(given.tolist(), expected, strict=True)) if a != b]
        shorter = [row for row in wrong if given[row] < expected[row] and _is_full(trial, row)]
        if len(wrong) > len(shorter):
            row = next(row for row in wrong if row not in shorter)
            found = (
                f"observation {row} has n_bytes = {int(given[row])}, its text {expected[row]}; {per_token}"
            )
            largest = max(abs(int(given[row]) - expected[row]) / max(1, expected[row]) for row in wrong)
            return trial.finding(
                "bytes", "failed", found, did, look_at=look_at, largest=largest, allowed=0.0, **numbers
            )
    elif total > all_bytes:
        found = f"n_bytes adds up to {total:,}, more than the {all_bytes:,} of the texts; {per_token}"
        return trial.finding("bytes", "failed", found, did, look_at=look_at, **numbers)
    if total < all_bytes:
        found = f"{1 - total / all_bytes:.1%} of the bytes of the texts are not scored: texts were cut"
        return trial.finding("bytes", "noted", found, did, look_at="how long texts are shortened", **numbers)
    return trial.passed("bytes", f"{total:,} bytes, {total / n_tokens:.2f} a token", did, **numbers)


def scored_tokens(trial: Trial) -> Finding:
    """The tokens that are scored are those of the text: all of them, no prompt and no special token."""
    did = "The tokens that can be hidden were compared with those of the text alone, and with special tokens."
    tokenizer = getattr(trial.model, "tokenizer", None)
    if tokenizer is None:
        return Finding("scored tokens", "skipped", "the model has no tokenizer", did)
    data = trial.data
    special_ids = sorted(set(tokenizer.all_special_ids) - {tokenizer.unk_token_id})
    special = torch.tensor(special_ids, dtype=torch.int64)
    scored_special = data.maskable.cpu() & torch.isin(data.values.cpu(), special)
    look_at = "Tokens.context, which special tokens and prompts belong to"
    numbers: dict[str, Any] = {"n_rows": len(data), "n_masks": 0}
    if bool(scored_special.any()):
        row, column = torch.nonzero(scored_special)[0].tolist()
        word = tokenizer.convert_ids_to_tokens(int(data.values[row, column]))
        found = f"{int(scored_special.sum())} special tokens are scored, such as {word} in observation {row}"
        return trial.finding("scored tokens", "failed", found, did, look_at=look_at, **numbers)
    if trial.texts is None or len(trial.texts) != len(data):
        found = "no special token is scored; the texts behind the observations are not known one by one"
        return trial.passed("scored tokens", found, did, **numbers)
    numbers["n_rows"] = min(len(data), _MOST_ROWS)
    n_cut = 0
    for row, fields in enumerate(trial.texts[:_MOST_ROWS]):
        if any(word in field for word in tokenizer.all_special_tokens for field in fields):
            continue  # special tokens that a text spells out are text
        wanted = [i for field in fields for i in tokenizer(field, add_special_tokens=False)["input_ids"]]
        scored = data.values[row, data.maskable[row]].tolist()
        if scored == wanted:
            continue
        if len(scored) < len(wanted) and _is_full(trial, row):
            n_cut += 1
            continue
        found = f"{len(scored)} tokens of observation {row} are scored, its text has {len(wanted)}"
        return trial.finding("scored tokens", "failed", found, did, look_at=look_at, **numbers)
    if n_cut:
        found = f"{n_cut} texts are cut at the model's length; the rest of each is not scored"
        look_at = "how long texts are shortened"
        return trial.finding("scored tokens", "noted", found, did, look_at=look_at, **numbers)
    return trial.passed("scored tokens", "all tokens of the texts, and only these", did, **numbers)


def unknown(trial: Trial) -> Finding:
    """Few tokens are unknown: their probability says nothing about the text behind them."""
    did = "Tokens that the tokenizer does not know were counted."
    tokenizer = getattr(trial.model, "tokenizer", None)
    unknown_id = getattr(tokenizer, "unk_token_id", None)
    if unknown_id is None:
        return Finding("unknown tokens", "skipped", "the model has no tokenizer with an unknown token", did)
    data = trial.data
    count = int((data.maskable & (data.values == unknown_id)).sum())
    share = count / int(data.maskable.sum())
    status = "failed" if share > _MOST_UNKNOWN else "noted" if count else "passed"
    found = f"{count:,} of {int(data.maskable.sum()):,} tokens are unknown ({share:.1%})"
    return trial.finding(
        "unknown tokens",
        status,
        found,
        did,
        largest=share,
        allowed=_MOST_UNKNOWN,
        n_rows=len(data),
        n_masks=0,
        look_at="the tokenizer: is it the model's own, and is the text in its alphabet?" if count else "",
    )


def length_limit(trial: Trial) -> Finding:
    """A text that is longer than the model reads is refused, and not cut in silence."""
    did = "A row of one token more than the model reads was given to it."
    limit = getattr(trial.model, "max_tokens", None)
    if limit is None:
        return Finding("length limit", "skipped", "the model names no limit (max_tokens)", did)
    row = trial.tokens[:1]
    present = row.values[row.maskable][None]
    values = present.repeat(1, limit // present.shape[1] + 1, *[1] * (present.ndim - 2))[:, : limit + 1]
    everything = torch.ones(values.shape[:2], dtype=torch.bool, device=values.device)
    longer = replace(row, values=values, maskable=everything, context=~everything, n_bytes=None)
    masked = torch.zeros_like(everything)
    masked[:, -1] = True
    try:
        answer = trial.ask(longer, masked)
    except Exception:
        return trial.passed("length limit", f"more than {limit} tokens are refused", did, n_rows=1, n_masks=1)
    found = (
        f"a row of {limit + 1} tokens is answered ({float(answer[0, -1]):.4g}), though max_tokens is {limit}"
    )
    look_at = "where tokens beyond the last position are cut off or numbered again"
    return trial.finding("length limit", "failed", found, did, look_at=look_at, n_rows=1, n_masks=1)


def _bytes_of(fields: tuple[str, ...]) -> int:
    """The UTF-8 bytes of the texts of an observation; spaces between the residues of a protein are none."""
    letters = ["".join(field.split()) if _RESIDUES.fullmatch(field) else field for field in fields]
    return sum(len(field.encode("utf-8", errors="replace")) for field in letters)


def _is_full(trial: Trial, row: int) -> bool:
    """Whether an observation has as many tokens as the model reads, so that its text may have been cut."""
    limit = getattr(trial.model, "max_tokens", None)
    present = int((trial.data.maskable | trial.data.context)[row].sum())
    return limit is not None and present >= limit


def _of_decoded(trial: Trial) -> Finding:
    """Bytes against those of the decoded tokens, which are not exactly those of the text."""
    did = "n_bytes was compared with the bytes of the decoded tokens, since the texts were not given."
    decode = getattr(getattr(trial.model, "tokenizer", None), "decode", None)
    if decode is None:
        return Finding("bytes", "skipped", "neither texts nor a tokenizer to decode tokens with", did)
    data = trial.data
    unknown_id = getattr(trial.model.tokenizer, "unk_token_id", None)
    is_unknown = data.maskable & (data.values == (-1 if unknown_id is None else unknown_id))
    rows = torch.nonzero(~is_unknown.any(1))[:_MOST_ROWS, 0]
    if len(rows) == 0:
        return Finding("bytes", "skipped", "every text has unknown tokens, which cannot be decoded", did)
    texts = [decode(data.values[row, data.maskable[row]].tolist()) for row in rows.tolist()]
    assert data.n_bytes is not None
    given, n_tokens = int(data.n_bytes[rows].sum()), int(data.n_tokens[rows].sum())
    most = sum(len(text.encode()) for text in texts)
    least = sum(len("".join(text.split()).encode()) for text in texts)
    numbers = {"largest": given / max(1, most), "allowed": _APART, "n_rows": len(rows), "n_masks": 0}
    found = f"{given / n_tokens:.2f} bytes a token; the decoded tokens have {most / n_tokens:.2f}"
    if least / _APART <= given <= most * _APART:
        return trial.passed("bytes", found, did, **numbers)
    look_at = "what n_bytes counts; with texts=, it is compared exactly"
    return trial.finding("bytes", "failed", found, did, look_at=look_at, **numbers)
