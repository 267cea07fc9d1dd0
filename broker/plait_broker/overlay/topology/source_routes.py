"""Ways around brokers that lose what passes through them.

Nothing on the map tells such a broker from an honest one: it answers pings and says what it should. What betrays it is
that nobody at the far end answers. So what was sent again in vain goes another way the next time, along a route that is
given in full: around as many of the usual path as can be, or one of them, each in turn. Whatever way it then comes by,
the far end knows that one to be good, and answers by it.
"""

from __future__ import annotations

from typing import Final

from plait_core.wire import ControlFrame, Forward, FrameDecoder, encode_frame, forward_head
from plait_core.wire.frame_header import VERSION_MAX
from plait_core.wire.frame_types.overlay_frames import EndToEnd, InterestUpdate, SourceRouted
from plait_core.wire.frame_types.trace_frames import TraceMessage

from .link_state import LinkStateDatabase

DELAY_US_MAX: Final = 1 << 62
"""Whoever claims more makes no honest broker further on write what no frame holds."""


def ways_around(map: LinkStateDatabase, near: int, far: int, taken: int | None) -> list[tuple[int, ...]]:
    """Routes from one broker to another such that no third one is on all of them, unless there is no way without it.

    `taken`: the neighbour by which it goes now. Brokers keep to a way though another is hardly faster, here or further
    on, and their maps may differ: so the fastest path itself, in full, is a way around someone, too.
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
    """A frame with the way that it is to take."""
    if isinstance(frame, Forward):
        head = forward_head(frame.block, frame.tree, frame.delay_us, frame.flags, frame.path, frame.destinations)
        return SourceRouted(route, 0, delay_us, bytes(head) + bytes(frame.block))
    return SourceRouted(route, 0, delay_us, encode_frame(frame))


def unwrap(detour: SourceRouted) -> EndToEnd | TraceMessage | InterestUpdate | Forward | None:
    """The frame, at the end of its way; None when it is none that may come so: who handed it on last has not said it,
    so it must show by itself whose it is. FrameError when it is garbage."""
    decoder = FrameDecoder(version=VERSION_MAX)
    decoder.feed(detour.frame)
    frames = decoder.take()
    if len(frames) != 1 or decoder.held_bytes:
        return None
    frame = frames[0]
    if isinstance(frame, Forward):
        mine = [one for one in frame.destinations if one[0] == detour.route[-1]]
        delay_us = min(frame.delay_us + detour.delay_us, DELAY_US_MAX)
        return Forward(frame.tree, delay_us, frame.flags, detour.route[:-1], tuple(mine), frame.block)
    return frame if isinstance(frame, EndToEnd | TraceMessage | InterestUpdate) else None
