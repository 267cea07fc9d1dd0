"""Parcels: how sealed events travel as payloads. Each brings the opening of its session, so that a reader who comes in
the middle can begin, and nothing has to be asked for or sent again; whoever knows the session skips it.
`plait_core.sealed_opening` has the form.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass

from plait_core import Attributes, Randomness
from plait_core.sealed_opening import SEALED_HEAD, SEALED_VERSION, opening_of

from .envelope import MEMBER, SESSION_BYTES, kind_of
from .errors import Unopenable, Why
from .keyring import Keyring
from .limits import SESSIONS_OPENED_MAX, SESSIONS_SEALED_MAX
from .plaintext import Opened
from .sealing import Draft
from .sessions import SessionSealer, session_name


@dataclass(frozen=True, slots=True)
class SealedPayload:
    """A sealed event, cut up."""

    opening: bytes
    envelope: bytes

    def encode(self) -> bytes:
        """The payload that travels."""
        return b"".join([SEALED_HEAD.pack(SEALED_VERSION, len(self.opening)), self.opening, self.envelope])

    @classmethod
    def decode(cls, payload: bytes) -> SealedPayload:
        """What `encode` wrote, or Unopenable."""
        opening = opening_of(payload)
        if opening is None:
            raise Unopenable
        found = cls(opening, payload[SEALED_HEAD.size + len(opening) :])
        if kind_of(found.envelope) != MEMBER:
            raise Unopenable
        return found


class PayloadSealer:
    """Seals events one by one into parcels, and numbers them. Not for several threads at once."""

    def __init__(self, sessions: SessionSealer) -> None:
        self._sessions = sessions
        self._openings: OrderedDict[bytes, bytes] = OrderedDict()
        self._sequence = 0

    def cheap(self, draft: Draft, now_us: int) -> bool:
        """Whether sealing costs no pairing: its session goes on."""
        return self._sessions.ready(dict(draft.attributes), now_us)

    def seal(self, draft: Draft, *, now_us: int, randomness: Randomness) -> tuple[Attributes, bytes]:
        """Attributes in the clear, and the payload. The draft's own number is not looked at."""
        numbered = Draft(draft.attributes, draft.payload, self._sequence + 1, draft.hidden, draft.bound)
        (member,) = self._sessions.seal([numbered], now_us=now_us, randomness=randomness)
        self._sequence += 1
        if member.opening is not None:
            self._openings[member.session] = member.opening
            if len(self._openings) > 2 * SESSIONS_SEALED_MAX:  # those of sessions that are over go first
                self._openings.popitem(last=False)
        self._openings.move_to_end(member.session)
        return member.clear, SealedPayload(self._openings[member.session], member.envelope).encode()


class PayloadReader:
    """Opens parcels with a keyring, and remembers the sessions that do not open. Not for several threads at once."""

    def __init__(self, keyring: Keyring) -> None:
        self.keyring = keyring
        self._closed: OrderedDict[bytes, tuple[int, Why]] = OrderedDict()
        self._generation = 0

    def renewed(self) -> None:
        """The keyring has other keys: sessions that did not open may now."""
        self._generation += 1

    def cheap(self, payload: bytes) -> bool:
        """Whether opening costs no pairing: its session is known, or is known not to open."""
        try:
            parcel = SealedPayload.decode(payload)
            known = self.keyring.knows(parcel.envelope)
        except Unopenable:
            return True
        return known or self._refused(session_name(parcel.opening)) is not None

    def open(
        self, clear: Attributes, payload: bytes, *, now_us: int, randomness: Randomness, bound: bytes = b""
    ) -> Opened:
        """The event, or Unopenable."""
        parcel = SealedPayload.decode(payload)
        if not self.keyring.knows(parcel.envelope):
            self._begin(parcel, now_us, randomness)
        return self.keyring.open(clear, parcel.envelope, now_us=now_us, randomness=randomness, bound=bound)

    def _begin(self, parcel: SealedPayload, now_us: int, randomness: Randomness) -> None:
        name = session_name(parcel.opening)
        assert len(name) == SESSION_BYTES
        if (why := self._refused(name)) is not None:
            raise Unopenable(why)
        try:
            self.keyring.begin(parcel.opening, now_us=now_us, randomness=randomness)
        except Unopenable as error:
            if error.why in ("missing_key", "not_covered"):  # other reasons may pass, or cost nothing to find again
                self._closed[name] = self._generation, error.why
                if len(self._closed) > SESSIONS_OPENED_MAX:
                    self._closed.popitem(last=False)
            raise

    def _refused(self, name: bytes) -> Why | None:
        generation, why = self._closed.get(name, (-1, None))
        return why if generation == self._generation else None
