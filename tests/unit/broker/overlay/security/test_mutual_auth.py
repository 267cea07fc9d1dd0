"""Mutual authentication of two brokers: by a secret that is never sent, by TLS, or by being on one machine."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

import pytest

from plait_broker import Broker, BrokerSettings
from plait_broker.clients.connection import CONTROL_BURST, CONTROL_PER_S
from plait_broker.overlay.discovery.broker_connections import SHUNNED_S
from plait_broker.overlay.security.mutual_auth import MutualAuth, Untrusted
from plait_broker.settings import LinkSettings
from plait_core.events import Event
from plait_core.limits import HELLO_BYTES_MAX, NONCE_BYTES, PROOF_BYTES
from plait_core.wire import (
    Close,
    Frame,
    FrameDecoder,
    Hello,
    Introduction,
    Ping,
    Role,
    Welcome,
    encode_block,
    encode_frame,
    forward_head,
)
from plait_lab.simulation.overlay.broker_node import OverlayNode
from plait_lab.simulation.overlay.held_connection import HELD, HeldConnection, running_broker
from plait_lab.simulation.overlay.world import World, address_of

SECRET = "open-sesame-42"
AWAY = ("10.0.0.1:5555", "10.0.0.2:4680")


def secret(text: str = SECRET) -> LinkSettings:
    return LinkSettings(secret=text)


def held(near: LinkSettings, far: LinkSettings, **terms: Any) -> HeldConnection:
    """Return a connection that holds back what two brokers write."""
    world = World("mutual auth", brokers=0, terms=HELD)
    return HeldConnection(world, running_broker(world, "near", near), running_broker(world, "far", far), **terms)


def met(dialler: str = SECRET, acceptor: str = SECRET) -> HeldConnection:
    return held(secret(dialler), secret(acceptor), addresses=AWAY).open()


def frames(data: bytes) -> list[Frame]:
    """Decode frames of the handshake."""
    decoder = FrameDecoder()
    decoder.feed(data)
    return decoder.take()


# --- a secret ---------------------------------------------------------------------------------------------------------


def test_two_that_know_the_secret_are_neighbours_and_never_say_it() -> None:
    wire = met()
    assert wire.up
    assert wire.closed == ("", "")
    for sent in wire.written:
        assert SECRET.encode() not in b"".join(sent)


@pytest.mark.parametrize("right", [0, 1])
def test_a_wrong_secret_is_refused_and_named_at_both_ends(right: int) -> None:
    wire = met(*((SECRET, "something else") if right == 0 else ("something else", SECRET)))
    assert not wire.up
    assert wire.closed[0].startswith("broker far at 10.0.0.2:4680: it says: the proof of the overlay secret is wrong")
    assert wire.closed[1].startswith("broker near from 10.0.0.1:5555: the proof of the overlay secret is wrong")
    assert "give all brokers the same [overlay] secret" in wire.closed[0]
    assert wire.brokers[1].counters.rejected["auth"] == 1


@pytest.mark.parametrize(("near", "far"), [(SECRET, ""), ("", SECRET)])
def test_a_secret_on_one_side_alone_is_refused_even_on_one_machine(near: str, far: str) -> None:
    wire = held(secret(near), secret(far)).open()
    assert not wire.up
    assert "has no overlay secret" in wire.closed[1] or "has none" in wire.closed[1]
    assert all(wire.closed)


def test_a_stranger_is_told_nothing_that_guesses_can_be_tried_on() -> None:
    """Check that the acceptor sends no proof before it has verified the dialler's."""
    wire = held(secret("a guess"), secret(), addresses=AWAY).open()
    said = b"".join(wire.written[1])
    (welcome,) = frames(said[: 8 + int.from_bytes(said[:4])])
    assert isinstance(welcome, Welcome)
    assert len(welcome.nonce or b"") == NONCE_BYTES
    rest = frames(said[8 + int.from_bytes(said[:4]) :])
    assert [type(frame) for frame in rest] == [Close]


def test_what_was_said_in_one_connection_proves_nothing_in_the_next() -> None:
    wire = met()
    hello, introduction = wire.written[0][:2]
    wire.reset()
    wire.world.run(1.0)
    thief = running_broker(wire.world, "thief", secret(""))
    replay = HeldConnection(wire.world, thief, wire.ends[1], addresses=AWAY)
    replay.hold(0, hello, introduction)
    replay.pass_on(0)
    assert "the proof of the overlay secret is wrong" in replay.closed[1]
    assert not wire.ends[1].overlay.neighbours


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
    wire = held(secret(), secret(), addresses=AWAY)
    wire.hold(0, encode_frame(Hello(1, 1, Role.BROKER, "near", 5, nonce=b"short")))
    wire.open()
    assert "a nonce has" in wire.closed[1]


# --- without one ------------------------------------------------------------------------------------------------------


def test_without_a_secret_brokers_on_one_machine_are_neighbours() -> None:
    assert held(LinkSettings(), LinkSettings()).open().up


@pytest.mark.parametrize("end", [0, 1])
def test_without_a_secret_neither_end_takes_one_from_elsewhere(end: int) -> None:
    addresses = ("10.0.0.1:5555", "127.0.0.1:4680") if end else ("127.0.0.1:5555", "10.0.0.2:4680")
    wire = held(LinkSettings(), LinkSettings(), addresses=addresses).open()
    assert not wire.up
    assert "give both the same [overlay] secret" in wire.closed[end]


def test_over_tls_the_certificate_is_what_counts() -> None:
    tls = LinkSettings(tls=True)
    both = (True, True)
    assert held(tls, tls, addresses=AWAY, vouched=both).open().up
    plain = held(tls, tls).open()
    assert not plain.up
    assert "over TLS" in plain.closed[0]


def test_over_tls_a_secret_is_asked_for_as_well() -> None:
    near, far = LinkSettings(tls=True, secret="another one"), LinkSettings(tls=True, secret=SECRET)
    wire = held(near, far, addresses=AWAY, vouched=(True, True)).open()
    assert not wire.up
    assert "the proof of the overlay secret is wrong" in wire.closed[1]


def test_clients_do_not_come_in_where_brokers_do() -> None:
    wire = held(LinkSettings(), LinkSettings(tls=True), vouched=(True, True))
    wire.hold(0, encode_frame(Hello(1, 1, Role.CLIENT, "ibis", 5)))
    wire.open()
    assert "clients elsewhere" in wire.closed[1]


# --- who it is --------------------------------------------------------------------------------------------------------


def test_a_broker_does_not_link_to_itself_and_stops_trying() -> None:
    world = World("itself", brokers=0, terms=HELD)
    here = address_of(0)
    alone = world.add_broker(BrokerSettings(name="alone", linking=LinkSettings(links=(here,))))
    mirror = OverlayNode(
        0, world.network, alone.terms, world.history, world.truth.change
    )  # at its address, with its id
    world.network.add_link(alone, mirror, 0.001)  # it has the same address and, once it runs, the same id
    for node in (alone, mirror):
        node.start()
    assert alone.overlay.me == mirror.overlay.me
    world.run(120.0)
    assert alone.dialled == mirror.dialled == [here]
    assert any("this is the same broker" in reason for reason in alone.closed.values())
    assert not alone.overlay.neighbours


def test_of_two_that_the_same_one_dialled_the_newer_stays() -> None:
    first = held(LinkSettings(), LinkSettings()).open()
    first.ends[0].ended(first.connection)  # only the dialler notices
    second = HeldConnection(first.world, *first.ends).open()
    assert not any(second.closed)
    assert second.up
    assert tuple(broker.broker_connections.links()[0].id for broker in second.brokers) == second.connection.ids


@pytest.mark.parametrize("dialler", [0, 1])
def test_a_dialler_that_meets_a_neighbour_keeps_the_link_that_works(dialler: int) -> None:
    """A new connection would measure its delay anew and lose what is in flight."""
    world = World("again", brokers=0, terms=HELD)
    ends = sorted((running_broker(world, name) for name in "ab"), key=lambda one: one.overlay.me)
    first = HeldConnection(world, *ends).open()
    again = HeldConnection(world, ends[dialler], ends[1 - dialler]).open()
    assert first.up
    assert not any(first.closed)
    assert "there is a link between us already" in again.closed[0]


def test_when_both_dial_at_once_both_keep_the_same() -> None:
    for order in range(40):
        world = World(f"both dial/{order}", brokers=0, terms=HELD)
        near, far = running_broker(world, "a"), running_broker(world, "b")
        one, other = HeldConnection(world, near, far), HeldConnection(world, far, near)
        rng = Random(order)
        for _ in range(40):
            wire = rng.choice((one, other))
            wire.pass_on(rng.randrange(2))
        one.open()
        other.open()
        kept = other if any(one.closed) else one
        assert kept.up
        assert [any(wire.closed) for wire in (one, other)].count(False) == 1
        links = [broker.broker_connections.links() for broker in kept.brokers]
        assert [[link.id for link in some] for some in links] == [[id] for id in kept.connection.ids]


def test_when_both_introduce_themselves_the_one_that_the_smaller_id_dialled_stays() -> None:
    world = World("both introduce", brokers=0, terms=HELD)
    small, great = sorted((running_broker(world, name) for name in "ab"), key=lambda one: one.overlay.me)
    wires = HeldConnection(world, small, great), HeldConnection(world, great, small)
    for side in (0, 1):  # Hello, Welcome
        for wire in wires:
            wire.pass_on(side)
    for wire in reversed(wires):
        wire.open()
    assert wires[0].up
    assert not any(wires[0].closed)
    assert all(wires[1].closed)


# --- what goes wrong --------------------------------------------------------------------------------------------------


def test_a_broker_of_another_version_is_refused_and_named_at_both_ends() -> None:
    wire = held(LinkSettings(), LinkSettings())
    wire.hold(0, encode_frame(Hello(7, 9, Role.BROKER, "from-tomorrow", 5)))
    wire.open()
    assert "broker from-tomorrow" in wire.closed[1]
    assert "you offer versions 7 to 9" in wire.closed[1]
    assert "at 127.0.0.1:4690: it says: you offer versions 7 to 9" in wire.closed[0]
    assert wire.brokers[1].counters.rejected["version"] == 1


@pytest.mark.parametrize("steps", [0, 1, 2, 3])
def test_a_meeting_that_stops_half_way_times_out_at_both_ends(steps: int) -> None:
    wire = held(secret(), secret(), addresses=AWAY)
    for step in range(steps):
        wire.pass_on(step % 2)
    if steps == 3:  # the acceptor has the dialler's proof, but its answer does not arrive
        assert not wire.ends[0].overlay.neighbours
    wire.world.run(4.9)
    assert not any(wire.closed) or steps == 3
    wire.world.run(0.6)
    assert wire.closed[0].endswith("no hello")
    assert wire.closed[1] or steps == 3


def test_a_neighbour_that_sends_garbage_is_cut_off_named_and_shunned_for_a_while() -> None:
    wire = met()
    wire.world.run(1.0)
    wire.write(0, b"\xff" * 64)
    assert wire.closed[1].startswith("broker near from 10.0.0.1:5555: ")
    assert sum(wire.brokers[1].counters.faults.values()) == 1
    wire.world.run(1.0)
    again = HeldConnection(wire.world, *wire.ends, addresses=AWAY).open()
    assert not again.up
    assert "you broke the protocol" in again.closed[1]
    wire.world.run(SHUNNED_S)
    assert HeldConnection(wire.world, *wire.ends, addresses=AWAY).open().up


def test_whom_one_has_dialled_is_shunned_as_well() -> None:
    wire = held(LinkSettings(secret=SECRET, links=(AWAY[1],)), secret(), addresses=AWAY).open()
    assert wire.up
    wire.world.run(1.0)
    wire.write(1, b"\xff" * 64)
    assert wire.closed[0].startswith("broker far at 10.0.0.2:4680: ")
    dialled = wire.ends[0].dialled
    dialled.clear()
    wire.world.run(SHUNNED_S - 1.0)
    assert not dialled, "though a link there is configured"
    again = HeldConnection(wire.world, *wire.ends, addresses=AWAY).open()
    assert not again.up
    assert "it broke the protocol" in again.closed[0]
    wire.world.run(2.0)
    assert set(dialled) == {AWAY[1]}
    assert HeldConnection(wire.world, *wire.ends, addresses=AWAY).open().up


def test_before_the_introduction_nothing_else_is_listened_to() -> None:
    wire = held(secret(), secret(), addresses=AWAY)
    for data, reason in (
        (encode_frame(Introduction(bytes(PROOF_BYTES)), 1), "the proof of the overlay secret is wrong"),
        (encode_frame(Ping(1), 1), "before the handshake is done"),
        ((HELLO_BYTES_MAX).to_bytes(4) + b"\0\x15\0\0", "oversize"),  # a stranger gets no larger buffer than a Hello
    ):
        stranger = running_broker(wire.world, "near", secret())
        impatient = HeldConnection(wire.world, stranger, wire.ends[1], addresses=AWAY)
        impatient.pass_on(0)
        impatient.hold(0, data)
        impatient.pass_on(0)
        assert reason in impatient.closed[1]


def write_unanswered(wire: HeldConnection, pings: bytes) -> None:
    """Write a burst of pings, and lose the answers, which would be a flood themselves."""
    wire.world.network.silence(wire.link, wire.ends[1])
    wire.write(0, pings)
    wire.hold(1)
    wire.open()


def test_a_flood_of_control_frames_is_cut_off_counted_and_named() -> None:
    wire = met()
    world = wire.world
    world.run(1.0)
    pings = encode_frame(Ping(1), 1) * 1000
    for _ in range(round(CONTROL_BURST) // 1000 - 2):  # the largest burst allowed
        write_unanswered(wire, pings)
    assert not wire.closed[1]
    for _ in range(100):  # and, from then on, what one may in the long run
        write_unanswered(wire, pings)
        world.run(1000 / CONTROL_PER_S)
    assert not wire.closed[1]
    world.run(4.0 - world.now)
    for _ in range(round(CONTROL_BURST) // 1000 + 1):
        write_unanswered(wire, pings)
    assert "broker near from 10.0.0.1:5555: it sends more control frames" in wire.closed[1]
    near, far = wire.brokers
    assert far.counters.faults["flood"] == 1
    assert near.id not in far.overlay.neighbours
    world.run(1.0)
    assert not HeldConnection(world, *wire.ends, addresses=AWAY).open().up


def copied(near: Broker, far: Broker, path: tuple[int, ...], proof: int) -> bytes:
    """An event for the far one, with a way that it has come."""
    block = encode_block(Event({"x": 1}, b"", near.id, 1, 0))
    return bytes(forward_head(block, near.id, 0, 0, path, ((far.id, 1, proof),)) + block)


def proven(near: Broker, far: Broker) -> int:
    block = encode_block(Event({"x": 1}, b"", near.id, 1, 0))
    return near.overlay.message_auth.prove_event(far.id, 1, 0, block)


@pytest.mark.parametrize("way", ["its own", "another one's", "none", "already here"])
def test_who_hands_on_what_nobody_has_published_is_cut_off_counted_and_named(way: str) -> None:
    wire = met()
    near, far = wire.brokers
    wire.world.run(1.0)
    path = {"its own": (near.id,), "another one's": (near.id, 99), "none": (), "already here": (far.id, near.id)}[way]
    proof = proven(near, far) + (way == "its own")
    wire.write(0, copied(near, far, path, proof) * 1000)
    assert "broker near from 10.0.0.1:5555: near sent what is forged: an event" in wire.closed[1]
    assert far.counters.faults["forged"] == 1
    assert far.overlay.counts["forged"] == 1, "the first was enough"
    wire.world.run(4.0)
    assert not HeldConnection(wire.world, *wire.ends, addresses=AWAY).open().up
    wire.world.run(SHUNNED_S - 3.0)
    assert HeldConnection(wire.world, *wire.ends, addresses=AWAY).open().up


def test_what_somebody_further_on_may_have_made_up_is_counted_and_goes_nowhere() -> None:
    wire = met()
    near, far = wire.brokers
    wire.world.run(1.0)
    wire.write(0, copied(near, far, (99, near.id), 1) * 3)
    (remark,) = [text for text in wire.ends[1].remarks if "came by" in text]
    assert f"by one of those that it came by: {99:016x} -> near" in remark, "once in a while"
    assert wire.up
    assert far.overlay.counts["forged"] == 3
    wire.write(0, copied(near, far, (near.id,), proven(near, far)))
    assert wire.up
    assert far.overlay.counts["forged"] == 3


# --- where it is ------------------------------------------------------------------------------------------------------


def test_a_broker_that_listens_everywhere_learns_where_it_is_from_its_neighbours() -> None:
    world = World("addresses", brokers=0, terms=HELD)
    near = running_broker(world, "near", LinkSettings(secret=SECRET, port=4680))
    assert near.overlay.address == ""
    assert HeldConnection(world, near, running_broker(world, "local", secret())).open().up
    assert near.overlay.address == "127.0.0.1:4680"
    far, third = running_broker(world, "far", secret()), running_broker(world, "third", secret())
    assert HeldConnection(world, near, far, addresses=("10.0.0.1:5555", "10.0.0.2:4680")).open().up
    assert near.overlay.address == "10.0.0.1:4680"
    assert HeldConnection(world, near, third, addresses=("10.9.9.9:5555", "10.0.0.3:4680")).open().up
    assert near.overlay.address == "10.0.0.1:4680", "the first that others can use stays"


def test_an_address_that_was_configured_stays() -> None:
    wire = held(LinkSettings(secret=SECRET, address="north.example:4680", port=4680), secret(), addresses=AWAY).open()
    assert wire.up
    assert wire.ends[0].overlay.address == "north.example:4680"
