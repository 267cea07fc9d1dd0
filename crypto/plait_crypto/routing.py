"""Routing sealed events by their tags (thesis 5.6.4): what a broker does with the routing keys of subscriptions.

A tag is tested by one pairing, and what it comes to is kept: all events of a session have the capsule of its opening,
so steady traffic costs no pairing. A broker learns which subscriptions an event matches, and nothing that is hidden.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass

from .envelope import EVENT, MEMBER, OPENING, Envelope, Member, kind_of
from .errors import KeyInvalid, Unopenable
from .hazmat import Capsule, Rejected, Scheme
from .hazmat.backend import G2
from .keys import RoutingKeys
from .limits import SESSIONS_ROUTED_MAX, TAGS_KEPT
from .realm import Realm
from .sessions import session_name


@dataclass(frozen=True, slots=True)
class Routable:
    """What of a sealed event routing looks at."""

    epoch: int
    capsule: Capsule


class Router:
    """Tests tags, and remembers what came out. Not for several threads at once."""

    def __init__(self, realm: Realm) -> None:
        self._realm = realm
        self._scheme = Scheme(realm.parameters, credentials_kept=1)
        self._sessions: OrderedDict[bytes, Routable] = OrderedDict()
        self._tags: OrderedDict[tuple[bytes, bytes], bytes] = OrderedDict()
        self.pairings = 0
        """How many tests were computed and not remembered."""

    def learn(self, opening: bytes) -> bytes:
        """Remember a session's capsule; its name. Unopenable if it is no opening of this realm."""
        if kind_of(opening) != OPENING:
            raise Unopenable
        name = session_name(opening)
        self._sessions[name] = self._routable(Envelope.decode(opening))
        self._sessions.move_to_end(name)
        if len(self._sessions) > SESSIONS_ROUTED_MAX:
            self._sessions.popitem(last=False)
        return name

    def read(self, envelope: bytes) -> Routable | None:
        """What to route an event by; None if it is of a session that is not known. Unopenable if it is no envelope."""
        if kind_of(envelope) == MEMBER:
            return self._sessions.get(Member.decode(envelope).head.session)
        if kind_of(envelope) != EVENT:
            raise Unopenable
        return self._routable(Envelope.decode(envelope))

    def matches(self, keys: RoutingKeys, event: Routable) -> bool:
        """Whether a subscription with these routing keys is to have the event. Unopenable if a part is no point."""
        if keys.realm != self._realm.digest or any(len(box) != len(event.capsule.shape) for box in keys.boxes):
            raise KeyInvalid("routing keys of another realm")
        if keys.epoch != event.epoch:
            return False
        return any(
            all(
                any(self._fits(event.capsule, row, credential.place, s3) for credential, s3 in candidates)
                for row, candidates in enumerate(box)
            )
            for box in keys.boxes
        )

    def _fits(self, capsule: Capsule, row: int, place: int, s3: G2) -> bool:
        if not place:
            return True
        return place < capsule.shape[row] and self._tag(capsule.ct(row), s3) == capsule.tag(row, place)

    def _tag(self, ct: bytes, s3: G2) -> bytes:
        key = (ct, self._realm.parameters.groups.g2.encode(s3))
        tag = self._tags.get(key)
        if tag is None:
            try:
                tag = self._scheme.tag(ct, s3)
            except Rejected:
                raise Unopenable from None
            self.pairings += 1
            self._tags[key] = tag
            if len(self._tags) > TAGS_KEPT:
                self._tags.popitem(last=False)
        return tag

    def _routable(self, envelope: Envelope) -> Routable:
        if envelope.head.realm != self._realm.mark or envelope.capsule.shape != self._realm.schema.shape:
            raise Unopenable
        return Routable(envelope.head.epoch, envelope.capsule)
