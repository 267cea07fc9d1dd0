"""What brokers offer: every advertisement of the overlay, and one number for all that a broker offers.

That number, the fingerprint, is how two brokers see without listing anything that one knows the other's offers: whoever
wants something says with it which offers that was compared with, and so a publisher's broker knows when all have seen
a new advertisement and have said what they want of it. Only then an event that it promises may go out.
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
"""Of our own offers' past states; a broker that answers to an older one is behind by that many changes."""


class AdvertisementTable:
    """All offers, by their origin and its number for them."""

    def __init__(self, me: int) -> None:
        self._me = me
        self.filters: dict[tuple[int, int], Filter] = {}
        self._marks: dict[int, dict[int, int]] = {}
        """By origin and number, what an offer adds to the fingerprint."""
        self._fingerprints: dict[int, int] = {}
        self._states: OrderedDict[int, int] = OrderedDict([(0, 0)])
        """By fingerprint of ours, the last revision that had it."""
        self.revision = 0
        """How often what we offer has changed."""

    def fingerprint(self, origin: int) -> int:
        """Of all that a broker offers, as it is known here."""
        return self._fingerprints.get(origin, 0)

    def revision_of(self, fingerprint: int) -> int:
        """When we offered just that, last; -1 when we never did, or too long ago."""
        return self._states.get(fingerprint, -1)

    def learn(self, offer: Advertisement) -> tuple[Filter | None, bool]:
        """An offer, or its withdrawal; its filter, and whether what it says can be read."""
        key = (offer.origin, offer.number)
        self.filters.pop(key, None)
        self._mark(offer.origin, offer.number, _mark_of(offer) if offer.filter else 0)
        if not offer.filter:
            return None, True
        try:
            filter = self.filters[key] = parse(offer.filter)
        except PlaitError:
            return None, False
        return filter, True

    def forget(self, origin: int) -> None:
        """A broker is no more."""
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


def _mark_of(offer: Advertisement) -> int:
    name = struct.pack(">QQ", offer.number, offer.version)
    return int.from_bytes(hashlib.blake2b(name, digest_size=8, person=b"plait offer").digest(), "big")
