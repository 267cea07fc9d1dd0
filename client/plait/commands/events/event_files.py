"""Events from a file of JSON lines, each an object of attributes. A bad line is an error with its number."""

from __future__ import annotations

import asyncio
import os
import stat
from collections.abc import AsyncIterator, Iterator
from typing import TYPE_CHECKING, Final

from ..terminal.failures import WrongUse
from .attributes import parse_json_object

if TYPE_CHECKING:
    from plait_core import Attributes

LINE_BYTES_MAX: Final = 1 << 20
"""Bytes of one line: far more than the attributes of one event may have."""
_CHUNK: Final = 1 << 16


def is_regular(descriptor: int) -> bool:
    """Return whether a file can be read twice, unlike a pipe or a terminal."""
    return stat.S_ISREG(os.fstat(descriptor).st_mode)


def check_lines(descriptor: int, name: str) -> int:
    """Check all lines of a regular file, seek to its start and return their number; WrongUse at the first bad line."""
    count = 0
    lines = _Lines(name)
    while chunk := os.read(descriptor, _CHUNK):
        count += sum(1 for _ in lines.feed(chunk))
    count += sum(1 for _ in lines.end())
    os.lseek(descriptor, 0, os.SEEK_SET)
    return count


async def read_events(descriptor: int, name: str) -> AsyncIterator[Attributes]:
    """Yield the events as they arrive; WrongUse at a bad line."""
    lines = _Lines(name)
    while chunk := await _read(descriptor):
        for attributes in lines.feed(chunk):
            yield attributes
    for attributes in lines.end():
        yield attributes


class _Lines:
    """Splits bytes into lines, and parses each into attributes."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._number = 0
        self._rest = b""

    def feed(self, chunk: bytes) -> Iterator[Attributes]:
        *complete, self._rest = (self._rest + chunk).split(b"\n")
        for line in complete:
            yield self._parsed(line)
        if len(self._rest) > LINE_BYTES_MAX:
            self._parsed(self._rest)

    def end(self) -> Iterator[Attributes]:
        """Yield the last line if it does not end with a newline."""
        if self._rest:
            yield self._parsed(self._rest)

    def _parsed(self, line: bytes) -> Attributes:
        from plait_core import EventInvalid

        self._number += 1
        where = f"{self._name}, line {self._number}"
        if len(line) > LINE_BYTES_MAX:
            raise WrongUse(f"{where}: over {LINE_BYTES_MAX} bytes")
        try:
            return parse_json_object(line.decode())
        except UnicodeDecodeError:
            raise WrongUse(f"{where}: not UTF-8 text") from None
        except ValueError as error:
            hint = 'each line is a JSON object of attributes, like {"symbol": "IBM", "price": 99.5}'
            raise WrongUse(f"{where}: {error}", hint=hint) from None
        except EventInvalid as error:
            raise WrongUse(f"{where}: {error.message}", hint=error.hint) from None


async def _read(descriptor: int) -> bytes:
    """Return the next bytes. Does not block the loop where it can watch the descriptor."""
    loop = asyncio.get_running_loop()
    readable = asyncio.Event()
    try:
        loop.add_reader(descriptor, readable.set)
    except OSError:
        return os.read(descriptor, _CHUNK)  # reading a regular file does not block
    try:
        await readable.wait()
    finally:
        loop.remove_reader(descriptor)
    return os.read(descriptor, _CHUNK)
