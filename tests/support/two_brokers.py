"""Two brokers, their whole objects, and a wire between them that a test holds: nothing moves until it says so."""

from __future__ import annotations

from random import Random

from plait_broker import Broker, BrokerSettings, Caller, OpenGate
from plait_broker.outputs import Close, Dial, Send
from plait_broker.settings import LinkSettings
from plait_core.wire import Frame, FrameDecoder

PLACES = ("127.0.0.1:4680", "127.0.0.1:4690")


def broker(name: str, seed: int, linking: LinkSettings | None = None) -> Broker:
    """One, that begins at 0."""
    return Broker(
        BrokerSettings(name=name, linking=linking or LinkSettings()), Random(seed), OpenGate(), now=0.0, wall_us=0
    )


def frames(data: list[bytes], version: int | None = None) -> list[Frame]:
    """What bytes say, in the handshake or after it."""
    decoder = FrameDecoder(version=version)
    decoder.feed(b"".join(data))
    return decoder.take()


class Wire:
    """A connection that `ends[0]` has dialled."""

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
        """`addresses` and `vouched`: as the acceptor sees the dialler, and the other way round."""
        self.ends = (dialler, acceptor)
        self.link = link
        self.now = now
        self.sent: tuple[list[bytes], list[bytes]] = ([], [])
        """What each end has said, all of it."""
        self.waiting: tuple[list[bytes], list[bytes]] = ([], [])
        """What of it has not arrived."""
        self.closed = ["", ""]
        """Why each end has closed it."""
        self.dials: list[str] = []
        """Where either wants to be connected to."""
        acceptor.connected(link, Caller(addresses[0], vouched=vouched[0]), now)
        dialler.connected(link, Caller(addresses[1], dialled=addresses[1], vouched=vouched[1]), now)
        self.collect()

    def collect(self) -> None:
        """What they do now."""
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
        """Let everything arrive that an end has said; whether that was anything."""
        data = b"".join(self.waiting[end])
        self.waiting[end].clear()
        if data:
            self.ends[1 - end].receive(self.link, data, self.now)
            self.collect()
        return bool(data)

    def settle(self, steps: int = 12) -> Wire:
        """Let them talk."""
        for _ in range(steps):
            if not any([self.pass_on(0), self.pass_on(1)]):
                break
        return self

    def tick(self, now: float) -> None:
        """Time passes."""
        self.now = now
        for broker in self.ends:
            broker.tick(now)
        self.collect()

    def gone(self) -> None:
        """The connection is no more."""
        for broker in self.ends:
            broker.disconnected(self.link, self.now)
        self.collect()

    @property
    def up(self) -> bool:
        """Whether both take each other for neighbours."""
        near, far = self.ends
        return far.id in near.joining.overlay.neighbours and near.id in far.joining.overlay.neighbours
