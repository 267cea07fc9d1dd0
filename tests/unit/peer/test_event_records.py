"""The telemetry records of events and samples at processes of peers, on virtual time."""

from __future__ import annotations

from collections import Counter

import pytest
from peer_processes import LINK_S, WALL_US, Processes

from plait_core.space import IntRange, Schema
from plait_core.telemetry import LATE, PROBED, RETURNED, TO_BROKER, RecordKind, reason_code
from plait_core.wire.frame_types.peer_frames import PeerEvent
from plait_core.wire.frame_types.session_frames import Late

EVENTS = range(1, 101)


def grouped() -> Processes:
    """One publishing process and two subscribing ones, connected."""
    group = Processes("publisher", "subscriber", "other")
    source, reader, other = group.all
    group.subscribe(reader, 1, "n < 40")
    group.subscribe(reader, 2, "n >= 30 and n < 50", within_us=9_000_000)
    group.subscribe(other, 1, "n >= 90")
    group.advertise(source)
    group.run(6.0)
    assert all(process.session.ready for process in group.all)
    return group


def of_events(group: Processes) -> None:
    group.publish(group.all[0], *EVENTS)
    group.run(1.0)


def test_delivery_records_agree_with_what_applications_received() -> None:
    group = grouped()
    of_events(group)
    source, reader, other = group.all
    assert reader.received == {1: [*range(1, 40)], 2: [*range(30, 50)]}
    assert other.received == {1: [*range(90, 101)]}
    delivered = reader.records(RecordKind.DELIVERY)
    assert Counter(delivered["subject"].tolist()) == {1: 39, 2: 20}
    assert set(delivered[delivered["subject"] == 2]["bound_us"].tolist()) == {9_000_000}
    assert set(delivered["publisher"].tolist()) == {source.publisher}
    assert delivered["hops"].min() == 2, "the publisher and the receivers"
    assert delivered["delay_us"].min() == pytest.approx(LINK_S * 1e6, rel=0.6)
    assert abs(delivered["ts_us"] - WALL_US - group.now * 1e6).max() < 2e6, "by the calendar of events"
    named = [name for name in reader.telemetry.names if name["kind"] == "subscription"]
    assert [(name["id"], name["filter"], name["client"], name["within_us"]) for name in named] == [
        (1, "n < 40", "subscriber", 0),
        (2, "n >= 30 and n < 50", "subscriber", 9_000_000),
    ]
    assert len(other.records(RecordKind.DELIVERY)) == 11


def test_every_copy_that_is_sent_arrives_once_and_ends_with_a_reason() -> None:
    group = grouped()
    of_events(group)
    source, *others = group.all
    published = source.records(RecordKind.PUBLISH)
    assert published["sequence"].tolist() == list(EVENTS)
    copies = sum(len(process.records(RecordKind.FORWARD)) for process in group.all)
    arrivals = [process.records(RecordKind.ARRIVAL) for process in others]
    assert sum(map(len, arrivals)) == 3 * len(EVENTS), "one for each subscription"
    assert 2 * len(EVENTS) <= copies <= 3 * len(EVENTS), "subscriptions of one process may feed each other"
    assert set(arrivals[0]["subject"].tolist()) == {source.node.id}
    for process, wanted, subscriptions in zip(others, (59, 11), (2, 1), strict=True):
        assert process.records(RecordKind.ARRIVAL)["expected"].sum() == wanted
        dropped = process.records(RecordKind.DROP)
        assert set(dropped["reason"].tolist()) == {reason_code("unmatched")}
        assert len(dropped) == subscriptions * len(EVENTS) - wanted
        assert not dropped["subject"].any(), "no event is lost"


def test_events_without_receivers_are_recorded() -> None:
    group = Processes("alone")
    (alone,) = group.all
    group.advertise(alone)
    group.run(6.0)
    group.publish(alone, 1, 2)
    assert alone.records(RecordKind.PUBLISH)["count"].tolist() == [0, 0]
    assert alone.records(RecordKind.DROP)["reason"].tolist() == 2 * [reason_code("unmatched")]


def test_copies_for_a_link_that_takes_nothing_are_dropped_with_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("plait_peer.node.BACKLOG_BYTES_MAX", 1000)
    group = grouped()
    source = group.all[0]
    group.silent.add("publisher")
    of_events(group)
    dropped, written = source.records(RecordKind.DROP), source.records(RecordKind.FORWARD)
    assert source.node.counts["slow_link"] == len(dropped) > 0
    assert set(dropped["reason"].tolist()) == {reason_code("overlay_full")}
    assert set(dropped["flags"].tolist()) == {TO_BROKER}
    assert set(dropped["subject"].tolist()) <= {process.node.id for process in group.all[1:]}
    assert source.records(RecordKind.PUBLISH)["count"].sum() == len(dropped) + len(written)


def test_events_of_a_group_with_a_space_have_their_cell() -> None:
    group = Processes("publisher", "subscriber", space=Schema.of({"n": IntRange(0, 7)}))
    source, reader = group.all
    group.subscribe(reader, 1, "n >= 4")
    group.advertise(source)
    group.run(6.0)
    group.publish(source, 4, 5, 0, 7)
    group.run(1.0)
    published = source.records(RecordKind.PUBLISH)
    assert published["subject"].tolist() == [0b1100, 0b1101, 0b1000, 0b1111]
    assert published["count"].tolist() == [1, 1, 0, 1]
    assert reader.received == {1: [4, 5, 7]}
    assert len(reader.records(RecordKind.ARRIVAL)) == 3


@pytest.mark.parametrize("late", [Late.DROP, Late.FLAG])
def test_an_event_beyond_the_bound_is_late_or_dropped_as_late(late: Late) -> None:
    group = Processes("publisher", "subscriber")
    source, reader = group.all
    group.subscribe(reader, 1, "n > 0", 2_000_000, late)
    group.advertise(source)
    group.run(6.0)
    (link,) = source.node.links.values()
    (publisher,) = [peer for peer in source.node.peers.values() if peer.id == source.publisher]
    (child,) = publisher.children.by_id
    link.send(publisher.id, child, PeerEvent(publisher.id, 1, "", 3.0, 0, group.block_of(source, 5)))
    group.run(0.1)
    (delivered,) = reader.records(RecordKind.DELIVERY, RecordKind.DROP)
    assert (delivered["subject"], delivered["bound_us"]) == (1, 2_000_000)
    assert delivered["delay_us"] > 3_000_000
    if late is Late.FLAG:
        assert (delivered["kind"], delivered["flags"], reader.received) == (RecordKind.DELIVERY, LATE, {1: [5]})
    else:
        assert (delivered["kind"], delivered["reason"], reader.received) == (RecordKind.DROP, reason_code("late"), {})


def test_duplicate_and_unrequested_copies_are_recorded_as_dropped() -> None:
    group = grouped()
    source, reader, _ = group.all
    of_events(group)
    before = len(reader.records(RecordKind.ARRIVAL))
    publisher = next(peer for peer in source.node.peers.values() if peer.id == source.publisher)
    child = next(child for child in publisher.children.by_id if child in reader.node.peers)
    link = next(link for link in source.node.links.values() if link.node == reader.node.id)
    source.sequence = 0
    again = PeerEvent(publisher.id, 1, "", 0.0, 0, group.block_of(source, 1))
    link.send(publisher.id, child, again)
    link.send(source.node.presence.id, child, again)
    group.run(0.1)
    dropped = reader.records(RecordKind.DROP)[-2:]
    assert dropped["reason"].tolist() == [reason_code("duplicate"), reason_code("not_allowed")]
    assert len(reader.records(RecordKind.ARRIVAL)) == before


def test_links_members_and_ways_are_sampled() -> None:
    group = grouped()
    of_events(group)
    source, reader, other = group.all
    group.sample()
    links = reader.records(RecordKind.LINK)
    (seen,) = links[links["subject"] == source.node.id]
    assert seen["flags"] == PROBED
    assert seen["delay_us"] == pytest.approx(LINK_S * 1e6, rel=0.6)
    handed = sum(process.records(RecordKind.LINK)["count"].sum() for process in group.all)
    assert handed == sum(len(process.records(RecordKind.FORWARD)) for process in group.all)
    members = reader.records(RecordKind.MEMBERSHIP)
    assert set(members["subject"].tolist()) == {source.node.id, other.node.id}
    assert set(members["flags"].tolist()) == {RETURNED}
    (way,) = reader.records(RecordKind.ROUTING)
    assert way["subject"] == source.node.id
    assert way["publisher"] in {source.node.id, other.node.id}
    (queue,) = reader.records(RecordKind.QUEUE)
    assert queue["subject"] == 2
    group.sample()
    assert len(reader.records(RecordKind.MEMBERSHIP)) == len(members), "unchanged membership is not recorded again"
    group.kill(other)
    group.run(15.0)
    group.sample()
    gone = reader.records(RecordKind.MEMBERSHIP)[-1]
    assert (gone["subject"], gone["flags"]) == (other.node.id, 0)
