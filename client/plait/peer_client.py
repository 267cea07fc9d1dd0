"""Applications without brokers: `plait.peer` gives a client like that of `plait.connect`, whose home is in the process.

The peer itself comes from the distribution `plait-peer`, by its entry point `peer` in the group `plait.peers`.
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
from .options.addresses import Address, parse_addresses
from .options.settings import NEVER, Outbox, SessionSettings
from .protocol.session import Session

GROUP: Final = "plait.peers"
LISTEN: Final = "127.0.0.1:0"
_HOME: Final = "plait://127.0.0.1:1"
"""Where a peer's session says that it is: nobody connects there, for its home is beside it."""
_TIMEOUT_S: Final = 10.0
_OUTBOX: Final = Outbox(items=8192)
"""Published and not carried out yet: little enough for the peer, which lives in the same loop, to have its turn."""


class LivePeer(Protocol):
    """What the entry point opens."""

    address: str
    dial: Dial

    async def close(self) -> None: ...


OpenPeer: TypeAlias = Callable[..., Awaitable[LivePeer]]


class PeerClient(Client):
    """A client that is a peer: it publishes to and hears from the others of its group. Durable subscriptions, and
    `confirm="broker"` beyond this process, need a broker."""

    def __init__(self, session: Session, live: LivePeer, timeout_s: float) -> None:
        super().__init__(session, live.dial, timeout_s)
        self._live = live

    @property
    def address(self) -> str:
        """Where others can join it."""
        return self._live.address

    async def close(self) -> None:
        """Say goodbye to the group."""
        try:
            await super().close()
        finally:
            await self._live.close()


def installed_peer() -> OpenPeer:
    """The peer of the installed distributions; NotAvailable when there is none."""
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
    timeout: float = _TIMEOUT_S,
    outbox: Outbox | None = None,
) -> Opening[PeerClient]:
    """Publish and subscribe without a broker: `async with plait.peer(join="10.0.0.5:4690") as client`.

    `join`: addresses (HOST:PORT) of peers that are there; `discover`: find them by multicast on this network segment.
    `listen`: where this one is joined; the others must be able to reach it there, or at `advertise`: there is no help
    for peers behind address translation. `group`, `secret` and `space` are the same for all: `space`, a
    `plait_core.space.Schema`, lets events go only to those whose part of it they are in; without one everyone receives
    everything and filters. `children` and `events_per_s` declare what this peer will send on, and receive. `timeout`:
    how long a subscription may take to open; a group finds itself within a few seconds. `telemetry`: a directory to
    record in what happens, for `plait analyze`.
    """
    joined = [join] if isinstance(join, str) else list(join)
    for address in (listen, *joined):
        parse_addresses(f"plait://{address}")
    addresses: tuple[Address, ...] = parse_addresses(_HOME)
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
        settings = SessionSettings(known_as, NEVER, timeout_s=timeout, outbox=outbox or _OUTBOX)
        try:
            client = PeerClient(Session(addresses, settings, source), live, timeout)
            await client.start()
        except BaseException:
            await live.close()
            raise
        return client

    return Opening(open)
