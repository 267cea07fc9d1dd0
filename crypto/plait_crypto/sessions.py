"""Sealing sessions: events of one publisher with the same credentials share one encapsulated key for a while.

A session begins with an opening: an envelope signed by the publisher's credentials, which contains the session's key
and the public half of a signature key with the lifetime of the session. Each event is then encrypted under the key with
a nonce of its own, and each batch of events is signed by its Merkle root. All readers have the encryption key, so only
the signature proves the publisher. A session is bounded in events and time, and by the slot it begins in.

The price: a thief of the session's key can read the session, and a thief of its signature key can sign until its end.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from struct import Struct
from typing import Final, TypeAlias

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

from plait_core import Attributes, Randomness

from . import merkle
from .envelope import OPENING, SESSION_BYTES, Member, MemberHead
from .hazmat.hashing import derive, digest
from .limits import BATCH_MAX, SESSION_EVENTS_MAX, SESSION_US_MAX, SESSIONS_SEALED_MAX
from .plaintext import Plaintext, bound_digest
from .sealing import KEY_BYTES, Draft, Sealer

TERMS: Final = Struct(">32sQI")
"""The payload of an opening: the session's verifying key, its end in microseconds, its most events."""

NONCE_BYTES: Final = 12

_Key: TypeAlias = tuple[int, int, tuple[object, ...]]


@dataclass(frozen=True, slots=True)
class SealedMember:
    """An event of a session: clear attributes and the envelope, and the opening that its session begins with."""

    clear: Attributes
    envelope: bytes
    session: bytes
    opening: bytes


@dataclass(slots=True)
class SealingSession:
    """One session of a publisher. A number that was drawn is never drawn again, because it is a nonce."""

    name: bytes
    opening: bytes
    publisher: int
    until_us: int
    events_max: int
    _cipher: ChaCha20Poly1305
    _signing: Ed25519PrivateKey
    _used: int = 0
    _waiting: list[_Waiting] = field(default_factory=list)

    def usable(self, now_us: int) -> bool:
        """Return whether one more event can be sealed in it."""
        return self._used < self.events_max and now_us < self.until_us

    def end(self) -> None:
        """Seal no more events in it. Readers then miss no number after those that were sent."""
        self._used = self.events_max

    def seal(self, draft: Draft, now_us: int) -> SealedMember | None:
        """Seal an event whose values are those of the session. Return None, and draw no number, if it has ended."""
        if not self.usable(now_us):
            return None
        self.encrypt(0, draft, now_us)
        ((_, member),) = self.sign()
        return member

    def encrypt(self, place: int, draft: Draft, now_us: int) -> bool:
        """Encrypt an event of a batch. Return whether the batch is full."""
        hidden, clear = draft.split()
        plain = draft.contents(hidden, now_us).encode()
        clear_digest = bound_digest(clear, draft.bound)
        head = MemberHead(self.name, self._used, self.publisher, draft.sequence)
        head_bytes = head.encode()
        self._used += 1  # the number is drawn: nothing fails from here on
        body = self._cipher.encrypt(member_nonce(head.number), plain, head_bytes + clear_digest)
        self._waiting.append(_Waiting(place, clear, head, member_leaf(head_bytes, clear_digest, body), body))
        return len(self._waiting) == BATCH_MAX

    def sign(self) -> list[tuple[int, SealedMember]]:
        """Sign the batch. Return its events, each with its place."""
        waiting, self._waiting = self._waiting, []
        if not waiting:
            return []
        levels = merkle.grow([each.leaf for each in waiting])
        signature = self._signing.sign(root_message(self.name, len(waiting), levels[-1][0]))
        return [
            (each.place, SealedMember(each.clear, member.encode(), self.name, self.opening))
            for leaf, each in enumerate(waiting)
            for member in (Member(each.head, leaf, len(waiting), merkle.proof(levels, leaf), signature, each.body),)
        ]

    def discard_batch(self) -> None:
        """Forget the events that are not signed yet: the batch has failed, and a later one must not have them."""
        self._waiting.clear()


@dataclass(slots=True)
class _Waiting:
    """An event that is encrypted, and not yet signed."""

    place: int
    clear: Attributes
    head: MemberHead
    leaf: bytes
    body: bytes


class SessionSealer:
    """Seal a publisher's events in sessions, one for each vector of credentials.

    `begin` computes pairings, and may run in one thread while another one finds sessions and seals in them.
    """

    def __init__(self, sealer: Sealer, *, events_max: int = SESSION_EVENTS_MAX, life_us: int = SESSION_US_MAX) -> None:
        assert 0 < events_max <= SESSION_EVENTS_MAX
        assert 0 < life_us <= SESSION_US_MAX
        self._sealer = sealer
        self._events_max = events_max
        self._life_us = life_us
        self._sessions: OrderedDict[_Key, SealingSession] = OrderedDict()

    def openings(self) -> list[bytes]:
        """Return the openings of the sessions in use, for a reader that joined later."""
        return [session.opening for session in self._sessions.values()]

    def forget(self) -> None:
        """End all sessions in use. After a fork, two processes would use their numbers, which are nonces."""
        for session in self._sessions.values():
            session.end()
        self._sessions.clear()

    def find(self, draft: Draft, now_us: int) -> SealingSession | None:
        """Return the session that an event can be sealed in without a pairing, or None."""
        session = self._sessions.get(self._key(draft, now_us)) if draft.session else None
        return session if session is not None and session.usable(now_us) else None

    def begin(self, draft: Draft, *, now_us: int, randomness: Randomness) -> SealingSession:
        """Return the session of an event. Begin it unless it is in use."""
        if not draft.session:
            return self._begin(draft, 1, now_us, randomness)
        session = self.find(draft, now_us)
        if session is None:
            session = self._sessions[self._key(draft, now_us)] = self._begin(
                draft, self._events_max, now_us, randomness
            )
            if len(self._sessions) > SESSIONS_SEALED_MAX:  # none lives for long: the one that began first goes first
                self._sessions.popitem(last=False)
        return session

    def seal(self, drafts: Sequence[Draft], *, now_us: int, randomness: Randomness) -> list[SealedMember]:
        """Seal events in their order. Those of one session are signed together, at most BATCH_MAX."""
        sealed: dict[int, SealedMember] = {}
        touched: dict[bytes, SealingSession] = {}
        try:
            for place, draft in enumerate(drafts):
                session = self.begin(draft, now_us=now_us, randomness=randomness)
                touched[session.name] = session
                if session.encrypt(place, draft, now_us):
                    sealed.update(session.sign())
        except BaseException:
            for session in touched.values():
                session.discard_batch()
            raise
        for session in touched.values():
            sealed.update(session.sign())
        return [sealed[place] for place in range(len(drafts))]

    def _key(self, draft: Draft, now_us: int) -> _Key:
        schema = self._sealer.realm.schema
        return schema.epochs.epoch_at(now_us), schema.epochs.slot_at(now_us), schema.leaves(draft.checked())

    def _begin(self, draft: Draft, events_max: int, now_us: int, randomness: Randomness) -> SealingSession:
        """Begin a session of so many events.

        The opening hides all attributes of the schema, even those that its events have in the clear.
        """
        schema = self._sealer.realm.schema
        guarding = {name: value for name, value in draft.checked().items() if name in schema.trees}
        signing = Ed25519PrivateKey.from_private_bytes(randomness.getrandbits(256).to_bytes(32, "big"))
        end_us = schema.epochs.slot_end_us(schema.epochs.epoch_at(now_us), schema.epochs.slot_at(now_us))
        until_us = min(now_us + self._life_us, end_us)
        terms = TERMS.pack(signing.public_key().public_bytes_raw(), until_us, events_max)
        envelope, secret = self._sealer.envelope(
            OPENING, guarding, Plaintext(guarding, terms), draft.sequence, bound_digest({}, b""), now_us, randomness
        )
        opening, cipher = envelope.encode(), session_cipher(secret)
        name = session_name(opening)
        return SealingSession(name, opening, self._sealer.publisher, until_us, events_max, cipher, signing)


def session_name(opening: bytes) -> bytes:
    """Return the name by which events refer to a session."""
    return digest(b"session", opening)[:SESSION_BYTES]


def session_cipher(secret: bytes) -> ChaCha20Poly1305:
    """Return the cipher of a session's events."""
    return ChaCha20Poly1305(derive(secret, b"session", b"", KEY_BYTES))


def member_nonce(number: int) -> bytes:
    """Return an event's nonce: its number in the session, used once."""
    return number.to_bytes(NONCE_BYTES, "big")


def member_leaf(head: bytes, clear_digest: bytes, body: bytes) -> bytes:
    """Return the digest of an event in its batch."""
    return digest(b"leaf", head, clear_digest, body)


def root_message(session: bytes, leaves: int, root: bytes) -> bytes:
    """Return the message that a session's key signs for a batch."""
    return digest(b"batch", session, bytes((leaves,)), root)
