"""Observers of the pipeline: each configured one gets one call for each step."""

from __future__ import annotations

from plait_broker.clients.sessions import Sessions
from plait_broker.pipeline.observer import EventObserver
from plait_broker.telemetry.event_records import BrokerTelemetry
from plait_broker.tracing.event_history import EventHistory
from plait_broker.tracing.tracing import Tracing
from plait_core import Event
from plait_core.ids import Randomness
from plait_core.wire import Confirm, Publish, encode_block
from plait_telemetry.telemetry import TelemetrySettings


class Numbers:
    """A random generator that returns 1, 2, 3 ..."""

    def __init__(self) -> None:
        self.last = 0

    def getrandbits(self, bits: int) -> int:
        self.last += 1
        return self.last


EVENT = Publish(Confirm.NONE, encode_block(Event({"n": 1}, b"", 7, 1)))


def observer() -> EventObserver:
    randomness: Randomness = Numbers()  # type: ignore[assignment]
    return EventObserver(1, EventHistory(), Tracing(1, Sessions(randomness), 0.0))


def test_without_telemetry_most_steps_are_not_bound() -> None:
    watch = observer()
    assert watch.passed is watch.delivered is None
    watch.remember((1.0, EVENT, [2]))
    assert [(at, where) for at, _, where in watch.history.events] == [(1.0, [2])]


def test_telemetry_records_from_when_it_starts_until_it_stops() -> None:
    watch, telemetry = observer(), BrokerTelemetry(TelemetrySettings(), 0)
    watch.observe(telemetry)
    watch.published(EVENT, [], [], [2], 0, 1.0)
    assert watch.passed is not None
    watch.passed(EVENT, 1, 0, 0, 0, 2.0)
    recorded = telemetry.ring.written
    assert recorded >= 2
    assert watch.delivered is not None
    watch.observe(None)
    watch.published(EVENT, [], [], [2], 0, 3.0)
    assert telemetry.ring.written == recorded
    assert watch.delivered is None
