"""An output of the overlay whose handler raises, which is an error of ours: only that output is lost."""

from __future__ import annotations

import pytest
from two_brokers import TwoBrokers

from plait_broker.overlay.transport.reliable_stream import ReceivedEvent
from plait_core.wire import Confirm, Publish
from plait_core.wire.event_block import encode_plain_block

PUBLISHER = 77
EVENTS = 5


def send_events(brokers: TwoBrokers) -> None:
    """Send events from one broker to the other. They are in one batch there."""
    for sequence in range(1, EVENTS + 1):
        block = encode_plain_block({"number": sequence}, b"", PUBLISHER, sequence, 1)
        assert block is not None
        brokers.there.overlay.publish(Publish(Confirm.NONE, block), [brokers.here.id], 0, 0, brokers.now)


def plant_error(brokers: TwoBrokers) -> None:
    """Let the handler of received events raise once."""
    handlers = brokers.here._adapter._handlers
    handle = handlers[ReceivedEvent]

    def fail_once(event: ReceivedEvent, now: float) -> None:
        handlers[ReceivedEvent] = handle
        raise RuntimeError("planted")

    handlers[ReceivedEvent] = fail_once


def test_the_outputs_behind_one_that_raises_are_carried_out_by_the_next_call() -> None:
    brokers = TwoBrokers()
    send_events(brokers)
    plant_error(brokers)
    with pytest.raises(RuntimeError, match="planted"):
        brokers.settle()
    brokers.settle()
    assert brokers.here.counters.arrived == EVENTS - 1


def test_a_broker_that_stops_acks_what_it_has_before_it_closes_its_links() -> None:
    brokers = TwoBrokers()
    send_events(brokers)
    brokers.settle()
    stream = brokers.there.overlay.event_streams.outgoing[brokers.here.id]
    assert len(stream.kept) == EVENTS
    brokers.here.drain(brokers.now)
    brokers.settle()
    assert not stream.kept


def test_an_event_whose_handler_raises_is_acked_so_that_its_stream_goes_on() -> None:
    brokers = TwoBrokers()
    send_events(brokers)
    plant_error(brokers)
    with pytest.raises(RuntimeError, match="planted"):
        brokers.settle()
    brokers.run(1.0)
    stream = brokers.there.overlay.event_streams.outgoing[brokers.here.id]
    assert not stream.kept
    assert stream.resent == 0
