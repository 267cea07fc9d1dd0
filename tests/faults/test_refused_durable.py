"""Durable subscriptions that cannot be stored, because the disk is full or there is no log.

The client gets the reason, nothing of the subscription remains at the broker, and the broker can still be stopped.
"""

from __future__ import annotations

import asyncio
import resource
import signal
import time
from pathlib import Path

import pytest
from processes import broker_process

import plait
from plait.errors import DurabilityFailed
from plait_broker import BrokerSettings
from plait_broker.status import describe_subscriptions
from plait_core.wire import Confirm
from plait_core.wire.frame_types.session_frames import Failed, Refusal, Start
from plait_lab.simulation.one_broker.disks import DiskTerms
from plait_lab.simulation.one_broker.stage import Stage

# --- subscriptions ----------------------------------------------------------------------------------------------------


def a_full_disk(stage: Stage, full: bool = True) -> None:
    stage.disk.terms.full = full


def subscriptions(stage: Stage) -> list[object]:
    """Return the durable names that `plait ls subs` shows."""
    return [facts["durable"] for facts in describe_subscriptions(stage.broker)]


def test_a_durable_subscription_that_was_not_stored_can_be_requested_again() -> None:
    stage = Stage(disk=DiskTerms())
    publisher, first, second = (stage.raw(name) for name in ("publisher", "first", "second"))
    first.subscribe(1, durable="first")
    stage.run(1)
    publisher.publish(Confirm.BROKER, n=1)
    stage.run(1)
    a_full_disk(stage)
    refused = second.subscribe(1, durable="second")
    stage.run(1)
    assert second.answer(refused) == "durability"
    assert second.of(Failed)[0].message == "the disk is full"
    assert subscriptions(stage) == ["first"]
    assert not stage.broker.sessions.of_publisher(second.publisher).subscriptions  # type: ignore[union-attr]
    a_full_disk(stage, False)
    accepted = second.subscribe(2, durable="second", start=Start.ALL)
    stage.run(2)
    assert second.answer(accepted) == "done"
    assert second.sequences(2) == [1]


def test_an_unstored_durable_subscription_is_removed_although_its_client_has_left() -> None:
    stage = Stage(BrokerSettings(resume_s=0.5, heartbeat_s=0.5), disk=DiskTerms(slow_s=3.0, full=True))
    leaving = stage.raw("leaving")
    leaving.subscribe(1, durable="hasty")
    stage.run(0.1)
    assert leaving.connection is not None
    leaving.connection.close(leaving, abort=True)
    stage.run(1.5)
    assert not len(stage.broker.sessions), "its session is over before the disk has answered"
    stage.run(5)
    assert not subscriptions(stage)


def test_an_unstored_durable_subscription_stays_with_the_client_that_attached_it_since() -> None:
    stage = Stage(BrokerSettings(resume_s=0.1, heartbeat_s=0.4), disk=DiskTerms(slow_s=3.0, full=True))
    leaving, coming = stage.raw("leaving"), stage.raw("coming")
    leaving.subscribe(1, durable="shared")
    stage.run(0.1)
    assert leaving.connection is not None
    leaving.connection.close(leaving, abort=True)
    stage.run(1)
    asked = coming.subscribe(1, durable="shared")
    stage.run(1)
    assert coming.answer(asked) is None, "the disk has refused neither yet"
    stage.run(2)
    assert subscriptions(stage) == ["shared"], "the first is refused, and the second is not"
    a_full_disk(stage, False)
    stage.run(5)
    assert coming.answer(asked) == "done"
    assert subscriptions(stage) == ["shared"]


def test_a_stored_durable_subscription_keeps_its_filter_when_a_change_fails() -> None:
    stage = Stage(disk=DiskTerms())
    publisher, before, after = (stage.raw(name) for name in ("publisher", "before", "after"))
    before.subscribe(1, "n < 10", durable="mine")
    stage.run(1)
    before.connection.close(before, abort=True)  # type: ignore[union-attr]
    stage.run(30)
    a_full_disk(stage)
    refused = after.subscribe(1, "n > 10", durable="mine")
    stage.run(1)
    assert after.answer(refused) == "durability"
    assert [facts["filter"] for facts in describe_subscriptions(stage.broker)] == ["n < 10"]
    a_full_disk(stage, False)
    publisher.publish(Confirm.BROKER, n=5)
    stage.run(1)
    accepted = after.subscribe(2, "n < 10", durable="mine")
    stage.run(1)
    assert after.answer(accepted) == "done"
    assert after.sequences(2) == [1]


def test_a_change_that_could_not_be_stored_is_none() -> None:
    stage = Stage(disk=DiskTerms())
    reader = stage.raw("reader")
    reader.subscribe(1, "n < 10", durable="mine")
    stage.run(1)
    a_full_disk(stage)
    refused = reader.subscribe(1, "n > 10", durable="mine", items_max=7)
    stage.run(1)
    assert reader.answer(refused) == "durability"
    (facts,) = describe_subscriptions(stage.broker)
    assert (facts["filter"], facts["connected"]) == ("n < 10", True)


def test_a_late_write_of_a_withdrawn_subscription_is_deleted() -> None:
    """The first attempt to store it fails, and the second is pending on a disk that has room again."""
    stage = Stage(disk=DiskTerms(sync_s=0.0, slow_s=1.0))
    reader = stage.raw("reader")
    reader.subscribe(1, durable="mine")
    stage.run(0.5)
    a_full_disk(stage)
    reader.subscribe(1, "n > 1", durable="mine")
    stage.run(0.7)  # the first is refused now, and the second begins
    a_full_disk(stage, False)
    assert not subscriptions(stage)
    stage.run(10)
    assert not stage.disk.recover().cursors


# --- events -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("confirm", [Confirm.BROKER, Confirm.SUBSCRIBERS])
def test_a_publish_that_was_not_stored_is_refused_with_the_reason(confirm: Confirm) -> None:
    stage = Stage(disk=DiskTerms())
    publisher, first = stage.raw("publisher"), stage.raw("first")
    first.subscribe(1, durable="first")
    stage.run(1)
    a_full_disk(stage)
    sequence = publisher.publish(confirm, n=1)
    stage.run(1)
    (refusal,) = publisher.of(Refusal)
    assert refusal.message == "it could not be stored: the disk is full"
    assert refusal.retryable
    publisher.publish_as(sequence, confirm, n=1)
    stage.run(1)
    assert publisher.of(Refusal)[1] == refusal, "and again when it is repeated"


# --- stopping ---------------------------------------------------------------------------------------------------------


def test_a_broker_whose_disk_stays_full_is_drained_after_one_more_attempt() -> None:
    stage = Stage(disk=DiskTerms())
    reader = stage.raw("reader")
    reader.subscribe(1, durable="reader")
    stage.run(1)
    a_full_disk(stage)
    reader.subscribe(2, durable="another")
    reader.connection.close(reader, abort=True)  # type: ignore[union-attr]
    stage.run(20)
    assert not stage.broker.drained
    stage.broker.drain(stage.node.now)
    assert not stage.broker.drained, "its place is tried once more"
    stage.node.wake()
    stage.run(0.5)
    assert stage.broker.drained


def test_a_disk_that_has_room_again_is_waited_for() -> None:
    stage = Stage(BrokerSettings(resume_s=0.1, heartbeat_s=0.2), disk=DiskTerms())
    publisher, reader = stage.raw("publisher"), stage.raw("reader")
    reader.subscribe(1, durable="reader")
    stage.run(1)
    a_full_disk(stage)
    reader.connection.close(reader, abort=True)  # type: ignore[union-attr]
    publisher.connection.close(publisher, abort=True)  # type: ignore[union-attr]
    stage.run(0.6)
    stage.disk.terms.full, stage.disk.terms.slow_s = False, 1.0
    stage.broker.drain(stage.node.now)
    stage.node.wake()
    stage.run(0.5)
    assert not stage.broker.drained, "the disk is busy with it"
    stage.run(1)
    assert stage.broker.drained


DRAIN_S = "600"


@pytest.mark.parametrize("kept", [False, True])
async def test_a_signal_ends_it_before_its_time_to_drain_is_up(kept: bool, tmp_path: Path) -> None:
    """Check this for subscriptions refused without a log, and with a log on a full disk."""
    environment = {"PLAIT_BROKER__LIMITS__DRAIN_S": DRAIN_S}
    where = ("--data", tmp_path / "log") if kept else ()
    local = ("--listen", "127.0.0.1:0", "--http", "off", *where)
    async with broker_process(*local, environment=environment) as broker:
        await broker.ready()
        async with plait.connect(f"plait://127.0.0.1:{broker.port}") as client, asyncio.timeout(30):
            if kept:
                await client.subscribe("true", durable="reader")
                await client.publish({"x": 1}, confirm="broker")
                resource.prlimit(broker.process.pid, resource.RLIMIT_FSIZE, (1, resource.RLIM_INFINITY))
                with pytest.raises(DurabilityFailed, match="could not be stored: the disk"):
                    await client.publish({"x": 2}, confirm="broker")
            said = "the disk" if kept else r"this broker keeps no log \(start it with --data DIR\)"
            with pytest.raises(DurabilityFailed, match=said):
                await client.subscribe("true", durable="another")
        before = time.monotonic()
        broker.signal(signal.SIGTERM)
        code, _, err = await broker.ended()
        print(f"ended after {time.monotonic() - before:.2f} s")
    assert code == 0
    assert "Traceback" not in err
