"""Acks of interest updates: at once while there are few, in one envelope while a thousand brokers start."""

from __future__ import annotations

from one_overlay import OneOverlay

from plait_broker.overlay.interest.interest_acks import ACKS_BURST, GATHER_S
from plait_core.wire.frame_types.envelope_frames import EndToEnd, envelop_message, read_message
from plait_core.wire.frame_types.overlay_frames import InterestAck, InterestUpdate, LinkState

ME, NEAR = 1, 2
FEW, MANY = round(ACKS_BURST), range(10, 10 + 3 * round(ACKS_BURST))


def started() -> OneOverlay:
    broker = OneOverlay(ME)
    broker.link_up(NEAR)
    broker.learn(LinkState(NEAR, 2, "near", (ME, *MANY), (1000,) * (1 + len(MANY))), NEAR)
    for far in MANY:
        broker.learn(LinkState(far, 1, f"b{far}", (NEAR,), (1000,)), NEAR)
    broker.tick(1.0)
    broker.tick(3.0)
    broker.clear()
    return broker


def update(source: int, version: int = 1) -> EndToEnd:
    return envelop_message(InterestUpdate((ME,), source, (version,), (0,), version == 1, (), (), ()))


def acks(broker: OneOverlay) -> list[list[InterestAck]]:
    """Return the acks of each envelope."""
    envelopes = [frame for _, frame in broker.sent if isinstance(frame, EndToEnd)]
    read = [[read_message(envelope, at) for at in range(len(envelope.to))] for envelope in envelopes]
    return [[one for one in messages if isinstance(one, InterestAck)] for messages in read]


def test_a_few_updates_are_acked_at_once() -> None:
    broker = started()
    for far in MANY[:FEW]:
        broker.receive(NEAR, update(far))
    assert [[ack.to for ack in group] for group in acks(broker)] == [[far] for far in MANY[:FEW]]


def test_equal_acks_of_many_updates_go_in_one_envelope() -> None:
    broker = started()
    for far in MANY:
        broker.receive(NEAR, update(far))
    broker.clear()
    assert broker.overlay.due_at <= broker.now + GATHER_S
    broker.tick(broker.now + GATHER_S)
    (group,) = acks(broker)
    assert [ack.to for ack in group] == list(MANY[FEW:])
    assert {(ack.source, ack.version, ack.asked) for ack in group} == {(ME, 1, 1)}


def test_a_later_update_of_a_broker_replaces_its_ack_that_waits() -> None:
    broker = started()
    for far in MANY:
        broker.receive(NEAR, update(far))
    broker.receive(NEAR, update(MANY[-1], version=2))
    broker.clear()
    broker.tick(broker.now + GATHER_S)
    first, second = acks(broker)
    assert len(first) == len(MANY) - FEW - 1
    assert [(ack.to, ack.version) for ack in second] == [(MANY[-1], 2)]


def test_a_broker_that_stops_sends_the_acks_that_wait() -> None:
    broker = started()
    for far in MANY:
        broker.receive(NEAR, update(far))
    broker.clear()
    broker.overlay.stop(broker.now)
    assert sum(map(len, acks(broker))) == len(MANY) - FEW
