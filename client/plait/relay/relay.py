"""A TCP relay with delay, jitter, loss and bandwidth for each direction. It can be cut, frozen and mended.

    async with Relay("127.0.0.1:4680") as relay:          # clients of relay.listen reach 127.0.0.1:4680
        relay.shape(delay_s=0.020, jitter_s=0.005)        # both directions; other settings stay
        relay.shape("back", delay_s=0.200, loss=0.01)     # towards the client; "forth" is the other direction
        relay.shape(flow="frozen")                        # half-open: nothing passes, nothing is lost
        relay.shape(flow="lost")                          # bytes are dropped; afterwards such connections are reset
        relay.cut(); relay.mend()                         # reset open and new connections; accept them again

`shaping` computes the delays and losses without I/O. The relay is for tests and demonstrations: its timers have the
event loop's resolution of a millisecond. `plait chaos relay` runs a relay; other processes shape it through `control`.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from dataclasses import replace
from types import TracebackType
from typing import Any, Final, Literal, Self, TypeAlias

from plait_core.values import Json

from ..options.addresses import parse_host_port
from .connection import RelayedConnection, reset
from .shaping import FlowShape, Shape, ShapedLane

Direction: TypeAlias = Literal["both", "forth", "back"]

CONNECTIONS_MAX: Final = 1024
"""Connections through one relay. Further ones are reset at once."""


class Relay:
    """A listening port that relays connections to a target."""

    def __init__(
        self,
        to: str,
        *,
        listen: str = "127.0.0.1:0",
        forth: Shape | None = None,
        back: Shape | None = None,
        seed: int = 0,
    ) -> None:
        """`to` and `listen` are HOST:PORT, else AddressInvalid is raised. `seed` determines jitter and loss."""
        self._to, self._listen = parse_host_port(to), parse_host_port(listen, any_port=True)
        self.to = to
        self.listen = listen
        """The address of the listening port, with the real port after `start`."""
        self.is_cut = False
        self.refused = 0
        """Connections refused because the relay was cut or had too many."""
        self._shapes = {"forth": forth or Shape(), "back": back or Shape()}
        self._draw = random.Random(seed).random  # noqa: S311 - reproducible, not secret
        self._connections: dict[RelayedConnection, None] = {}
        self._closed_counts: dict[str, Counter[str]] = {name: Counter() for name in self._shapes}
        """Counters of closed connections."""
        self._server: asyncio.Server | None = None
        self._all_closed: asyncio.Future[None] | None = None

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    async def start(self) -> None:
        """Start to listen."""
        assert self._server is None, "a relay is started once"
        place = self._listen
        self._server = await asyncio.get_running_loop().create_server(self._accept, place.host, place.port)
        host = f"[{place.host}]" if ":" in place.host else place.host
        self.listen = f"{host}:{self._server.sockets[0].getsockname()[1]}"

    async def stop(self) -> None:
        """Reset all connections and stop listening."""
        if self._server is None:
            return
        self._server.close()
        self.cut()
        if self._connections:
            self._all_closed = asyncio.get_running_loop().create_future()
            await self._all_closed
        await self._server.wait_closed()
        self._server = None

    def shape(self, direction: Direction = "both", **changes: Any) -> None:
        """Change `delay_s`, `jitter_s`, `loss`, `bandwidth_bit_s` or `flow`. Raise ValueError for impossible values."""
        if "flow" in changes:
            changes["flow"] = FlowShape(changes["flow"])
        changed = {name: _replaced(shape, changes) if direction in ("both", name) else shape
                   for name, shape in self._shapes.items()}  # fmt: skip
        self._shapes = changed
        for connection in list(self._connections):
            connection.reshape(changed["forth"], changed["back"])

    def cut(self) -> None:
        """Reset all connections, and all new ones until `mend`. The port stays bound."""
        self.is_cut = True
        self._reset()

    def mend(self) -> None:
        """Accept connections again."""
        self.is_cut = False

    def state(self) -> Json:
        """Return the settings and counters, as `plait chaos show --json` prints them."""
        return {
            "listen": self.listen,
            "to": self.to,
            "cut": self.is_cut,
            "connections": len(self._connections),
            "refused": self.refused,
            "forth": self._direction("forth"),
            "back": self._direction("back"),
        }

    def _direction(self, name: str) -> Json:
        shape, counts = self._shapes[name], self._closed_counts[name].copy()
        lanes = [_lane(connection, name) for connection in self._connections]
        for lane in lanes:
            counts.update(_counted(lane))
        return {
            "delay_ms": shape.delay_s * 1000,
            "jitter_ms": shape.jitter_s * 1000,
            "loss": shape.loss,
            "bandwidth_bit_s": shape.bandwidth_bit_s,
            "flow": str(shape.flow),
            "carried_bytes": counts["carried_bytes"],
            "dropped_bytes": counts["dropped_bytes"],
            "stalls": counts["stalls"],
            "held_bytes": sum(lane.held_bytes for lane in lanes),
        }

    def _accept(self) -> asyncio.Protocol:
        if self.is_cut or len(self._connections) >= CONNECTIONS_MAX:
            self.refused += 1
            return _Refusal()
        connection = RelayedConnection(self._shapes["forth"], self._shapes["back"], self._draw, self._closed)
        self._connections[connection] = None
        connection.dial(self._to.host, self._to.port)
        return connection.near

    def _closed(self, connection: RelayedConnection) -> None:
        if connection in self._connections:
            del self._connections[connection]
            for name, counts in self._closed_counts.items():
                counts.update(_counted(_lane(connection, name)))
        if not self._connections and self._all_closed is not None and not self._all_closed.done():
            self._all_closed.set_result(None)

    def _reset(self) -> None:
        for connection in list(self._connections):
            connection.cut()


class _Refusal(asyncio.Protocol):
    """Resets an accepted connection."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        reset(transport)


def _lane(connection: RelayedConnection, name: str) -> ShapedLane:
    return connection.forth if name == "forth" else connection.back


def _counted(lane: ShapedLane) -> dict[str, int]:
    return {
        "carried_bytes": lane.carried_bytes,
        "dropped_bytes": lane.dropped_bytes,
        "stalls": lane.stalls,
    }


def _replaced(shape: Shape, changes: Json) -> Shape:
    try:
        return replace(shape, **changes)
    except TypeError as error:
        raise ValueError(f"no shape: {error}") from None


__all__ = ["Direction", "FlowShape", "Relay", "Shape"]
