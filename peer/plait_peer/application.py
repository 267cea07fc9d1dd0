"""What the SDK finds by the entry point `peer` in the group `plait.peers`: a live peer, and how to connect to it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from plait_core.space import Schema

from .group import Group
from .live import LIVE, LivePeer


async def open_peer(
    *,
    join: list[str],
    discover: bool,
    listen: str,
    advertise: str,
    interface: str,
    group: str,
    secret: str,
    space: Schema | Mapping[str, object] | None,
    children: int | None,
    events_per_s: float | None,
    name: str,
) -> LivePeer:
    """A live peer that has begun to look for others. Its `dial` is the way in for a client; `close` ends it.

    `children`: to how many others it sends any one event, at most; `events_per_s`: how many it is willing to receive.
    Both declare its bandwidth.
    """
    schema = space if space is None or isinstance(space, Schema) else Schema.from_dict(dict(space))
    settings = LIVE
    if children is not None:
        settings = replace(settings, children_max=children)
    if events_per_s is not None:
        settings = replace(settings, events_per_s_max=events_per_s)
    live = LivePeer(Group(group, schema, secret), name=name, settings=settings)
    await live.start(listen=listen, advertise=advertise, join=join, discover=discover, interface=interface)
    return live
