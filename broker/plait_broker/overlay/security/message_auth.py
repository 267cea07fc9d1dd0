"""Who may say what in the overlay: what floods is signed by its origin, what goes from one broker to another is proved.

A broker on the way can lose what passes through it, and no more: what it changes or makes up in another's name is
refused by whoever checks it, and counted with the name of the neighbour that handed it on. Without an identity (the
simulator's fast histories) nothing is signed and everything believed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final, TypeVar

from plait_core.limits import BROKERS_MAX
from plait_core.wire.event_mac import EventProver
from plait_core.wire.frame_types.overlay_frames import (
    Advertisement,
    DurableInterest,
    EndToEnd,
    InterestUpdate,
    LinkState,
    SourceRouted,
)
from plait_core.wire.frame_types.trace_frames import TraceMessage
from plait_core.wire.msgpack_codec import pack

from .identity import Forged, Identity, check_card, check_log, check_proof, check_signature, prove

_D = TypeVar("_D", bound=LinkState | Advertisement | DurableInterest)
_E = TypeVar("_E", bound=EndToEnd | TraceMessage)

UNKNOWN_MAX: Final = BROKERS_MAX
"""Origins of offers that came before their sheet."""


class MessageAuth:
    """One broker's knowledge of the others' cards."""

    def __init__(self, me: int, identity: Identity | None) -> None:
        assert identity is None or identity.id == me, "an id is the name of its keys"
        self.me = me
        self._identity = identity
        self._cards: dict[int, bytes] = {me: identity.card} if identity is not None else {}
        self._keys: dict[int, bytes] = {}
        """By broker, the key of the pair that it is with us."""
        self._provers: dict[int, EventProver] = {}
        """By broker, what proves events between us."""
        self._unknown: dict[int, None] = {}

    @property
    def strict(self) -> bool:
        """Whether anything is checked."""
        return self._identity is not None

    # --- what floods --------------------------------------------------------------------------------------------------

    def sign(self, document: _D) -> _D:
        """A document of our own, as others will believe it."""
        identity = self._identity
        if identity is None:
            return document
        if isinstance(document, LinkState):
            log_signature = identity.sign_for_log(_succession(document)) if document.log else b""
            document = replace(
                document, card=identity.card, log_key=identity.log_key if document.log else b"", log_proof=log_signature
            )
        return replace(document, signature=identity.sign(_said(document)))

    def check(self, document: LinkState | Advertisement | DurableInterest) -> bool:
        """Forged unless its origin says it; False when that cannot be told yet, for want of its sheet."""
        if self._identity is None:
            return True
        origin = document.origin
        card = document.card if isinstance(document, LinkState) else self._cards.get(origin)
        if card is None:
            self._unknown[origin] = None
            if len(self._unknown) > UNKNOWN_MAX:
                del self._unknown[next(iter(self._unknown))]
            return False
        check_card(card, origin)
        check_signature(card, _said(document), document.signature)
        if isinstance(document, LinkState):
            if document.log:
                check_log(document.log_key, document.log, _succession(document), document.log_proof)
            self._cards[origin] = card
        return True

    def awaited(self, origin: int) -> bool:
        """Whether something of that broker had to be left aside before its sheet came; asked once."""
        return origin in self._unknown and self._unknown.pop(origin) is None

    def forget(self, broker: int) -> None:
        """A broker is no more."""
        self._cards.pop(broker, None)
        self._keys.pop(broker, None)
        self._provers.pop(broker, None)

    # --- from one broker to another -----------------------------------------------------------------------------------

    def prove(self, errand: _E) -> _E:
        """An errand of our own, as the one it is for will believe it."""
        if self._identity is None:
            return errand
        key = self.key(errand.to)
        return errand if key is None else replace(errand, proof=prove(key, _told(errand)))

    def check_errand(self, errand: EndToEnd | TraceMessage) -> None:
        """Forged unless its source says it, to us."""
        if self._identity is not None:
            check_proof(self._need(errand.source), _told(errand), errand.proof)

    def prove_want(self, want: InterestUpdate) -> InterestUpdate:
        """The same for what is said to several at once: a proof for each."""
        if self._identity is None:
            return want
        what = _wanted(want)
        proofs = []
        for to, version, offers in zip(want.to, want.versions, want.offers, strict=True):
            key = self.key(to)
            proofs.append(b"" if key is None else prove(key, what + _numbers(to, version, offers)))
        return replace(want, proofs=tuple(proofs))

    def check_want(self, want: InterestUpdate, at: int) -> None:
        """Forged unless its source says it, to us, who are there among those it is for."""
        if self._identity is not None:
            proof = want.proofs[at] if at < len(want.proofs) else b""
            numbers = _numbers(want.to[at], want.versions[at], want.offers[at])
            check_proof(self._need(want.source), _wanted(want) + numbers, proof)

    def prove_detour(self, detour: SourceRouted) -> SourceRouted:
        """A frame of ours on its way, which its receiver may come back by."""
        key = self.key(detour.route[-1]) if self._identity is not None else None
        return detour if key is None else replace(detour, proof=prove(key, _led(detour)))

    def led(self, detour: SourceRouted) -> bool:
        """Whether the one at the beginning of a way has chosen it."""
        if self._identity is None:
            return True
        try:
            check_proof(self._need(detour.route[0]), _led(detour), detour.proof)
        except Forged:
            return False
        return True

    # --- events -------------------------------------------------------------------------------------------------------

    def prove_event(self, home: int, position: int, flags: int, block: bytes) -> int:
        """Show a destination that this event is ours, with this place in its stream; 0 when nobody checks."""
        if self._identity is None:
            return 0
        prover = self._provers.get(home) or self._new_prover(home)
        return 0 if prover is None else prover.prove(self.me, position, flags, block)

    def check_event(self, root: int, position: int, flags: int, block: bytes, proof: int) -> None:
        """Forged unless its publisher's broker says it, to us."""
        if self._identity is not None:
            prover = self._provers.get(root) or self._new_prover(root)
            if prover is None or proof != prover.prove(root, position, flags, block):
                raise Forged("an event that was not published where it claims to be from")

    def _new_prover(self, broker: int) -> EventProver | None:
        key = self.key(broker)
        if key is None:
            return None
        prover = self._provers[broker] = EventProver(key)
        return prover

    def key(self, broker: int) -> bytes | None:
        """The key that we share with a broker; None when it has shown no card."""
        key = self._keys.get(broker)
        if key is None and self._identity is not None:
            card = self._cards.get(broker)
            if card is None:
                return None
            try:
                key = self._keys[broker] = self._identity.pair_key(card)
            except Forged:
                return None
        return key

    def _need(self, broker: int) -> bytes:
        key = self.key(broker)
        if key is None:
            raise Forged("a broker that has shown no card")
        return key


def _said(document: LinkState | Advertisement | DurableInterest) -> bytes:
    """What a signature covers: all but itself."""
    return _packed(type(document).__name__, document, but="signature")


def _succession(sheet: LinkState) -> bytes:
    return _numbers(sheet.origin, sheet.log, sheet.born)


def _told(errand: EndToEnd | TraceMessage) -> bytes:
    """What a proof covers: all but itself, and the hops, which change on the way."""
    return _packed(type(errand).__name__, errand, but="proof")


def _led(detour: SourceRouted) -> bytes:
    return bytes(pack(("SourceRouted", detour.route, detour.number, detour.frame)))


def _wanted(want: InterestUpdate) -> bytes:
    said = (want.source, want.whole, want.added, want.filters, want.removed, want.more, want.routing)
    return bytes(pack(("InterestUpdate", *said)))


def _numbers(*numbers: int) -> bytes:
    return b"".join(number.to_bytes(8, "big") for number in numbers)


def _packed(kind: str, frame: object, but: str) -> bytes:
    names: Sequence[str] = frame.__slots__  # type: ignore[attr-defined]
    values = [getattr(frame, name) for name in names if name not in (but, "hops")]
    return bytes(pack((kind, values)))
