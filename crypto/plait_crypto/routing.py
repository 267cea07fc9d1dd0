"""Route sealed events by their tags (thesis 5.6.4), with the routing tokens that subscriptions deposit at brokers.

A broker belongs to no realm. It has an event's opening and the deposits of subscriptions. It learns which of them an
event matches, and nothing of the hidden content. A tag test is one pairing, and its result is cached. The caller caches
the result for an opening, which all events of a session share. So steady traffic costs no pairing.

    deposit    for each epoch and grant: length, routing tokens
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from struct import Struct
from typing import Final, Literal, TypeAlias

from plait_core.limits import DEPOSIT_BYTES_MAX
from plait_core.sealed_opening import Fit

from .envelope import OPENING, REALM_BYTES, Envelope
from .errors import KeyInvalid, SealInvalid, Unopenable
from .hazmat import Groups, tag_of
from .hazmat.backend import G1, G2, PointInvalid
from .keys import RoutingTokens
from .limits import DEPOSITS_KEPT, TAGS_KEPT

DepositKind: TypeAlias = Literal["exact", "coarse", "nothing"]
"""The tokens that a subscription gives brokers, to test tags with."""

EPOCH_BYTES_MAX: Final = DEPOSIT_BYTES_MAX // 2
"""Bytes of the tokens of one epoch: while two epochs overlap, a deposit has the tokens of both."""

DEPOSIT_KINDS: Final[tuple[DepositKind, ...]] = ("exact", "coarse", "nothing")
_LENGTH: Final = Struct(">I")


def deposit(groups: Groups, keys: Iterable[RoutingTokens]) -> bytes:
    """Encode the deposit of a subscription, newest epochs first; raise SealInvalid if it is too large.

    The same grants give the same deposit, also if their keys were issued again or added in another order.
    """
    epochs = {each.encode(groups): each.epoch for each in keys}
    encoded = sorted(epochs, key=lambda each: (-epochs[each], each))
    found = b"".join(_LENGTH.pack(len(each)) + each for each in encoded)
    if any(_LENGTH.size + len(each) > EPOCH_BYTES_MAX for each in encoded) or len(found) > DEPOSIT_BYTES_MAX:
        raise SealInvalid(
            f"a deposit of {max(map(len, encoded))} bytes; brokers take {EPOCH_BYTES_MAX} for one epoch",
            hint='deposit="coarse" gives brokers fewer tokens, deposit="nothing" gives them none: '
            "they then send events that the filter does not match, which the reader drops",
        )
    return found


def deposited(groups: Groups, found: bytes) -> tuple[RoutingTokens, ...]:
    """Parse the output of `deposit`; raise KeyInvalid if it is invalid."""
    keys, at = [], 0
    while at < len(found):
        if len(found) - at < _LENGTH.size:
            raise KeyInvalid("a deposit that ends too early")
        (size,) = _LENGTH.unpack_from(found, at)
        at += _LENGTH.size
        if len(found) - at < size:
            raise KeyInvalid("a deposit that ends too early")
        keys.append(RoutingTokens.decode(groups, found[at : at + size]))
        at += size
    return tuple(keys)


class Router:
    """Test tags and cache the results. Not thread-safe."""

    def __init__(self, groups: Groups) -> None:
        self._groups = groups
        self._deposits: OrderedDict[bytes, tuple[RoutingTokens, ...]] = OrderedDict()
        self._tags: OrderedDict[tuple[bytes, bytes], bytes] = OrderedDict()
        self.pairings = 0
        """Number of tests that were computed, not cached."""

    def test(self, opening: bytes, deposits: Sequence[bytes]) -> list[Fit]:
        """Return, for each deposit, whether it matches the events of a session.

        Raise Unopenable if the opening is invalid.
        """
        envelope = Envelope.decode(opening)
        if envelope.head.kind != OPENING:
            raise Unopenable
        rows: dict[int, G1] = {}
        return [self._fit(envelope, each, rows) for each in deposits]

    def _fit(self, envelope: Envelope, found: bytes, rows: dict[int, G1]) -> Fit:
        head, shape = envelope.head, envelope.capsule.shape
        mine = [
            each for each in self._keys(found) if each.epoch == head.epoch and each.realm[:REALM_BYTES] == head.realm
        ]
        if not mine or any(len(box) != len(shape) for each in mine for box in each.boxes):
            return Fit.UNDECIDED
        matching = any(
            all(self._holds(envelope, rows, row, tokens) for row, tokens in enumerate(box))
            for each in mine
            for box in each.boxes
        )
        return Fit.FITS if matching else Fit.OTHER

    def _holds(self, envelope: Envelope, rows: dict[int, G1], row: int, tokens: Sequence[G2]) -> bool:
        capsule = envelope.capsule
        tags = capsule.tags(row)
        return any(self._tag(capsule.ct(row), rows, row, s3) in tags for s3 in tokens)

    def _tag(self, ct: bytes, rows: dict[int, G1], row: int, s3: G2) -> bytes:
        key = (ct, self._groups.g2.encode(s3))
        tag = self._tags.get(key)
        if tag is None:
            if row not in rows:
                try:
                    rows[row] = self._groups.g1.decode(ct)
                except PointInvalid:
                    raise Unopenable from None
            tag = tag_of(self._groups, rows[row], s3)
            self.pairings += 1
            self._tags[key] = tag
            if len(self._tags) > TAGS_KEPT:
                self._tags.popitem(last=False)
        return tag

    def _keys(self, found: bytes) -> tuple[RoutingTokens, ...]:
        """Return the keys in a deposit. An unreadable deposit gives none, which harms only its subscription."""
        keys = self._deposits.get(found)
        if keys is None:
            try:
                keys = deposited(self._groups, found)
            except KeyInvalid:
                keys = ()
            self._deposits[found] = keys
            if len(self._deposits) > DEPOSITS_KEPT:
                self._deposits.popitem(last=False)
        return keys
