"""What the SDK finds by the entry point `peer` in the group `plait.peers`: a live peer, and how to connect to it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from os import PathLike
from pathlib import Path

from plait_core.space import Schema
from plait_telemetry.recording import TelemetryError, TelemetryPlace

from .group import Group
from .server import LIVE, PeerServer


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
    telemetry: str | PathLike[str] | None = None,
) -> PeerServer:
    """A live peer that has begun to look for others. Its `dial` is the way in for a client; `close` ends it.

    `children`: to how many others it sends any one event, at most; `events_per_s`: how many it is willing to receive.
    Both declare its bandwidth. `telemetry`: the directory to record in what happens; TelemetryError when it cannot.
    """
    schema = space if space is None or isinstance(space, Schema) else Schema.from_dict(dict(space))
    settings = LIVE
    if children is not None:
        settings = replace(settings, children_max=children)
    if events_per_s is not None:
        settings = replace(settings, events_per_s_max=events_per_s)
    place = TelemetryPlace(Path(telemetry)) if telemetry is not None else None
    if place is not None and "/" in name:
        raise TelemetryError(f"records of {name!r} are to be in a folder of that name", hint="a name without a slash")
    live = PeerServer(Group(group, schema, secret), name=name, settings=settings, telemetry=place)
    try:
        await live.start(listen=listen, advertise=advertise, join=join, discover=discover, interface=interface)
    except TelemetryError:
        await live.close()
        raise
    return live
