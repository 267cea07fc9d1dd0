"""Sealing sessions: events of one publisher with the same credentials share one encapsulated key for a while.

A session begins with an opening: an envelope signed by the publisher's credentials, which contains the session's key
and the public half of a signature key with the lifetime of the session. Each event is then encrypted under the key with
a nonce of its own, and each batch of events is signed by its Merkle root. All readers have the encryption key, so only
the signature proves the publisher. A session is bounded in events and time, and by the slot it begins in.

The price: a thief of the session's key can read the session, and a thief of its signature key can sign until its end.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from struct import Struct
from typing import Final, TypeAlias

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

from plait_core import Attributes, Randomness

from . import merkle
from .envelope import OPENING, SESSION_BYTES, Member, MemberHead
from .errors import SealError, SealInvalid
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
    """An event of a session: clear attributes and the envelope, and the session's opening if it is new."""

    clear: Attributes
    envelope: bytes
    session: bytes
    opening: bytes | None = None


@dataclass(slots=True)
class _Session:
    name: bytes
    opening: bytes
    cipher: ChaCha20Poly1305
    signing: Ed25519PrivateKey
    until_us: int
    used: int = 0
    opening_sent: bool = False
    waiting: list[_Waiting] = field(default_factory=list)


@dataclass(slots=True)
class _Waiting:
    """An event that is encrypted, and not yet signed."""

    place: int
    clear: Attributes
    head: MemberHead
    leaf: bytes
    body: bytes


class SessionSealer:
    """Seal batches of a publisher's events in sessions, one for each vector of credentials."""

    def __init__(self, sealer: Sealer, *, events_max: int = SESSION_EVENTS_MAX, life_us: int = SESSION_US_MAX) -> None:
        assert 0 < events_max <= SESSION_EVENTS_MAX
        assert 0 < life_us <= SESSION_US_MAX
        self._sealer = sealer
        self._events_max = events_max
        self._life_us = life_us
        self._sessions: OrderedDict[_Key, _Session] = OrderedDict()

    def openings(self) -> list[bytes]:
        """Return the openings of the sessions in use, for a reader that joined later."""
        return [session.opening for session in self._sessions.values()]

    def forget(self) -> None:
        """Use no session any more. After a fork, two processes would use one session's numbers, which are nonces."""
        self._sessions.clear()

    def ready(self, attributes: Attributes, now_us: int) -> bool:
        """Return whether an event with these attributes belongs to a session in use, and so costs no pairing."""
        schema = self._sealer.realm.schema
        try:
            key = (schema.epochs.epoch_at(now_us), schema.epochs.slot_at(now_us), schema.leaves(attributes))
        except SealInvalid:
            return False
        session = self._sessions.get(key)
        return session is not None and session.used < self._events_max and now_us < session.until_us

    def seal(self, drafts: Sequence[Draft], *, now_us: int, randomness: Randomness) -> list[SealedMember]:
        """Seal events in their order. Those of one session are signed together, at most BATCH_MAX."""
        sealed: dict[int, SealedMember] = {}
        touched: dict[bytes, _Session] = {}
        try:
            for place, draft in enumerate(drafts):
                session = self._encrypt(place, draft, now_us, randomness)
                touched[session.name] = session
                if len(session.waiting) == BATCH_MAX:
                    sealed.update(_sign(session))
        except SealError:
            for session in touched.values():
                session.waiting.clear()  # a later batch must not have the events of this one
            raise
        for session in touched.values():
            if session.waiting:
                sealed.update(_sign(session))
        return [sealed[place] for place in range(len(drafts))]

    def _encrypt(self, place: int, draft: Draft, now_us: int, randomness: Randomness) -> _Session:
        hidden, clear = draft.split()
        attributes = {**clear, **hidden}
        plain = draft.contents(hidden, now_us).encode()
        clear_digest = bound_digest(clear, draft.bound)
        session = self._session(attributes, draft.sequence, now_us, randomness)
        head = MemberHead(session.name, session.used, self._sealer.publisher, draft.sequence)
        session.used += 1
        head_bytes = head.encode()
        body = session.cipher.encrypt(member_nonce(head.number), plain, head_bytes + clear_digest)
        session.waiting.append(_Waiting(place, clear, head, member_leaf(head_bytes, clear_digest, body), body))
        return session

    def _session(self, attributes: Attributes, sequence: int, now_us: int, randomness: Randomness) -> _Session:
        schema = self._sealer.realm.schema
        key = (schema.epochs.epoch_at(now_us), schema.epochs.slot_at(now_us), schema.leaves(attributes))
        session = self._sessions.get(key)
        if session is None or session.used >= self._events_max or now_us >= session.until_us:
            session = self._sessions[key] = self._begin(attributes, sequence, now_us, randomness)
            if len(self._sessions) > SESSIONS_SEALED_MAX:
                self._sessions.popitem(last=False)
        self._sessions.move_to_end(key)
        return session

    def _begin(self, attributes: Attributes, sequence: int, now_us: int, randomness: Randomness) -> _Session:
        """Begin a session.

        The opening hides all attributes of the schema, even those that its events have in the clear.
        """
        schema = self._sealer.realm.schema
        guarding = {name: value for name, value in attributes.items() if name in schema.trees}
        signing = Ed25519PrivateKey.from_private_bytes(randomness.getrandbits(256).to_bytes(32, "big"))
        end_us = schema.epochs.slot_end_us(schema.epochs.epoch_at(now_us), schema.epochs.slot_at(now_us))
        until_us = min(now_us + self._life_us, end_us)
        terms = TERMS.pack(signing.public_key().public_bytes_raw(), until_us, self._events_max)
        envelope, secret = self._sealer.envelope(
            OPENING, guarding, Plaintext(guarding, terms), sequence, bound_digest({}, b""), now_us, randomness
        )
        opening = envelope.encode()
        return _Session(session_name(opening), opening, session_cipher(secret), signing, until_us)


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


def _sign(session: _Session) -> Iterable[tuple[int, SealedMember]]:
    waiting, session.waiting = session.waiting, []
    levels = merkle.grow([each.leaf for each in waiting])
    signature = session.signing.sign(root_message(session.name, len(waiting), levels[-1][0]))
    return list(_signed(session, waiting, levels, signature))


def _signed(
    session: _Session, waiting: list[_Waiting], levels: list[list[bytes]], signature: bytes
) -> Iterator[tuple[int, SealedMember]]:
    for leaf, each in enumerate(waiting):
        opening = None if session.opening_sent else session.opening
        session.opening_sent = True
        member = Member(each.head, leaf, len(waiting), merkle.proof(levels, leaf), signature, each.body)
        yield each.place, SealedMember(each.clear, member.encode(), session.name, opening)
