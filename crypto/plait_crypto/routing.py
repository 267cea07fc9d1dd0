"""Route sealed events by their tags (thesis 5.6.4), with the routing tokens that subscriptions deposit at brokers.

A broker belongs to no realm. It has an event's opening and the deposits of subscriptions. It learns which of them an
event matches, and nothing of the hidden content. A tag test is one pairing, and its result is cached. The caller caches
the result for an opening, which all events of a session share. So steady traffic costs no pairing.

A deposit can have 680 tokens, which takes a second. So a test is taken in parts: a stranger's deposit of that size must
not keep a thread from all others.

    deposit    for each epoch and grant: length, routing tokens
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from struct import Struct
from typing import Final, Literal, TypeAlias, TypeVar

from plait_core.limits import DEPOSIT_BYTES_MAX
from plait_core.sealed_opening import Fit

from .envelope import OPENING, REALM_BYTES, Envelope
from .errors import KeyInvalid, SealInvalid, Unopenable
from .hazmat import Groups, tag_of
from .hazmat.backend import G1, G2, Group, PointInvalid
from .keys import RoutingTokens, UncheckedTokens
from .limits import RESULTS_KEPT

DepositKind: TypeAlias = Literal["exact", "coarse", "nothing"]
"""The tokens that a subscription gives brokers, to test tags with."""

EPOCH_BYTES_MAX: Final = DEPOSIT_BYTES_MAX // 2
"""Bytes of the tokens of one epoch: while two epochs overlap, a deposit has the tokens of both."""

DEPOSIT_KINDS: Final[tuple[DepositKind, ...]] = ("exact", "coarse", "nothing")
POINTS_PER_STEP: Final = 8
"""Points that are decoded in one step of a test: together they take about the time of a pairing."""

_LENGTH: Final = Struct(">I")

K = TypeVar("K")
P = TypeVar("P")


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
    return _parsed(found, lambda entry: RoutingTokens.decode(groups, entry))


class TagTest:
    """The test of one deposit on one opening, as far as it has been taken. `Router.run` goes on with it."""

    __slots__ = ("box", "boxes", "capsule", "fit", "row", "tags", "token", "unchecked")

    def __init__(self, opening: bytes, found: bytes) -> None:
        """Raise Unopenable if the opening is invalid. An unreadable deposit harms only its subscription."""
        envelope = Envelope.decode(opening)
        head = envelope.head
        if head.kind != OPENING:
            raise Unopenable
        try:
            keys = _parsed(found, UncheckedTokens.parse)
        except KeyInvalid:
            keys = ()
        mine = [each for each in keys if each.epoch == head.epoch and each.realm[:REALM_BYTES] == head.realm]
        self.capsule = envelope.capsule
        self.boxes = [box for each in mine for box in each.boxes]
        decided = mine and all(len(box) == len(self.capsule.shape) for box in self.boxes)
        self.fit: Fit | None = None if decided else Fit.UNDECIDED
        """The result, once there is one."""
        self.unchecked = [token for each in keys for box in each.boxes for row in box for token in row]
        """Tokens that may be no points: then the whole deposit is unreadable."""
        self.box = self.row = self.token = 0
        """The next token to test."""
        self.tags = self.capsule.tags(0)
        """The tags of this row."""

    def answer(self, tag: bytes) -> None:
        """Take the tag that this row has if it is for the credential of the next token."""
        self.token += 1
        rows = self.boxes[self.box]
        if tag in self.tags:
            if self.row + 1 < len(rows):
                self._go_to(self.box, self.row + 1)
            else:
                self.fit = Fit.FITS
        elif self.token == len(rows[self.row]):
            if self.box + 1 < len(self.boxes):
                self._go_to(self.box + 1, 0)
            else:
                self.fit = Fit.OTHER

    def _go_to(self, box: int, row: int) -> None:
        self.box, self.row, self.token = box, row, 0
        self.tags = self.capsule.tags(row)


class Router:
    """Test tags, and cache points and results. Not thread-safe, but a test may go on with another router."""

    def __init__(self, groups: Groups) -> None:
        self._groups = groups
        self._tokens: OrderedDict[bytes, G2] = OrderedDict()
        self._rows: OrderedDict[bytes, G1] = OrderedDict()
        self._tags: OrderedDict[tuple[bytes, bytes], bytes] = OrderedDict()
        self.pairings = 0
        """Number of tests that were computed, not cached."""

    def test(self, opening: bytes, deposits: Sequence[bytes]) -> list[Fit]:
        """Return, for each deposit, whether it matches the events of a session.

        Raise Unopenable if the opening is invalid.
        """
        fits = []
        for each in deposits:
            test = TagTest(opening, each)
            self.run(test, DEPOSIT_BYTES_MAX)  # no test has as many steps
            assert test.fit is not None
            fits.append(test.fit)
        return fits

    def run(self, test: TagTest, steps: int) -> int:
        """Go on with a test for at most `steps` steps, and return how many it took. A step is a pairing, or the
        decoding of some points. Raise Unopenable if the opening is invalid."""
        taken = 0
        while taken < steps and test.unchecked and test.fit is None:
            taken += self._check(test)
        first = self.pairings - taken
        while self.pairings - first < steps and test.fit is None:
            row, token = test.capsule.ct(test.row), test.boxes[test.box][test.row][test.token]
            test.answer(self._tag(row, token))
        return self.pairings - first

    def _check(self, test: TagTest) -> int:
        """Check tokens until one step is taken or none is left. Return the steps taken."""
        decoded = 0
        while test.unchecked and decoded < POINTS_PER_STEP:
            token = test.unchecked.pop()
            decoded += token not in self._tokens
            try:
                _decoded(self._tokens, token, self._groups.g2)
            except PointInvalid:
                test.fit = Fit.UNDECIDED
        return int(decoded > 0)

    def _tag(self, row: bytes, token: bytes) -> bytes:
        tag = self._tags.get((row, token))
        if tag is None:
            try:
                ct = _decoded(self._rows, row, self._groups.g1)
            except PointInvalid:
                raise Unopenable from None
            tag = tag_of(self._groups, ct, _decoded(self._tokens, token, self._groups.g2))
            self.pairings += 1
            _keep(self._tags, (row, token), tag)
        return tag


def _decoded(cache: OrderedDict[bytes, P], encoded: bytes, group: Group[P]) -> P:
    """Return a point, from the cache if it is there; raise PointInvalid if the bytes are none."""
    point = cache.get(encoded)
    if point is None:
        point = group.decode(encoded)
        _keep(cache, encoded, point)
    return point


def _keep(cache: OrderedDict[K, P], key: K, value: P) -> None:
    cache[key] = value
    if len(cache) > RESULTS_KEPT:
        cache.popitem(last=False)


def _parsed(found: bytes, parse: Callable[[bytes], P]) -> tuple[P, ...]:
    """Parse each entry of a deposit; raise KeyInvalid if one is invalid."""
    keys, at = [], 0
    while at < len(found):
        if len(found) - at < _LENGTH.size:
            raise KeyInvalid("a deposit that ends too early")
        (size,) = _LENGTH.unpack_from(found, at)
        at += _LENGTH.size
        if len(found) - at < size:
            raise KeyInvalid("a deposit that ends too early")
        keys.append(parse(found[at : at + size]))
        at += size
    return tuple(keys)
