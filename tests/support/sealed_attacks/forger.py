"""Events as a dishonest member makes them: each step of sealing may be replaced, and all later ones fit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Any, TypeAlias

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

from plait_crypto import PublisherKeys, Realm, merkle
from plait_crypto.envelope import EVENT, OPENING, Envelope, Head, Member, MemberHead, proof_digests, shape_text
from plait_crypto.hazmat import Capsule, PublisherPair, Scheme
from plait_crypto.hazmat.combs import columns
from plait_crypto.hazmat.hashing import derive, digest
from plait_crypto.plaintext import Metadata, Plaintext, bound_digest
from plait_crypto.sealing import KEY_BYTES, NONCE, body_digest, signed_message, signer_text
from plait_crypto.sessions import TERMS, member_leaf, member_nonce, root_message, session_cipher, session_name

NOON_US = 12 * 3_600_000_000
Bytes: TypeAlias = Callable[[bytes], bytes]


def same(given: bytes) -> bytes:
    """Return the bytes unchanged."""
    return given


class Forger:
    """One publisher, honest unless told otherwise."""

    def __init__(self, realm: Realm, keys: PublisherKeys, randomness: Random) -> None:
        self.realm, self.keys, self.rng = realm, keys, randomness
        self.scheme = Scheme(realm.parameters, tag_key=keys.tag_key)

    def seal(
        self,
        attributes: dict[str, Any],
        payload: bytes = b"payload",
        *,
        sequence: int = 1,
        kind: int = EVENT,
        clear: dict[str, Any] | None = None,
        bound: bytes = b"",
        metadata: Metadata | None = None,
        contents: bytes | None = None,
        time: tuple[int, int] = (0, 0),
        identities: Sequence[Sequence[bytes]] | None = None,
        publisher: int | None = None,
        name: bytes | None = None,
        signer: tuple[int, bytes] | None = None,
        pairs: Sequence[PublisherPair] | None = None,
        exponents: Sequence[int] | None = None,
        surplus: int = 0,
        change_capsule: Bytes = same,
        change_message: Bytes = same,
        change_signature: Bytes = same,
    ) -> bytes:
        """Return an envelope. Its secret is kept in `secret`."""
        clear = clear or {}
        hidden = {key: value for key, value in attributes.items() if key not in clear}
        epoch, slot = time
        schema = self.realm.schema
        paths = schema.paths(attributes, slot)
        head = Head(kind, name or self.realm.short_name, epoch, slot, publisher or self.keys.publisher, sequence)
        rows = identities or self.realm.sealed_for(epoch, paths)
        capsule, self.secret = self._capsule(rows, head.encode(), exponents, surplus, change_capsule)
        sent = digest(
            b"sent", head.encode(), shape_text(capsule.shape), capsule.encoded, bound_digest(dict(clear), bound)
        )
        plain = Plaintext(hidden, payload, metadata or Metadata(NOON_US)).encode() if contents is None else contents
        body = _cipher(self.secret, b"body").encrypt(NONCE, plain, sent)
        whole = body_digest(sent, body)
        grant, places = signer or self.signer(paths)
        text = signer_text(grant, places)
        message = change_message(signed_message(whole, text))
        signature = self.scheme.sign(message, pairs or self.pairs(grant, paths), self.rng)
        box = _cipher(self.secret, b"signature").encrypt(NONCE, text + change_signature(signature), whole)
        return Envelope(head, capsule, box, body).encode()

    def signer(self, paths: Sequence[Sequence[bytes]], grant: int = 0) -> tuple[int, bytes]:
        """Return the grant and the places of its credentials on the paths."""
        return grant, bytes(credential.place for credential, _ in self._signing(grant, paths))

    def pairs(self, grant: int, paths: Sequence[Sequence[bytes]]) -> list[PublisherPair]:
        """Return the private keys of a grant for these paths."""
        return [pair for _, pair in self._signing(grant, paths)]

    def _signing(self, grant: int, paths: Sequence[Sequence[bytes]]) -> list[Any]:
        rows = zip(self.keys.boxes[grant % len(self.keys.boxes)], paths, strict=True)
        return [next((each for each in row if labels[each[0].place] == each[0].label), row[0]) for row, labels in rows]

    def _capsule(
        self,
        rows: Sequence[Sequence[bytes]],
        header: bytes,
        exponents: Sequence[int] | None,
        surplus: int,
        change: Bytes,
    ) -> tuple[Capsule, bytes]:
        """Encapsulate like `Scheme.encapsulate`, with other exponents or changed parts. The secret fits the result."""
        scheme, groups = self.scheme, self.realm.parameters.groups
        seed = self.rng.randbytes(32)
        context = scheme._context(header)
        used = exponents or scheme._exponents(seed, context, len(rows))
        made = [part for identities, b_i in zip(rows, used, strict=True) for part in scheme._row(identities, b_i)]
        total = columns((sum(used) + surplus) % groups.order)
        mask = scheme._mask(groups.gt.encode(scheme._e.power(total)), context)
        masked = bytes(a ^ b for a, b in zip(seed, mask, strict=True))
        encoded = change(b"".join([groups.g1.encode(scheme._h.power(total)), masked, *made]))
        capsule = Capsule(tuple(map(len, rows)), encoded)
        return capsule, derive(seed, b"secret", scheme._transcript(context, capsule), 32)


class Session:
    """A session of a forger."""

    def __init__(
        self,
        forger: Forger,
        attributes: dict[str, Any],
        *,
        until_us: int = NOON_US + 60_000_000,
        events_max: int = 65_536,
        change_terms: Bytes = same,
        **more: Any,
    ) -> None:
        self.signing = Ed25519PrivateKey.from_private_bytes(forger.rng.randbytes(32))
        self.publisher = forger.keys.publisher
        terms = TERMS.pack(self.signing.public_key().public_bytes_raw(), until_us, events_max)
        more = {"kind": OPENING, "sequence": 100, **more}
        self.opening = forger.seal(attributes, change_terms(terms), **more)
        self.name = session_name(self.opening)
        self.secret = forger.secret

    def members(
        self,
        attributes: Sequence[dict[str, Any]],
        first: int = 0,
        *,
        clear: dict[str, Any] | None = None,
        bound: bytes = b"",
        session: bytes | None = None,
        publisher: int | None = None,
        nonce: int | None = None,
        contents: bytes | None = None,
        metadata: Metadata | None = None,
        leaves: int | None = None,
        signing: Ed25519PrivateKey | None = None,
        secret: bytes | None = None,
        change_message: Bytes = same,
    ) -> list[bytes]:
        """Return one batch of members with these attributes, numbered from `first`."""
        clear = clear or {}
        found, cipher = [], session_cipher(secret or self.secret)
        clear_digest = bound_digest(dict(clear), bound)
        for number, each in enumerate(attributes, first):
            hidden = {key: value for key, value in each.items() if key not in clear}
            head = MemberHead(session or self.name, number, publisher or self.publisher, number + 101)
            plain = (
                Plaintext(hidden, b"payload", metadata or Metadata(NOON_US)).encode() if contents is None else contents
            )
            at = number if nonce is None else nonce
            body = cipher.encrypt(member_nonce(at), plain, head.encode() + clear_digest)
            found.append((head, body, member_leaf(head.encode(), clear_digest, body)))
        levels = merkle.grow([leaf for _, _, leaf in found])
        count = leaves or len(found)
        message = change_message(root_message(session or self.name, count, levels[-1][0]))
        signature = (signing or self.signing).sign(message)
        return [
            Member(head, leaf, count, merkle.proof(levels, leaf)[: proof_digests(count)], signature, body).encode()
            for leaf, (head, body, _) in enumerate(found)
        ]


def _cipher(secret: bytes, label: bytes) -> ChaCha20Poly1305:
    return ChaCha20Poly1305(derive(secret, label, b"", KEY_BYTES))
