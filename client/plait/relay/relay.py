"""A TCP link with delay, jitter, loss and bandwidth, in each direction by itself, that can be cut, frozen and mended.

    async with Relay("127.0.0.1:4680") as relay:          # who dials relay.listen speaks to 127.0.0.1:4680
        relay.shape(delay_s=0.020, jitter_s=0.005)        # both directions; what is not named stays
        relay.shape("back", delay_s=0.200, loss=0.01)     # towards who dialled; "forth" is the other
        relay.shape(flow="frozen")                        # half-open: nothing passes, nothing is lost
        relay.shape(flow="lost")                          # swallowed; opened again, what lost bytes is cut
        relay.cut(); relay.mend()                         # reset what is open and what is dialled; no more of that

`relay_lane` has what becomes of bytes, without I/O. For tests and demonstrations: timers are as fine as the event
loop's, a millisecond. `plait chaos relay` runs one; `relay_control` lets other processes shape it.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from dataclasses import replace
from types import TracebackType
from typing import Any, Final, Literal, Self, TypeAlias

from ..options.addresses import parse_place
from .connection import RelayedConnection, reset
from .shaping import FlowShape, Shape, ShapedLane

Direction: TypeAlias = Literal["both", "forth", "back"]

PASSAGES_MAX: Final = 1024
"""Connections through one relay; more are reset at once."""


class Relay:
    """A listening port, and what it connects to."""

    def __init__(
        self,
        to: str,
        *,
        listen: str = "127.0.0.1:0",
        forth: Shape | None = None,
        back: Shape | None = None,
        seed: int = 0,
    ) -> None:
        """`to` and `listen` are HOST:PORT, or AddressInvalid. Jitter and loss are drawn from the seed."""
        self._to, self._listen = parse_place(to), parse_place(listen, any_port=True)
        self.to = to
        self.listen = listen
        """Where it listens: with its real port once it is started."""
        self.is_cut = False
        self.refused = 0
        """Connections that came while it was cut, or were too many."""
        self._shapes = {"forth": forth or Shape(), "back": back or Shape()}
        self._draw = random.Random(seed).random  # noqa: S311 - to be repeated, not to be secret
        self._passages: dict[RelayedConnection, None] = {}
        self._past: dict[str, Counter[str]] = {name: Counter() for name in self._shapes}
        """Of connections that are over."""
        self._server: asyncio.Server | None = None
        self._emptied: asyncio.Future[None] | None = None

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    async def start(self) -> None:
        """Listen."""
        assert self._server is None, "it is started once"
        place = self._listen
        self._server = await asyncio.get_running_loop().create_server(self._accept, place.host, place.port)
        host = f"[{place.host}]" if ":" in place.host else place.host
        self.listen = f"{host}:{self._server.sockets[0].getsockname()[1]}"

    async def stop(self) -> None:
        """Reset everything, and listen no more."""
        if self._server is None:
            return
        self._server.close()
        self.cut()
        if self._passages:
            self._emptied = asyncio.get_running_loop().create_future()
            await self._emptied
        await self._server.wait_closed()
        self._server = None

    def shape(self, direction: Direction = "both", **changes: Any) -> None:
        """Change `delay_s`, `jitter_s`, `loss`, `bandwidth_bit_s`, `flow`; ValueError when it cannot be so."""
        if "flow" in changes:
            changes["flow"] = FlowShape(changes["flow"])
        changed = {name: _replaced(shape, changes) if direction in ("both", name) else shape
                   for name, shape in self._shapes.items()}  # fmt: skip
        self._shapes = changed
        for passage in list(self._passages):
            passage.reshape(changed["forth"], changed["back"])

    def cut(self) -> None:
        """Reset every connection, and every new one until it is mended. The port stays taken: nobody else gets it."""
        self.is_cut = True
        self._reset()

    def mend(self) -> None:
        """Let connections through again."""
        self.is_cut = False

    def state(self) -> dict[str, Any]:
        """What it is like and what it has carried, for people and `plait chaos show --json`."""
        return {
            "listen": self.listen,
            "to": self.to,
            "cut": self.is_cut,
            "connections": len(self._passages),
            "refused": self.refused,
            "forth": self._direction("forth"),
            "back": self._direction("back"),
        }

    def _direction(self, name: str) -> dict[str, Any]:
        shape, counts = self._shapes[name], self._past[name].copy()
        lanes = [_lane(passage, name) for passage in self._passages]
        for lane in lanes:
            counts.update(_counted(lane))
        return {
            "delay_ms": shape.delay_s * 1000,
            "jitter_ms": shape.jitter_s * 1000,
            "loss": shape.loss,
            "bandwidth_bit_s": shape.bandwidth_bit_s,
            "flow": str(shape.flow),
            "carried_bytes": counts["carried_bytes"],
            "swallowed_bytes": counts["swallowed_bytes"],
            "stalls": counts["stalls"],
            "held_bytes": sum(lane.held_bytes for lane in lanes),
        }

    def _accept(self) -> asyncio.Protocol:
        if self.is_cut or len(self._passages) >= PASSAGES_MAX:
            self.refused += 1
            return _Refusal()
        passage = RelayedConnection(self._shapes["forth"], self._shapes["back"], self._draw, self._over)
        self._passages[passage] = None
        passage.dial(self._to.host, self._to.port)
        return passage.near

    def _over(self, passage: RelayedConnection) -> None:
        if passage in self._passages:
            del self._passages[passage]
            for name, counts in self._past.items():
                counts.update(_counted(_lane(passage, name)))
        if not self._passages and self._emptied is not None and not self._emptied.done():
            self._emptied.set_result(None)

    def _reset(self) -> None:
        for passage in list(self._passages):
            passage.cut()


class _Refusal(asyncio.Protocol):
    """Resets who was accepted."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        reset(transport)


def _lane(passage: RelayedConnection, name: str) -> ShapedLane:
    return passage.forth if name == "forth" else passage.back


def _counted(lane: ShapedLane) -> dict[str, int]:
    return {
        "carried_bytes": lane.carried_bytes,
        "swallowed_bytes": lane.swallowed_bytes,
        "stalls": lane.stalls,
    }


def _replaced(shape: Shape, changes: dict[str, Any]) -> Shape:
    try:
        return replace(shape, **changes)
    except TypeError as error:
        raise ValueError(f"no shape: {error}") from None


__all__ = ["Direction", "FlowShape", "Relay", "Shape"]
