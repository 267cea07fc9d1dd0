"""The cost of an event to all brokers for its root, without a stream group.

The event names each destination, and each has a stream of its own. The destinations are receive streams of production.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import replace
from time import thread_time
from typing import Final

from plait_broker.overlay.outputs import Output
from plait_broker.overlay.transport.event_copy import CopyRun
from plait_broker.overlay.transport.reliable_stream import ACK_S, ReceiveStream
from plait_core.limits import DESTINATIONS_MAX
from plait_core.wire.delivery_writer import DeliveryWriter
from plait_core.wire.frame_header import VERSION_MAX

from .group_costs import RATE, EventCost
from .stream_acks import acks_due, let_arrive, receive_acks
from .wide_root import SETTINGS, WideRoot

SINGLE: Final = replace(SETTINGS, destinations_max=DESTINATIONS_MAX)
"""Settings with which no event takes a stream group."""

WARM_S: Final = 2 * ACK_S
"""Time before the measurement. Then all destinations have acked."""


def single_cost(seed: int, destinations: int, seconds: float, *, burst: int) -> EventCost:
    """Let a root publish 2,000 events a second to all other brokers, `burst` in a turn, and let these ack."""
    root = WideRoot(seed, destinations + 1, 3 * destinations, SINGLE)
    homes = root.ids[1:]
    streams = {id: ReceiveStream() for id in homes}
    turn_s = burst / RATE
    turns = max(1, round(seconds / turn_s))
    published_s = acks_s = above = 0.0
    for turn in range(-round(WARM_S / turn_s), turns):
        root.now += turn_s
        frames = [root.event() for _ in range(burst)]
        began = thread_time()
        for frame in frames:
            root.overlay.publish(frame, homes, 0, 0, root.now)
        outputs = root.take()
        sent = _encoded_bytes(outputs)
        ended = thread_time()
        let_arrive(root, streams, outputs)
        acks = acks_due(root, streams)
        answered = thread_time()
        receive_acks(root, acks)
        if turn >= 0:
            published_s += ended - began
            acks_s += thread_time() - answered
            above += sent - sum(len(copy[0].block) for run in _runs(outputs) for copy in run.copies)
    events = turns * burst
    assert root.overlay.counts["groups_opened"] == 0
    assert root.overlay.event_streams.counts["again"] == 0, "nothing is lost"
    assert not any(stream.waiting for stream in root.overlay.event_streams.outgoing.values()), "no window is full"
    return EventCost(published_s / events, above / events, acks_s / (turns * turn_s))


def _encoded_bytes(outputs: Iterable[Output]) -> int:
    """Encode the copies as for their links, and return their bytes."""
    size = 0
    for run in _runs(outputs):
        writer = DeliveryWriter()
        writer.forward_all(run.copies, VERSION_MAX, sys.maxsize)
        size += len(writer.take())
    return size


def _runs(outputs: Iterable[Output]) -> list[CopyRun]:
    return [output for output in outputs if isinstance(output, CopyRun)]
