"""Sealed events as payloads. Each payload includes the opening of its session.

So a reader that joins later can begin at any event, without a request or a retransmission. Readers that know the
session skip the opening. `plait_core.sealed_opening` has the layout.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, replace

from plait_core import Attributes, Randomness
from plait_core.sealed_opening import SEALED_HEAD, SEALED_VERSION, opening_of

from .envelope import MEMBER, SESSION_BYTES, kind_of
from .errors import Unopenable, UnopenableReason
from .keyring import Keyring
from .limits import SESSIONS_OPENED_MAX, SESSIONS_SEALED_MAX
from .plaintext import Opened
from .sealing import Draft
from .sessions import SessionSealer, session_name


@dataclass(frozen=True, slots=True)
class SealedPayload:
    """A sealed event, in its parts."""

    opening: bytes
    envelope: bytes

    def encode(self) -> bytes:
        """Return the payload's bytes."""
        return b"".join([SEALED_HEAD.pack(SEALED_VERSION, len(self.opening)), self.opening, self.envelope])

    @classmethod
    def decode(cls, payload: bytes) -> SealedPayload:
        """Parse the output of `encode`; raise Unopenable if it is invalid."""
        opening = opening_of(payload)
        if opening is None:
            raise Unopenable
        found = cls(opening, payload[SEALED_HEAD.size + len(opening) :])
        if kind_of(found.envelope) != MEMBER:
            raise Unopenable
        return found


class PayloadSealer:
    """Seal events one by one as payloads, and number them. Not thread-safe."""

    def __init__(self, sessions: SessionSealer) -> None:
        self._sessions = sessions
        self._openings: OrderedDict[bytes, bytes] = OrderedDict()
        self._sequence = 0

    def forget(self) -> None:
        """Begin new sessions: this process is the child of a fork."""
        self._sessions.forget()
        self._openings.clear()

    def cheap(self, draft: Draft, now_us: int) -> bool:
        """Return whether sealing costs no pairing, because the event's session is in use."""
        return self._sessions.ready(dict(draft.attributes), now_us)

    def seal(self, draft: Draft, *, now_us: int, randomness: Randomness) -> tuple[Attributes, bytes]:
        """Return clear attributes and the payload. The draft's own sequence number is ignored."""
        numbered = replace(draft, sequence=self._sequence + 1)
        (member,) = self._sessions.seal([numbered], now_us=now_us, randomness=randomness)
        self._sequence += 1
        if member.opening is not None:
            self._openings[member.session] = member.opening
            if len(self._openings) > 2 * SESSIONS_SEALED_MAX:  # ended sessions are evicted first
                self._openings.popitem(last=False)
        self._openings.move_to_end(member.session)
        return member.clear, SealedPayload(self._openings[member.session], member.envelope).encode()


class PayloadReader:
    """Open sealed payloads with a keyring, and remember the sessions that do not open. Not thread-safe."""

    def __init__(self, keyring: Keyring) -> None:
        self.keyring = keyring
        self._closed: OrderedDict[bytes, tuple[int, UnopenableReason]] = OrderedDict()
        self._generation = 0

    def renewed(self) -> None:
        """Retry sessions that did not open, because the keyring has new keys."""
        self._generation += 1

    def cheap(self, payload: bytes) -> bool:
        """Return whether opening costs no pairing: its session is open, or is known not to open."""
        try:
            sealed = SealedPayload.decode(payload)
            known = self.keyring.knows(sealed.envelope, sealed.opening)
        except Unopenable:
            return True
        return known or self._refused(session_name(sealed.opening)) is not None

    def open(
        self, clear: Attributes, payload: bytes, *, now_us: int, randomness: Randomness, bound: bytes = b""
    ) -> Opened:
        """Open an event, or raise Unopenable."""
        sealed = SealedPayload.decode(payload)
        if not self.keyring.knows(sealed.envelope, sealed.opening):
            self._begin(sealed, now_us, randomness)
        return self.keyring.open(clear, sealed.envelope, now_us=now_us, randomness=randomness, bound=bound)

    def _begin(self, sealed: SealedPayload, now_us: int, randomness: Randomness) -> None:
        name = session_name(sealed.opening)
        assert len(name) == SESSION_BYTES
        if (why := self._refused(name)) is not None:
            raise Unopenable(why)
        try:
            self.keyring.begin(sealed.opening, now_us=now_us, randomness=randomness)
        except Unopenable as error:
            if error.why in ("missing_key", "not_covered"):  # other reasons may pass, or are cheap to find again
                self._closed[name] = self._generation, error.why
                if len(self._closed) > SESSIONS_OPENED_MAX:
                    self._closed.popitem(last=False)
            raise

    def _refused(self, name: bytes) -> UnopenableReason | None:
        generation, why = self._closed.get(name, (-1, None))
        return why if generation == self._generation else None
