"""Checks of texts: bytes, scored tokens, unknown tokens, and the length limit."""

import re
from dataclasses import replace

import torch

from maskevidence.core.check.findings import Finding, failed, noted, passed, skipped
from maskevidence.core.check.trial import Trial, check
from maskevidence.texts.pieces import n_unknown, special_ids, tokenize, unknown_in

_MOST_UNKNOWN = 0.2
_MOST_ROWS = 64
_RESIDUES = re.compile(r"[A-Z](\s?[A-Z])*")
_CUT = "how long texts are shortened"


@check(
    "bytes",
    "n_bytes was compared with the UTF-8 bytes of the texts.",
    "what n_bytes counts: bytes of the scored text, without prompts and special tokens",
    explains=False,
)
def n_bytes(trial: Trial) -> Finding:
    """`n_bytes`, the denominator of bits per byte, equals the number of UTF-8 bytes of each observation's
    text.
    """
    n_bytes, texts = trial.data.n_bytes, trial.texts
    if n_bytes is None:
        return skipped("the observations have no n_bytes")
    if texts is None:
        return skipped("the texts behind the observations are not known; give texts=")
    expected = [_bytes_of(fields) for fields in texts]
    total, total_expected, n_tokens = int(n_bytes.sum()), sum(expected), int(trial.data.n_tokens.sum())
    numbers = {"n_rows": len(n_bytes), "n_masks": 0}
    per_token = f"{total / n_tokens:.2f} bytes a token, the texts have {total_expected / n_tokens:.2f}"
    if len(texts) == len(n_bytes):
        pairs = list(zip(n_bytes.tolist(), expected, strict=True))
        wrong = [row for row, (a, b) in enumerate(pairs) if a != b]
        unexplained = [row for row in wrong if pairs[row][0] > pairs[row][1] or not _is_full(trial, row)]
        if unexplained:
            row = unexplained[0]
            largest = max(abs(a - b) / max(1, b) for a, b in pairs)
            message = (
                f"observation {row} has n_bytes = {pairs[row][0]}, its text {pairs[row][1]}; {per_token}"
            )
            return failed(message, largest=largest, allowed=0.0, **numbers)
    elif total > total_expected:
        message = f"n_bytes adds up to {total:,}, more than the {total_expected:,} of the texts; {per_token}"
        return failed(message, **numbers)
    if total < total_expected:
        message = f"{1 - total / total_expected:.1%} of the bytes of the texts are not scored: texts were cut"
        return noted(message, look_at=_CUT, **numbers)
    return passed(f"{total:,} bytes, {total / n_tokens:.2f} a token", **numbers)


def _bytes_of(fields: tuple[str, ...]) -> int:
    """The UTF-8 bytes of an observation's texts, without the spaces between residues of a protein."""
    letters = ["".join(field.split()) if _RESIDUES.fullmatch(field) else field for field in fields]
    return sum(len(field.encode("utf-8", errors="replace")) for field in letters)


def _is_full(trial: Trial, row: int) -> bool:
    """Whether an observation fills the model's length, so that its text may have been cut."""
    limit = getattr(trial.model, "max_tokens", None)
    n_present = int((trial.data.maskable | trial.data.context)[row].sum())
    return limit is not None and n_present >= limit


@check(
    "scored tokens",
    "The tokens that can be hidden were compared with those of the text alone, and with special tokens.",
    "Tokens.context, which special tokens and prompts belong to",
    explains=False,
)
def scored_tokens(trial: Trial) -> Finding:
    """Exactly the tokens of the text are scored: all of them, and no prompts or special tokens."""
    data, tokenizer = trial.data, getattr(trial.model, "tokenizer", None)
    if tokenizer is None:
        return skipped("the model has no tokenizer")
    stray = torch.tensor(sorted(special_ids(tokenizer)), dtype=torch.int64)
    special = data.maskable.cpu() & torch.isin(data.values.cpu(), stray)
    numbers = {"n_rows": len(data), "n_masks": 0}
    if bool(special.any()):
        row, column = torch.nonzero(special)[0].tolist()
        token = tokenizer.convert_ids_to_tokens(int(data.values[row, column]))
        message = f"{int(special.sum())} special tokens are scored, such as {token} in observation {row}"
        return failed(message, **numbers)
    if trial.texts is None or len(trial.texts) != len(data):
        message = "no special token is scored; the texts behind the observations are not known one by one"
        return passed(message, **numbers)
    numbers["n_rows"] = min(len(data), _MOST_ROWS)
    n_cut = 0
    for row, fields in enumerate(trial.texts[:_MOST_ROWS]):
        if any(token in field for token in tokenizer.all_special_tokens for field in fields):
            continue  # special tokens that a text spells out are text
        expected = [i for field in fields for i in tokenizer(field, add_special_tokens=False)["input_ids"]]
        scored = data.values[row, data.maskable[row]].tolist()
        if scored == expected:
            continue
        if len(scored) >= len(expected) or not _is_full(trial, row):
            message = f"{len(scored)} tokens of observation {row} are scored, its text has {len(expected)}"
            return failed(message, **numbers)
        n_cut += 1
    if n_cut:
        message = f"{n_cut} texts are cut at the model's length; the rest of each is not scored"
        return noted(message, look_at=_CUT, **numbers)
    return passed("all tokens of the texts, and only these", **numbers)


@check("unknown tokens", "Tokens that the tokenizer does not know were counted.", explains=False)
def unknown(trial: Trial) -> Finding:
    """Few tokens are unknown: an unknown token's probability says nothing about its text."""
    unknown_id = getattr(getattr(trial.model, "tokenizer", None), "unk_token_id", None)
    if unknown_id is None:
        return skipped("the model has no tokenizer with an unknown token")
    data, unit = trial.data, "tokens"
    count, n_all = int((data.maskable & (data.values == unknown_id)).sum()), int(data.maskable.sum())
    if count and trial.texts is not None:  # one token may stand for many letters
        texts = [field for fields in trial.texts for field in fields]
        count, n_all, unit = n_unknown(unknown_in(tokenize(trial.model.tokenizer, texts), unknown_id))
    share = count / n_all
    status = failed if share > _MOST_UNKNOWN else noted if count else passed
    return status(
        f"{count:,} of {n_all:,} {unit} are unknown ({share:.1%})",
        largest=share,
        allowed=_MOST_UNKNOWN,
        n_rows=len(data),
        n_masks=0,
        look_at="the tokenizer: is it the model's own, and is the text in its alphabet?" if count else "",
    )


@check(
    "length limit",
    "A row of one token more than the model reads was given to it.",
    "where tokens beyond the last position are cut off or numbered again",
    explains=False,
)
def length_limit(trial: Trial) -> Finding:
    """The model refuses a text longer than its limit, and does not cut it silently."""
    limit = getattr(trial.model, "max_tokens", None)
    if limit is None:
        return skipped("the model names no limit (max_tokens)")
    row = trial.tokens[:1]
    scored = row.values[row.maskable][None]
    values = scored.repeat(1, limit // scored.shape[1] + 1, *[1] * (scored.ndim - 2))[:, : limit + 1]
    every = torch.ones(values.shape[:2], dtype=torch.bool, device=values.device)
    longer = replace(row, values=values, maskable=every, context=~every, n_bytes=None)
    masked = torch.zeros_like(every)
    masked[:, -1] = True
    try:
        answer = float(trial.ask(longer, masked)[0, -1])
    except Exception:
        return passed(f"more than {limit} tokens are refused", n_rows=1, n_masks=1)
    message = f"a row of {limit + 1} tokens is answered ({answer:.4g}), though max_tokens is {limit}"
    return failed(message, n_rows=1, n_masks=1)
