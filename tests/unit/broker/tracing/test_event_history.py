"""The history of the last events: bounded in number and bytes, and searchable by event id."""

from __future__ import annotations

from plait_broker.overlay import ReceivedEvent
from plait_broker.tracing.event_history import DROPS_MAX, LARGE_BYTES, SHED_EVERY_BYTES, EventHistory
from plait_core import Event
from plait_core.events import EventId
from plait_core.wire import Confirm, Publish, encode_block


def frame(sequence: int, payload: bytes = b"", **attributes: str | int) -> Publish:
    return Publish(Confirm.NONE, encode_block(Event.checked(attributes, payload, publisher=7, sequence=sequence)))


def test_the_oldest_events_are_forgotten_and_the_window_is_known() -> None:
    history = EventHistory(events_max=3)
    for sequence in range(1, 4):
        history.events.append((float(sequence), frame(sequence), [9]))
    found = history.find(EventId(7, 1))
    assert found is not None
    assert (found.at, found.destinations, found.arrival) == (1.0, [9], None)
    assert history.since() == 1.0, "it is full"
    history.events.append((4.0, frame(4), []))
    assert history.find(EventId(7, 1)) is None
    assert history.since() == 2.0
    assert EventHistory().since() is None


def test_large_events_keep_their_small_attributes() -> None:
    history = EventHistory()
    large, small = frame(1, b"x" * LARGE_BYTES, price=5), frame(2, b"x" * 10, price=6)
    wide = frame(3, price=7, text="y" * LARGE_BYTES)
    history.events.append((1.0, large, ReceivedEvent(11, 5, large, 0, 100, (11,), 1.0)))
    history.events.append((2.0, small, []))
    history.events.append((3.0, wide, []))
    history.shed(1000)
    assert history.shed_at_bytes == 1000 + SHED_EVERY_BYTES
    kept = [history.find(EventId(7, sequence)) for sequence in (1, 2, 3)]
    assert [dict(entry.frame.attributes()) for entry in kept if entry is not None] == [{"price": 5}, {"price": 6}, {}]
    assert all(len(entry.frame.block) <= LARGE_BYTES for entry in kept if entry is not None)
    assert kept[0] is not None
    arrival = kept[0].arrival
    assert arrival is not None
    assert arrival.frame is kept[0].frame, "nothing else holds on to the large one"
    assert kept[1] is not None
    assert kept[1].frame is small


def test_drops_and_waits_are_found_by_event_and_bounded() -> None:
    history = EventHistory()
    for sequence in range(DROPS_MAX + 10):
        history.drop(frame(sequence), "late", float(sequence), subscription=3)
        history.waited(frame(sequence), 4, float(sequence))
    history.drop(frame(DROPS_MAX), "expired", 1e6, broker=9)
    latest, before = history.drops(EventId(7, DROPS_MAX))
    assert (latest.reason, latest.broker, latest.subscription) == ("expired", 9, 0)
    assert (before.reason, before.broker, before.subscription) == ("late", 0, 3)
    assert not list(history.drops(EventId(7, 1))), "forgotten"
    assert history.written_at(EventId(7, DROPS_MAX), 4) == float(DROPS_MAX)
    assert history.written_at(EventId(7, DROPS_MAX), 5) is None
    assert history.written_at(EventId(7, 1), 4) is None
