"""Ways around brokers that lose what passes through them.

Nothing on the map tells such a broker from an honest one: it answers pings and says what it should. What betrays it is
that nobody at the far end answers. So what was sent again in vain goes another way the next time: along a route that is
given in full, around all brokers of the usual path, or around one of them, each in turn.
"""

from __future__ import annotations

from plait_core.wire import ControlFrame, Forward, FrameDecoder, encode_frame, forward_head
from plait_core.wire.overlay_frames import Detour
from plait_core.wire.prefix import VERSION_MAX

from .map import Map


def way_around(map: Map, near: int, far: int, tries: int) -> tuple[int, ...] | None:
    """A route from one broker to another that leaves out some of the usual one; another with every try."""
    usual = map.path(near, far)
    if usual is None or len(usual) < 3:  # nobody is in between
        return None
    between = usual[1:-1]
    choices = [between, *((one,) for one in between)] if len(between) > 1 else [between]
    for at in range(len(choices)):
        route = map.path(near, far, without=choices[(tries + at) % len(choices)])
        if route is not None:
            return route
    return None


def wrap(route: tuple[int, ...], frame: ControlFrame | Forward, delay_us: int = 0) -> Detour:
    """A frame with the way that it is to take."""
    if isinstance(frame, Forward):
        head = forward_head(frame.block, frame.tid, frame.delay_us, frame.flags, frame.path, frame.destinations)
        return Detour(route, 0, delay_us, bytes(head) + bytes(frame.block))
    return Detour(route, 0, delay_us, encode_frame(frame))


def unwrap(detour: Detour) -> ControlFrame | Forward | None:
    """The frame, at the end of its way; None when it is none that may come so. FrameError when it is garbage."""
    decoder = FrameDecoder(version=VERSION_MAX)
    decoder.feed(detour.frame)
    frames = decoder.take()
    if len(frames) != 1 or decoder.held_bytes:
        return None
    frame = frames[0]
    if isinstance(frame, Forward):
        mine = [one for one in frame.destinations if one[0] == detour.route[-1]]
        delay_us = frame.delay_us + detour.delay_us
        return Forward(frame.tid, delay_us, frame.flags, detour.route[:-1], tuple(mine), frame.block)
    return frame if isinstance(frame, ControlFrame) and not isinstance(frame, Detour) else None
