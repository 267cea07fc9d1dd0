"""The record of events that a durable subscription has acknowledged: a replay is refused after a restart, too.

    FOLDER/seen/DIGEST.seen    an entry for each event: publisher, session, number, end of the session

The record is appended to before an acknowledgement is sent. A crash between the two loses no event: what is not
acknowledged is not recorded, and is delivered again. Entries are dropped when their session can no longer be replayed.
"""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from struct import Struct
from typing import Final

from plait_crypto import Epochs, RingClosed, SealError, SealInvalid
from plait_crypto.envelope import SESSION_BYTES

_ENTRY: Final = Struct(f">Q{SESSION_BYTES}sIQ")
_FOLDER: Final = "seen"
COMPACT_AFTER: Final = 100_000
"""Entries, beside twice those that were kept, after which old ones are dropped: 4 MB."""


class SeenRecord:
    """The record of one durable subscription. One process at a time has it open."""

    def __init__(self, folder: Path, name: str, epochs: Epochs, now_us: int) -> None:
        """Open the record, and keep the entries that still matter."""
        self.name = name
        self._path = folder / _FOLDER / f"{sha256(name.encode()).hexdigest()[:32]}.seen"
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._lock = os.open(self._path.with_suffix(".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(self._lock)
            raise SealError(
                f"another process reads the durable subscription {name[:80]!r} with this folder",
                hint="one process at a time, or another folder for each",
            ) from None
        self._kept_us = 2 * epochs.overlap_us  # after the end of a session; its events open for one overlap
        self._file = -1
        self.entries = self._compact(now_us)
        """Publisher, session, number and end of the session of each acknowledged event that could be replayed."""

    def add(self, publisher: int, session: bytes, number: int, until_us: int, now_us: int) -> None:
        """Record an event. The record survives the end of this process, but not that of the machine."""
        entry = _ENTRY.pack(publisher, session, number, until_us)
        end = os.lseek(self._file, 0, os.SEEK_END)
        if os.write(self._file, entry) < len(entry):
            os.ftruncate(self._file, end)  # the next entry must begin where this one did
            raise OSError(errno.ENOSPC, f"the record of seen events cannot grow: {self._path}")
        self._size += 1
        if self._size >= self._compact_at:
            self._compact(now_us)

    def _compact(self, now_us: int) -> list[tuple[int, bytes, int, int]]:
        """Drop the entries whose sessions can no longer be replayed, and return the others."""
        kept = [entry for entry in self._read() if now_us - self._kept_us <= entry[3]]
        path = self._rewritten(kept)
        if self._file >= 0:
            os.close(self._file)
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
        self._size, self._compact_at = len(kept), 2 * len(kept) + COMPACT_AFTER
        return kept

    def close(self) -> None:
        """Close the files."""
        os.close(self._file)
        os.close(self._lock)

    def _read(self) -> Iterator[tuple[int, bytes, int, int]]:
        data = self._path.read_bytes() if self._path.exists() else b""
        whole = len(data) - len(data) % _ENTRY.size  # a crash may have torn the last entry
        yield from _ENTRY.iter_unpack(data[:whole])

    def _rewritten(self, kept: list[tuple[int, bytes, int, int]]) -> Path:
        """Replace the file by one with the kept entries alone."""
        temporary = self._path.with_suffix(".new")
        temporary.unlink(missing_ok=True)
        with open(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.writelines(_ENTRY.pack(*entry) for entry in kept)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(self._path)
        return self._path


class Records:
    """The record of one ring's durable subscription, if it has one."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self._record: SeenRecord | None = None
        self._closed = False

    @property
    def kept(self) -> bool:
        """Whether there is a record."""
        return self._record is not None

    @property
    def entries(self) -> list[tuple[int, bytes, int, int]]:
        """Publisher, session, number and end of the session of each event that the record had when it was opened."""
        return [] if self._record is None else self._record.entries

    def keep(self, name: str, epochs: Epochs, now_us: int) -> list[tuple[int, bytes, int, int]]:
        """Open the record of a durable subscription. Return its entries."""
        if self._closed:
            raise RingClosed
        if self._record is None:
            if self._folder is None:
                raise SealInvalid(
                    "a durable subscription to sealed events needs a folder for its record of seen events",
                    hint="Membership.join(client, folder=...), or `plait sub --unseal FOLDER`",
                )
            self._record = SeenRecord(self._folder, name, epochs, now_us)
        elif self._record.name != name:
            raise SealInvalid(
                f"this ring opens the durable subscription {self._record.name[:80]!r}",
                hint="one ring for each subscription",
            )
        return self.entries

    def add(self, publisher: int, session: bytes, number: int, until_us: int, now_us: int) -> None:
        """Record an event of a session, if there is a record."""
        if self._closed:
            raise RingClosed
        if self._record is not None and session:
            self._record.add(publisher, session, number, until_us, now_us)

    def close(self) -> None:
        """Close the record."""
        self._closed = True
        if self._record is not None:
            self._record.close()
            self._record = None
