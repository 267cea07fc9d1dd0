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
from .limits import SESSIONS_OPENED_MAX
from .plaintext import Opened
from .sealing import Draft
from .sessions import SealingSession, SessionSealer, session_name


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
        self.sessions = sessions
        self._sequence = 0

    def seal(self, draft: Draft, *, now_us: int, randomness: Randomness) -> tuple[Attributes, bytes]:
        """Return clear attributes and the payload. The draft's own sequence number is ignored."""
        found = self.seal_in(self.sessions.begin(draft, now_us=now_us, randomness=randomness), draft, now_us)
        assert found is not None, "a session in use takes an event"
        return found

    def seal_in(self, session: SealingSession, draft: Draft, now_us: int) -> tuple[Attributes, bytes] | None:
        """Return clear attributes and the payload, or None if the session has ended."""
        member = session.seal(replace(draft, sequence=self._sequence + 1), now_us)
        if member is None:
            return None
        self._sequence += 1
        return member.clear, SealedPayload(member.opening, member.envelope).encode()


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
