"""Progress of the remote readers of a broker's segments: by name, stored in a file beside the segments.

When the budget is full, segments that all readers have read are deleted first. Segments that are deleted unread are
counted. The budget holds even if a reader never returns.
"""

from __future__ import annotations

import json
import os
import re
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

from plait_core.errors import PlaitError
from plait_core.telemetry import parse_segment_name

READERS_FILE: Final = "readers.json"

READERS_MAX: Final = 16
"""Readers kept at most: each is an analysis that runs permanently. The one absent longest is dropped first."""

AWAY_S_MAX: Final = 7 * 86_400.0
"""Readers without a commit for so long are dropped, and no segment waits for them."""

_NAME: Final = re.compile(r"[A-Za-z0-9._-]{1,64}\Z", re.ASCII)


class ReaderError(PlaitError):
    """An invalid commit."""


class ReaderPosition(NamedTuple):
    """All earlier segments, and the first `records` records of this one, are read. Segment names sort by time."""

    segment: str
    records: int
    at: float
    """Time of the commit."""


class Readers:
    """The readers of one broker. Thread-safe: HTTP handlers commit, the writer queries."""

    def __init__(self, directory: Path, clock: Callable[[], float] = time.time) -> None:
        self.unread_deleted = 0
        """Segments that were deleted although some reader had not read them."""
        self._path = directory / READERS_FILE
        self._clock = clock
        self._lock = threading.Lock()
        self._positions: dict[str, ReaderPosition] | None = None

    def positions(self) -> dict[str, ReaderPosition]:
        """Return the position of each reader."""
        with self._lock:
            return dict(self._known())

    def commit(self, reader: str, segment: str, records: int) -> ReaderPosition:
        """Record a reader's progress, which never goes back.

        Raise ReaderError if it is invalid, OSError if it is not stored.
        """
        if not _NAME.match(reader):
            raise ReaderError("a reader's name is 1 to 64 letters, digits, dots, dashes and underscores")
        if parse_segment_name(segment) is None or records < 0:
            raise ReaderError("a position is the name of a segment, and the number of its records that were read")
        with self._lock:
            positions = self._known()
            committed = ReaderPosition(segment, records, self._clock())
            position = max(committed, positions.get(reader, ReaderPosition("", 0, 0.0)))
            positions[reader] = position._replace(at=self._clock())
            while len(positions) > READERS_MAX:
                del positions[min(positions, key=lambda name: positions[name].at)]
            self._store(positions)
            return position

    def read_by_all(self, segment: str) -> bool:
        """Return whether all readers have read past a segment."""
        with self._lock:
            return all(segment < position.segment for position in self._known().values())

    def deleted(self, segment: str) -> None:
        """Count a deleted segment if it was unread."""
        self.unread_deleted += not self.read_by_all(segment)

    def _known(self) -> dict[str, ReaderPosition]:
        if self._positions is None:
            self._positions = _read(self._path)
        now = self._clock()
        for reader in [reader for reader, position in self._positions.items() if now - position.at > AWAY_S_MAX]:
            del self._positions[reader]
        return self._positions

    def _store(self, positions: dict[str, ReaderPosition]) -> None:
        partial = self._path.with_suffix(".partial")
        partial.write_text(json.dumps(positions) + "\n", encoding="utf-8")
        os.replace(partial, self._path)


def _read(path: Path) -> dict[str, ReaderPosition]:
    """Return the stored positions, or none if the file cannot be read."""
    try:
        stored = json.loads(path.read_text(encoding="utf-8"))
        positions = {str(reader): ReaderPosition(str(p[0]), int(p[1]), float(p[2])) for reader, p in stored.items()}
    except (OSError, ValueError, AttributeError, TypeError, LookupError, RecursionError):
        return {}
    good = [reader for reader, p in positions.items() if _NAME.match(reader) and parse_segment_name(p.segment)]
    return {reader: positions[reader] for reader in good[:READERS_MAX]}
