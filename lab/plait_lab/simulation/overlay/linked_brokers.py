"""Whole brokers joined by links with given delays, and clients that exchange single frames; on virtual time.

`overlays.py` drives the overlay alone through histories. Here all parts of a broker take part: handshakes, sessions,
advertisements, confirmations, deliveries. There are no faults but those that a test makes: it cuts links and changes
delays.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any, Final, TypeVar

from plait_broker import Broker, BrokerSettings, Caller, OpenGate
from plait_broker.outputs import Close, Persist, Probe, Send
from plait_broker.pipeline.tag_test_worker import TagTestWorker
from plait_core import Event
from plait_core.matching import Index, new_index
from plait_core.wire import (
    VERSION_MAX,
    VERSION_MIN,
    Confirm,
    ControlFrame,
    Deliver,
    Frame,
    FrameDecoder,
    Handshake,
    Hello,
    Ping,
    Pong,
    Role,
    Welcome,
    encode_frame,
    encode_publish,
)
from plait_core.wire.frame_types.session_frames import Advertise, Done, Subscribe

from ..history import History, Kind, weights_in
from ..timeline import CALENDAR_US, Timeline

CLIENT_DELAY_S: Final = 0.0001
"""Delay between a client and its broker."""

JOINED_S: Final = 3.0
"""Seconds after which all links are measured and all brokers know each other."""

_F = TypeVar("_F", bound=Frame)


class Face:
    """An end of a wire."""

    def hear(self, link: int, data: bytes) -> None:
        raise NotImplementedError

    def hung_up(self, link: int) -> None:
        raise NotImplementedError


@dataclass(slots=True)
class LinkWire:
    """A connection: what one end writes arrives at the other later, in order."""

    ends: tuple[Face, Face]
    delay_s: float
    number: int
    open: bool = True
    last: list[float] = field(default_factory=lambda: [0.0, 0.0])


class LinkedBrokers:
    """The world: brokers 0, 1, ... and the links between them."""

    def __init__(
        self,
        delays_s: dict[tuple[int, int], float],
        *,
        seed: int = 0,
        settings: BrokerSettings | None = None,
        index: Callable[[], Index] = new_index,
    ) -> None:
        self.timeline = Timeline()
        self.history = History()
        self.rng = Random(f"joined/{seed}")
        self.index = index
        self.probe_s: float | None = 0.005
        """Seconds of a tag test; None: it never ends."""
        self.wires: list[LinkWire] = []
        self._wire_of: dict[tuple[int, int], LinkWire] = {}
        count = 1 + max((max(ends) for ends in delays_s), default=0)
        self.brokers = [BrokerFace(self, f"b{number}", settings or BrokerSettings()) for number in range(count)]
        for (near, far), delay_s in delays_s.items():
            self._wire_of[near, far] = self.link(self.brokers[near], self.brokers[far], delay_s)

    @property
    def now(self) -> float:
        return self.timeline.now

    def run(self, for_s: float = JOINED_S) -> None:
        """Let time pass."""
        self.timeline.run(self.now + for_s)

    def link(self, near: BrokerFace, far: BrokerFace, delay_s: float) -> LinkWire:
        """Link two brokers. The first dials the second."""
        wire = self.connect(near, far, delay_s)
        far.broker.connected(wire.number, Caller("127.0.0.1:1"), self.now)
        near.broker.connected(wire.number, Caller("127.0.0.1:2", dialled=far.name), self.now)
        near.act()
        far.act()
        return wire

    def connect(self, near: Face, far: Face, delay_s: float) -> LinkWire:
        """Create a connection that neither end knows yet."""
        wire = LinkWire((near, far), delay_s, len(self.wires))
        self.wires.append(wire)
        return wire

    def wire(self, near: int, far: int) -> LinkWire:
        """Return the given link between two brokers."""
        return self._wire_of[near, far]

    def client(self, broker: int, name: str = "client") -> FrameClient:
        """Return a client after its handshake."""
        client = FrameClient(self, self.brokers[broker], name, self.rng.getrandbits(63))
        self.run(10 * CLIENT_DELAY_S)
        while client.welcome is None and self.now < 60.0:
            self.run(0.1)
        return client

    def carry(self, wire: LinkWire, by: Face, data: bytes) -> None:
        if not wire.open:
            return
        side = wire.ends.index(by)
        self.history.add(Kind.WRITE, self.now, wire.number, side, *weights_in(data))
        at = wire.last[side] = max(self.now + wire.delay_s, wire.last[side])
        other = wire.ends[1 - side]
        self.timeline.at(at, lambda: other.hear(wire.number, data) if wire.open else None)

    def hang_up(self, wire: LinkWire, by: Face | None = None) -> None:
        """Close a connection: at once at the end that closes, later at the other."""
        if not wire.open:
            return
        self.history.add(Kind.CLOSED, self.now, wire.number)
        wire.open = False
        for end in wire.ends:
            delay_s = 0.0 if end is by else wire.delay_s
            self.timeline.after(delay_s, lambda end=end: end.hung_up(wire.number))  # type: ignore[misc]


class BrokerFace(Face):
    """Drives a broker in place of production's `server.py`."""

    def __init__(self, world: LinkedBrokers, name: str, settings: BrokerSettings) -> None:
        self.world = world
        self.name = name
        named = replace(settings, name=name)
        self.broker = Broker(named, world.rng, OpenGate(), now=world.now, wall_us=CALENDAR_US, index=world.index)
        self._prober = TagTestWorker()
        self.probes: list[Probe] = []
        """The tag tests requested here."""
        self._due = float("inf")
        self.act()

    def hear(self, link: int, data: bytes) -> None:
        self.broker.receive(link, data, self.world.now)
        self.act()

    def hung_up(self, link: int) -> None:
        self.broker.disconnected(link, self.world.now)
        self.act()

    def act(self) -> None:
        """Carry out the broker's outputs."""
        for output in self.broker.take_output():
            if isinstance(output, Send):
                self.world.carry(self.world.wires[output.connection], self, b"".join(output.chunks))
            elif isinstance(output, Close):
                self.world.hang_up(self.world.wires[output.connection], by=self)
            elif isinstance(output, Persist):
                self.broker.persisted(output.ticket, None, self.world.now)
            elif isinstance(output, Probe):
                self._probe(output)
        self._wake()

    def _probe(self, probe: Probe) -> None:
        """Test tags after a delay."""
        self.probes.append(probe)
        if self.world.probe_s is not None:
            self.world.timeline.after(self.world.probe_s, lambda: self._probed(probe))

    def _probed(self, probe: Probe) -> None:
        self.broker.probed(probe.ticket, self._prober.fits(probe), self.world.now)
        self.act()

    def _wake(self) -> None:
        due = max(self.broker.next_deadline(), self.world.now) + 1e-6
        if due < self._due:
            self._due = due
            self.world.timeline.at(due, lambda: self._ring(due))

    def _ring(self, due: float) -> None:
        if self._due == due:
            self._due = float("inf")
            self.broker.tick(self.world.now)
            self.act()


class Speaker(Face):
    """An end that decodes frames and ignores the end of a connection."""

    def __init__(self) -> None:
        self.decoder = FrameDecoder()

    def hear(self, link: int, data: bytes) -> None:
        self.decoder.feed(data)
        while frames := self.decoder.take():
            for frame in frames:
                self._hear(frame)

    def hung_up(self, link: int) -> None:
        pass

    def _hear(self, frame: Frame) -> None:
        raise NotImplementedError


class FrameClient(Speaker):
    """A client that exchanges single frames and answers pings."""

    def __init__(self, world: LinkedBrokers, broker: BrokerFace, name: str, publisher: int) -> None:
        super().__init__()
        self.world = world
        self.publisher = publisher
        self.frames: list[Frame] = []
        self.welcome: Welcome | None = None
        self.sequence = 0
        self.wire = world.connect(self, broker, CLIENT_DELAY_S)
        broker.broker.connected(self.wire.number, Caller("127.0.0.1:9"), world.now)
        handshake = Handshake.initiator(
            Hello(VERSION_MIN, VERSION_MAX, Role.CLIENT, name, publisher, ("resume",), None, None)
        )
        self.write(handshake.start())

    def write(self, frame: ControlFrame) -> None:
        version = VERSION_MAX if self.welcome else VERSION_MIN
        self.world.carry(self.wire, self, encode_frame(frame, version))

    def _hear(self, frame: Frame) -> None:
        if isinstance(frame, Welcome):
            self.welcome = frame
            self.decoder.establish(frame.version)
        elif isinstance(frame, Ping):
            self.write(Pong(frame.nonce))
        else:
            self.frames.append(frame)

    def subscribe(self, filter: str, number: int = 1, **terms: Any) -> None:
        """Subscribe; `done` returns whether it is complete."""
        self.write(Subscribe(number, number, filter, **terms))

    def advertise(self, filter: str, number: int = 101) -> None:
        """Advertise; `done` returns whether it is complete."""
        self.write(Advertise(number, number, filter))

    def publish(self, attributes: dict[str, Any], confirm: Confirm = Confirm.NONE, payload: bytes = b"") -> int:
        """Publish one event and return its sequence number."""
        self.sequence += 1
        event = Event.checked(attributes, payload, publisher=self.publisher, sequence=self.sequence)
        self.world.carry(self.wire, self, encode_publish(event, confirm))
        return self.sequence

    def done(self, number: int) -> bool:
        """Return whether a request is complete."""
        return Done(number) in self.frames

    def heard(self, kind: type[_F]) -> Sequence[_F]:
        """Return all received frames of a type."""
        return [frame for frame in self.frames if isinstance(frame, kind)]

    @property
    def delivered(self) -> list[dict[str, Any]]:
        """The attributes of all received events."""
        return [dict(frame.attributes()) for frame in self.heard(Deliver)]
