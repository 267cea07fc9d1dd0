"""The backlog of a durable subscription: counts, ages, counting from the log, retention, and what is shown of it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plait_broker import BrokerSettings
from plait_broker.clients.durable.backlog import RANGES_MAX, Backlog
from plait_broker.clients.durable.backlog_count import PAUSE_S, STEP_RECORDS
from plait_broker.drop_reasons import DropReason
from plait_broker.status import describe_subscriptions, durable_totals
from plait_core.values import Json
from plait_core.wire import Confirm
from plait_core.wire.frame_types.session_frames import Acknowledge, Start
from plait_lab.simulation.one_broker.raw_clients import RawClient
from plait_lab.simulation.one_broker.stage import Stage


@given(st.lists(st.tuples(st.integers(1, 20_000), st.integers(1, 1000)), max_size=300), st.data())
def test_a_backlog_against_a_dictionary(added: list[tuple[int, int]], data: st.DataObject) -> None:
    backlog, known = Backlog(), dict(sorted(added))
    for position, size in known.items():
        backlog.add(position, size, position * 10)
        assert len(backlog._ranges) <= RANGES_MAX
    assert (backlog.events, backlog.bytes) == (len(known), sum(known.values()))
    assert backlog.oldest_us == (min(known) * 10 if known else 0)
    removed = data.draw(st.permutations(list(known)))[: data.draw(st.integers(0, len(known)))]
    for position in removed:
        backlog.remove(position)
        del known[position]
    assert backlog.events == len(known)
    assert (backlog.bytes == 0) == (not known)
    if known:
        assert 0 < backlog.oldest_us <= min(known) * 10
        gone = backlog.remove_before(max(known) + 1)
        assert backlog.events == len(known) - gone
    backlog.remove_before(1 << 40)
    assert (backlog.events, backlog.bytes, backlog.oldest_us) == (0, 0, 0)


def rows(stage: Stage) -> dict[str, Json]:
    return {row["durable"]: row for row in describe_subscriptions(stage.broker)}


def publish(stage: Stage, publisher: RawClient, count: int) -> None:
    for n in range(count):
        publisher.publish(n=n, confirm=Confirm.BROKER)
    stage.run(0.2)


def test_a_backlog_is_shown_from_the_first_event_to_its_acknowledgement() -> None:
    stage = Stage()
    publisher, worker = stage.raw("publisher"), stage.raw("worker")
    worker.subscribe(1, "n >= 1", durable="d")
    stage.run(0.1)
    row = rows(stage)["d"]
    assert (row["pending"], row["pending_bytes"], row["oldest_s"], row["seen_s"]) == (0, 0, None, 0.0)
    publish(stage, publisher, 4)
    assert rows(stage)["d"]["pending"] == 3
    worker.send(Acknowledge(1, (2,)))
    stage.run(0.1)
    assert rows(stage)["d"]["pending"] == 2
    worker.connection.reset()
    stage.run(30.0)
    publish(stage, publisher, 2)
    row = rows(stage)["d"]
    assert (row["pending"], row["connected"]) == (3, False)
    assert row["oldest_s"] >= 30.0
    assert row["seen_s"] >= 30.0
    totals = durable_totals(stage.broker)
    assert (totals.subscriptions, totals.orphans, totals.events, totals.uncounted) == (1, 1, 3, 0)
    assert totals.bytes == row["pending_bytes"] > 0
    assert totals.oldest_s == row["oldest_s"]
    reader = stage.raw("reader")
    reader.acknowledges = True
    reader.subscribe(1, "n >= 1", durable="d")
    stage.run(1.0)
    assert (rows(stage)["d"]["pending"], rows(stage)["d"]["pending_bytes"]) == (0, 0)


def test_after_a_restart_it_is_counted_in_steps() -> None:
    stage = Stage()
    publisher, worker = stage.raw("publisher"), stage.raw("worker")
    for number, filter in enumerate(("n >= 0", "n < 10"), 1):
        worker.subscribe(number, filter, durable=f"d{number}")
    stage.run(0.1)
    worker.connection.reset()
    count = 2 * STEP_RECORDS + 7
    publish(stage, publisher, count)
    stage.node.kill()
    stage.run(100.0)
    stage.node.start()
    stage.run(PAUSE_S / 2)
    assert durable_totals(stage.broker).uncounted == 2
    assert rows(stage)["d1"]["counted"] is False
    publisher.connect()
    stage.run(2.0)
    publish(stage, publisher, 1)
    shown = rows(stage)
    assert [(shown[d]["pending"], shown[d]["counted"]) for d in ("d1", "d2")] == [(count + 1, True), (11, True)]
    assert shown["d1"]["seen_s"] >= 100.0, "the log has stored when its client was seen"


def test_a_new_one_that_starts_in_the_past_has_a_backlog() -> None:
    stage = Stage(BrokerSettings(durable_window=1, log_filter="n >= 0"))
    publisher, worker = stage.raw("publisher"), stage.raw("worker")
    publish(stage, publisher, 5)
    worker.subscribe(1, "n >= 2", durable="d", start=Start.ALL)
    stage.run(1.0)
    assert rows(stage)["d"]["pending"] == 3


def test_what_retention_deletes_unread_is_counted() -> None:
    stage = Stage()
    publisher, worker = stage.raw("publisher"), stage.raw("worker")
    worker.subscribe(1, "n >= 1", durable="d")
    stage.run(0.1)
    worker.connection.reset()
    publish(stage, publisher, 6)
    stage.broker.trimmed(4)
    stage.broker.trimmed(4)
    assert stage.broker.counters.dropped[DropReason.RETENTION] == 3, "it did not want n=0, which is not in the log"
    assert rows(stage)["d"]["pending"] == 2


@pytest.mark.parametrize("late", [1, 3])
def test_what_expires_before_it_is_read_waits_no_more(late: int) -> None:
    stage = Stage()
    publisher, worker = stage.raw("publisher"), stage.raw("worker")
    worker.subscribe(1, durable="d")
    stage.run(0.1)
    worker.connection.reset()
    for n in range(1, 4):
        publisher.publish(n=n, lifetime_us_=100_000 if n == late else 0, confirm=Confirm.BROKER)
    stage.run(5.0)
    reader = stage.raw("reader")
    reader.subscribe(1, durable="d")
    stage.run(0.1)
    assert rows(stage)["d"]["pending"] == 2
    reader.connection.reset()
    again = stage.raw("again")
    again.subscribe(1, durable="d")
    stage.run(0.1)
    assert rows(stage)["d"]["pending"] == 2
    assert stage.broker.counters.dropped[DropReason.EXPIRED] == 1, "it is dropped once"
