"""Authentication between brokers: documents carry the signature of their origin, messages and events carry a MAC.

Signatures and MACs cover numbers and bytes (`envelope_frames.py`), so this file reads no field of a body except those
of a link state that carry keys. A broker on the way can lose messages, and no more: the receiver refuses and counts
changed or invented ones. Without an identity (the simulator's fast histories) nothing is signed or checked.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from plait_core.limits import BROKERS_MAX
from plait_core.wire.event_mac import EventProver
from plait_core.wire.frame_types.envelope_frames import (
    EndToEnd,
    Message,
    Signed,
    SourceRouted,
    envelop_document,
    envelop_message,
)
from plait_core.wire.frame_types.overlay_frames import Document, LinkState

from .identity import Forged, Identity, check_incarnation, check_proof, check_public_keys, check_signature, prove

UNKNOWN_MAX: Final = BROKERS_MAX
"""Bound of origins whose documents came before their link state."""

_CHECKSUM: Final = EventProver(b"no identity")


class MessageAuth:
    """Signs and verifies for one broker. It holds the pair keys with other brokers, and the public keys of all."""

    def __init__(self, me: int, identity: Identity | None) -> None:
        assert identity is None or identity.id == me, "an id is the hash of its keys"
        self.me = me
        self._identity = identity
        self._public_keys: dict[int, bytes] = {me: identity.public_keys} if identity is not None else {}
        self._keys: dict[int, bytes] = {}
        """By broker, the pair key that we share with it."""
        self._provers: dict[int, EventProver] = {}
        """By broker, the prover that makes and checks the MACs of events between us."""
        self._unknown: dict[int, None] = {}

    @property
    def strict(self) -> bool:
        """Whether anything is checked."""
        return self._identity is not None

    # --- documents ----------------------------------------------------------------------------------------------------

    def envelop(self, document: Document) -> Signed:
        """Return a document of our own in its signed envelope. A link state gets our public keys first."""
        identity = self._identity
        if identity is not None and isinstance(document, LinkState):
            document = replace(document, public_keys=identity.public_keys)
            if document.incarnation:
                proof = identity.sign_incarnation(_incarnation_claim(document))
                document = replace(document, incarnation_key=identity.incarnation_key, incarnation_proof=proof)
        return self.sign(envelop_document(document))

    def sign(self, signed: Signed) -> Signed:
        """Return an envelope of our own with its signature."""
        if self._identity is None:
            return signed
        return replace(signed, signature=self._identity.sign(signed.signed_bytes))

    def check(self, signed: Signed, link_state: LinkState | None = None) -> bool:
        """Raise Forged unless its origin signed the envelope. Return False while the origin's keys are not known.

        `link_state` is the document in the envelope if that is a link state.
        """
        if self._identity is None:
            return True
        origin = signed.origin
        public_keys = self._public_keys.get(origin) if link_state is None else link_state.public_keys
        if public_keys is None:
            self._unknown[origin] = None
            if len(self._unknown) > UNKNOWN_MAX:
                del self._unknown[next(iter(self._unknown))]
            return False
        check_public_keys(public_keys, origin)
        check_signature(public_keys, signed.signed_bytes, signed.signature)
        if link_state is not None:
            if link_state.incarnation:
                claim = _incarnation_claim(link_state)
                key, proof = link_state.incarnation_key, link_state.incarnation_proof
                check_incarnation(key, link_state.incarnation, claim, proof)
            self._public_keys[origin] = public_keys
        return True

    def awaited(self, origin: int) -> bool:
        """Return whether a document of that broker was dropped because its link state was missing. Clear that note."""
        return origin in self._unknown and self._unknown.pop(origin) is None

    def forget(self, broker: int) -> None:
        """Forget the keys of a broker."""
        self._public_keys.pop(broker, None)
        self._keys.pop(broker, None)
        self._provers.pop(broker, None)

    # --- messages -----------------------------------------------------------------------------------------------------

    def envelop_message(self, message: Message) -> EndToEnd:
        """Return a message of our own in its envelope, with a MAC for each destination."""
        return self.prove(envelop_message(message))

    def prove(self, envelope: EndToEnd) -> EndToEnd:
        """Return an envelope of our own with a MAC for each destination. It is empty while that key is not known."""
        if self._identity is None:
            return envelope
        keys = [self.key(to) for to in envelope.to]
        proofs = (b"" if key is None else prove(key, envelope.proved_bytes(at)) for at, key in enumerate(keys))
        return replace(envelope, proofs=tuple(proofs))

    def check_message(self, envelope: EndToEnd, at: int) -> None:
        """Raise Forged unless the envelope's source made the MAC for us. `at` is our index among its destinations."""
        if self._identity is not None:
            proof = envelope.proofs[at] if envelope.proofs else b""
            key = self._keys.get(envelope.source) or self._need(envelope.source)
            check_proof(key, envelope.proved_bytes(at), proof)

    def prove_route(self, routed: SourceRouted) -> SourceRouted:
        """Return a source-routed frame of ours with the MAC that lets its destination answer along the route."""
        key = self.key(routed.route[-1]) if self._identity is not None else None
        return routed if key is None else replace(routed, proof=prove(key, routed.proved_bytes))

    def route_is_proved(self, routed: SourceRouted) -> bool:
        """Return whether the first broker of a route chose it, by its MAC."""
        if self._identity is None:
            return True
        try:
            check_proof(self._need(routed.route[0]), routed.proved_bytes, routed.proof)
        except Forged:
            return False
        return True

    # --- events -------------------------------------------------------------------------------------------------------

    def prove_event(self, home: int, position: int, flags: int, block: bytes) -> int:
        """Return the MAC of an event of ours at a position of a destination's stream, or 0 without an identity."""
        if self._identity is None:
            return 0
        prover = self._provers.get(home) or self._new_prover(home)
        return 0 if prover is None else prover.prove(self.me, position, flags, block)

    def check_event(self, root: int, position: int, flags: int, block: bytes, proof: int) -> None:
        """Raise Forged unless the publisher's broker made the event's MAC for us."""
        if self._identity is not None:
            prover = self._provers.get(root) or self._new_prover(root)
            if prover is None or proof != prover.prove(root, position, flags, block):
                raise Forged("an event that was not published where it claims to be from")

    # --- stream groups ------------------------------------------------------------------------------------------------

    def sign_batch(self, claim: bytes) -> bytes:
        """Return the signature of a batch of a stream group of ours, or b"" without an identity."""
        return b"" if self._identity is None else self._identity.sign(claim)

    def check_batch(self, root: int, claim: bytes, signature: bytes) -> None:
        """Raise Forged unless the root signed the batch."""
        if self._identity is not None:
            public_keys = self._public_keys.get(root)
            if public_keys is None:
                raise Forged("a batch of a broker whose public keys are not known")
            check_signature(public_keys, claim, signature)

    def prove_claim(self, other: int, author: int, number: int, kind: int, claim: bytes) -> int:
        """Return the MAC of a claim that this broker or the `other` one makes for the other of the two. Its author must
        be one of them. Without an identity it is a checksum."""
        if self._identity is None:
            return _CHECKSUM.prove(author, number, kind, claim)
        prover = self._provers.get(other) or self._new_prover(other)
        return 0 if prover is None else prover.prove(author, number, kind, claim)

    def _new_prover(self, broker: int) -> EventProver | None:
        key = self.key(broker)
        if key is None:
            return None
        prover = self._provers[broker] = EventProver(key)
        return prover

    def key(self, broker: int) -> bytes | None:
        """Return the pair key that we share with a broker, or None while its public keys are not known."""
        key = self._keys.get(broker)
        if key is None and self._identity is not None:
            public_keys = self._public_keys.get(broker)
            if public_keys is None:
                return None
            try:
                key = self._keys[broker] = self._identity.pair_key(public_keys)
            except Forged:
                return None
        return key

    def _need(self, broker: int) -> bytes:
        key = self.key(broker)
        if key is None:
            raise Forged("a broker whose public keys are not known")
        return key


def _incarnation_claim(link_state: LinkState) -> bytes:
    numbers = (link_state.origin, link_state.incarnation, link_state.born)
    return b"".join(number.to_bytes(8, "big") for number in numbers)
