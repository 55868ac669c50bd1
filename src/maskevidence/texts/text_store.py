"""Files of texts read line by line, and texts in a temporary file, of which memory holds a block."""

import gzip
import io
import tempfile
import weakref
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any, TextIO, overload

import numpy as np

from maskevidence.core.errors import InputError
from maskevidence.core.support.files import reading
from maskevidence.core.support.sources import utf_8_text

_GZIP = b"\x1f\x8b"
_MOST_UNPACKED, _MOST_TIMES = 10**7, 100  # bytes, and times the packed size
_IN_MEMORY = 2**17  # texts
_AT_ONCE = 2**11


class TextStore(Sequence[str]):
    """Texts that are appended, and read one by one or by slices; many of them lie in a temporary file.

    Example:
        >>> store = TextStore(["a dog", "räin"])
        >>> store.append("the sun")
        >>> store[1:], store[0], len(store)
        (('räin', 'the sun'), 'a dog', 3)
    """

    def __init__(self, texts: Iterable[str] = ()) -> None:
        self._last: list[str] = []  # not yet written
        self._begin = [0]  # where each block of texts begins in the file, and its end
        self._file: Any = None
        self._read: tuple[int, list[str]] = (-1, [])  # the number of a block, and its texts
        for text in texts:
            self.append(text)

    def append(self, text: str) -> None:
        """Add a text."""
        self._last.append(text)
        if len(self._last) >= (_IN_MEMORY if self._file is None else _AT_ONCE):
            self._write()

    def _write(self) -> None:
        if self._file is None:
            self._file = tempfile.TemporaryFile()  # noqa: SIM115
            weakref.finalize(self, self._file.close)
        n = len(self._last) // _AT_ONCE * _AT_ONCE
        self._file.seek(self._begin[-1])
        for first in range(0, n, _AT_ONCE):
            some = self._last[first : first + _AT_ONCE]
            lengths = np.array([*map(len, some)], dtype="<i4").tobytes()
            written = self._file.write(lengths + "".join(some).encode(errors="surrogatepass"))
            self._begin.append(self._begin[-1] + written)
        del self._last[:n]

    def _block(self, number: int) -> list[str]:
        if number == len(self._begin) - 1:
            return self._last
        if self._read[0] != number:
            begin, end = self._begin[number : number + 2]
            self._file.seek(begin)
            content = self._file.read(end - begin)
            ends = accumulate(np.frombuffer(content[: 4 * _AT_ONCE], dtype="<i4").tolist(), initial=0)
            text = content[4 * _AT_ONCE :].decode(errors="surrogatepass")
            self._read = number, [text[start:stop] for start, stop in pairwise(ends)]
        return self._read[1]

    def __len__(self) -> int:
        return (len(self._begin) - 1) * _AT_ONCE + len(self._last)

    def __iter__(self) -> Iterator[str]:
        for number in range(len(self._begin)):
            yield from self._block(number)

    @overload
    def __getitem__(self, place: int) -> str: ...
    @overload
    def __getitem__(self, place: slice) -> tuple[str, ...]: ...
    def __getitem__(self, place: int | slice) -> str | tuple[str, ...]:
        if isinstance(place, slice):
            return tuple(map(self.__getitem__, range(len(self))[place]))
        number, row = divmod(range(len(self))[place], _AT_ONCE)
        last = len(self._begin) - 1
        return self._last[row + (number - last) * _AT_ONCE] if number >= last else self._block(number)[row]

    def in_memory(self) -> Sequence[str]:
        """A tuple if the texts are in memory, else the store itself."""
        return tuple(self._last) if self._file is None else self


@dataclass(frozen=True)
class Lines:
    r"""The lines of a file, which each iteration reads again. Only \n, \r\n and \r end a line."""

    file: Path
    ends: bool = False  # whether lines keep their ends

    def __iter__(self) -> Iterator[str]:
        with opened_text(self.file) as text:
            yield from text if self.ends else (line.removesuffix("\n") for line in text)


@contextmanager
def opened_text(file: Path, newline: str | None = None) -> Iterator[TextIO]:
    """Open a UTF-8 file, gzipped or not; `newline` as of `open`.

    Raises:
        InputError: the file cannot be read or unpacked, or is not UTF-8 (names the first such byte).
    """
    with reading(file), file.open("rb") as raw:
        packed = raw.peek(2).startswith(_GZIP)
        try:
            source: Any = io.BufferedReader(_Unpacked(file, raw)) if packed else raw
            yield io.TextIOWrapper(source, encoding="utf-8-sig", newline=newline)
        except UnicodeDecodeError:
            raw.seek(0)
            with gzip.open(raw) if packed else raw as content:
                utf_8_text(file, content.read())  # raises an error that names the byte
            raise
        except (OSError, EOFError, zlib.error) as error:
            if not packed:
                raise
            raise InputError(f"{str(file)!r} cannot be unpacked ({error}); write it again") from error


class _Unpacked(io.RawIOBase):
    """The unpacked content of a gzipped file, refused if it is far larger than the file."""

    def __init__(self, file: Path, raw: Any) -> None:
        self._name, self._content, self._n = str(file), gzip.open(raw), 0  # noqa: SIM115
        self._most = max(_MOST_UNPACKED, _MOST_TIMES * file.stat().st_size)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        n = self._content.readinto(buffer)
        self._n += n
        if self._n > self._most:
            raise InputError(
                f"{self._name!r} unpacks to more than {_MOST_TIMES} times its size, which texts hardly do; "
                "unpack it yourself if that is right"
            )
        return n
