"""The keyring: a reader's keys, and the sequence numbers seen from each publisher (thesis 5.5.5).

Every problem with an envelope is one `Unopenable`: no key for it, changed bytes, a signature that is not the
publisher's or not on this event, an epoch that is over or has not begun, a repeated sequence number.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, TypeAlias

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

from plait_core import Attributes, EventInvalid, Randomness, Value
from plait_core.duplicates import DuplicateWindow, Sighting
from plait_core.limits import DUPLICATE_WINDOW
from plait_core.values import check_attributes

from .attributes.credentials import Credential
from .envelope import EVENT, GRANT_BYTES, MEMBER, OPENING, Envelope, Member, kind_of, shape_text
from .errors import KeyInvalid, SealInvalid, Unopenable
from .hazmat import Rejected, Scheme, SignatureInvalid, SubscriberPart
from .hazmat.hashing import derive, digest
from .hazmat.prepared import CREDENTIALS_KEPT
from .keys import SubscriberBox, SubscriberKeys
from .limits import EPOCH_KEYS_MAX
from .plaintext import Opened, Plaintext, bound_digest
from .realm import Realm
from .routing import DepositKind, deposit
from .sealing import KEY_BYTES, NONCE, body_digest, signed_message
from .seen_events import SeenEvents
from .session_readers import OpenSessions

PUBLISHERS_MAX: Final = 65_536
"""Publishers of events with keys of their own, whose sequence numbers are remembered."""

CLOCKS_DIFFER_US: Final = 5_000_000
"""Microseconds by which the clocks of publisher and reader may differ before an event counts as expired."""

Chosen: TypeAlias = tuple[Credential, SubscriberPart]


class Keyring:
    """The keys of one reader. Not thread-safe."""

    def __init__(self, realm: Realm, credentials_kept: int = CREDENTIALS_KEPT, *, since_us: int = 0) -> None:
        self.realm = realm
        self._scheme = Scheme(realm.parameters, credentials_kept)
        self._keys: list[SubscriberKeys] = []
        self._seen = DuplicateWindow(DUPLICATE_WINDOW, PUBLISHERS_MAX)
        self._seen_in_sessions = SeenEvents()
        self._sessions = OpenSessions(realm)
        self.since_us = since_us
        """Events that were published earlier are refused as replays."""

    def add(self, keys: SubscriberKeys) -> None:
        """Add keys to the ring."""
        if keys.realm != self.realm.digest:
            raise KeyInvalid("keys of another realm")
        shape = self.realm.schema.shape
        for box in keys.boxes:
            if len(box.rows) != len(shape):
                raise KeyInvalid("keys of another schema")
            if any(each.place >= places for row, places in zip(box.rows, shape, strict=True) for each, _ in row):
                raise KeyInvalid("keys of another schema")
        if len(self._keys) >= EPOCH_KEYS_MAX:
            raise KeyInvalid("too many keys on one ring", hint="forget those of epochs that are over")
        self._keys.append(keys)

    def forget(self, now_us: int) -> None:
        """Drop keys of epochs that are over, and sessions that have ended."""
        first = self.realm.schema.epochs.taken_at(now_us)[0]
        self._keys = [keys for keys in self._keys if keys.epoch >= first]
        self._sessions.forget(now_us)
        self._seen_in_sessions.forget(now_us - 2 * self.realm.schema.epochs.overlap_us)  # none opens after one overlap

    def epochs(self) -> set[int]:
        """Return the epochs of its keys."""
        return {keys.epoch for keys in self._keys}

    def deposit(self, kind: DepositKind = "exact") -> bytes:
        """Return the tokens of all keys, with which brokers test tags. They open nothing.

        Raise SealInvalid if they are too many, or if the keys have no coarse ones.
        """
        if kind == "nothing":
            return b""
        groups = self.realm.parameters.groups
        return deposit(groups, [keys.routing(groups, coarse=kind == "coarse") for keys in self._keys])

    def knows(self, envelope: bytes, opening: bytes) -> bool:
        """Return whether an event of a session opens without a pairing, because the session is open.

        Raise Unopenable if `opening` does not begin its session.
        """
        return self._sessions.is_open(Member.decode(envelope).head.session, opening)

    def open(
        self, clear: Mapping[str, Value], envelope: bytes, *, now_us: int, randomness: Randomness, bound: bytes = b""
    ) -> Opened:
        """Open an event, or raise Unopenable. `randomness` is for checking signatures."""
        try:
            checked = check_attributes(clear)
            clear_digest = bound_digest(checked, bound)
        except (EventInvalid, SealInvalid):
            raise Unopenable from None
        kind = kind_of(envelope)
        if kind == MEMBER:
            opened = self._sessions.open(Member.decode(envelope), checked, clear_digest, now_us)
        elif kind == EVENT:
            opened, _ = self._open(Envelope.decode(envelope), checked, clear_digest, now_us, randomness)
        else:
            raise Unopenable
        self._check_time(opened, now_us)
        if not self._see(opened):
            raise Unopenable("replayed", _place(opened))
        return opened

    def _see(self, opened: Opened) -> bool:
        if opened.session:
            return self._seen_in_sessions.see(opened.publisher, opened.session, opened.number, opened.until_us)
        return self._seen.see(opened.publisher, opened.sequence) not in (Sighting.DUPLICATE, Sighting.STALE)

    def forget_event(self, session: bytes, number: int) -> None:
        """Let an event of a session be opened again: its reader did not acknowledge it."""
        self._seen_in_sessions.unsee(session, number)

    def remember(self, seen: Iterable[tuple[int, bytes, int, int]]) -> None:
        """Take the record of what earlier processes have seen: publisher, session, number, end of the session.

        Those are replays, and no others.
        """
        for entry in seen:
            self._seen_in_sessions.see(*entry)
        self.since_us = 0

    def _check_time(self, opened: Opened, now_us: int) -> None:
        """Refuse an event whose lifetime is over, or that a ring without a record may have seen in an earlier life."""
        told = opened.metadata
        if told.lifetime_us and now_us > told.published_us + told.lifetime_us + CLOCKS_DIFFER_US:
            raise Unopenable("expired", _place(opened))
        if told.published_us < self.since_us:
            raise Unopenable("replayed", _place(opened))

    def begin(self, opening: bytes, *, now_us: int, randomness: Randomness) -> None:
        """Open a session, so that its events open from now on; raise Unopenable if it does not open. Idempotent."""
        if kind_of(opening) != OPENING:
            raise Unopenable
        if not self._sessions.begun(opening):
            envelope = Envelope.decode(opening)
            opened, secret = self._open(envelope, {}, bound_digest({}, b""), now_us, randomness)
            self._sessions.begin(opening, opened, secret, now_us)

    def _open(
        self, envelope: Envelope, clear: Attributes, clear_digest: bytes, now_us: int, randomness: Randomness
    ) -> tuple[Opened, bytes]:
        head, capsule = envelope.head, envelope.capsule
        self._check_head(envelope, now_us)
        try:
            box, chosen = self._choose(envelope, clear)
            identities = [self.realm.opens(head.epoch, row, credential) for row, (credential, _) in enumerate(chosen)]
            using = [
                (credential.place, identity, part)
                for (credential, part), identity in zip(chosen, identities, strict=True)
            ]
            secret = self._scheme.decapsulate(capsule, head.encode(), box.s4, using)
            sent = digest(b"sent", head.encode(), shape_text(capsule.shape), capsule.encoded, clear_digest)
            message = body_digest(sent, envelope.body)
            body = ChaCha20Poly1305(derive(secret, b"body", b"", KEY_BYTES)).decrypt(NONCE, envelope.body, sent)
            signature = ChaCha20Poly1305(derive(secret, b"signature", b"", KEY_BYTES)).decrypt(
                NONCE, envelope.signature, message
            )
            contents = Plaintext.decode(body)
            attributes = {**clear, **contents.hidden}
            paths = self._checked_paths(attributes, len(clear) + len(contents.hidden), head.slot, chosen)
            grant, credentials = self._verify(envelope, paths, signature, message, randomness)
        except (Rejected, InvalidTag, SignatureInvalid, SealInvalid):
            raise Unopenable from None
        named = tuple(zip(self.realm.schema.rows, credentials, strict=True))
        told = contents.metadata
        found = Opened(attributes, contents.payload, head.publisher, head.sequence, head.epoch, grant, named, told)
        return found, secret

    def _check_head(self, envelope: Envelope, now_us: int) -> None:
        head, schema = envelope.head, self.realm.schema
        if head.realm != self.realm.short_name or envelope.capsule.shape != schema.shape:
            raise Unopenable("another_realm")
        if head.epoch not in schema.epochs.taken_at(now_us) or head.slot >> schema.epochs.slot_bits:
            raise Unopenable("stale_epoch")

    def _choose(self, envelope: Envelope, clear: Attributes) -> tuple[SubscriberBox, list[Chosen]]:
        """Return a box with a credential on each path of the event.

        Clear attributes are compared, hidden ones tested by tags.
        """
        known = self._known_paths(envelope, clear)
        tested: dict[tuple[int, Credential], bool] = {}

        def fits(row: int, credential: Credential, part: SubscriberPart) -> bool:
            if not credential.place:
                return True
            labels = known[row]
            if labels is not None:
                return labels[credential.place] == credential.label
            if (row, credential) not in tested:
                tag = self._scheme.tag(envelope.capsule.ct(row), part.s3)
                tested[row, credential] = tag in envelope.capsule.tags(row)
            return tested[row, credential]

        for keys in self._keys:
            for box in keys.boxes if keys.epoch == envelope.head.epoch else ():
                chosen = []
                for row, candidates in enumerate(box.rows):
                    found = next((each for each in candidates if fits(row, *each)), None)
                    if found is None:
                        break
                    chosen.append(found)
                else:
                    return box, chosen
        raise Unopenable("not_covered" if envelope.head.epoch in self.epochs() else "missing_key")

    def _known_paths(self, envelope: Envelope, clear: Attributes) -> list[tuple[bytes, ...] | None]:
        schema = self.realm.schema
        known = [tree.path(clear[name]) if name in clear else None for name, tree in schema.trees.items()]
        return [*known, schema.epochs.path(envelope.head.slot)] if schema.epochs.slot_bits else known

    def _checked_paths(
        self, attributes: Attributes, count: int, slot: int, chosen: Sequence[Chosen]
    ) -> tuple[tuple[bytes, ...], ...]:
        """Return the paths of the decrypted attributes.

        Check that they contain the used credentials, and that no attribute is both hidden and clear.
        """
        paths = self.realm.schema.paths(attributes, slot)
        on_path = (labels[each.place] == each.label for labels, (each, _) in zip(paths, chosen, strict=True))
        if len(attributes) != count or not all(on_path):
            raise Unopenable
        return paths

    def _verify(
        self,
        envelope: Envelope,
        paths: tuple[tuple[bytes, ...], ...],
        signature: bytes,
        message: bytes,
        randomness: Randomness,
    ) -> tuple[int, tuple[Credential, ...]]:
        """Verify the publisher's signature, and return the grant and credentials that it was made with."""
        head, rows = envelope.head, len(paths)
        grant = int.from_bytes(signature[:GRANT_BYTES], "big")
        places = signature[GRANT_BYTES : GRANT_BYTES + rows]
        if any(place >= len(labels) for place, labels in zip(places, paths, strict=True)):
            raise Unopenable
        credentials = tuple(Credential(place, labels[place]) for place, labels in zip(places, paths, strict=True))
        identities = [
            self.realm.signs(head.epoch, head.publisher, grant, row, credential)
            for row, credential in enumerate(credentials)
        ]
        signer, made = signature[: GRANT_BYTES + rows], signature[GRANT_BYTES + rows :]
        self._scheme.verify(signed_message(message, signer), identities, made, randomness)
        return grant, credentials


def _place(opened: Opened) -> tuple[bytes, int] | None:
    return (opened.session, opened.number) if opened.session else None
