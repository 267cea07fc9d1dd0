"""Settings of a broker's protocol: times, windows and quotas, each default with its reason."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from plait_core.filters import Filter, parse
from plait_core.limits import DUPLICATE_WINDOW, UNCONFIRMED_MAX

from .clients.access import Gate
from .overlay.settings import OverlaySettings

DROP: Final = "drop"
BLOCK: Final = "block"
"""The policies for a stream to another broker that is full."""


@dataclass(frozen=True, slots=True)
class LinkSettings:
    """How a broker finds and authenticates other brokers."""

    links: tuple[str, ...] = ()
    """Addresses, HOST:PORT, of the brokers that it always links to."""
    seeds: tuple[str, ...] = ()
    """Addresses of brokers from which it learns others to choose from."""
    discover: bool = False
    """Whether it discovers brokers on its network segment."""
    secret: str = field(default="", repr=False)
    """Shared secret of the overlay. Without it and without TLS, only brokers on this machine may link."""
    tls: bool = False
    """Whether other brokers need a certificate of the overlay's authority."""
    address: str = ""
    """Address for connections of other brokers; empty: as its neighbours see it."""
    port: int = 0
    """Its own port, for an address that neighbours have seen."""
    degree: int = 3
    """Links to keep of those that it chooses: a graph of random links stays connected from three on."""
    links_max: int = 12
    """Beyond it, links that no broker has configured are closed: each costs pings and flooding."""
    join_s: float = 3.0
    """Time for which a starting broker waits for its links before it serves clients: it does not know the interest of
    brokers that are missing. Longer where brokers or names come up slowly."""

    dissemination: str = "shortest-paths"
    """The strategy that plans the copies of events."""
    laboratory: bool = False
    """Whether strategies are allowed that may loop, and retransmission may be switched off."""
    retransmit: bool = True
    """Whether unacknowledged events are sent again; off only in the laboratory."""
    capacity: int = 0
    """Bytes/s that each link of this broker carries; 0: as measured while it is full. Flooded for other programs; no
    path depends on it."""
    segments: tuple[str, ...] = ()
    """The network segments that this broker is attached to, by name. Flooded likewise."""
    destinations_max: int = 64
    """Destinations that an event names one by one; one with more opens a stream group."""
    when_full: str = DROP
    """What happens while events for another broker come faster than the links carry them, and too many wait: `drop` the
    oldest, or `block` their publishers."""
    forget: tuple[str, ...] = ()
    """Names of brokers that will not return: no events are kept for them while they are unreachable."""

    @property
    def expected(self) -> int:
        """Least number of links that it waits for at its start. A broker that is its own seed waits for none."""
        links = sum(place != self.address for place in self.links)
        return links or int(any(place != self.address for place in self.seeds))

    @property
    def selects_links(self) -> bool:
        """Whether it chooses links itself."""
        return bool(self.seeds) or self.discover


@dataclass(frozen=True, slots=True)
class BrokerSettings:
    """Settings of one broker. Immutable; a reload makes new ones."""

    name: str = "broker"
    capabilities: tuple[str, ...] = ("resume", "durable")
    hello_timeout_s: float = 5.0
    """Timeout of the Hello of a new connection: slowloris costs five seconds."""
    frame_timeout_s: float = 10.0
    """Timeout of an incomplete frame: a slow sender must not hold one of few connections for ever. The largest frame,
    1.2 MB, needs 120 KB/s; raise it for slower lines."""
    heartbeat_s: float = 5.0
    """Silence before a ping; a connection is dead after three. 5,000 idle clients: 1,000 pings/s."""
    resume_s: float = 10.0
    """Time for which a session outlives its connection, with its subscriptions and queues."""
    sessions_max: int = 10_000
    subscriptions_max: int = 1_000_000
    """Subscriptions of the whole broker."""
    session_subscriptions_max: int = 10_000
    session_advertisements_max: int = 1_000
    outbox_items_max: int = 65_536
    """Bounds of one subscription's queue; a client may request less, not more."""
    outbox_bytes_max: int = 64 << 20
    session_outbox_bytes_max: int = 128 << 20
    """Bound of all queues of one client together."""
    duplicate_window: int = DUPLICATE_WINDOW
    publishers_max: int = 100_000
    """Publishers in the duplicate window. The longest silent one is forgotten first."""
    unconfirmed_max: int = UNCONFIRMED_MAX
    """Unconfirmed events of one session. More are refused as `limit`."""
    confirm_timeout_s: float = 30.0
    """Timeout after which an event that is not acknowledged is reported as not confirmed."""
    durables_max: int = 10_000
    durable_window: int = 1024
    """Unacknowledged deliveries of one durable subscription."""
    durable_fetch: int = 256
    """Log records of one Fetch while a durable subscription catches up."""
    durable_tail: int = 4096
    """Log records kept in memory, so that subscriptions that keep up are never served from disk."""
    log_filter: str = ""
    """Filter of events to log although no durable subscription matches them, for `start=all`; empty: none."""
    linking: LinkSettings = field(default_factory=LinkSettings)
    """Links to other brokers."""
    overlay_heartbeat_s: float = 0.5
    """Interval of pings on a link: a tenfold delay is flooded within two."""
    overlay_detect_s: float = 3.0
    """A link is dead after this time without a frame or without an answered ping."""
    overlay_gone_s: float = 60.0
    """An unreachable broker is forgotten after this time, with the events kept for it."""
    overlay_durable_gone_s: float = 86_400.0
    """Time before an unreachable broker is forgotten if either has durable subscriptions: enough to repair a machine.
    Events are kept for it, and publishers wait for confirmation."""
    overlay_stream_items_max: int = 65_536
    overlay_stream_bytes_max: int = 64 << 20
    """Unacknowledged events kept for one other broker. Beyond, the oldest is dropped and reported."""
    slow_fraction: float = 0.5
    """Fill level of a queue at which its subscriber is notified that it is slow."""


class LiveSettings:
    """The settings in force. Every part reads them here, so a reload replaces them in one place."""

    __slots__ = ("current", "gate", "log_filter")

    def __init__(self, settings: BrokerSettings, gate: Gate) -> None:
        self.replace(settings, gate)

    def replace(self, settings: BrokerSettings, gate: Gate) -> None:
        """Put other settings in force."""
        self.current = settings
        self.gate = gate
        """Decides which clients may connect."""
        self.log_filter: Filter | None = parse(settings.log_filter) if settings.log_filter else None
        """Events to log although no durable subscription matches them."""


def overlay_settings(settings: BrokerSettings) -> OverlaySettings:
    """Return the settings of the overlay from those of the broker."""
    return OverlaySettings(
        name=settings.name,
        heartbeat_s=settings.overlay_heartbeat_s,
        detect_s=settings.overlay_detect_s,
        gone_s=settings.overlay_gone_s,
        durable_gone_s=settings.overlay_durable_gone_s,
        dissemination=settings.linking.dissemination,
        laboratory=settings.linking.laboratory,
        retransmit=settings.linking.retransmit,
        stream_items_max=settings.overlay_stream_items_max,
        stream_bytes_max=settings.overlay_stream_bytes_max,
        destinations_max=settings.linking.destinations_max,
        link_capacity=settings.linking.capacity,
        segments=settings.linking.segments,
    )
