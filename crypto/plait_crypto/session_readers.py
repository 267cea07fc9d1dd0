"""Sealing sessions at a reader: the opened sessions, and the checks on their events.

Bounded: the least recently used sessions are evicted, and can be begun again by the same opening.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Final

from cryptography.exceptions import InvalidSignature, InvalidTag
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

from plait_core import Attributes

from . import merkle
from .envelope import Member
from .errors import SealInvalid, Unopenable
from .limits import SESSION_EVENTS_MAX, SESSION_US_MAX, SESSIONS_OPENED_MAX
from .plaintext import Opened, Plaintext
from .realm import Realm
from .sessions import TERMS, member_leaf, member_nonce, root_message, session_cipher, session_name

_ROOTS_KEPT: Final = 64
"""Batches of one session whose signature need not be checked again."""


@dataclass(slots=True)
class _OpenSession:
    name: bytes
    begun_by: bytes
    cipher: ChaCha20Poly1305
    verifying: Ed25519PublicKey
    until_us: int
    events_max: int
    opening: Opened
    leaves: tuple[object, ...]
    roots: OrderedDict[bytes, bytes] = field(default_factory=OrderedDict)


class OpenSessions:
    """The sessions that one reader has opened."""

    def __init__(self, realm: Realm) -> None:
        self._realm = realm
        self._sessions: OrderedDict[bytes, _OpenSession] = OrderedDict()

    def is_open(self, session: bytes, opening: bytes) -> bool:
        """Return whether a session is open; raise Unopenable if `opening` is not the one that begins it."""
        found = self._sessions.get(session)
        if (session_name(opening) != session) if found is None else (found.begun_by != opening):
            raise Unopenable
        return found is not None

    def begun(self, opening: bytes) -> bool:
        """Return whether the session of an opening is open."""
        return session_name(opening) in self._sessions

    def begin(self, opening: bytes, opened: Opened, secret: bytes, now_us: int) -> None:
        """Add the session of an authentic opening; raise Unopenable if its terms are invalid."""
        if len(opened.payload) != TERMS.size:
            raise Unopenable
        key, until_us, events_max = TERMS.unpack(opened.payload)
        epochs = self._realm.schema.epochs
        longest_us = SESSION_US_MAX + 2 * epochs.overlap_us
        if until_us + epochs.overlap_us < now_us:
            raise Unopenable("stale_epoch")
        if events_max > SESSION_EVENTS_MAX or until_us - now_us + epochs.overlap_us > longest_us:
            raise Unopenable
        name = session_name(opening)
        leaves = self._realm.schema.leaves(opened.attributes)
        verifying = Ed25519PublicKey.from_public_bytes(key)
        self._sessions[name] = _OpenSession(
            name, opening, session_cipher(secret), verifying, until_us, events_max, opened, leaves
        )
        if len(self._sessions) > SESSIONS_OPENED_MAX:
            self._sessions.popitem(last=False)

    def forget(self, now_us: int) -> None:
        """Drop the sessions that have ended."""
        for name in [name for name, session in self._sessions.items() if not self._in_time(session, now_us)]:
            del self._sessions[name]

    def open(self, member: Member, clear: Attributes, clear_digest: bytes, now_us: int) -> Opened:
        """Open an event of an open session, or raise Unopenable."""
        head = member.head
        session = self._sessions.get(head.session)
        if session is None or not self._in_time(session, now_us):
            raise Unopenable("stale_epoch")
        if head.number >= session.events_max or head.publisher != session.opening.publisher:
            raise Unopenable
        self._sessions.move_to_end(head.session)
        head_bytes = head.encode()
        _check_root(session, member, member_leaf(head_bytes, clear_digest, member.body))
        try:
            plain = session.cipher.decrypt(member_nonce(head.number), member.body, head_bytes + clear_digest)
            contents = Plaintext.decode(plain)
            attributes = {**clear, **contents.hidden}
            leaves = self._realm.schema.leaves(attributes)
        except (InvalidTag, SealInvalid):
            raise Unopenable from None
        if leaves != session.leaves or len(attributes) != len(clear) + len(contents.hidden):
            raise Unopenable
        whole = session.opening
        return Opened(
            attributes,
            contents.payload,
            whole.publisher,
            head.sequence,
            whole.epoch,
            whole.grant,
            whole.credentials,
            contents.metadata,
            session.name,
            head.number,
            session.until_us,
        )

    def _in_time(self, session: _OpenSession, now_us: int) -> bool:
        """Return whether a session's events are accepted.

        They may arrive after its end, for as long as epochs overlap.
        """
        epochs = self._realm.schema.epochs
        return now_us < session.until_us + epochs.overlap_us and session.opening.epoch in epochs.taken_at(now_us)


def _check_root(session: _OpenSession, member: Member, leaf: bytes) -> None:
    """Raise Unopenable unless the session's key signed the batch, and the proof shows that the event is in it."""
    root = merkle.climb(leaf, member.leaf, member.siblings)
    message = root_message(session.name, member.leaves, root)
    if session.roots.get(message) == member.root_signature:
        return
    try:
        session.verifying.verify(member.root_signature, message)
    except InvalidSignature:
        raise Unopenable from None
    session.roots[message] = member.root_signature
    if len(session.roots) > _ROOTS_KEPT:
        session.roots.popitem(last=False)
