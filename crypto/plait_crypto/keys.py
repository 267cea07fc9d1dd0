"""Keys as they are issued, stored and sent (thesis 5.5.2, 5.5.3): one grant to one holder for one epoch.

A grant's filter is a union of boxes, and each box has keys of its own, bound together. So the keys of a box open or
sign only events of one conjunction of the filter, never a mixture of two. Routing tokens are the part of a subscriber's
keys for brokers: they test for matches, and open nothing.

    version, kind, realm, epoch, owner, boxes, [tag key];  box = [S4] row... [seed...] [coarse tokens]
    row = count, (place, label, points)...
    coarse tokens: 0, or 1 and row = count, tokens..., seed
    routing tokens: row = count, tokens...

Routing tokens name no places, and `fillers` hide how many there are. Keys that are issued again for the same filter
have the same routing tokens.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from struct import Struct
from typing import Final, TypeAlias, TypeVar

from .attributes.credentials import Credential
from .errors import KeyInvalid, SealInvalid
from .fillers import TokenRow, Tokens, check_seeds, filled
from .hazmat import Groups, PublisherPair, SubscriberPart
from .hazmat.backend import G1, G1_BYTES, G2, G2_BYTES, PointInvalid
from .hazmat.issuing import FILLER_SEED_BYTES
from .limits import BOXES_MAX, CREDENTIALS_MAX, KEYS_BYTES_MAX, LABEL_BYTES_MAX, PLACES_MAX, ROWS_MAX

VERSION: Final = 2
_PUBLISHER, _SUBSCRIBER, _ROUTING = 1, 2, 3
_HEAD: Final = Struct(">BB32sIQBB")
_ENTRY: Final = Struct(">HH")
_COUNT: Final = Struct(">H")
_NO_POINT: Final = "keys with a part that is not a point"

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
    tag_key: G1
    """k, the same for all publishers of a realm."""

    def encode(self, groups: Groups) -> bytes:
        """Return the encoded keys, to be sent over secure channels only."""
        return b"".join(self.parts(groups))

    def parts(self, groups: Groups) -> Iterator[bytes]:
        """Yield the encoded keys box by box: a point takes 10 us."""
        encode = groups.g2.encode
        yield _HEAD.pack(VERSION, _PUBLISHER, self.realm, self.epoch, self.publisher, *_sizes(self.boxes))
        yield from (_encode_rows(box, lambda pair: encode(pair.p1) + encode(pair.p2)) for box in self.boxes)
        yield groups.g1.encode(self.tag_key)

    @classmethod
    def decode(cls, groups: Groups, encoded: bytes) -> PublisherKeys:
        """Parse the output of `encode`; raise KeyInvalid if it is invalid."""
        reader = _KeyReader(groups, encoded)
        realm, epoch, publisher, boxes, rows = reader.head(_PUBLISHER)
        found = tuple(reader.rows(rows, lambda: PublisherPair(reader.point(), reader.point())) for _ in range(boxes))
        tag_key = reader.tag_key()
        reader.end()
        return cls(realm, epoch, publisher, found, tag_key)


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class SubscriberBox:
    """Keys of one conjunction."""

    s4: G2
    rows: Rows[SubscriberPart]
    seeds: tuple[bytes, ...]
    """For each row, the seed of its fillers."""
    coarse: tuple[TokenRow, ...] = ()
    """Tokens of wider credentials for each row, if the policy allows them. They open nothing."""

    @property
    def exact(self) -> tuple[TokenRow, ...]:
        """The tokens of its own credentials."""
        rows = zip(self.rows, self.seeds, strict=True)
        return tuple(TokenRow(tuple(part.s3 for _, part in row), seed) for row, seed in rows)


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class SubscriberKeys:
    """A subscriber's keys for opening."""

    realm: bytes
    epoch: int
    boxes: tuple[SubscriberBox, ...]

    def encode(self, groups: Groups) -> bytes:
        """Return the encoded keys, to be sent over secure channels only."""
        return b"".join(self.parts(groups))

    def parts(self, groups: Groups) -> Iterator[bytes]:
        """Yield the encoded keys box by box: a point takes 10 us."""
        encode = groups.g2.encode
        yield _HEAD.pack(VERSION, _SUBSCRIBER, self.realm, self.epoch, 0, *_sizes([box.rows for box in self.boxes]))
        for box in self.boxes:
            rows = _encode_rows(box.rows, lambda part: b"".join(map(encode, (part.s1, part.s2, part.s3))))
            coarse = (_encode_tokens(groups, row.tokens) + row.seed for row in box.coarse)
            yield b"".join([encode(box.s4), rows, *box.seeds, bytes((bool(box.coarse),)), *coarse])

    @classmethod
    def decode(cls, groups: Groups, encoded: bytes) -> SubscriberKeys:
        """Parse the output of `encode`; raise KeyInvalid if it is invalid."""
        reader = _KeyReader(groups, encoded)
        realm, epoch, _, boxes, rows = reader.head(_SUBSCRIBER)

        def part() -> SubscriberPart:
            return SubscriberPart(reader.point(), reader.point(), reader.point())

        def box() -> SubscriberBox:
            s4, credentials = reader.point(), reader.rows(rows, part)
            return SubscriberBox(s4, credentials, tuple(reader.seed() for _ in range(rows)), reader.coarse(rows))

        found = tuple(box() for _ in range(boxes))
        reader.end()
        check_seeds(groups, (row for box in found for row in (*box.exact, *box.coarse)))
        return cls(realm, epoch, found)

    def routing(self, groups: Groups, *, coarse: bool = False) -> RoutingTokens:
        """Return the part for brokers: S3 of each credential, or of wider ones, among fillers.

        Equal boxes occur once, and their order is not that of the filter's text.
        """
        if coarse and not all(box.coarse for box in self.boxes):
            raise SealInvalid(
                "these keys have no coarse tokens",
                hint="the key server's policy must allow them: `coarse = 2` for the holder, two levels wider",
            )
        boxes = (filled(groups, box.coarse if coarse else box.exact) for box in self.boxes)
        found = {_encode_box(groups, box): box for box in boxes}
        return RoutingTokens(self.realm, self.epoch, tuple(found[encoded] for encoded in sorted(found)))


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class RoutingTokens:
    """The keys with which a broker tests a subscription's sealed events."""

    realm: bytes
    epoch: int
    boxes: tuple[Tokens, ...]

    def encode(self, groups: Groups) -> bytes:
        """Return the encoded keys."""
        head = _HEAD.pack(VERSION, _ROUTING, self.realm, self.epoch, 0, len(self.boxes), len(self.boxes[0]))
        return head + b"".join(_encode_box(groups, box) for box in self.boxes)

    @classmethod
    def decode(cls, groups: Groups, encoded: bytes) -> RoutingTokens:
        """Parse the output of `encode`; raise KeyInvalid if it is invalid."""
        found = UncheckedTokens.parse(encoded)
        try:
            boxes = tuple(tuple(tuple(map(groups.g2.decode, row)) for row in box) for box in found.boxes)
        except PointInvalid:
            raise KeyInvalid(_NO_POINT) from None
        return cls(found.realm, found.epoch, boxes)


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class UncheckedTokens:
    """Encoded routing tokens that may be no points of the curve. Checking one takes 0.1 ms or more."""

    realm: bytes
    epoch: int
    boxes: tuple[tuple[tuple[bytes, ...], ...], ...]

    @classmethod
    def parse(cls, encoded: bytes) -> UncheckedTokens:
        """Parse the output of `RoutingTokens.encode`; raise KeyInvalid if something else than a point is invalid."""
        reader = _Reader(encoded)
        realm, epoch, _, boxes, rows = reader.head(_ROUTING)
        found = tuple(tuple(reader.several(reader.point_bytes) for _ in range(rows)) for _ in range(boxes))
        reader.end()
        return cls(realm, epoch, found)


class _Reader:
    """Parse an encoding. Every fault in it is a KeyInvalid."""

    def __init__(self, encoded: bytes) -> None:
        if len(encoded) > KEYS_BYTES_MAX:
            raise KeyInvalid(f"keys of {len(encoded)} bytes", hint=f"{KEYS_BYTES_MAX} (KEYS_BYTES_MAX) are allowed")
        self._encoded = encoded
        self._at = 0

    def head(self, kind: int) -> tuple[bytes, int, int, int, int]:
        version, found, realm, epoch, owner, boxes, rows = _HEAD.unpack(self._take(_HEAD.size))
        if version != VERSION or found != kind:
            raise KeyInvalid("keys of another version or kind")
        if not 1 <= boxes <= BOXES_MAX or not 1 <= rows <= ROWS_MAX or (owner and kind != _PUBLISHER):
            raise KeyInvalid("keys of an impossible shape")
        return realm, epoch, owner, boxes, rows

    def point_bytes(self) -> bytes:
        return self._take(G2_BYTES)

    def several(self, part: Callable[[], K]) -> tuple[K, ...]:
        """Return parts that follow their number."""
        return tuple(part() for _ in range(self._count()))

    def end(self) -> None:
        if self._at != len(self._encoded):
            raise KeyInvalid("keys with something after them")

    def _count(self) -> int:
        (count,) = _COUNT.unpack(self._take(_COUNT.size))
        if not 1 <= count <= CREDENTIALS_MAX:
            raise KeyInvalid("a row of no credentials, or of too many")
        return int(count)

    def _take(self, count: int) -> bytes:
        taken = self._encoded[self._at : self._at + count]
        if len(taken) < count:
            raise KeyInvalid("keys that end too early")
        self._at += count
        return taken


class _KeyReader(_Reader):
    """Parse keys, and decode their points."""

    def __init__(self, groups: Groups, encoded: bytes) -> None:
        super().__init__(encoded)
        self._groups = groups

    def rows(self, count: int, key: Callable[[], K]) -> Rows[K]:
        found = tuple(self.several(lambda: (self._credential(), key())) for _ in range(count))
        if sum(map(len, found)) > CREDENTIALS_MAX:
            raise KeyInvalid("more credentials than are ever issued")
        return found

    def seed(self) -> bytes:
        return self._take(FILLER_SEED_BYTES)

    def coarse(self, rows: int) -> tuple[TokenRow, ...]:
        (given,) = self._take(1)
        if given > 1:
            raise KeyInvalid("keys of an impossible shape")
        return tuple(TokenRow(self.several(self.point), self.seed()) for _ in range(rows)) if given else ()

    def tag_key(self) -> G1:
        try:
            return self._groups.g1.decode(self._take(G1_BYTES))
        except PointInvalid:
            raise KeyInvalid(_NO_POINT) from None

    def point(self) -> G2:
        try:
            return self._groups.g2.decode(self.point_bytes())
        except PointInvalid:
            raise KeyInvalid(_NO_POINT) from None

    def _credential(self) -> Credential:
        place, label_bytes = _ENTRY.unpack(self._take(_ENTRY.size))
        if place >= PLACES_MAX or label_bytes > LABEL_BYTES_MAX:
            raise KeyInvalid("a credential that no schema has")
        return Credential(place, self._take(label_bytes))


def _sizes(boxes: tuple[Rows[K], ...] | list[Rows[K]]) -> tuple[int, int]:
    return len(boxes), len(boxes[0])


def _encode_box(groups: Groups, tokens: Tokens) -> bytes:
    return b"".join(_encode_tokens(groups, row) for row in tokens)


def _encode_tokens(groups: Groups, tokens: Sequence[G2]) -> bytes:
    return b"".join([_COUNT.pack(len(tokens)), *map(groups.g2.encode, tokens)])


def _encode_rows(rows: Rows[K], encode: Callable[[K], bytes]) -> bytes:
    parts = []
    for row in rows:
        parts.append(_COUNT.pack(len(row)))
        for credential, key in row:
            parts += [_ENTRY.pack(credential.place, len(credential.label)), credential.label, encode(key)]
    return b"".join(parts)
