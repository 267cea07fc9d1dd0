"""Publish/subscribe without brokers: `plait.peer` returns a client whose home broker is a peer in the same process.

The peer comes from the distribution `plait-peer`, by its entry point `peer` in the group `plait.peers`.
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from importlib.metadata import entry_points
from os import PathLike
from typing import Any, Final, Protocol, TypeAlias

from .client import Client
from .driver import Dial
from .errors import NotAvailable
from .opening import Opening
from .options.addresses import parse_address
from .options.durations import Duration, seconds
from .options.settings import NEVER, Outbox, SessionSettings
from .options.target import Target
from .protocol.session import Session

GROUP: Final = "plait.peers"
LISTEN: Final = "127.0.0.1:0"
_TIMEOUT_S: Final = 10.0
_OUTBOX: Final = Outbox(items=8192)
"""Bound of the publish queue: small enough that the peer, which runs in the same event loop, gets its turn."""


class LivePeer(Protocol):
    """A running peer, as the entry point returns it."""

    address: str
    dial: Dial

    async def close(self) -> None: ...


OpenPeer: TypeAlias = Callable[..., Awaitable[LivePeer]]


class PeerClient(Client):
    """A client that is a peer. It publishes to the peers of its group and receives from them.

    Durable subscriptions, and `confirm="broker"` beyond this process, need a broker.
    """

    def __init__(self, session: Session, live: LivePeer, timeout_s: float, target: Target) -> None:
        super().__init__(session, live.dial, timeout_s, target)
        self._live = live

    @property
    def address(self) -> str:
        """The address at which other peers can join this one."""
        return self._live.address

    async def close(self) -> None:
        """Leave the group and close."""
        try:
            await super().close()
        finally:
            await self._live.close()


def installed_peer() -> OpenPeer:
    """Return the peer of the installed distributions. Raise NotAvailable when there is none."""
    for entry in entry_points(group=GROUP, name="peer"):
        found: OpenPeer = entry.load()
        return found
    raise NotAvailable("no peer is installed", hint="pip install plait-peer")


def peer(
    join: str | Sequence[str] = (),
    *,
    discover: bool = False,
    listen: str = LISTEN,
    advertise: str = "",
    interface: str = "",
    group: str = "plait",
    secret: str = "",
    space: Mapping[str, object] | Any = None,
    children: int | None = None,
    events_per_s: float | None = None,
    name: str | None = None,
    telemetry: str | PathLike[str] | None = None,
    timeout: Duration = _TIMEOUT_S,
    outbox: Outbox | None = None,
) -> Opening[PeerClient]:
    """Publish and subscribe without a broker: `async with plait.peer(join="10.0.0.5:4670") as client`.

    - `join`: addresses (HOST:PORT) of running peers.
    - `discover`: find peers by multicast on this network segment.
    - `listen`: the address on which this peer accepts others. They must be able to reach it there, or at `advertise`.
      Address translation (NAT) is not supported.
    - `group`, `secret`, `space`: the same for all peers of a group. With `space`, a `plait_core.space.Schema`, peers
      forward events only towards matching subscriptions. Without it every peer receives every event and filters it.
    - `children`, `events_per_s`: the number of children that this peer forwards to, and the rate that it can receive.
    - `telemetry`: a directory for telemetry, to be read by `plait analyze`.
    - `timeout`: how long a subscription may take to be installed. A group forms within a few seconds.
    - `outbox`: a `plait.Outbox`: how many unsent publishes are held.
    """
    joined = [join] if isinstance(join, str) else list(join)
    for address in (listen, *joined):
        parse_address(f"plait://{address}")
    limit_s = seconds(timeout, "timeout")
    source = random.SystemRandom()

    async def open() -> PeerClient:
        known_as = name or f"peer-{source.getrandbits(32):08x}"
        live = await installed_peer()(
            join=joined,
            discover=discover,
            listen=listen,
            advertise=advertise,
            interface=interface or listen.rpartition(":")[0].strip("[]"),
            group=group,
            secret=secret,
            space=space,
            children=children,
            events_per_s=events_per_s,
            name=known_as,
            telemetry=telemetry,
        )
        settings = SessionSettings(known_as, NEVER, timeout_s=limit_s, outbox=outbox or _OUTBOX)
        try:
            own = Target.of(live.address, "")  # session and peer exchange bytes in memory
            client = PeerClient(Session(own.addresses, settings, source), live, limit_s, own)
            await client.start()
        except BaseException:
            await live.close()
            raise
        return client

    return Opening(open, f"peer({', '.join(map(repr, joined))})")
