"""How far those have read who read a broker's segments from elsewhere: by name, kept in a file beside the segments.

What all of them have read is deleted first when the budget is full. What is deleted unread all the same is counted:
the budget holds, whoever does not come.
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
"""Each is an analysis that runs all the time; the one that has been away longest gives way to another."""

AWAY_S_MAX: Final = 7 * 86_400.0
"""Who commits nothing for so long does not come back: nothing waits for it any more."""

_NAME: Final = re.compile(r"[A-Za-z0-9._-]{1,64}\Z", re.ASCII)


class ReaderError(PlaitError):
    """A commit that makes no sense."""


class Place(NamedTuple):
    """Everything before this segment, and so many records of it. Names of segments sort as they were written."""

    segment: str
    records: int
    at: float
    """When that was said."""


class Readers:
    """Of one broker. HTTP tells it, in whatever thread; the writer asks."""

    def __init__(self, directory: Path, clock: Callable[[], float] = time.time) -> None:
        self.unread_deleted = 0
        """Segments that were deleted although somebody had not read them."""
        self._path = directory / READERS_FILE
        self._clock = clock
        self._lock = threading.Lock()
        self._places: dict[str, Place] | None = None

    def places(self) -> dict[str, Place]:
        """By reader, how far it is."""
        with self._lock:
            return dict(self._known())

    def commit(self, reader: str, segment: str, records: int) -> Place:
        """A reader has read so far; it never goes back. ReaderError, or OSError."""
        if not _NAME.match(reader):
            raise ReaderError("a reader's name is 1 to 64 letters, digits, dots, dashes and underscores")
        if parse_segment_name(segment) is None or records < 0:
            raise ReaderError("a place is the name of a segment, and how many records of it were read")
        with self._lock:
            places = self._known()
            place = max(Place(segment, records, self._clock()), places.get(reader, Place("", 0, 0.0)))
            places[reader] = place._replace(at=self._clock())
            while len(places) > READERS_MAX:
                del places[min(places, key=lambda name: places[name].at)]
            self._keep(places)
            return place

    def read_by_all(self, segment: str) -> bool:
        """Whether nobody waits for a segment: all who read have gone on to a later one."""
        with self._lock:
            return all(segment < place.segment for place in self._known().values())

    def deleted(self, segment: str) -> None:
        """A segment is gone."""
        self.unread_deleted += not self.read_by_all(segment)

    def _known(self) -> dict[str, Place]:
        if self._places is None:
            self._places = _read(self._path)
        now = self._clock()
        for reader in [reader for reader, place in self._places.items() if now - place.at > AWAY_S_MAX]:
            del self._places[reader]
        return self._places

    def _keep(self, places: dict[str, Place]) -> None:
        partial = self._path.with_suffix(".partial")
        partial.write_text(json.dumps(places) + "\n", encoding="utf-8")
        os.replace(partial, self._path)


def _read(path: Path) -> dict[str, Place]:
    """What was kept; nothing when that cannot be read."""
    try:
        said = json.loads(path.read_text(encoding="utf-8"))
        places = {str(reader): Place(str(place[0]), int(place[1]), float(place[2])) for reader, place in said.items()}
    except (OSError, ValueError, AttributeError, TypeError, LookupError, RecursionError):
        return {}
    good = [reader for reader, place in places.items() if _NAME.match(reader) and parse_segment_name(place.segment)]
    return {reader: places[reader] for reader in good[:READERS_MAX]}
