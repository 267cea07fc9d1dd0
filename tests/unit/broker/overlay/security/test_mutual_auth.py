"""Mutual authentication of two brokers: by a secret that is never sent, by TLS, or by being on one machine."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest
from two_brokers import Wire, broker, frames

from plait_broker import Broker
from plait_broker.clients.connection import CONTROL_BURST, CONTROL_PER_S
from plait_broker.outputs import Remark
from plait_broker.overlay.discovery.broker_connections import SHUNNED_S
from plait_broker.overlay.security.mutual_auth import MutualAuth, Untrusted
from plait_broker.settings import LinkSettings
from plait_core.events import Event
from plait_core.limits import HELLO_BYTES_MAX, NONCE_BYTES, PROOF_BYTES
from plait_core.wire import (
    Close,
    Destination,
    Hello,
    Introduction,
    Ping,
    Role,
    Welcome,
    encode_block,
    encode_frame,
    forward_head,
)

SECRET = "open-sesame-42"
AWAY = ("10.0.0.1:5555", "10.0.0.2:4680")


def secret(text: str = SECRET) -> LinkSettings:
    return LinkSettings(secret=text)


def met(dialler: str = SECRET, acceptor: str = SECRET, **how: object) -> Wire:
    return Wire(broker("near", 1, secret(dialler)), broker("far", 2, secret(acceptor)), addresses=AWAY).settle()


# --- a secret ---------------------------------------------------------------------------------------------------------


def test_two_that_know_the_secret_are_neighbours_and_never_say_it() -> None:
    wire = met()
    assert wire.up
    assert wire.closed == ["", ""]
    for sent in wire.sent:
        assert SECRET.encode() not in b"".join(sent)


@pytest.mark.parametrize("right", [0, 1])
def test_a_wrong_secret_is_refused_and_named_at_both_ends(right: int) -> None:
    wire = met(*((SECRET, "something else") if right == 0 else ("something else", SECRET)))
    assert not wire.up
    assert wire.closed[0].startswith("broker far at 10.0.0.2:4680: it says: the proof of the overlay secret is wrong")
    assert wire.closed[1].startswith("broker near from 10.0.0.1:5555: the proof of the overlay secret is wrong")
    assert "give all brokers the same [overlay] secret" in wire.closed[0]
    assert wire.ends[1].counters.rejected["auth"] == 1


@pytest.mark.parametrize(("near", "far"), [(SECRET, ""), ("", SECRET)])
def test_a_secret_on_one_side_alone_is_refused_even_on_one_machine(near: str, far: str) -> None:
    wire = Wire(broker("near", 1, secret(near)), broker("far", 2, secret(far))).settle()
    assert not wire.up
    assert "has no overlay secret" in wire.closed[1] or "has none" in wire.closed[1]
    assert all(wire.closed)


def test_a_stranger_is_told_nothing_that_guesses_can_be_tried_on() -> None:
    """Check that the acceptor sends no proof before it has verified the dialler's."""
    wire = Wire(broker("near", 1, secret("a guess")), broker("far", 2, secret()), addresses=AWAY).settle()
    said = b"".join(wire.sent[1])
    (welcome,) = frames([said[: 8 + int.from_bytes(said[:4])]])
    assert isinstance(welcome, Welcome)
    assert len(welcome.nonce or b"") == NONCE_BYTES
    rest = frames([said[8 + int.from_bytes(said[:4]) :]])
    assert [type(frame) for frame in rest] == [Close]


def test_what_was_said_in_one_connection_proves_nothing_in_the_next() -> None:
    wire = met()
    heard = wire.sent[0]
    far = wire.ends[1]
    wire.gone()
    replay = Wire(broker("thief", 3, secret("")), far, link=2, addresses=AWAY, now=1.0)
    replay.waiting[0].clear()
    for chunk in heard[:2]:
        far.receive(2, chunk, 1.0)
    replay.collect()
    assert "the proof of the overlay secret is wrong" in replay.closed[1]
    assert not far.overlay.neighbours


def meetings() -> tuple[MutualAuth, MutualAuth]:
    """Return two ends that have exchanged Hello and Welcome."""
    near = MutualAuth.dialler(SECRET, 7, "near", Random(1))
    assert near.hello is not None
    far = MutualAuth.acceptor(SECRET, near.hello, Random(2))
    near.welcome = far.welcome = Welcome(1, (), "far", 8, 0, 5.0, nonce=far.offered)
    return near, far


def test_each_end_believes_the_other_and_not_itself() -> None:
    near, far = meetings()
    proof, answer = near.introduce("10.0.0.2", fixed=True), far.introduce("10.0.0.1", fixed=False)
    far.check(proof)
    near.check(answer)
    for end, own in ((near, proof), (far, answer)):
        with pytest.raises(Untrusted):
            end.check(own)


@pytest.mark.parametrize(
    "change",
    [
        lambda near: setattr(near, "hello", replace(near.hello, publisher=9)),
        lambda near: setattr(near, "hello", replace(near.hello, name="other")),
        lambda near: setattr(near, "hello", replace(near.hello, version_max=9)),
        lambda near: setattr(near, "hello", replace(near.hello, nonce=bytes(NONCE_BYTES))),
        lambda near: setattr(near, "welcome", replace(near.welcome, broker=9)),
        lambda near: setattr(near, "welcome", replace(near.welcome, broker_name="other")),
        lambda near: setattr(near, "welcome", replace(near.welcome, version=2)),
        lambda near: setattr(near, "welcome", replace(near.welcome, nonce=bytes(NONCE_BYTES))),
        lambda near: setattr(near, "secret", SECRET + "!"),
    ],
)
def test_a_proof_is_over_everything_that_was_said(change: object) -> None:
    near, far = meetings()
    assert callable(change)
    change(near)
    with pytest.raises(Untrusted):
        far.check(near.introduce("", fixed=False))


def test_ten_thousand_forgeries() -> None:
    """Check that corrupted, truncated and random proofs are refused, and proofs for another address."""
    rng = Random(3)
    near, far = meetings()
    right = near.introduce("10.0.0.2", fixed=False)
    for _ in range(10_000):
        proof = bytearray(right.proof)
        kind = rng.randrange(4)
        if kind == 0:
            proof[rng.randrange(PROOF_BYTES)] ^= 1 << rng.randrange(8)
        elif kind == 1:
            del proof[rng.randrange(PROOF_BYTES) :]
        elif kind == 2:
            proof = bytearray(rng.randbytes(PROOF_BYTES))
        forged = (
            replace(right, proof=bytes(proof)) if kind < 3 else replace(right, seen=f"10.0.0.{rng.randrange(3, 99)}")
        )
        with pytest.raises(Untrusted):
            far.check(forged)
    far.check(right)


def test_a_nonce_of_another_length_is_refused() -> None:
    wire = Wire(broker("near", 1, secret()), broker("far", 2, secret()), addresses=AWAY)
    wire.waiting[0][:] = [encode_frame(Hello(1, 1, Role.BROKER, "near", 5, nonce=b"short"))]
    wire.settle()
    assert "a nonce has" in wire.closed[1]


# --- without one ------------------------------------------------------------------------------------------------------


def test_without_a_secret_brokers_on_one_machine_are_neighbours() -> None:
    assert Wire(broker("near", 1), broker("far", 2)).settle().up


@pytest.mark.parametrize("end", [0, 1])
def test_without_a_secret_neither_end_takes_one_from_elsewhere(end: int) -> None:
    addresses = ("10.0.0.1:5555", "127.0.0.1:4680") if end else ("127.0.0.1:5555", "10.0.0.2:4680")
    wire = Wire(broker("near", 1), broker("far", 2), addresses=addresses).settle()
    assert not wire.up
    assert "give both the same [overlay] secret" in wire.closed[end]


def test_over_tls_the_certificate_is_what_counts() -> None:
    tls = LinkSettings(tls=True)
    both = (True, True)
    assert Wire(broker("near", 1, tls), broker("far", 2, tls), addresses=AWAY, vouched=both).settle().up
    plain = Wire(broker("near", 1, tls), broker("far", 2, tls)).settle()
    assert not plain.up
    assert "over TLS" in plain.closed[0]


def test_over_tls_a_secret_is_asked_for_as_well() -> None:
    near, far = LinkSettings(tls=True, secret="another one"), LinkSettings(tls=True, secret=SECRET)
    wire = Wire(broker("near", 1, near), broker("far", 2, far), addresses=AWAY, vouched=(True, True)).settle()
    assert not wire.up
    assert "the proof of the overlay secret is wrong" in wire.closed[1]


def test_clients_do_not_come_in_where_brokers_do() -> None:
    far = broker("far", 2, LinkSettings(tls=True))
    wire = Wire(broker("near", 1), far, vouched=(True, True))
    wire.waiting[0][:] = [encode_frame(Hello(1, 1, Role.CLIENT, "ibis", 5))]
    wire.settle()
    assert "clients elsewhere" in wire.closed[1]


# --- who it is --------------------------------------------------------------------------------------------------------


def test_a_broker_does_not_link_to_itself_and_stops_trying() -> None:
    here = "127.0.0.1:4680"
    alone = broker("alone", 1, LinkSettings(links=(here,)))
    alone.tick(0.0)
    wire = Wire(alone, broker("stand-in", 1), addresses=("127.0.0.1:5555", here)).settle()  # the same id
    assert wire.ends[1].id == alone.id
    assert "this is the same broker" in wire.closed[0]
    wire.gone()
    before = list(wire.dials)
    for second in range(1, 120):
        alone.tick(float(second))
        wire.collect()
    assert before == [here]
    assert wire.dials == before


def test_a_second_connection_is_refused_as_a_duplicate() -> None:
    near, far = sorted((broker("a", 1), broker("b", 2)), key=lambda one: one.id)
    first = Wire(near, far).settle()
    second = Wire(far, near, link=2).settle()
    assert first.up
    assert not any(first.closed)
    assert "there is a connection between us already" in " ".join(second.closed)


def test_of_two_that_the_same_one_dialled_the_newer_stays() -> None:
    near, far = broker("a", 1), broker("b", 2)
    first = Wire(near, far).settle()
    second = Wire(near, far, link=2).settle()
    first.collect()
    assert not any(second.closed)
    assert second.up
    assert near.broker_connections.links()[0].id == far.broker_connections.links()[0].id == 2


def test_when_both_dial_at_once_both_keep_the_same() -> None:
    for order in range(8):
        near, far = broker("a", 1), broker("b", 2)
        one, other = Wire(near, far, link=1), Wire(far, near, link=2)
        rng = Random(order)
        for _ in range(40):
            wire = rng.choice((one, other))
            wire.pass_on(rng.randrange(2))
            one.collect()
            other.collect()
        kept = {link.id for end in (near, far) for link in end.broker_connections.links()}
        assert kept == {1 if near.id < far.id else 2}
        assert one.up


# --- what goes wrong --------------------------------------------------------------------------------------------------


def test_a_broker_of_another_version_is_refused_and_named_at_both_ends() -> None:
    wire = Wire(broker("near", 1), broker("far", 2))
    wire.waiting[0][:] = [encode_frame(Hello(7, 9, Role.BROKER, "from-tomorrow", 5))]
    wire.settle()
    assert "broker from-tomorrow" in wire.closed[1]
    assert "you offer versions 7 to 9" in wire.closed[1]
    assert "at 127.0.0.1:4690: it says: you offer versions 7 to 9" in wire.closed[0]
    assert wire.ends[1].counters.rejected["version"] == 1


@pytest.mark.parametrize("steps", [0, 1, 2, 3])
def test_a_meeting_that_stops_half_way_times_out_at_both_ends(steps: int) -> None:
    wire = Wire(broker("near", 1, secret()), broker("far", 2, secret()), addresses=AWAY)
    for step in range(steps):
        wire.pass_on(step % 2)
    for waiting in wire.waiting:
        waiting.clear()
    if steps == 3:  # the acceptor has the dialler's proof, but its answer is lost
        assert not wire.ends[0].overlay.neighbours
    for second in (4.9, 5.2, 5.5):
        wire.tick(second)
        wire.waiting[0].clear()
        wire.waiting[1].clear()
    assert wire.closed[0].endswith("no hello")
    assert wire.closed[1] or steps == 3


def test_a_neighbour_that_sends_garbage_is_cut_off_named_and_shunned_for_a_while() -> None:
    wire = met()
    near, far = wire.ends
    far.receive(1, b"\xff" * 64, 1.0)
    wire.collect()
    assert wire.closed[1].startswith("broker near from 10.0.0.1:5555: ")
    assert sum(far.counters.faults.values()) == 1
    wire.now = 1.0
    wire.gone()
    again = Wire(near, far, link=2, addresses=AWAY, now=2.0).settle()
    assert not again.up
    assert "you broke the protocol" in again.closed[1]
    again.gone()
    assert Wire(near, far, link=3, addresses=AWAY, now=2.0 + SHUNNED_S).settle().up


def test_whom_one_has_dialled_is_shunned_as_well() -> None:
    near = broker("near", 1, LinkSettings(secret=SECRET, links=(AWAY[1],)))
    far = broker("far", 2, secret())
    wire = Wire(near, far, addresses=AWAY).settle()
    assert wire.up
    near.receive(1, b"\xff" * 64, 1.0)
    wire.collect()
    assert wire.closed[0].startswith("broker far at 10.0.0.2:4680: ")
    wire.now = 1.0
    wire.gone()
    wire.dials.clear()
    wire.tick(SHUNNED_S)
    assert not wire.dials, "though a link there is configured"
    again = Wire(near, far, link=2, addresses=AWAY, now=SHUNNED_S).settle()
    assert not again.up
    assert "it broke the protocol" in again.closed[0]
    again.gone()
    wire.tick(2.0 + SHUNNED_S)
    assert wire.dials == [AWAY[1]]
    assert Wire(near, far, link=3, addresses=AWAY, now=2.0 + SHUNNED_S).settle().up


def test_before_the_introduction_nothing_else_is_listened_to() -> None:
    wire = Wire(broker("near", 1, secret()), broker("far", 2, secret()), addresses=AWAY)
    wire.pass_on(0)
    wire.ends[1].receive(1, encode_frame(Introduction(bytes(PROOF_BYTES)), 1), 0.0)
    wire.collect()
    assert "the proof of the overlay secret is wrong" in wire.closed[1]
    impatient = Wire(broker("near", 1, secret()), wire.ends[1], link=2, addresses=AWAY)
    impatient.pass_on(0)
    impatient.ends[1].receive(2, encode_frame(Ping(1), 1), 0.0)
    impatient.collect()
    assert "before the handshake is done" in impatient.closed[1]
    impatient = Wire(broker("near", 1, secret()), wire.ends[1], link=3, addresses=AWAY)
    impatient.pass_on(0)
    impatient.ends[1].receive(3, (HELLO_BYTES_MAX).to_bytes(4) + b"\0\x15\0\0", 0.0)
    impatient.collect()
    assert "oversize" in impatient.closed[1], "a stranger makes us hold no more than a hello does"


def test_a_flood_of_control_frames_is_cut_off_counted_and_named() -> None:
    wire = met()
    near, far = wire.ends
    pings = encode_frame(Ping(1), 1) * 1000
    for _ in range(round(CONTROL_BURST) // 1000 - 2):  # the largest burst allowed
        far.receive(1, pings, 1.0)
        wire.collect()
    assert not wire.closed[1]
    for step in range(100):  # and, from then on, what one may in the long run
        far.receive(1, pings, 1.0 + step * 1000 / CONTROL_PER_S)
        wire.collect()
    assert not wire.closed[1]
    for _ in range(round(CONTROL_BURST) // 1000 + 1):
        far.receive(1, pings, 4.0)
        wire.collect()
    assert "broker near from 10.0.0.1:5555: it sends more control frames" in wire.closed[1]
    assert far.counters.faults["flood"] == 1
    wire.gone()
    assert near.id not in far.overlay.neighbours
    assert not Wire(near, far, link=2, addresses=AWAY, now=5.0).settle().up


def copied(near: Broker, far: Broker, path: tuple[int, ...], proof: int) -> bytes:
    """An event for the far one, with a way that it has come."""
    block = encode_block(Event({"x": 1}, b"", near.id, 1, 0))
    return bytes(forward_head(block, near.id, 0, 0, path, (Destination(far.id, 1, proof),)) + block)


def proven(near: Broker, far: Broker) -> int:
    block = encode_block(Event({"x": 1}, b"", near.id, 1, 0))
    return near.overlay.message_auth.prove_event(far.id, 1, 0, block)


@pytest.mark.parametrize("way", ["its own", "another one's", "none", "already here"])
def test_who_hands_on_what_nobody_has_published_is_cut_off_counted_and_named(way: str) -> None:
    wire = met()
    near, far = wire.ends
    path = {"its own": (near.id,), "another one's": (near.id, 99), "none": (), "already here": (far.id, near.id)}[way]
    proof = proven(near, far) + (way == "its own")
    far.receive(1, copied(near, far, path, proof) * 1000, 1.0)
    wire.collect()
    assert "broker near from 10.0.0.1:5555: near sent what is forged: an event" in wire.closed[1]
    assert far.counters.faults["forged"] == 1
    assert far.overlay.counts["forged"] == 1, "the first was enough"
    wire.gone()
    assert not Wire(near, far, link=2, addresses=AWAY, now=5.0).settle().up
    assert Wire(near, far, link=3, addresses=AWAY, now=2.0 + SHUNNED_S).settle().up


def test_what_somebody_further_on_may_have_made_up_is_counted_and_goes_nowhere() -> None:
    wire = met()
    near, far = wire.ends
    far.receive(1, copied(near, far, (99, near.id), 1) * 3, 1.0)
    (remark,) = [output for output in far.take_output() if isinstance(output, Remark)]
    assert f"by one of those that it came by: {99:016x} -> near" in remark.text, "once in a while"
    assert wire.up
    assert far.overlay.counts["forged"] == 3
    far.receive(1, copied(near, far, (near.id,), proven(near, far)), 1.0)
    wire.collect()
    assert wire.up
    assert far.overlay.counts["forged"] == 3


# --- where it is ------------------------------------------------------------------------------------------------------


def test_a_broker_that_listens_everywhere_learns_where_it_is_from_its_neighbours() -> None:
    near, far = broker("near", 1, LinkSettings(secret=SECRET, port=4680)), broker("far", 2, secret())
    assert near.overlay.address == ""
    local = Wire(near, broker("local", 3, secret()), link=9).settle()
    assert local.up
    assert near.overlay.address == "127.0.0.1:4680"
    assert Wire(near, far, addresses=("10.0.0.1:5555", "10.0.0.2:4680")).settle().up
    assert near.overlay.address == "10.0.0.1:4680"
    third = Wire(near, broker("third", 4, secret()), link=7, addresses=("10.9.9.9:5555", "10.0.0.3:4680")).settle()
    assert third.up
    assert near.overlay.address == "10.0.0.1:4680", "the first that others can use stays"


def test_an_address_that_was_configured_stays() -> None:
    near = broker("near", 1, LinkSettings(secret=SECRET, address="north.example:4680", port=4680))
    assert Wire(near, broker("far", 2, secret()), addresses=AWAY).settle().up
    assert near.overlay.address == "north.example:4680"
