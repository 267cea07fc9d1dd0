"""Source routes: paths around brokers that lose frames.

In the link-state database such a broker looks like an honest one: it answers pings and floods its link state. It shows
only by missing acks. So a retransmission takes another route, which the frame names in full: around as many brokers of
the shortest path as possible, or around each of them in turn. A frame that arrives proves its route, so the destination
answers along the reverse route.
"""

from __future__ import annotations

from typing import Final

from plait_core.wire import ControlFrame, Forward, FrameDecoder, encode_frame, forward_head
from plait_core.wire.frame_header import FORWARD, PREFIX, PREFIX_BYTES, VERSION_MAX
from plait_core.wire.frame_types.envelope_frames import EndToEnd, SourceRouted

from .link_state import LinkStateDatabase

DELAY_US_MAX: Final = 1 << 62
"""The greatest delay of an event. Brokers further on can add to it and stay below 2^64."""


def ways_around(map: LinkStateDatabase, near: int, far: int, taken: int | None) -> list[tuple[int, ...]]:
    """Return routes from one broker to another. No third broker is on all of them, unless there is no path without it.

    `taken` is the present next hop. It may be off the shortest path, because of hysteresis or because databases differ.
    Then the shortest path itself is a way around it, and comes first.
    """
    shortest = map.path(near, far)
    if shortest is None:
        return []
    between = shortest[1:-1]
    if not between:
        return [shortest] if taken is not None and taken not in shortest else []
    around = [map.path(near, far, avoiding=between), *(map.path(near, far, without=(one,)) for one in between)]
    routes = [route for route in around if route is not None and route != shortest]
    if taken is not None and taken not in shortest:
        routes.insert(0, shortest)
    else:
        routes.append(shortest)
    return list(dict.fromkeys(routes))


def wrap(route: tuple[int, ...], frame: ControlFrame | Forward, delay_us: int = 0) -> SourceRouted:
    """Return a frame with the route that it is to take."""
    if isinstance(frame, Forward):
        head = forward_head(frame.block, frame.tree, frame.delay_us, frame.flags, frame.path, frame.destinations)
        return SourceRouted(route, 0, delay_us, bytes(head) + bytes(frame.block))
    return SourceRouted(route, 0, delay_us, encode_frame(frame))


def carries_event(routed: SourceRouted) -> bool:
    """Return whether a source-routed frame is a copy of an event."""
    return len(routed.frame) >= PREFIX_BYTES and PREFIX.unpack_from(routed.frame)[2] == FORWARD


def unwrap(routed: SourceRouted) -> EndToEnd | Forward | None:
    """Return the frame at the end of its route, or None if its type may not be source-routed. Raise FrameError if it is
    malformed. The last relay is not its author, so only frames that carry a MAC of their own are accepted."""
    decoder = FrameDecoder(version=VERSION_MAX, keep_unknown=True)
    decoder.feed(routed.frame)
    frames = decoder.take()
    if len(frames) != 1 or decoder.held_bytes:
        return None
    frame = frames[0]
    if isinstance(frame, Forward):
        mine = [one for one in frame.destinations if one[0] == routed.route[-1]]
        delay_us = min(frame.delay_us + routed.delay_us, DELAY_US_MAX)
        return Forward(frame.tree, delay_us, frame.flags, routed.route[:-1], tuple(mine), frame.block)
    return frame if isinstance(frame, EndToEnd) else None
