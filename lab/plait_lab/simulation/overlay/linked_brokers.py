"""A few whole brokers, joined by links with given delays, and clients that speak frame by frame; on virtual time.

Where `overlays.py` drives the overlay alone through histories, here all of a broker takes part: handshakes, sessions,
advertisements, confirmations, deliveries. No faults of their own: a test cuts links and changes delays as it likes.
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
"""Between a client and its broker."""

JOINED_S: Final = 3.0
"""By then all links are measured and all brokers know each other."""

_F = TypeVar("_F", bound=Frame)


class Face:
    """Who has an end of a wire."""

    def hear(self, link: int, data: bytes) -> None:
        raise NotImplementedError

    def hung_up(self, link: int) -> None:
        raise NotImplementedError


@dataclass(slots=True)
class LinkWire:
    """A connection: what one end writes comes out at the other after a while, in order."""

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
        """What testing an event's tags takes; None: it never ends."""
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
        """The first of two brokers dials the second."""
        wire = self.connect(near, far, delay_s)
        far.broker.connected(wire.number, Caller("127.0.0.1:1"), self.now)
        near.broker.connected(wire.number, Caller("127.0.0.1:2", dialled=far.name), self.now)
        near.act()
        far.act()
        return wire

    def connect(self, near: Face, far: Face, delay_s: float) -> LinkWire:
        """A connection that neither end knows of yet."""
        wire = LinkWire((near, far), delay_s, len(self.wires))
        self.wires.append(wire)
        return wire

    def wire(self, near: int, far: int) -> LinkWire:
        """The link between two brokers, as it was given."""
        return self._wire_of[near, far]

    def client(self, broker: int, name: str = "client") -> FrameClient:
        """A client that is welcome."""
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
        """A connection ends, now for who ends it, later for the other."""
        if not wire.open:
            return
        self.history.add(Kind.CLOSED, self.now, wire.number)
        wire.open = False
        for end in wire.ends:
            delay_s = 0.0 if end is by else wire.delay_s
            self.timeline.after(delay_s, lambda end=end: end.hung_up(wire.number))  # type: ignore[misc]


class BrokerFace(Face):
    """What `server.py` is in production."""

    def __init__(self, world: LinkedBrokers, name: str, settings: BrokerSettings) -> None:
        self.world = world
        self.name = name
        named = replace(settings, name=name)
        self.broker = Broker(named, world.rng, OpenGate(), now=world.now, wall_us=CALENDAR_US, index=world.index)
        self._prober = TagTestWorker()
        self.probes: list[Probe] = []
        """What was tested here."""
        self._due = float("inf")
        self.act()

    def hear(self, link: int, data: bytes) -> None:
        self.broker.receive(link, data, self.world.now)
        self.act()

    def hung_up(self, link: int) -> None:
        self.broker.disconnected(link, self.world.now)
        self.act()

    def act(self) -> None:
        """Carry out what the broker asks for."""
        for output in self.broker.take_output():
            if isinstance(output, Send):
                self.world.carry(self.world.wires[output.link], self, b"".join(output.chunks))
            elif isinstance(output, Close):
                self.world.hang_up(self.world.wires[output.link], by=self)
            elif isinstance(output, Persist):
                self.broker.persisted(output.ticket, None, self.world.now)
            elif isinstance(output, Probe):
                self._probe(output)
        self._wake()

    def _probe(self, probe: Probe) -> None:
        """Test tags, which takes a while."""
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
    """Who hears frame by frame, and does not mind when a connection ends."""

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
    """A client, frame by frame. Answers pings by itself."""

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
        """Subscribe; `done` tells when it is so."""
        self.write(Subscribe(number, number, filter, **terms))

    def advertise(self, filter: str, number: int = 101) -> None:
        """Advertise; `done` tells when it is so."""
        self.write(Advertise(number, number, filter))

    def publish(self, attributes: dict[str, Any], confirm: Confirm = Confirm.NONE, payload: bytes = b"") -> int:
        """Publish one event; its sequence number."""
        self.sequence += 1
        event = Event.checked(attributes, payload, publisher=self.publisher, sequence=self.sequence)
        self.world.carry(self.wire, self, encode_publish(event, confirm))
        return self.sequence

    def done(self, number: int) -> bool:
        """Whether a request has been carried out."""
        return Done(number) in self.frames

    def heard(self, kind: type[_F]) -> Sequence[_F]:
        """All frames of a kind that have come."""
        return [frame for frame in self.frames if isinstance(frame, kind)]

    @property
    def delivered(self) -> list[dict[str, Any]]:
        """The attributes of all events that have come."""
        return [dict(frame.attributes()) for frame in self.heard(Deliver)]
