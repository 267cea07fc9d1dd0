"""Keys as they are issued, stored and sent (thesis 5.5.2, 5.5.3): one grant to one holder for one epoch.

A grant's filter is a union of boxes, and each box has keys of its own, bound together. So the keys of a box open or
sign only events of one conjunction of the filter, never a mixture of two. Routing keys are the part of a subscriber's
keys for brokers: they test for matches, and open nothing.

    version, kind, realm, epoch, owner, boxes;  box = [S4] row...;  row = count, (place, label, points)...
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from struct import Struct
from typing import Final, TypeAlias, TypeVar

from .attributes.credentials import Credential
from .errors import KeyInvalid
from .hazmat import Groups, PublisherPair, SubscriberPart
from .hazmat.backend import G2, G2_BYTES
from .limits import BOXES_MAX, CREDENTIALS_MAX, KEYS_BYTES_MAX, LABEL_BYTES_MAX, PLACES_MAX, ROWS_MAX

VERSION: Final = 1
_PUBLISHER, _SUBSCRIBER, _ROUTING = 1, 2, 3
_HEAD: Final = Struct(">BB32sIQBB")
_ENTRY: Final = Struct(">HH")
_COUNT: Final = Struct(">H")

K = TypeVar("K")
Row: TypeAlias = tuple[tuple[Credential, K], ...]
"""Credentials of one attribute with their keys."""
Rows: TypeAlias = tuple[Row[K], ...]


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class PublisherKeys:
    """A publisher's keys for sealing. The boxes are numbered: a signature names one."""

    realm: bytes
    epoch: int
    publisher: int
    boxes: tuple[Rows[PublisherPair], ...]

    def encode(self, groups: Groups) -> bytes:
        """Return the encoded keys, to be sent over secure channels only."""
        head = _HEAD.pack(VERSION, _PUBLISHER, self.realm, self.epoch, self.publisher, *_sizes(self.boxes))
        encode = groups.g2.encode
        boxes = (_encode_rows(box, lambda pair: encode(pair.p1) + encode(pair.p2)) for box in self.boxes)
        return head + b"".join(boxes)

    @classmethod
    def decode(cls, groups: Groups, encoded: bytes) -> PublisherKeys:
        """Parse the output of `encode`; raise KeyInvalid if it is invalid."""
        reader = _Reader(groups, encoded)
        realm, epoch, publisher, boxes, rows = reader.head(_PUBLISHER)
        found = tuple(reader.rows(rows, lambda: PublisherPair(reader.point(), reader.point())) for _ in range(boxes))
        reader.end()
        return cls(realm, epoch, publisher, found)


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class SubscriberBox:
    """Keys of one conjunction."""

    s4: G2
    rows: Rows[SubscriberPart]


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class SubscriberKeys:
    """A subscriber's keys for opening."""

    realm: bytes
    epoch: int
    boxes: tuple[SubscriberBox, ...]

    def encode(self, groups: Groups) -> bytes:
        """Return the encoded keys, to be sent over secure channels only."""
        encode = groups.g2.encode
        head = _HEAD.pack(VERSION, _SUBSCRIBER, self.realm, self.epoch, 0, *_sizes([box.rows for box in self.boxes]))
        boxes = (
            encode(box.s4) + _encode_rows(box.rows, lambda part: b"".join(map(encode, (part.s1, part.s2, part.s3))))
            for box in self.boxes
        )
        return head + b"".join(boxes)

    @classmethod
    def decode(cls, groups: Groups, encoded: bytes) -> SubscriberKeys:
        """Parse the output of `encode`; raise KeyInvalid if it is invalid."""
        reader = _Reader(groups, encoded)
        realm, epoch, _, boxes, rows = reader.head(_SUBSCRIBER)

        def part() -> SubscriberPart:
            return SubscriberPart(reader.point(), reader.point(), reader.point())

        found = tuple(SubscriberBox(reader.point(), reader.rows(rows, part)) for _ in range(boxes))
        reader.end()
        return cls(realm, epoch, found)

    def routing(self) -> RoutingKeys:
        """Return the part for brokers: places and S3, without labels."""
        return RoutingKeys(
            self.realm,
            self.epoch,
            tuple(
                tuple(
                    tuple((Credential(credential.place, b""), part.s3) for credential, part in row) for row in box.rows
                )
                for box in self.boxes
            ),
        )


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class RoutingKeys:
    """The keys with which a broker tests a subscription's sealed events."""

    realm: bytes
    epoch: int
    boxes: tuple[Rows[G2], ...]

    def encode(self, groups: Groups) -> bytes:
        """Return the encoded keys."""
        head = _HEAD.pack(VERSION, _ROUTING, self.realm, self.epoch, 0, *_sizes(self.boxes))
        return head + b"".join(_encode_rows(box, groups.g2.encode) for box in self.boxes)

    @classmethod
    def decode(cls, groups: Groups, encoded: bytes) -> RoutingKeys:
        """Parse the output of `encode`; raise KeyInvalid if it is invalid."""
        reader = _Reader(groups, encoded)
        realm, epoch, _, boxes, rows = reader.head(_ROUTING)
        found = tuple(reader.rows(rows, reader.point) for _ in range(boxes))
        reader.end()
        return cls(realm, epoch, found)


class _Reader:
    """Parse an encoding. Every fault in it is a KeyInvalid."""

    def __init__(self, groups: Groups, encoded: bytes) -> None:
        if len(encoded) > KEYS_BYTES_MAX:
            raise KeyInvalid(f"keys of {len(encoded)} bytes", hint=f"{KEYS_BYTES_MAX} (KEYS_BYTES_MAX) are allowed")
        self._groups = groups
        self._encoded = encoded
        self._at = 0

    def head(self, kind: int) -> tuple[bytes, int, int, int, int]:
        version, found, realm, epoch, owner, boxes, rows = _HEAD.unpack(self._take(_HEAD.size))
        if version != VERSION or found != kind:
            raise KeyInvalid("keys of another version or kind")
        if not 1 <= boxes <= BOXES_MAX or not 1 <= rows <= ROWS_MAX or (owner and kind != _PUBLISHER):
            raise KeyInvalid("keys of an impossible shape")
        return realm, epoch, owner, boxes, rows

    def rows(self, count: int, key: Callable[[], K]) -> Rows[K]:
        found = tuple(tuple(self._row(key)) for _ in range(count))
        if sum(map(len, found)) > CREDENTIALS_MAX:
            raise KeyInvalid("more credentials than are ever issued")
        return found

    def point(self) -> G2:
        try:
            return self._groups.g2.decode(self._take(G2_BYTES))
        except ValueError:
            raise KeyInvalid("keys with a part that is not a point") from None

    def end(self) -> None:
        if self._at != len(self._encoded):
            raise KeyInvalid("keys with something after them")

    def _row(self, key: Callable[[], K]) -> Iterator[tuple[Credential, K]]:
        (count,) = _COUNT.unpack(self._take(_COUNT.size))
        if not 1 <= count <= CREDENTIALS_MAX:
            raise KeyInvalid("a row of no credentials, or of too many")
        for _ in range(count):
            place, label_bytes = _ENTRY.unpack(self._take(_ENTRY.size))
            if place >= PLACES_MAX or label_bytes > LABEL_BYTES_MAX:
                raise KeyInvalid("a credential that no schema has")
            yield Credential(place, self._take(label_bytes)), key()

    def _take(self, count: int) -> bytes:
        taken = self._encoded[self._at : self._at + count]
        if len(taken) < count:
            raise KeyInvalid("keys that end too early")
        self._at += count
        return taken


def _sizes(boxes: tuple[Rows[K], ...] | list[Rows[K]]) -> tuple[int, int]:
    return len(boxes), len(boxes[0])


def _encode_rows(rows: Rows[K], encode: Callable[[K], bytes]) -> bytes:
    parts = []
    for row in rows:
        parts.append(_COUNT.pack(len(row)))
        for credential, key in row:
            parts += [_ENTRY.pack(credential.place, len(credential.label)), credential.label, encode(key)]
    return b"".join(parts)
