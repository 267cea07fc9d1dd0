"""Acks at a root with many destinations: the processor time that it takes to decode, verify and apply them.

The destinations are receive streams of production, and their acks arrive in frames over the root's links, a millisecond
together.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from time import thread_time
from typing import Final

from plait_broker.overlay.outputs import Output, SendFrame
from plait_broker.overlay.transport.event_copy import CopyRun
from plait_broker.overlay.transport.reliable_stream import ReceivedEvent, ReceiveStream
from plait_core.wire import encode_frame
from plait_core.wire.frame_types.envelope_frames import EndToEnd, read_message
from plait_core.wire.frame_types.overlay_frames import StreamAck, StreamSkip

from .wide_root import WideRoot

TURN_S: Final = 0.001
EVENTS_PER_TURN: Final = 2
NAMED: Final = 30
"""Destinations of an event: each gets more events per second than it sends acks."""


@dataclass(frozen=True, slots=True)
class AckCost:
    """What the acks of a root's destinations cost it."""

    acks_per_s: float
    core: float
    """The part of a processor core."""


def ack_cost(seed: int, destinations: int, seconds: float) -> AckCost:
    """Let a root publish 2,000 events a second to random destinations, and measure its acks."""
    root = WideRoot(seed, destinations + 1, 3 * destinations)
    streams = {id: ReceiveStream() for id in root.ids[1:]}
    acks, spent_s, named = 0, 0.0, min(NAMED, destinations)
    turns = round(seconds / TURN_S)
    for turn in range(-turns // 2, turns):  # the first third only fills the streams
        root.now += TURN_S
        for _ in range(EVENTS_PER_TURN):
            root.overlay.publish(root.event(), root.rng.sample(root.ids[1:], named), 0, 0, root.now)
            let_arrive(root, streams, root.take())
        frames = acks_due(root, streams)
        began = thread_time()
        receive_acks(root, frames)
        if turn >= 0:
            spent_s += thread_time() - began
            acks += len(frames)
    kept = [stream.kept for stream in root.overlay.event_streams.outgoing.values()]
    assert len(kept) == destinations, "each gets events"
    assert root.overlay.event_streams.counts["again"] == 0, "nothing is lost"
    return AckCost(acks / seconds, spent_s / seconds)


def let_arrive(root: WideRoot, streams: dict[int, ReceiveStream], outputs: Iterable[Output]) -> None:
    """Let the events among a root's outputs arrive at their destinations, which acknowledge them."""
    for output in outputs:
        if isinstance(output, SendFrame) and isinstance(output.frame, EndToEnd):
            skip = read_message(output.frame, 0)
            if isinstance(skip, StreamSkip):
                streams[skip.to].skip(skip.up_to, root.now)
        elif isinstance(output, CopyRun):
            for frame, _, delay_us, flags, path, to in output.copies:
                for home, position, _ in to:
                    event = ReceivedEvent(root.ids[0], position, frame, flags, delay_us, path, root.now)
                    for ready in streams[home].receive(event, root.now):
                        streams[home].acknowledge(ready.position, root.now)


def acks_due(root: WideRoot, streams: dict[int, ReceiveStream]) -> list[bytes]:
    """Return the frames of the acks that are due."""
    frames = []
    for id, stream in streams.items():
        due_at = stream.next_deadline()
        report = stream.report(root.now) if due_at is not None and due_at <= root.now else None
        if report is not None:
            message = StreamAck(root.ids[0], id, *report)
            frames.append(encode_frame(root.auths[root.number_of[id]].envelop_message(message)))
    return frames


def receive_acks(root: WideRoot, frames: Iterable[bytes]) -> None:
    """Let a root decode, verify and apply acks that came over one link, and do what is due."""
    for frame in root.decoder.read(b"".join(frames)):
        assert isinstance(frame, EndToEnd)
        root.overlay.receive(root.ids[root.neighbours[0]], frame, root.now)
    root.take()
    if root.overlay.due_at <= root.now:
        root.overlay.tick(root.now)
        root.take()
