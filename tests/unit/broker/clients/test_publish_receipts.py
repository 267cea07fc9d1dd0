"""Refusals of unconfirmed events: they name the missing parties and their number, and give a hint."""

from __future__ import annotations

import pytest

from plait_broker import BrokerSettings
from plait_core.limits import CLOSE_TEXT_MAX, NAME_BYTES_MAX
from plait_core.wire import Confirm
from plait_core.wire.frame_types.session_frames import Code, Refusal
from plait_lab.simulation.one_broker.disks import DiskTerms
from plait_lab.simulation.one_broker.raw_clients import RawClient
from plait_lab.simulation.one_broker.stage import Stage
from plait_lab.simulation.overlay.world import World, linked_world

WAIT_S = 30.0
PATIENT = BrokerSettings(resume_s=1.0)
BACK = "use confirm='broker' to wait for the log alone, or `plait ls subs` to see who is away"


def absent(stage: Stage, *names: str) -> None:
    """Create durable subscriptions and disconnect their clients."""
    for name in names:
        client = stage.raw(f"client {len(name)} {name[:9]}")
        client.subscribe(1, durable=name)
        stage.run(1)
        assert client.connection is not None
        client.connection.close(client, abort=True)
        stage.run(3)


def refusal_of(stage: Stage, publisher: RawClient) -> Refusal:
    """Publish an event that its subscribers do not acknowledge in time, and return the refusal."""
    sequence = publisher.publish(Confirm.SUBSCRIBERS, n=1)
    stage.run(WAIT_S + 0.5)
    (refusal,) = publisher.of(Refusal)
    assert (refusal.sequence, refusal.code) == (sequence, Code.TIMEOUT)
    publisher.publish_as(sequence, Confirm.SUBSCRIBERS, n=1)
    stage.run(1)
    assert publisher.of(Refusal)[1] == refusal, "a repeated publish gets the same refusal"
    return refusal


def test_an_absent_durable_subscription_is_named_with_what_to_do() -> None:
    stage = Stage(PATIENT)
    publisher, here = stage.raw("publisher"), stage.raw("here")
    absent(stage, "reader")
    here.subscribe(1)
    here.subscribe(2)
    stage.run(1)
    here.acknowledges = True
    refusal = refusal_of(stage, publisher)
    assert refusal.message == (
        "not confirmed within 30 s: 1 of 3 has not acknowledged it: durable subscription 'reader' (its client is away)"
    )
    assert refusal.hint == f"it is stored and will be delivered when 'reader' is back; {BACK}"


def test_three_are_named_and_the_others_counted() -> None:
    stage = Stage(PATIENT)
    publisher = stage.raw("publisher")
    absent(stage, "a", "b", "c", "d", "e")
    refusal = refusal_of(stage, publisher)
    named = ", ".join(f"durable subscription '{name}' (its client is away)" for name in "abc")
    assert refusal.message == f"not confirmed within 30 s: 5 of 5 have not acknowledged it: {named} and 2 more"
    assert refusal.hint == f"it is stored and will be delivered when they are back; {BACK}"


def test_names_of_any_length_fit() -> None:
    stage = Stage(PATIENT)
    publisher = stage.raw("publisher")
    absent(stage, *(letter * NAME_BYTES_MAX for letter in "abc"))
    refusal = refusal_of(stage, publisher)
    assert len(refusal.message) == CLOSE_TEXT_MAX
    assert "'aaa" in refusal.message


def test_an_attached_subscription_without_acks_is_named_by_its_client() -> None:
    stage = Stage(PATIENT)
    publisher, silent = stage.raw("publisher"), stage.raw("silent")
    silent.subscribe(1)
    silent.subscribe(2, durable="mine")
    stage.run(1)
    refusal = refusal_of(stage, publisher)
    assert refusal.message == (
        "not confirmed within 30 s: 2 of 2 have not acknowledged it: "
        "a subscription of client 'silent', durable subscription 'mine'"
    )
    assert not refusal.hint, "no client is detached"


@pytest.mark.parametrize("level", [Confirm.BROKER, Confirm.SUBSCRIBERS])
def test_a_log_that_is_not_done_is_what_is_waited_for(level: Confirm) -> None:
    stage = Stage(PATIENT, disk=DiskTerms())
    publisher, reader = stage.raw("publisher"), stage.raw("reader")
    reader.subscribe(1, durable="mine")
    stage.run(1)
    stage.disk.terms.slow_s = 60.0
    publisher.publish(level, n=1)
    stage.run(WAIT_S + 0.5)
    (refusal,) = publisher.of(Refusal)
    assert refusal.message == "not confirmed within 30 s: the log has not stored it yet"
    assert "/readyz" in refusal.hint


KEPT = "`plait topo` shows who is out of reach, `[overlay] forget` lets go of a broker that never returns"


def refusal_elsewhere(world: World, level: Confirm, *, count: int = 1, settle_s: float = 5.0) -> Refusal:
    """Publish an event that other brokers do not acknowledge, and return the refusal.

    With `settle_s`, cut the links beyond broker 1 first and wait this long.
    """
    publisher = world.connected_client(0, "publisher")
    publisher.advertise("n >= 0")
    for home in range(2, 2 + count):
        reader = world.connected_client(home, f"reader {home}")
        reader.acknowledges = False
        subscription = reader.subscribe("n > 0", durable=f"ledger {home}")
        world.run(1.0)
        assert subscription.installed
    if settle_s:
        for home in range(2, 2 + count):
            world.cut(1, home)
        world.run(settle_s)
    publisher.publish({"n": 1}, level)
    world.run(WAIT_S + 1.0)
    (refusal,) = publisher.heard(Refusal)
    assert refusal.code == Code.TIMEOUT
    return refusal


def test_a_broker_that_cannot_be_reached_is_named_and_not_a_subscription() -> None:
    world = linked_world({(0, 1): 0.001, (1, 2): 0.001})
    refusal = refusal_elsewhere(world, Confirm.BROKER)
    assert refusal.message == "not confirmed within 30 s: b2 (which is out of reach) has not taken charge of it"
    assert refusal.hint == f"this broker keeps it for b2 and sends it again; {KEPT}"


def test_a_refusal_names_at_most_three_brokers() -> None:
    world = linked_world({(0, 1): 0.001} | {(1, home): 0.001 for home in range(2, 6)})
    refusal = refusal_elsewhere(world, Confirm.BROKER, count=4)
    assert refusal.message.count(" (which is out of reach)") == 3
    assert refusal.message.endswith(" and 1 more have not taken charge of it")
    assert refusal.hint == f"this broker keeps it for each of them and sends it again; {KEPT}"


def test_subscriptions_here_are_counted_apart_from_brokers() -> None:
    world = linked_world({(0, 1): 0.001, (1, 2): 0.001})
    here = world.connected_client(0, "here")
    here.acknowledges = False
    here.subscribe("n > 0")
    refusal = refusal_elsewhere(world, Confirm.SUBSCRIBERS)
    assert refusal.message == (
        "not confirmed within 30 s: 1 of 1 has not acknowledged it: a subscription of client 'here'; "
        "b2 (which is out of reach) has not taken charge of it"
    )


def test_a_broker_that_has_it_and_whose_subscribers_are_silent() -> None:
    world = linked_world({(0, 1): 0.001, (1, 2): 0.001})
    refusal = refusal_elsewhere(world, Confirm.SUBSCRIBERS, settle_s=0.0)
    assert refusal.message == (
        "not confirmed within 30 s: b2 has it, and not all subscribers there have acknowledged it"
    )
    assert "confirm='broker'" in refusal.hint


def test_a_broker_that_timed_out_itself_is_named() -> None:
    world = linked_world({(0, 1): 0.001, (1, 2): 0.001})
    world.broker(2).confirmations.timeout_s = 5.0
    refusal = refusal_elsewhere(world, Confirm.SUBSCRIBERS, settle_s=0.0)
    assert refusal.message == "at b2: not all of those it was for have it"
