"""Source routes: ways around brokers that lose what passes through them.

The link-state database shows no difference between such a broker and an honest one: it answers pings and floods what it
should. It is noticed because the far end does not ack. So a retransmission takes another route, given in full: around
as many brokers of the usual path as possible, or around one of them, each in turn. The far end knows that the route of
a frame that arrived is good, and answers by it.
"""

from __future__ import annotations

from typing import Final

from plait_core.wire import ControlFrame, Forward, FrameDecoder, encode_frame, forward_head
from plait_core.wire.frame_header import VERSION_MAX
from plait_core.wire.frame_types.envelope_frames import EndToEnd, SourceRouted

from .link_state import LinkStateDatabase

DELAY_US_MAX: Final = 1 << 62
"""The greatest delay of an event, so that no broker further on has to write more than a frame holds."""


def ways_around(map: LinkStateDatabase, near: int, far: int, taken: int | None) -> list[tuple[int, ...]]:
    """Return routes from one broker to another. No third broker is on all of them, unless there is no path without it.

    `taken` is the present next hop. Brokers keep to a path though another is slightly faster, and their databases may
    differ. So the fastest path itself, in full, is a way around some broker, too.
    """
    usual = map.path(near, far)
    if usual is None:
        return []
    between = usual[1:-1]
    if not between:
        return [usual] if taken is not None and taken not in usual else []
    around = [map.path(near, far, shy=between), *(map.path(near, far, without=(one,)) for one in between)]
    routes = [route for route in around if route is not None and route != usual]
    if taken is not None and taken not in usual:
        routes.insert(0, usual)
    else:
        routes.append(usual)
    return list(dict.fromkeys(routes))


def wrap(route: tuple[int, ...], frame: ControlFrame | Forward, delay_us: int = 0) -> SourceRouted:
    """Return a frame with the route that it is to take."""
    if isinstance(frame, Forward):
        head = forward_head(frame.block, frame.tree, frame.delay_us, frame.flags, frame.path, frame.destinations)
        return SourceRouted(route, 0, delay_us, bytes(head) + bytes(frame.block))
    return SourceRouted(route, 0, delay_us, encode_frame(frame))


def unwrap(routed: SourceRouted) -> EndToEnd | Forward | None:
    """Return the frame at the end of its route, or None when it is of a type that may not come so. FrameError when it
    is malformed. The last relay is not its author, so only frames that carry a MAC of their own are taken."""
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
