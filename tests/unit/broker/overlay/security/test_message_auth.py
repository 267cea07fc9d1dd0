"""Authentication between brokers: a document or message that was changed or forged in transit is refused."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from random import Random
from typing import Any

import pytest

from plait_broker.overlay.security.identity import Forged, Identity, id_of, incarnation_key_of, incarnation_of
from plait_broker.overlay.security.message_auth import MessageAuth
from plait_core.wire.frame_types.envelope_frames import (
    EndToEnd,
    Signed,
    SourceRouted,
    envelop_document,
    envelop_message,
    read_document,
)
from plait_core.wire.frame_types.overlay_frames import (
    Advertisement,
    DeliveryOutcome,
    InterestAck,
    InterestUpdate,
    LinkState,
    StreamAck,
    StreamSkip,
)
from plait_core.wire.frame_types.trace_frames import Query, QueryResult, TraceStep

SECRET = bytes(range(32))


def identity(seed: int, secret: bytes = b"") -> Identity:
    return Identity(Random(f"trust/{seed}"), secret)


ALICE, BOB, EVE = identity(1, SECRET), identity(2), identity(3, bytes(32))


def link_state(of: Identity, version: int = 1, incarnation: int = 0) -> LinkState:
    return LinkState(of.id, version, "b", (7, 8), (10, 20), incarnation, 5)


def check(auth: MessageAuth, signed: Signed) -> bool:
    """Check as flooding does: read the document only for the keys in it."""
    document = read_document(signed)
    return auth.check(signed, document if isinstance(document, LinkState) else None)


def trusts() -> tuple[MessageAuth, MessageAuth]:
    """Return the authentication of Alice and of Bob, which know each other's keys."""
    alice, bob = MessageAuth(ALICE.id, ALICE), MessageAuth(BOB.id, BOB)
    assert check(bob, alice.envelop(link_state(ALICE)))
    assert check(alice, bob.envelop(link_state(BOB)))
    return alice, bob


def changed(value: Any) -> Any:
    """Return a different value of the same type."""
    match value:
        case bool():
            return not value
        case int():
            return value ^ 1
        case str():
            return value + "x"
        case bytes():
            return bytes([value[0] ^ 1]) + value[1:] if value else b"x"
        case tuple():
            return (*value[:-1], changed(value[-1])) if value else (1,)
    raise AssertionError(value)


@pytest.mark.parametrize("field", [field.name for field in fields(LinkState)])
def test_a_link_state_that_was_changed_is_refused(field: str) -> None:
    alice, bob = trusts()
    signed = alice.envelop(link_state(ALICE, 2, incarnation_of(ALICE.incarnation_key)))
    assert check(bob, signed)
    document = read_document(signed)
    assert isinstance(document, LinkState)
    other = {"capacities": (1, 2), "segments": ("x",)}.get(field) or changed(getattr(document, field))
    forged = replace(envelop_document(replace(document, **{field: other})), signature=signed.signature)
    with pytest.raises(Forged):
        check(bob, forged)


@pytest.mark.parametrize("field", [field.name for field in fields(Signed)])
def test_an_advertisement_that_was_changed_is_refused(field: str) -> None:
    alice, bob = trusts()
    signed = alice.envelop(Advertisement(ALICE.id, 3, 1, "x > 1"))
    assert bob.check(signed)
    forged = replace(signed, **{field: changed(getattr(signed, field))})
    if field == "origin":
        assert not bob.check(forged), "of nobody that is known"
        return
    with pytest.raises(Forged):
        bob.check(forged)


def test_a_kind_that_nobody_knows_is_verified_like_any_other() -> None:
    alice, bob = trusts()
    signed = alice.sign(Signed(0x7FFF, ALICE.id, 1, 1, b"bytes that nobody reads"))
    assert read_document(signed) is None
    assert bob.check(signed)
    with pytest.raises(Forged):
        bob.check(replace(signed, body=b"other bytes"))


def test_nobody_can_speak_for_another() -> None:
    alice, bob = trusts()
    eve = MessageAuth(EVE.id, EVE)
    with pytest.raises(Forged):
        check(bob, replace(eve.envelop(link_state(EVE)), origin=ALICE.id))
    with pytest.raises(Forged):
        forged = envelop_document(replace(link_state(ALICE), public_keys=EVE.public_keys))
        check(bob, eve.sign(forged))
    own = alice.envelop(Advertisement(ALICE.id, 1, 1, "x > 1"))
    with pytest.raises(Forged):
        bob.check(replace(own, number=2))


def test_an_id_is_the_hash_of_public_keys() -> None:
    assert ALICE.id == id_of(ALICE.public_keys)
    assert len({ALICE.id, BOB.id, EVE.id}) == 3
    assert identity(1).id == ALICE.id, "same seed, same keys"


def test_only_the_holder_of_a_log_can_restart_with_it() -> None:
    incarnation = incarnation_of(incarnation_key_of(SECRET))
    again, thief = identity(9, SECRET), identity(10, bytes(32))
    bob = trusts()[1]
    assert check(bob, MessageAuth(again.id, again).envelop(link_state(again, incarnation=incarnation)))
    with pytest.raises(Forged):
        check(bob, MessageAuth(thief.id, thief).envelop(link_state(thief, incarnation=incarnation)))


def test_a_proof_of_an_incarnation_is_for_one_broker_and_one_start() -> None:
    incarnation = incarnation_of(incarnation_key_of(SECRET))
    bob = trusts()[1]
    right = read_document(MessageAuth(ALICE.id, ALICE).envelop(link_state(ALICE, incarnation=incarnation)))
    assert isinstance(right, LinkState)
    stolen = replace(
        link_state(EVE, incarnation=incarnation),
        incarnation_key=right.incarnation_key,
        incarnation_proof=right.incarnation_proof,
        public_keys=EVE.public_keys,
    )
    with pytest.raises(Forged, match="signature"):
        check(bob, MessageAuth(EVE.id, EVE).sign(envelop_document(stolen)))


MESSAGES = {
    "ack of interest": lambda: InterestAck(BOB.id, ALICE.id, 3, 4, 5),
    "ack of events": lambda: StreamAck(BOB.id, ALICE.id, 3, (5, 6)),
    "skip": lambda: StreamSkip(BOB.id, ALICE.id, 3),
    "outcome": lambda: DeliveryOutcome(BOB.id, ALICE.id, 3, 4, "late"),
    "step": lambda: TraceStep(BOB.id, ALICE.id, 3, 4, "delivered", 5, 6, 7, 8, 1, (9,), "late"),
    "query": lambda: Query(BOB.id, ALICE.id, 3, "why", "{}"),
    "result": lambda: QueryResult(BOB.id, ALICE.id, 3, "{}"),
    "interest": lambda: InterestUpdate((BOB.id,), ALICE.id, (1,), (2,), True, (1,), ("x > 1",), ()),
}


@pytest.mark.parametrize("make", MESSAGES.values(), ids=MESSAGES)
def test_a_message_that_was_changed_is_refused(make: Callable[[], Any]) -> None:
    alice, bob = trusts()
    sent = alice.envelop_message(make())
    bob.check_message(replace(sent, hops=7), 0)
    for field in fields(EndToEnd):
        if field.name not in ("hops", "proofs"):
            value = getattr(sent, field.name)
            other = (b"x",) if value == () else changed(value)
            with pytest.raises(Forged):
                bob.check_message(replace(sent, **{field.name: other}), 0)
    with pytest.raises(Forged):
        bob.check_message(replace(sent, proofs=(changed(sent.proofs[0]),)), 0)


def test_a_message_of_one_kind_is_none_of_another() -> None:
    alice, bob = trusts()
    sent = alice.envelop_message(StreamSkip(BOB.id, ALICE.id, 3))
    other = envelop_message(StreamAck(BOB.id, ALICE.id, 3))
    with pytest.raises(Forged):
        bob.check_message(replace(sent, kind=other.kind, body=other.body), 0)
    with pytest.raises(Forged):
        bob.check_message(replace(sent, kind=other.kind), 0)


def test_an_update_carries_a_mac_for_each_destination() -> None:
    alice, bob = trusts()
    eve = MessageAuth(EVE.id, EVE)
    assert check(alice, eve.envelop(link_state(EVE)))
    assert check(eve, alice.envelop(link_state(ALICE)))
    update = InterestUpdate((BOB.id, EVE.id), ALICE.id, (1, 5), (2, 6), True, (1,), ("x > 1",), ())
    sent = alice.envelop_message(update)
    bob.check_message(sent, 0)
    eve.check_message(sent, 1)
    for forged in (
        replace(sent, proofs=sent.proofs[::-1]),
        replace(sent, parts=sent.parts[::-1]),
        replace(sent, parts=()),
        replace(sent, body=changed(sent.body)),
        replace(sent, proofs=()),
    ):
        with pytest.raises(Forged):
            bob.check_message(forged, 0)


@pytest.mark.parametrize("field", ["route", "number", "frame", "proof"])
def test_a_source_route_that_was_changed_is_not_answered(field: str) -> None:
    alice, bob = trusts()
    sent = alice.prove_route(SourceRouted((ALICE.id, 9, BOB.id), 1, 0, b"a frame", 5))
    assert bob.route_is_proved(replace(sent, at=2, delay_us=7))
    other = (ALICE.id, 8, BOB.id) if field == "route" else changed(getattr(sent, field))
    assert not bob.route_is_proved(replace(sent, **{field: other}))


def test_an_advertisement_before_its_link_state_waits_for_it() -> None:
    alice, bob = MessageAuth(ALICE.id, ALICE), MessageAuth(BOB.id, BOB)
    signed = alice.envelop(Advertisement(ALICE.id, 1, 1, "x > 1"))
    assert not bob.check(signed)
    assert check(bob, alice.envelop(link_state(ALICE)))
    assert bob.awaited(ALICE.id)
    assert not bob.awaited(ALICE.id), "asked once"
    assert bob.check(signed)


def test_public_keys_of_small_order_are_none() -> None:
    with pytest.raises(Forged):
        ALICE.pair_key(BOB.public_keys[:32] + bytes(32))


def test_both_of_a_pair_have_the_same_key_and_nobody_else() -> None:
    assert ALICE.pair_key(BOB.public_keys) == BOB.pair_key(ALICE.public_keys)
    assert ALICE.pair_key(BOB.public_keys) != ALICE.pair_key(EVE.public_keys)
    assert EVE.pair_key(BOB.public_keys) != ALICE.pair_key(BOB.public_keys)


def test_without_an_identity_everything_is_believed() -> None:
    auth = MessageAuth(5, None)
    document = Advertisement(9, 1, 1, "x > 1")
    assert auth.envelop(document) == envelop_document(document)
    assert auth.check(envelop_document(document))
    auth.check_message(envelop_message(StreamSkip(5, 9, 1)), 0)


@pytest.mark.parametrize("size", [0, 100, 1024, 1025, 60_000])
def test_an_event_is_proved_to_each_destination_at_its_place(size: int) -> None:
    alice, bob = trusts()
    block = bytes(size) + b"!"
    proof = alice.prove_event(BOB.id, 7, 1, block)
    bob.check_event(ALICE.id, 7, 1, block, proof)
    for wrong in (
        (ALICE.id, 8, 1, block, proof),
        (ALICE.id, 7, 0, block, proof),
        (ALICE.id, 7, 1, block[:-1] + b"?", proof),
        (ALICE.id, 7, 1, block, proof ^ 1),
        (BOB.id, 7, 1, block, proof),
        (EVE.id, 7, 1, block, proof),
        (ALICE.id, 7, 1, block, bob.prove_event(ALICE.id, 7, 1, block)),
    ):
        with pytest.raises(Forged):
            bob.check_event(*wrong)


def test_of_a_hundred_thousand_forgeries_none_is_believed() -> None:
    """S2: random changes, random MACs, and messages of Eve in Alice's name."""
    chance = Random("forgeries")
    alice, bob = trusts()
    eve = MessageAuth(EVE.id, EVE)
    assert check(eve, bob.envelop(link_state(BOB)))
    sent = [alice.envelop_message(make()) for make in MESSAGES.values()]
    block = b"an event"
    for _ in range(45_000):
        envelope = chance.choice(sent)
        flipped = int.from_bytes(envelope.proofs[0], "big") ^ (1 << chance.randrange(128))
        forged = (
            replace(envelope, proofs=(flipped.to_bytes(16, "big"),)),
            replace(envelope, proofs=(chance.randbytes(16),)),
            replace(eve.prove(replace(envelope, source=EVE.id)), source=ALICE.id),
        )
        with pytest.raises(Forged):
            bob.check_message(chance.choice(forged), 0)
        with pytest.raises(Forged):
            bob.check_event(ALICE.id, chance.getrandbits(40), chance.getrandbits(2), block, chance.getrandbits(64))
    signed = alice.envelop(Advertisement(ALICE.id, 1, 1, "x > 1"))
    for _ in range(10_000):
        flipped = int.from_bytes(signed.signature, "big") ^ (1 << chance.randrange(512))
        with pytest.raises(Forged):
            bob.check(replace(signed, version=chance.getrandbits(40), signature=flipped.to_bytes(64, "big")))
