"""The high-water mark: the highest position assigned, in a second file, which also locks the directory.

A flipped bit in SQLite's write-ahead log makes SQLite silently drop everything after it: the log then looks as if it
had always been short. The mark detects that. It also prevents a second assignment of positions if the database is lost
altogether. It is written after each commit without waiting for the disk. So it never exceeds what was committed, and
after a power cut it may be a little lower: it raises no false alarm.
"""

from __future__ import annotations

import fcntl
import os
from dataclasses import dataclass, replace
from pathlib import Path
from struct import Struct
from threading import Lock
from typing import Final
from zlib import crc32

from .errors import LogInUse

_FORM: Final = Struct("<8sq?")
_CHECKSUM: Final = Struct("<I")
_MAGIC: Final = b"plaitlog"
_COPY_BYTES: Final = _FORM.size + _CHECKSUM.size
_COPIES: Final = (0, 4096)
"""Two copies in two pages: a torn write or a flipped bit damages one of them only."""


@dataclass(frozen=True, slots=True)
class Marked:
    """The content of the mark."""

    last_position: int = 0
    suspect: bool = False
    """The database was found damaged during use: it must be checked before it is used again."""


class HighWaterMark:
    """Holds the directory's lock from its creation until `close`."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(self._file)
            raise LogInUse(
                f"the event log in {path.parent} is in use by another broker",
                hint="give each broker a data directory of its own, or stop the other one",
            ) from error
        self._lock = Lock()
        self.marked = self._read()
        self._write(self.marked)  # allocates both copies: writing them later needs no free space

    def advance(self, last_position: int) -> None:
        """Note that positions up to this one are stored."""
        with self._lock:
            self._write(replace(self.marked, last_position=last_position))

    def suspect(self) -> None:
        """Make the next start check and repair the whole database."""
        with self._lock:
            self._write(replace(self.marked, suspect=True))

    def trust(self) -> None:
        """Note that the database was checked, or is new."""
        with self._lock:
            self._write(replace(self.marked, suspect=False))

    def _write(self, marked: Marked) -> None:
        """Write both copies. A failure is ignored, because the mark only detects errors: acknowledgements do not depend
        on it."""
        self.marked = marked
        body = _FORM.pack(_MAGIC, marked.last_position, marked.suspect)
        for offset in _COPIES:
            try:
                os.pwrite(self._file, body + _CHECKSUM.pack(crc32(body)), offset)
            except OSError:
                return

    def sync(self) -> None:
        """Wait until the mark is on disk."""
        os.fsync(self._file)

    def close(self) -> None:
        """Release the lock."""
        os.close(self._file)

    def _read(self) -> Marked:
        copies = [os.pread(self._file, _COPY_BYTES, offset) for offset in _COPIES]
        valid = [marked for copy in copies if (marked := _parsed(copy))]
        return max(valid, key=lambda marked: marked.last_position, default=Marked())


def _parsed(copy: bytes) -> Marked | None:
    body, checksum = copy[: _FORM.size], copy[_FORM.size :]
    if len(copy) != _COPY_BYTES or _CHECKSUM.pack(crc32(body)) != checksum:
        return None
    magic, last_position, suspect = _FORM.unpack(body)
    return Marked(last_position, suspect) if magic == _MAGIC and last_position >= 0 else None
