"""The advertisements of all brokers, and one number for all that a broker advertises.

By that number, the fingerprint, two brokers see without a list that one knows the other's advertisements. Each interest
update names the fingerprint that it was computed against. So a publisher's broker knows when all brokers have seen a
new advertisement and have sent their interest in it. Only then an event that it promises may go out.
"""

from __future__ import annotations

import hashlib
import struct
from collections import OrderedDict
from typing import Final

from plait_core import PlaitError
from plait_core.filters import Filter, parse
from plait_core.wire.frame_types.overlay_frames import Advertisement

STATES_MAX: Final = 4096
"""Past fingerprints of ours: a broker that acks an older one is behind by that many changes."""


class AdvertisementTable:
    """All advertisements, by their origin and number."""

    def __init__(self, me: int) -> None:
        self._me = me
        self.filters: dict[tuple[int, int], Filter] = {}
        self._marks: dict[int, dict[int, int]] = {}
        """By origin and number, the part of the fingerprint that is of one advertisement."""
        self._fingerprints: dict[int, int] = {}
        self._states: OrderedDict[int, int] = OrderedDict([(0, 0)])
        """By fingerprint of ours, the last revision that had it."""
        self.revision = 0
        """Counts changes of our own advertisements."""

    def fingerprint(self, origin: int) -> int:
        """Return the fingerprint of a broker's advertisements, as they are known here."""
        return self._fingerprints.get(origin, 0)

    def revision_of(self, fingerprint: int) -> int:
        """Return our last revision with this fingerprint; -1 when there was none, or too long ago."""
        return self._states.get(fingerprint, -1)

    def learn(self, advertisement: Advertisement) -> tuple[Filter | None, bool]:
        """Take an advertisement or its withdrawal. Return its filter, and whether that can be parsed."""
        key = (advertisement.origin, advertisement.number)
        self.filters.pop(key, None)
        mark = _mark_of(advertisement) if advertisement.filter else 0
        self._mark(advertisement.origin, advertisement.number, mark)
        if not advertisement.filter:
            return None, True
        try:
            filter = self.filters[key] = parse(advertisement.filter)
        except PlaitError:
            return None, False
        return filter, True

    def forget(self, origin: int) -> None:
        """Forget a broker."""
        for number in self._marks.pop(origin, ()):
            self.filters.pop((origin, number), None)
        self._fingerprints.pop(origin, None)

    def _mark(self, origin: int, number: int, mark: int) -> None:
        marks = self._marks.setdefault(origin, {})
        before = marks.pop(number, 0)
        if mark:
            marks[number] = mark
        fingerprint = self._fingerprints[origin] = self._fingerprints.get(origin, 0) ^ before ^ mark
        if origin == self._me and before != mark:
            self.revision += 1
            self._states[fingerprint] = self.revision
            self._states.move_to_end(fingerprint)
            if len(self._states) > STATES_MAX:
                self._states.popitem(last=False)


def _mark_of(advertisement: Advertisement) -> int:
    name = struct.pack(">QQ", advertisement.number, advertisement.version)
    return int.from_bytes(hashlib.blake2b(name, digest_size=8, person=b"plait advert").digest(), "big")
