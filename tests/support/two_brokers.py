"""Two complete Broker objects and a connection between them that the test controls."""

from __future__ import annotations

from random import Random

from plait_broker import Broker, BrokerSettings, Caller, OpenGate
from plait_broker.outputs import Close, Dial, Send
from plait_broker.settings import LinkSettings
from plait_core.wire import Frame, FrameDecoder

PLACES = ("127.0.0.1:4680", "127.0.0.1:4690")


def broker(name: str, seed: int, linking: LinkSettings | None = None) -> Broker:
    """Return a broker whose clock begins at 0."""
    return Broker(
        BrokerSettings(name=name, linking=linking or LinkSettings()), Random(seed), OpenGate(), now=0.0, wall_us=0
    )


def frames(data: list[bytes], version: int | None = None) -> list[Frame]:
    """Decode the frames of the handshake, or of a version."""
    decoder = FrameDecoder(version=version)
    decoder.feed(b"".join(data))
    return decoder.take()


class Wire:
    """A connection dialled by `ends[0]`."""

    def __init__(
        self,
        dialler: Broker,
        acceptor: Broker,
        *,
        link: int = 1,
        addresses: tuple[str, str] = PLACES,
        vouched: tuple[bool, bool] = (False, False),
        now: float = 0.0,
    ) -> None:
        """`addresses` and `vouched` have the acceptor's view of the dialler, then the dialler's view."""
        self.ends = (dialler, acceptor)
        self.link = link
        self.now = now
        self.sent: tuple[list[bytes], list[bytes]] = ([], [])
        """All bytes that each end has sent."""
        self.waiting: tuple[list[bytes], list[bytes]] = ([], [])
        """Bytes of each end that have not arrived."""
        self.closed = ["", ""]
        """Reason with which each end has closed it."""
        self.dials: list[str] = []
        """Addresses that either end has requested to dial."""
        acceptor.connected(link, Caller(addresses[0], vouched=vouched[0]), now)
        dialler.connected(link, Caller(addresses[1], dialled=addresses[1], vouched=vouched[1]), now)
        self.collect()

    def collect(self) -> None:
        """Collect the outputs of both brokers."""
        for end, broker in enumerate(self.ends):
            for output in broker.take_output():
                match output:
                    case Send(link, chunks) if link == self.link:
                        self.sent[end].extend(chunks)
                        self.waiting[end].extend(chunks)
                    case Close(link, reason) if link == self.link:
                        self.closed[end] = reason
                    case Dial(address):
                        self.dials.append(address)

    def pass_on(self, end: int) -> bool:
        """Deliver all bytes that an end has sent. Return whether there were any."""
        data = b"".join(self.waiting[end])
        self.waiting[end].clear()
        if data:
            self.ends[1 - end].receive(self.link, data, self.now)
            self.collect()
        return bool(data)

    def settle(self, steps: int = 12) -> Wire:
        """Deliver bytes in both directions for some steps."""
        for _ in range(steps):
            if not any([self.pass_on(0), self.pass_on(1)]):
                break
        return self

    def tick(self, now: float) -> None:
        """Advance the clocks."""
        self.now = now
        for broker in self.ends:
            broker.tick(now)
        self.collect()

    def gone(self) -> None:
        """Close the connection."""
        for broker in self.ends:
            broker.disconnected(self.link, self.now)
        self.collect()

    @property
    def up(self) -> bool:
        """Return whether both are neighbours of each other."""
        near, far = self.ends
        return far.id in near.overlay.neighbours and near.id in far.overlay.neighbours


def linked(names: tuple[str, str] = ("near", "far"), until: float = 2.0) -> Wire:
    """Return a connection over which two brokers have become neighbours with a measured link."""
    wire = Wire(broker(names[0], 1), broker(names[1], 2)).settle()
    for tenth in range(1, round(until * 10) + 1):
        wire.tick(tenth / 10)
        wire.settle()
    assert wire.up
    return wire
