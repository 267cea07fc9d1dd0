"""A client of one simulated broker that exchanges single frames with it.

It reconnects when its connection ends, and then advertises and subscribes again, as the SDK does. It counts what it
was promised: an advertisement or a subscription is installed once its request was answered with `Done`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import Any, Final, Protocol, TypeVar

from plait_core import Attributes, Value
from plait_core.events import Event, EventId
from plait_core.filters import Filter, parse
from plait_core.ids import new_id
from plait_core.wire import (
    VERSION_MAX,
    VERSION_MIN,
    Close,
    Confirm,
    ControlFrame,
    Deliver,
    Delivery,
    Frame,
    FrameDecoder,
    Hello,
    Ping,
    Pong,
    Role,
    Welcome,
    encode_frame,
    encode_publish,
)  # fmt: skip
from plait_core.wire.frame_types.session_frames import (
    CONFIRM,
    DURABLE,
    Acknowledge,
    Advertise,
    Done,
    Failed,
    Receipt,
    Refusal,
    Subscribe,
    Unadvertise,
    Unsubscribe,
)  # fmt: skip

from .broker_node import OverlayNode
from .network import Endpoint, Link, LinkConnection, OverlayNetwork

CLIENT_DELAY_S: Final = 0.0001
"""Delay between a client and its broker."""

RETRY_S: Final = 0.25
"""Time from a failed connection attempt to the next."""

_F = TypeVar("_F", bound=Frame)


@dataclass(slots=True, eq=False)
class FrameSubscription:
    """A subscription. One that is not durable ends with its session, and the next session opens another one."""

    client: FrameClient
    number: int
    filter: Filter
    durable: str = ""
    terms: dict[str, Any] = field(default_factory=dict)
    installed: bool = False
    """Whether the request for its present filter was answered."""
    ended: bool = False
    """Whether the client has ended it, or its session is over."""
    filters: list[tuple[float, Filter]] = field(default_factory=list)
    """Former filters, each with the time of its replacement."""
    received: dict[tuple[int, int], int] = field(default_factory=dict)
    """Deliveries by event."""
    latest: dict[int, int] = field(default_factory=dict)
    """The highest sequence number delivered in this session, by publisher."""


@dataclass(slots=True, eq=False)
class FrameAdvertisement:
    """An advertisement."""

    number: int
    filter: Filter
    installed: bool = False
    """Whether the request was answered: the client may publish."""


@dataclass(slots=True, eq=False)
class PublishedEvent:
    """An event that a client has published."""

    id: EventId
    attributes: Attributes
    at: float
    client: FrameClient
    life: int
    """The life of the client's broker."""
    confirm: Confirm
    payload: bytes
    lifetime_us: int = 0
    advertised: bool = False
    """Whether an installed advertisement of its client covers it."""
    owed: list[FrameSubscription] = field(default_factory=list)
    """Subscriptions that must get it."""
    confirmed: bool = False
    refused: str = ""
    """The code of its refusal."""


class ClientObserver(Protocol):
    """Learns what clients publish and receive."""

    def published(self, event: PublishedEvent) -> None: ...
    def delivered(self, subscription: FrameSubscription, frame: Deliver, delivery: Delivery) -> None: ...
    def confirmed(self, event: PublishedEvent) -> None: ...
    def complain(self, text: str) -> None: ...


class FrameClient(Endpoint):
    """A client."""

    number = -1

    def __init__(
        self,
        node: OverlayNode,
        network: OverlayNetwork,
        rng: Random,
        observer: ClientObserver,
        name: str,
        publisher: int = 0,
    ) -> None:
        """`publisher`: the id under which it publishes in all sessions; 0: it draws one for each."""
        self.node = node
        self.name = name
        self.publisher = publisher
        """The id under which it publishes in this session."""
        self.frames: list[Frame] = []
        """Received frames that are kept, if `keeps_frames`."""
        self.keeps_frames = False
        self.acknowledges = True
        """Whether it acknowledges deliveries that need it."""
        self.welcome: Welcome | None = None
        self.subscriptions: dict[int, FrameSubscription] = {}
        self.advertisements: dict[int, FrameAdvertisement] = {}
        self.events: dict[int, PublishedEvent] = {}
        """Unconfirmed events of this session that are to be confirmed, by sequence number."""
        self.connection: LinkConnection | None = None
        self.sequence = 0
        self._network = network
        self._rng = rng
        self._observer = observer
        self.link = Link((self, node), CLIENT_DELAY_S)
        """Between it and its broker."""
        self._given = publisher
        self._left = False
        self._decoder = FrameDecoder()
        self._numbers = 0
        self._requests: dict[int, tuple[FrameSubscription | FrameAdvertisement, Filter] | None] = {}
        """By request, what it installs with which filter. None: it ends a subscription or an advertisement."""
        self._connect()

    @property
    def ready(self) -> bool:
        """Whether it is connected and all its requests are answered."""
        return self.welcome is not None and not self._requests

    @property
    def delivered(self) -> list[dict[str, Value]]:
        """The attributes of all events in kept frames."""
        return [dict(frame.attributes()) for frame in self.heard(Deliver)]

    # --- requests -----------------------------------------------------------------------------------------------------

    def subscribe(self, filter: Filter | str, *, durable: str = "", **terms: Any) -> FrameSubscription:
        """Open a subscription."""
        self._numbers += 1
        parsed = filter if isinstance(filter, Filter) else parse(filter)
        subscription = FrameSubscription(self, self._numbers, parsed, durable, terms)
        self.subscriptions[subscription.number] = subscription
        if self.welcome is not None:
            self.write(self._subscribe_frame(subscription))
        return subscription

    def change(self, subscription: FrameSubscription, filter: Filter) -> None:
        """Give a subscription another filter."""
        subscription.filters.append((self._network.timeline.now, subscription.filter))
        subscription.filter = filter
        subscription.installed = False
        if self.welcome is not None:
            self.write(self._subscribe_frame(subscription))

    def unsubscribe(self, subscription: FrameSubscription) -> None:
        """End a subscription."""
        subscription.ended = True
        del self.subscriptions[subscription.number]
        self._forget_requests(subscription)
        if self.welcome is not None:
            self.write(Unsubscribe(self._request(None), subscription.number, forget=bool(subscription.durable)))

    def advertise(self, filter: Filter | str) -> FrameAdvertisement:
        """Open an advertisement."""
        self._numbers += 1
        advertisement = FrameAdvertisement(self._numbers, filter if isinstance(filter, Filter) else parse(filter))
        self.advertisements[advertisement.number] = advertisement
        if self.welcome is not None:
            self.write(self._advertise_frame(advertisement))
        return advertisement

    def withdraw(self, advertisement: FrameAdvertisement) -> None:
        """End an advertisement."""
        del self.advertisements[advertisement.number]
        self._forget_requests(advertisement)
        if self.welcome is not None:
            self.write(Unadvertise(self._request(None), advertisement.number))

    def may_publish(self, attributes: Attributes) -> bool:
        """Return whether an installed advertisement covers an event."""
        return self.welcome is not None and any(
            one.installed and one.filter.matches(attributes) for one in self.advertisements.values()
        )

    def publish(
        self,
        attributes: Attributes,
        confirm: Confirm = Confirm.NONE,
        payload: bytes = b"x" * 20,
        *,
        sequence: int = 0,
        lifetime_us: int = 0,
    ) -> PublishedEvent | None:
        """Publish an event, or repeat the one of a sequence number. Return None if the client is not connected."""
        if self.welcome is None or self.connection is None:
            return None
        self.sequence = sequence or self.sequence + 1
        event = Event(attributes, payload, self.publisher, self.sequence, lifetime_us=lifetime_us)
        at = self._network.timeline.now
        published = PublishedEvent(event.id, attributes, at, self, self.node.lives, confirm, payload, lifetime_us)
        if confirm:
            self.events[self.sequence] = published
        self._observer.published(published)
        self._network.write(self.connection, 0, encode_publish(event, confirm))
        return published

    def write(self, *frames: ControlFrame) -> None:
        """Write frames, valid or not."""
        version = VERSION_MAX if self.welcome is not None else VERSION_MIN
        self.write_bytes(b"".join(encode_frame(frame, version) for frame in frames))

    def write_bytes(self, data: bytes) -> None:
        """Write bytes, valid or not."""
        if self.connection is not None:
            self._network.write(self.connection, 0, data)

    def leave(self) -> None:
        """Close the connection and open no other."""
        self._left = True
        if self.connection is not None:
            self._network.close(self.connection, 0)

    def heard(self, kind: type[_F]) -> list[_F]:
        """Return all kept frames of a type."""
        return [frame for frame in self.frames if isinstance(frame, kind)]

    def _request(self, installs: FrameSubscription | FrameAdvertisement | None) -> int:
        self._numbers += 1
        self._requests[self._numbers] = None if installs is None else (installs, installs.filter)
        return self._numbers

    def _forget_requests(self, of: FrameSubscription | FrameAdvertisement) -> None:
        """Await no answers to the requests of what has ended: a broker does not answer what is not installed then."""
        for request, installs in list(self._requests.items()):
            if installs is not None and installs[0] is of:
                del self._requests[request]

    def _subscribe_frame(self, one: FrameSubscription) -> Subscribe:
        return Subscribe(self._request(one), one.number, one.filter.text, durable=one.durable, **one.terms)

    def _advertise_frame(self, one: FrameAdvertisement) -> Advertise:
        return Advertise(self._request(one), one.number, one.filter.text)

    # --- connection ---------------------------------------------------------------------------------------------------

    def _connect(self) -> None:
        self._network.dial(self.link, self, self._dialled)

    def _dialled(self, connection: LinkConnection | None) -> None:
        if connection is None:
            self._network.timeline.after(RETRY_S, self._connect)
            return
        self.connection = connection
        if not self._given:
            self.publisher, self.sequence = new_id(self._rng), 0
        self._decoder = FrameDecoder()
        hello = Hello(VERSION_MIN, VERSION_MAX, Role.CLIENT, self.name, self.publisher, ("resume", "durable"))
        self.write(hello)

    def ended(self, connection: LinkConnection) -> None:
        """Connect again, with a new session. Subscriptions that are not durable are new ones then."""
        self.connection = self.welcome = None
        self._requests.clear()
        self.events.clear()
        for number, one in list(self.subscriptions.items()):
            if one.durable:
                one.latest.clear()
            else:
                one.ended = True
                self.subscriptions[number] = FrameSubscription(self, number, one.filter, terms=one.terms)
        for advertisement in self.advertisements.values():
            advertisement.installed = False
        if not self._left:
            self._connect()

    def received(self, connection: LinkConnection, data: bytes) -> None:
        """Take bytes."""
        decoder = self._decoder
        frames = decoder.read(data)
        while frames:
            for frame in frames:
                self._receive(frame)
            frames = decoder.take() if decoder.more else []

    def _receive(self, frame: Frame) -> None:
        if self.keeps_frames:
            self.frames.append(frame)
        if type(frame) is Deliver:
            self._deliver(frame)
            return
        match frame:
            case Ping(nonce):
                self.write(Pong(nonce))
            case Welcome():
                self._welcome(frame)
            case Done(request):
                installed = self._requests.pop(request, None)
                if installed is not None and installed[0].filter is installed[1]:  # it was not changed again since
                    installed[0].installed = True
            case Failed(request, code, message):
                self._requests.pop(request, None)
                self._observer.complain(f"{self.name}: request failed: {code} {message}")
            case Receipt(sequences):
                for sequence in sequences:
                    event = self.events.pop(sequence)
                    event.confirmed = True
                    self._observer.confirmed(event)
            case Refusal(sequence, code):
                self.events.pop(sequence).refused = code
            case Close(code, message):
                self._observer.complain(f"{self.name}: its broker closes: {code} {message}")

    def _welcome(self, welcome: Welcome) -> None:
        self.welcome = welcome
        self._decoder.establish(welcome.version)
        advertisements = map(self._advertise_frame, self.advertisements.values())
        subscriptions = map(self._subscribe_frame, self.subscriptions.values())
        frames = [*advertisements, *subscriptions]
        if frames:
            self.write(*frames)

    def _deliver(self, frame: Deliver) -> None:
        acknowledged: list[ControlFrame] = []
        for delivery in frame.deliveries:
            subscription = self.subscriptions.get(delivery[0])
            if subscription is None:
                continue  # it was on its way when the subscription ended
            self._observer.delivered(subscription, frame, delivery)
            if self.acknowledges and delivery[1] & (CONFIRM | DURABLE):
                acknowledged.append(Acknowledge(delivery[0], (delivery[2],)))
        if acknowledged:
            self.write(*acknowledged)
