"""Seal an event with a key of its own (thesis 5.5.4): for holders of matching credentials, signed by its publisher.

The signature covers everything that is sent: head, clear attributes and `bound`, group elements and ciphertext. It also
covers the signer's grant and the places of its credentials. It is encrypted, so that outsiders cannot find out by trial
which credential a publisher signed with.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Final

from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

from plait_core import Attributes, Randomness, Value

from .envelope import EVENT, GRANT_BYTES, Envelope, Head, shape_text
from .errors import KeyInvalid, KeyMissing
from .hazmat import PublisherPair, Scheme
from .hazmat.hashing import derive, digest
from .hazmat.prepared import CREDENTIALS_KEPT
from .keys import PublisherKeys, Row
from .limits import EPOCH_KEYS_MAX
from .plaintext import NO_METADATA, Metadata, Plaintext, bound_digest, split
from .realm import Realm

KEY_BYTES: Final = 32
NONCE: Final = bytes(12)
"""A constant nonce is safe, because each of these keys encrypts once."""


@dataclass(frozen=True, slots=True)
class Draft:
    """An event to seal. `hidden` names the attributes that only readers see; None hides all.

    `bound` is further clear data that must not be changed: the reader must supply the same. Without `session`, the
    event has a session of its own, so that nobody on its way sees which other events have equal values.
    """

    attributes: Mapping[str, Value]
    payload: bytes = b""
    sequence: int = 0
    hidden: Collection[str] | None = None
    bound: bytes = b""
    metadata: Metadata = NO_METADATA
    session: bool = True

    def split(self) -> tuple[Attributes, Attributes]:
        """Return the hidden attributes, and those in the clear."""
        return split(self.attributes, frozenset(self.attributes if self.hidden is None else self.hidden))

    def checked(self) -> Attributes:
        """Return all attributes as plain values; raise SealInvalid for what cannot be sealed as requested."""
        hidden, clear = self.split()
        return {**clear, **hidden}

    def contents(self, hidden: Attributes, now_us: int) -> Plaintext:
        """Return what is encrypted: hidden attributes, payload, and metadata with a publication time."""
        told = self.metadata
        return Plaintext(hidden, self.payload, told if told.published_us else replace(told, published_us=now_us))


@dataclass(frozen=True, slots=True)
class Sealed:
    """A sealed event: clear attributes and the envelope."""

    clear: Attributes
    envelope: bytes


class Sealer:
    """Seal the events of one publisher. Not thread-safe."""

    def __init__(self, realm: Realm, publisher: int, credentials_kept: int = CREDENTIALS_KEPT) -> None:
        self.realm = realm
        self.publisher = publisher
        self._credentials_kept = credentials_kept
        self._scheme: Scheme | None = None
        self._keys: dict[int, PublisherKeys] = {}

    def add(self, keys: PublisherKeys) -> None:
        """Use these keys in their epoch, in place of earlier ones."""
        if keys.realm != self.realm.digest or keys.publisher != self.publisher:
            raise KeyInvalid("keys of another realm or publisher")
        shape = self.realm.schema.shape
        for box in keys.boxes:
            if len(box) != len(shape):
                raise KeyInvalid("keys of another schema")
            if any(each.place >= places for row, places in zip(box, shape, strict=True) for each, _ in row):
                raise KeyInvalid("keys of another schema")
        if self._scheme is None:
            self._tag_key = keys.tag_key
            self._scheme = Scheme(self.realm.parameters, self._credentials_kept, tag_key=keys.tag_key)
        elif not self.realm.parameters.groups.g1.equal(keys.tag_key, self._tag_key):
            raise KeyInvalid("keys with another tag key")
        self._keys[keys.epoch] = keys
        while len(self._keys) > EPOCH_KEYS_MAX:
            del self._keys[min(self._keys)]

    def forget(self, now_us: int) -> None:
        """Drop the keys of epochs that are over."""
        first = self.realm.schema.epochs.taken_at(now_us)[0]
        self._keys = {epoch: keys for epoch, keys in self._keys.items() if epoch >= first}

    def seal(self, draft: Draft, *, now_us: int, randomness: Randomness) -> Sealed:
        """Seal an event under the keys of the present epoch."""
        hidden, clear = draft.split()
        contents = draft.contents(hidden, now_us)
        clear_digest = bound_digest(clear, draft.bound)
        envelope, _ = self.envelope(
            EVENT, {**clear, **hidden}, contents, draft.sequence, clear_digest, now_us, randomness
        )
        return Sealed(clear, envelope.encode())

    def envelope(
        self,
        kind: int,
        attributes: Attributes,
        contents: Plaintext,
        sequence: int,
        clear_digest: bytes,
        now_us: int,
        randomness: Randomness,
    ) -> tuple[Envelope, bytes]:
        """Return an envelope of any kind, and the secret in it."""
        schema = self.realm.schema
        epoch, slot = schema.epochs.epoch_at(now_us), schema.epochs.slot_at(now_us)
        paths = schema.paths(attributes, slot)
        grant, places, pairs = self._signing(epoch, paths)
        assert self._scheme is not None, "there are keys"
        head = Head(kind, self.realm.short_name, epoch, slot, self.publisher, sequence)
        identities = self.realm.sealed_for(epoch, paths)
        capsule, secret = self._scheme.encapsulate(identities, head.encode(), randomness)
        sent = digest(b"sent", head.encode(), shape_text(capsule.shape), capsule.encoded, clear_digest)
        body = ChaCha20Poly1305(derive(secret, b"body", b"", KEY_BYTES)).encrypt(NONCE, contents.encode(), sent)
        message = body_digest(sent, body)
        signer = signer_text(grant, bytes(places))
        signature = self._scheme.sign(signed_message(message, signer), pairs, randomness)
        cipher = ChaCha20Poly1305(derive(secret, b"signature", b"", KEY_BYTES))
        return Envelope(head, capsule, cipher.encrypt(NONCE, signer + signature, message), body), secret

    def _signing(
        self, epoch: int, paths: tuple[tuple[bytes, ...], ...]
    ) -> tuple[int, tuple[int, ...], list[PublisherPair]]:
        """Return a grant whose credentials cover the paths, their places on the paths, and their keys."""
        keys = self._keys.get(epoch)
        if keys is None:
            raise KeyMissing(f"no publisher keys for epoch {epoch}", hint="keys are renewed before an epoch begins")
        for grant, box in enumerate(keys.boxes):
            chosen = [_on_path(row, labels) for row, labels in zip(box, paths, strict=True)]
            found = [each for each in chosen if each is not None]
            if len(found) == len(chosen):
                return grant, tuple(place for place, _ in found), [pair for _, pair in found]
        raise KeyMissing("no grant of this publisher covers the event", hint="request keys for a wider filter")


def body_digest(sent: bytes, body: bytes) -> bytes:
    """Return the digest of everything that is sent beside the signature."""
    return digest(b"whole", sent, body)


def signer_text(grant: int, places: bytes) -> bytes:
    """Encode the signer: the number of its grant, and the place of its credential in each row."""
    return grant.to_bytes(GRANT_BYTES, "big") + places


def signed_message(whole: bytes, signer: bytes) -> bytes:
    """Return the message that a signature covers."""
    return digest(b"signed", whole, signer)


def _on_path(row: Row[PublisherPair], labels: tuple[bytes, ...]) -> tuple[int, PublisherPair] | None:
    for credential, pair in row:
        if labels[credential.place] == credential.label:
            return credential.place, pair
    return None
