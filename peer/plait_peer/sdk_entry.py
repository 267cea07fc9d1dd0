"""The entry point `peer` in the group `plait.peers`, by which the SDK starts a live peer and connects to it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from os import PathLike
from pathlib import Path

from plait_core.space import Schema
from plait_telemetry.recording import TelemetryConfig, TelemetryError

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
    """Start a live peer. Its `dial` connects a client; `close` ends it.

    `children` is the greatest number of peers to which it sends one event, `events_per_s` the rate that it can receive:
    both declare its bandwidth. `telemetry` is the directory for records; TelemetryError if it cannot be written.
    """
    schema = space if space is None or isinstance(space, Schema) else Schema.from_dict(dict(space))
    settings = LIVE
    if children is not None:
        settings = replace(settings, children_max=children)
    if events_per_s is not None:
        settings = replace(settings, events_per_s_max=events_per_s)
    config = TelemetryConfig(Path(telemetry)) if telemetry is not None else None
    if config is not None and "/" in name:
        raise TelemetryError(
            f"the peer name {name!r} cannot name a directory for telemetry", hint="use a name without a slash"
        )
    server = PeerServer(Group(group, schema, secret), name=name, settings=settings, telemetry=config)
    try:
        await server.start(listen=listen, advertise=advertise, join=join, discover=discover, interface=interface)
    except TelemetryError:
        await server.close()
        raise
    return server
