"""Removing a durable subscription and moving its place, with and without a client that holds it."""

from __future__ import annotations

import pytest

from plait_broker import BrokerSettings
from plait_broker.clients.access import Keyring, Principal
from plait_broker.drop_reasons import DropReason
from plait_broker.status import describe_subscriptions
from plait_core.wire import Confirm
from plait_core.wire.frame_types.session_frames import (
    Acknowledge,
    DurableAction,
    Failed,
    ManageDurable,
    Start,
    Subscribe,
)
from plait_lab.simulation.one_broker.raw_clients import RawClient
from plait_lab.simulation.one_broker.stage import Stage


def manage(client: RawClient, action: DurableAction, **terms: object) -> int:
    request = client.next_request()
    client.send(ManageDurable(request, "d", action, **terms))  # type: ignore[arg-type]
    return request


def orphan(stage: Stage, count: int = 4) -> RawClient:
    """Return a publisher, whose events wait for `d`, which nobody holds."""
    publisher, worker = stage.raw("publisher"), stage.raw("worker")
    worker.subscribe(1, durable="d")
    stage.run(0.1)
    worker.connection.reset()
    for n in range(count):
        publisher.publish(n=n, confirm=Confirm.BROKER)
        stage.run(1.0)
    return publisher


def test_an_orphan_is_removed_with_its_backlog_which_is_counted() -> None:
    stage = Stage()
    publisher = orphan(stage)
    waiting = publisher.publish(n=4, confirm=Confirm.SUBSCRIBERS)
    stage.run(0.1)
    assert publisher.refused() == {}
    operator = stage.raw("operator")
    asked = manage(operator, DurableAction.REMOVE)
    stage.run(0.1)
    assert operator.answer(asked) == "done"
    assert publisher.refused() == {waiting: "discarded"}, "its publisher waits no longer"
    assert stage.broker.counters.dropped[DropReason.DISCARDED] == 5
    stage.node.kill()
    stage.node.start()
    assert stage.broker.durables.all() == []


def test_what_a_connected_client_holds_is_removed_by_force_only() -> None:
    stage = Stage()
    holder, operator = stage.raw("holder"), stage.raw("operator")
    holder.subscribe(1, durable="d")
    stage.run(0.1)
    asked = manage(operator, DurableAction.REMOVE)
    stage.run(0.1)
    (refused,) = operator.of(Failed)
    assert (refused.request, refused.code) == (asked, "taken")
    assert "'holder'" in refused.message
    asked = manage(operator, DurableAction.REMOVE, force=True)
    stage.run(0.1)
    assert operator.answer(asked) == "done"
    assert [(notice.kind, notice.reason) for notice in holder.notices()] == [("closed", "removed")]
    assert describe_subscriptions(stage.broker) == []
    holder.send(Acknowledge(1, (1,)))
    asked = holder.subscribe(2, durable="d")
    stage.run(0.1)
    assert holder.answer(asked) == "done", "a new one"


def test_another_principal_moves_and_removes_nothing() -> None:
    stage = Stage(gate=Keyring.of_tokens([("a", Principal("a")), ("b", Principal("b"))]))
    owner, other = stage.raw("owner", connect=False), stage.raw("other", connect=False)
    owner.connect(token="a")
    other.connect(token="b")
    stage.run(0.1)
    owner.subscribe(1, durable="d")
    stage.run(0.1)
    asked = [manage(other, action, force=True) for action in DurableAction]
    stage.run(0.1)
    assert [other.answer(request) for request in asked] == ["unknown"] * len(asked)
    assert len(stage.broker.durables) == 1


@pytest.mark.parametrize(
    ("start", "at", "expected", "discarded"),
    [
        (Start.ALL, 0, [1, 2, 3, 4], 0),
        (Start.POSITION, 3, [3, 4], 2),
        (Start.POSITION, 99, [], 4),
        (Start.NEW, 0, [], 4),
        (Start.TIME, 2_500_000, [4], 3),
        (Start.TIME, 99_000_000, [], 4),
    ],
)
def test_a_place_is_moved(start: Start, at: int, expected: list[int], discarded: int) -> None:
    stage = Stage()
    orphan(stage)
    operator = stage.raw("operator")
    at += stage.broker.wall_us(0.0) if start is Start.TIME else 0
    asked = manage(operator, DurableAction.SEEK, start=start, start_at=at)
    stage.run(0.2)
    assert operator.answer(asked) == "done"
    assert stage.broker.counters.dropped[DropReason.DISCARDED] == discarded
    (row,) = describe_subscriptions(stage.broker)
    assert (row["pending"], row["counted"]) == (len(expected), True)
    stage.node.kill()
    stage.node.start()
    reader = stage.raw("reader")
    reader.subscribe(1, durable="d")
    stage.run(0.2)
    assert reader.positions(1) == expected


def test_a_place_is_moved_back_while_it_is_held() -> None:
    """Its holder opens it again. Acks that were on their way when it moved count no more."""
    stage = Stage(BrokerSettings(durable_window=2))
    publisher, holder = stage.raw("publisher"), stage.raw("holder")
    holder.acknowledges = True
    holder.subscribe(1, durable="d")
    stage.run(0.1)
    for n in range(4):
        publisher.publish(n=n, confirm=Confirm.SUBSCRIBERS)
    stage.run(0.2)
    assert holder.positions(1) == [1, 2, 3, 4]
    asked = manage(publisher, DurableAction.SEEK, start=Start.POSITION, start_at=2)
    stage.run(0.1)
    assert publisher.answer(asked) == "taken"
    asked = manage(publisher, DurableAction.SEEK, start=Start.POSITION, start_at=2, force=True)
    holder.send(Acknowledge(1, (), 4))
    stage.run(0.3)
    assert publisher.answer(asked) == "done"
    assert [(notice.kind, notice.reason) for notice in holder.notices()] == [("closed", "moved")]
    holder.subscribe(1, durable="d")
    stage.run(0.3)
    assert holder.positions(1) == [1, 2, 3, 4, 2, 3, 4]
    assert stage.broker.durables.all()[0].backlog.events == 0


def test_a_read_from_a_time_does_not_pass_over_a_place_that_was_asked_for_meanwhile() -> None:
    stage = Stage()
    orphan(stage, 8)
    operator, reader = stage.raw("operator"), stage.raw("reader")
    since = stage.broker.wall_us(0.0) + round(6.5e6)
    operator.send(ManageDurable(operator.next_request(), "d", DurableAction.REMOVE))
    stage.run(0.1)
    reader.acknowledges = True
    reader.send(
        Subscribe(reader.next_request(), 1, "true", durable="d", start=Start.TIME, start_at=since),
        ManageDurable(reader.next_request(), "d", DurableAction.SEEK, force=True, start=Start.POSITION, start_at=1),
    )
    stage.run(0.3)
    reader.subscribe(2, durable="d")
    stage.run(0.3)
    assert reader.positions(2) == list(range(1, 9))


def test_a_client_moves_only_so_many_places() -> None:
    stage = Stage()
    orphan(stage)
    operator = stage.raw("operator")
    asked = [manage(operator, DurableAction.SEEK, start=Start.POSITION, start_at=1) for _ in range(120)]
    stage.run(0.5)
    answers = [operator.answer(each) for each in asked]
    assert answers[:100] == ["done"] * 100
    assert set(answers[100:]) == {"limit"}


def test_a_search_in_a_log_that_cannot_be_read_is_refused() -> None:
    stage = Stage()
    orphan(stage)
    operator = stage.raw("operator")
    stage.disk.terms.failing = 1.0
    asked = manage(operator, DurableAction.SEEK, start=Start.TIME, start_at=1)
    stage.run(0.1)
    assert operator.answer(asked) == "durability"
