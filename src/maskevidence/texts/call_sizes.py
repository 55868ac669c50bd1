"""The number of tokens per call of a transformer: given, default, or found by a short trial."""

import math
import time
from collections.abc import Iterator

import numpy as np
import torch
from jaxtyping import Int64

from maskevidence.core.support.checks import whole_number

_TOKENS = {"cpu": 1024}
_TOKENS_ELSEWHERE = 2**14
_NUMBERS = {"cpu": 2**18}  # of a hidden state of one call: what stays in the cache of a core
_CANDIDATES = {"cpu": (1024, 2048, 4096, 8192)}
_ROUNDS = 2
_SHARE_OF_TRIAL = 0.25  # a trial takes at most this share of the tokens to score
_CLEARLY_FASTER = 0.97  # of the time: the default stays unless another size is faster by 3 %


def default_tokens(device: torch.device) -> int:
    """The default number of tokens per call on a device.

    Example:
        >>> default_tokens(torch.device("cpu"))
        1024
    """
    return _TOKENS.get(device.type, _TOKENS_ELSEWHERE)


def tokens_for_width(device: torch.device, width: int | None) -> int:
    """The default number of tokens per call of a network, larger if the network is narrow.

    Such a call is short, so that what it costs by itself counts: with a width of 64, calls of 4,096 tokens
    took two thirds of the time of calls of 1,024.

    Example:
        >>> [tokens_for_width(torch.device("cpu"), width) for width in (64, 320, None)]
        [4096, 1024, 1024]
    """
    default = default_tokens(device)
    return default if width is None else max(default, _NUMBERS.get(device.type, 0) // width)


class CallSizes:
    """Packs rows into calls, and can find the fastest size of a call while doing so.

    Calls have a fixed size unless `timed` is asked for, so that equal calls give equal numbers to the last
    bit. A trial takes the sizes in turn, twice, on the longest rows, and keeps the one whose faster call took
    the least time per token. Its calls are part of the work.

    Args:
        asked: the tokens in one call; None for the default of the device. A size that was asked for is kept.

    Attributes:
        note: what a trial has found, in one sentence; None if there was none.
    """

    def __init__(self, asked: int | None) -> None:
        self.asked = None if asked is None else whole_number("batch_tokens", asked, 1)
        self.note: str | None = None
        self._fastest: int | None = None
        self._in_call: int | None = None  # of the call of `timed` that is under way

    def fixed(
        self,
        n_present: Int64[np.ndarray, " n"],
        device: torch.device,
        *,
        pads: bool,
        width: int | None = None,
    ) -> Iterator[Int64[np.ndarray, " n_in_call"]]:
        """Yield the rows of each call, longest first; all calls have the same size."""
        size = self._in_call or self.asked or tokens_for_width(device, width)
        rows = _Rows(n_present, pads)
        while rows.left:
            yield rows.take(size)

    def timed(
        self, n_present: Int64[np.ndarray, " n"], device: torch.device, *, pads: bool
    ) -> Iterator[Int64[np.ndarray, " n_in_call"]]:
        """Yield the rows of each call; a trial among the first calls finds the fastest size.

        The time between two calls is that of the first. Without a trial (a size was asked for, there are too
        few tokens for one, or the device is not a CPU) the size is that of `fixed`.
        """
        default = default_tokens(device)
        candidates = _CANDIDATES.get(device.type, ())
        n_enough = _ROUNDS * sum(candidates) / _SHARE_OF_TRIAL
        trial = (
            [] if self.asked or self._fastest or n_present.sum() < n_enough else list(candidates) * _ROUNDS
        )
        seconds: dict[int, float] = {}
        rows = _Rows(n_present, pads)
        try:
            while rows.left:
                self._in_call = trial[0] if trial else self.asked or self._fastest or default
                part = rows.take(self._in_call)
                start = time.perf_counter()
                yield part
                if trial:
                    spent = (time.perf_counter() - start) / int(n_present[part].sum())
                    size = trial.pop(0)
                    seconds[size] = min(spent, seconds.get(size, spent))
                    if not trial:
                        self._choose(seconds, default)
        finally:
            self._in_call = None

    def _choose(self, seconds: dict[int, float], default: int) -> None:
        fastest = min(seconds, key=seconds.__getitem__)
        self._fastest = fastest if seconds[fastest] < _CLEARLY_FASTER * seconds[default] else default
        speeds = "; ".join(f"{1 / spent:,.0f} in calls of {size:,}" for size, spent in seconds.items())
        self.note = (
            f"the model is called on {self._fastest:,} tokens at a time, as a trial suggests (tokens per "
            f"second: {speeds}); --batch-tokens (batch_tokens=) fixes the size"
        )


class _Rows:
    """Rows waiting for a call, longest first."""

    def __init__(self, n_present: Int64[np.ndarray, " n"], pads: bool) -> None:
        self._order = np.argsort(-n_present, kind="stable")
        self._lengths = n_present[self._order]
        self._pads = pads
        self._start = 0

    @property
    def left(self) -> bool:
        return self._start < len(self._order)

    def take(self, size: int) -> Int64[np.ndarray, " n_in_call"]:
        """Take the next rows: at least one, and at most `size` tokens with padding.

        Rows of one length that fill half a call or more share it with no others, in equal parts: attention
        without padding is faster.
        """
        start = self._start
        longest = int(self._lengths[start])
        at_once = max(1, size // max(1, longest))
        equal = int(np.searchsorted(-self._lengths, -longest, side="right")) - start
        if equal > at_once // 2:
            at_once = math.ceil(equal / math.ceil(equal / at_once))
        elif not self._pads:  # only rows of the same length share a call
            at_once = equal
        self._start = min(start + at_once, len(self._order))
        return self._order[start : self._start]
