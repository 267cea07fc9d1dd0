"""Who may say what between brokers: whatever is changed or made up on the way is refused by whoever it is for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from random import Random
from typing import Any

import pytest

from plait_broker.overlay.security.identity import Forged, Identity, id_of, log_key_of, log_of
from plait_broker.overlay.security.message_auth import MessageAuth, _said
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


def sheet(of: Identity, version: int = 1, log: int = 0) -> LinkState:
    return LinkState(of.id, version, "b", (7, 8), (10, 20), log, 5)


def trusts() -> tuple[MessageAuth, MessageAuth]:
    """Alice's and Bob's, who know each other."""
    alice, bob = MessageAuth(ALICE.id, ALICE), MessageAuth(BOB.id, BOB)
    assert bob.check(alice.sign(sheet(ALICE)))
    assert alice.check(bob.sign(sheet(BOB)))
    return alice, bob


def changed(value: Any) -> Any:
    """Something else of the same kind."""
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
def test_a_sheet_that_was_changed_is_refused(field: str) -> None:
    alice, bob = trusts()
    told = alice.sign(sheet(ALICE, 2, log_of(ALICE.log_key)))
    assert bob.check(told)
    with pytest.raises(Forged):
        bob.check(replace(told, **{field: changed(getattr(told, field))}))


@pytest.mark.parametrize("field", [field.name for field in fields(Advertisement)])
def test_an_offer_that_was_changed_is_refused(field: str) -> None:
    alice, bob = trusts()
    told = alice.sign(Advertisement(ALICE.id, 3, 1, "x > 1"))
    assert bob.check(told)
    forged = replace(told, **{field: changed(getattr(told, field))})
    if field == "origin":
        assert not bob.check(forged), "of nobody that is known"
        return
    with pytest.raises(Forged):
        bob.check(forged)


def test_nobody_can_speak_for_another() -> None:
    alice, bob = trusts()
    eve = MessageAuth(EVE.id, EVE)
    with pytest.raises(Forged):
        bob.check(replace(eve.sign(sheet(EVE)), origin=ALICE.id))
    with pytest.raises(Forged):
        bob.check(eve.sign(replace(sheet(ALICE), card=ALICE.card)))
    own = alice.sign(Advertisement(ALICE.id, 1, 1, "x > 1"))
    with pytest.raises(Forged):
        bob.check(replace(own, number=2))


def test_an_id_is_the_name_of_a_card() -> None:
    assert ALICE.id == id_of(ALICE.card)
    assert len({ALICE.id, BOB.id, EVE.id}) == 3
    assert identity(1).id == ALICE.id, "same seed, same keys"


def test_only_who_holds_a_log_can_say_that_it_has_started_anew_with_it() -> None:
    log = log_of(log_key_of(SECRET))
    again, thief = identity(9, SECRET), identity(10, bytes(32))
    bob = trusts()[1]
    assert bob.check(MessageAuth(again.id, again).sign(sheet(again, log=log)))
    with pytest.raises(Forged):
        bob.check(MessageAuth(thief.id, thief).sign(sheet(thief, log=log)))


def test_a_proof_of_a_log_is_for_one_broker_and_one_start() -> None:
    log = log_of(log_key_of(SECRET))
    bob = trusts()[1]
    right = MessageAuth(ALICE.id, ALICE).sign(sheet(ALICE, log=log))
    stolen = replace(sheet(EVE, log=log), log_key=right.log_key, log_proof=right.log_proof, card=EVE.card)
    with pytest.raises(Forged, match="signature"):
        bob.check(replace(stolen, signature=EVE.sign(_said(stolen))))


ERRANDS = {
    "heard": lambda: InterestAck(BOB.id, ALICE.id, 3, 4, 5),
    "took": lambda: StreamAck(BOB.id, ALICE.id, 3, (5, 6)),
    "skip": lambda: StreamSkip(BOB.id, ALICE.id, 3),
    "outcome": lambda: DeliveryOutcome(BOB.id, ALICE.id, 3, 4, "late"),
    "step": lambda: TraceStep(BOB.id, ALICE.id, 3, 4, "delivered", 5, 6, 7, 8, 1, (9,), "late"),
    "inquiry": lambda: Query(BOB.id, ALICE.id, 3, "why", "{}"),
    "finding": lambda: QueryResult(BOB.id, ALICE.id, 3, "{}"),
}


@pytest.mark.parametrize("make", ERRANDS.values(), ids=ERRANDS)
def test_an_errand_that_was_changed_is_refused(make: Callable[[], Any]) -> None:
    alice, bob = trusts()
    told = alice.prove(make())
    bob.check_errand(replace(told, hops=7))
    for field in fields(told):
        if field.name not in ("hops", "to"):
            with pytest.raises(Forged):
                bob.check_errand(replace(told, **{field.name: changed(getattr(told, field.name))}))


def test_an_errand_of_one_kind_is_none_of_another() -> None:
    alice, bob = trusts()
    told = alice.prove(StreamSkip(BOB.id, ALICE.id, 3))
    with pytest.raises(Forged):
        bob.check_errand(StreamAck(told.to, told.source, told.up_to, proof=told.proof))


def test_interest_is_proved_to_each_that_it_is_told_to() -> None:
    alice, bob = trusts()
    eve = MessageAuth(EVE.id, EVE)
    assert alice.check(eve.sign(sheet(EVE)))
    assert eve.check(alice.sign(sheet(ALICE)))
    told = alice.prove_want(InterestUpdate((BOB.id, EVE.id), ALICE.id, (1, 5), (2, 6), True, (1,), ("x > 1",), ()))
    bob.check_want(told, 0)
    eve.check_want(told, 1)
    with pytest.raises(Forged):
        bob.check_want(replace(told, proofs=told.proofs[::-1]), 0)
    for field in ("versions", "offers", "whole", "added", "filters", "removed"):
        value = getattr(told, field)
        other = (value[0] + 1, value[1]) if field in ("versions", "offers") else changed(value)
        with pytest.raises(Forged):
            bob.check_want(replace(told, **{field: other}), 0)
    with pytest.raises(Forged):
        bob.check_want(replace(told, proofs=()), 0)


def test_an_offer_before_its_sheet_waits_for_it() -> None:
    alice, bob = MessageAuth(ALICE.id, ALICE), MessageAuth(BOB.id, BOB)
    offer = alice.sign(Advertisement(ALICE.id, 1, 1, "x > 1"))
    assert not bob.check(offer)
    assert bob.check(alice.sign(sheet(ALICE)))
    assert bob.awaited(ALICE.id)
    assert not bob.awaited(ALICE.id), "asked once"
    assert bob.check(offer)


def test_a_card_of_small_order_is_no_card() -> None:
    with pytest.raises(Forged):
        ALICE.pair_key(BOB.card[:32] + bytes(32))


def test_both_of_a_pair_have_the_same_key_and_nobody_else() -> None:
    assert ALICE.pair_key(BOB.card) == BOB.pair_key(ALICE.card)
    assert ALICE.pair_key(BOB.card) != ALICE.pair_key(EVE.card)
    assert EVE.pair_key(BOB.card) != ALICE.pair_key(BOB.card)


def test_without_an_identity_everything_is_believed() -> None:
    trust = MessageAuth(5, None)
    document = Advertisement(9, 1, 1, "x > 1")
    assert trust.sign(document) is document
    assert trust.check(document)
    trust.check_errand(StreamSkip(5, 9, 1))


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
    """S2: random changes to what was said, random proofs, and what Eve says in Alice's name."""
    chance = Random("forgeries")
    alice, bob = trusts()
    eve = MessageAuth(EVE.id, EVE)
    assert eve.check(bob.sign(sheet(BOB)))
    told = [alice.prove(make()) for make in ERRANDS.values()]
    block = b"an event"
    for _ in range(45_000):
        errand = chance.choice(told)
        flipped = int.from_bytes(errand.proof, "big") ^ (1 << chance.randrange(128))
        forged = (
            replace(errand, proof=flipped.to_bytes(16, "big")),
            replace(errand, proof=chance.randbytes(16)),
            replace(eve.prove(replace(errand, source=EVE.id)), source=ALICE.id),
        )
        with pytest.raises(Forged):
            bob.check_errand(chance.choice(forged))
        with pytest.raises(Forged):
            bob.check_event(ALICE.id, chance.getrandbits(40), chance.getrandbits(2), block, chance.getrandbits(64))
    said = alice.sign(Advertisement(ALICE.id, 1, 1, "x > 1"))
    for _ in range(10_000):
        flipped = int.from_bytes(said.signature, "big") ^ (1 << chance.randrange(512))
        with pytest.raises(Forged):
            bob.check(replace(said, version=chance.getrandbits(40), signature=flipped.to_bytes(64, "big")))
