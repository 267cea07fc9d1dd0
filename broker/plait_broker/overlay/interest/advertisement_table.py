"""The advertisements of all brokers, and a fingerprint of each broker's advertisements.

Two brokers compare fingerprints to check that one knows the other's advertisements. Each interest update names the
fingerprint that it was computed against. So a publisher's broker knows when all brokers have seen a new advertisement
and sent their interest in it. Events of the advertisement may go out only then.
"""

from __future__ import annotations

import hashlib
import struct
from collections import OrderedDict
from typing import Final

from plait_core import PlaitError
from plait_core.filters import Filter, parse_indexable
from plait_core.wire.frame_types.overlay_frames import Advertisement

STATES_MAX: Final = 4096
"""Past fingerprints of ours that are remembered. A broker that names an older one is behind by that many changes."""


class AdvertisementTable:
    """All advertisements, by their origin and number."""

    def __init__(self, me: int) -> None:
        self._me = me
        self.filters: dict[tuple[int, int], Filter] = {}
        self._hashes: dict[int, dict[int, int]] = {}
        """By origin and number, the hash of one advertisement. A fingerprint is the XOR of an origin's hashes."""
        self._fingerprints: dict[int, int] = {}
        self._states: OrderedDict[int, int] = OrderedDict([(0, 0)])
        """By fingerprint of ours, the last revision with it."""
        self.revision = 0
        """Counts changes of our own advertisements."""

    def fingerprint(self, origin: int) -> int:
        """Return the fingerprint of a broker's advertisements, as they are known here."""
        return self._fingerprints.get(origin, 0)

    def revision_of(self, fingerprint: int) -> int:
        """Return our last revision with this fingerprint; -1 when there was none, or too long ago."""
        return self._states.get(fingerprint, -1)

    def learn(self, advertisement: Advertisement) -> tuple[Filter | None, bool]:
        """Take an advertisement or its withdrawal. Return its filter, if any, and False if that cannot be parsed."""
        key = (advertisement.origin, advertisement.number)
        new_hash = _hash_of(advertisement) if advertisement.filter else 0
        if new_hash and self._hashes.get(advertisement.origin, {}).get(advertisement.number) == new_hash:
            return self.filters.get(key), key in self.filters  # an own one that was learned when it was made
        self.filters.pop(key, None)
        self._set_hash(advertisement.origin, advertisement.number, new_hash)
        if not advertisement.filter:
            return None, True
        try:
            filter = self.filters[key] = parse_indexable(advertisement.filter)
        except PlaitError:
            return None, False
        return filter, True

    def forget(self, origin: int) -> None:
        """Forget a broker."""
        for number in self._hashes.pop(origin, ()):
            self.filters.pop((origin, number), None)
        self._fingerprints.pop(origin, None)

    def _set_hash(self, origin: int, number: int, new_hash: int) -> None:
        hashes = self._hashes.setdefault(origin, {})
        before = hashes.pop(number, 0)
        if new_hash:
            hashes[number] = new_hash
        fingerprint = self._fingerprints[origin] = self._fingerprints.get(origin, 0) ^ before ^ new_hash
        if origin == self._me and before != new_hash:
            self.revision += 1
            self._states[fingerprint] = self.revision
            self._states.move_to_end(fingerprint)
            if len(self._states) > STATES_MAX:
                self._states.popitem(last=False)


def _hash_of(advertisement: Advertisement) -> int:
    name = struct.pack(">QQ", advertisement.number, advertisement.version)
    return int.from_bytes(hashlib.blake2b(name, digest_size=8, person=b"plait advert").digest(), "big")
