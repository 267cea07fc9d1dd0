"""A connection between two simulated brokers that holds their bytes back until a test passes them on.

    world = World("held", brokers=0, terms=HELD)
    near, far = running_broker(world, "near"), running_broker(world, "far")
    connection = HeldConnection(world, near, far)
    connection.pass_on(0)                              # the Hello arrives
    connection.hold(1, b"...")                         # these bytes take the place of the Welcome
    connection.open()                                  # from now on all bytes pass, without delay

The test chooses what each broker knows of the other's address, and sees what both have written.
"""

from __future__ import annotations

from typing import Final

from plait_broker import Broker, BrokerSettings, Caller
from plait_broker.settings import LinkSettings

from .broker_node import OverlayNode
from .network import LinkConnection
from .world import World, WorldTerms

HELD: Final = WorldTerms(settings=BrokerSettings(), signed=True, logs=lambda number: False)
"""Brokers with keys and without logs."""

ADDRESSES: Final = ("127.0.0.1:4680", "127.0.0.1:4690")


def running_broker(world: World, name: str, linking: LinkSettings | None = None) -> OverlayNode:
    """Add a broker to a world and start it. It is configured with nothing else."""
    node = world.add_broker(BrokerSettings(name=name, linking=linking or LinkSettings()))
    node.start()
    return node


class HeldConnection:
    """A connection that `ends[0]` has dialled."""

    def __init__(
        self,
        world: World,
        dialler: OverlayNode,
        acceptor: OverlayNode,
        *,
        addresses: tuple[str, str] = ADDRESSES,
        vouched: tuple[bool, bool] = (False, False),
    ) -> None:
        """`addresses` and `vouched` have the acceptor's view of the dialler, then the dialler's view."""
        self.world = world
        self.ends = (dialler, acceptor)
        self.written: tuple[list[bytes], list[bytes]] = ([], [])
        """All bytes that each end has written."""
        network = world.network
        self.link = network.link(dialler, acceptor) or network.add_link(dialler, acceptor, 0.0)
        network.silence(self.link)
        self.connection = network.connect(self.link, dialler)
        world.wire.see_writes(self._see_write)
        acceptor.connected(self.connection, Caller(addresses[0], vouched=vouched[0]))
        dialler.connected(self.connection, Caller(addresses[1], dialled=addresses[1], vouched=vouched[1]))
        world.run(0.0)

    @property
    def brokers(self) -> tuple[Broker, Broker]:
        """The two brokers."""
        near, far = (end.broker for end in self.ends)
        assert near is not None
        assert far is not None
        return near, far

    @property
    def closed(self) -> tuple[str, str]:
        """The reason with which each end has closed the connection, or an empty text."""
        near, far = (end.closed.get(id, "") for end, id in zip(self.ends, self.connection.ids, strict=True))
        return near, far

    @property
    def up(self) -> bool:
        """Whether both are neighbours of each other."""
        near, far = self.brokers
        return far.id in near.overlay.neighbours and near.id in far.overlay.neighbours

    def hold(self, side: int, *data: bytes) -> None:
        """Put bytes in the place of those that an end has written and that have not arrived."""
        self.connection.held[side][:] = data

    def pass_on(self, side: int) -> bool:
        """Deliver what an end has written. Return whether there was anything."""
        moved = self.world.network.release(self.connection, side)
        self.world.run(0.0)
        return moved

    def open(self) -> HeldConnection:
        """Let all bytes pass from now on."""
        self.world.network.mend(self.link)
        self.world.run(0.0)
        return self

    def write(self, side: int, data: bytes) -> None:
        """Write bytes in the name of an end."""
        self.world.network.write(self.connection, side, data)
        self.world.run(0.0)

    def reset(self) -> None:
        """Break the connection."""
        self.world.network.reset(self.connection)
        self.world.run(0.0)

    def _see_write(self, connection: LinkConnection, side: int, data: bytes) -> None:
        if connection is self.connection:
            self.written[side].append(data)
