"""What the protocol of a broker can be told: times, windows and quotas. Each default says why it is that."""

from __future__ import annotations

from dataclasses import dataclass, field

from plait_core.filters import Filter, parse
from plait_core.limits import DUPLICATE_WINDOW, UNCONFIRMED_MAX

from .clients.access import Gate


@dataclass(frozen=True, slots=True)
class LinkSettings:
    """Which other brokers to find, how, and what they must know."""

    links: tuple[str, ...] = ()
    """Addresses, HOST:PORT, that it is always to be linked to."""
    seeds: tuple[str, ...] = ()
    """Addresses where it finds others to choose from."""
    discover: bool = False
    """Whether it looks for others on its network segment."""
    secret: str = field(default="", repr=False)
    """What other brokers must know to be linked; without one, and without TLS, only those on this machine may be."""
    tls: bool = False
    """Whether other brokers must come with a certificate of the overlay's authority."""
    address: str = ""
    """Where others can connect to it; empty: it learns from its neighbours how they see it."""
    port: int = 0
    """Its own, to go with what they say."""
    degree: int = 3
    """Links to keep where it chooses: a graph of random links holds together from three on."""
    links_max: int = 12
    """Beyond it links that nobody was configured with are given up: each costs its two ends pings and what floods."""
    join_s: float = 3.0
    """How long a broker that starts waits for those it is to be linked to before it serves clients all the same: who is
    not there by then is not known to want anything. Longer where brokers and names take their time to come up."""

    dissemination: str = "shortest-paths"
    """The strategy that plans the copies of events."""
    laboratory: bool = False
    """Whether strategies are allowed that may loop, and retransmission may be switched off."""
    retransmit: bool = True
    """Whether unacknowledged events are sent again; off only in the laboratory."""
    capacity: int = 0
    """Bytes/s that each link of this broker carries; 0 for unknown. Flooded for other programs; no path depends on
    it."""
    segments: tuple[str, ...] = ()
    """The network segments that this broker is attached to, by name. Flooded likewise."""
    forget: tuple[str, ...] = ()
    """Brokers, by name, that will not come back: while they cannot be reached nothing is kept for them."""

    @property
    def expected(self) -> int:
        """How many links it is to have, at least, when it has started: one that is its own seed waits for nobody."""
        links = sum(place != self.address for place in self.links)
        return links or int(any(place != self.address for place in self.seeds))

    @property
    def gathers(self) -> bool:
        """Whether it chooses links by itself."""
        return bool(self.seeds) or self.discover


@dataclass(frozen=True, slots=True)
class BrokerSettings:
    """Immutable; a reload makes a new one."""

    name: str = "broker"
    capabilities: tuple[str, ...] = ("resume", "durable")
    hello_timeout_s: float = 5.0
    """A connection that has not said hello by then is closed: slowloris costs five seconds."""
    frame_timeout_s: float = 10.0
    """A frame that has begun is to be complete by then, or its connection is closed: whoever dribbles bytes for ever
    holds one of few connections. The largest frame, 1.2 MB, asks for 120 KB/s; raise it for slower lines."""
    heartbeat_s: float = 5.0
    """Silence after which a side pings; after three of them the other is taken for dead. 5,000 idle: 1,000 pings/s."""
    resume_s: float = 10.0
    """How long a session outlives its connection, with its subscriptions and what is queued."""
    sessions_max: int = 10_000
    subscriptions_max: int = 1_000_000
    """Of the whole broker."""
    session_subscriptions_max: int = 10_000
    session_advertisements_max: int = 1_000
    outbox_items_max: int = 65_536
    """A subscription may ask for less than these two, not for more."""
    outbox_bytes_max: int = 64 << 20
    session_outbox_bytes_max: int = 128 << 20
    """All queues of one client together."""
    duplicate_window: int = DUPLICATE_WINDOW
    publishers_max: int = 100_000
    """Publishers remembered for duplicate suppression; the longest silent is forgotten first."""
    unconfirmed_max: int = UNCONFIRMED_MAX
    """Events of one session whose confirmation is pending; more are refused as `limit`."""
    confirm_timeout_s: float = 30.0
    """After which an event that some subscriber has not acknowledged is reported as not confirmed."""
    durables_max: int = 10_000
    durable_window: int = 1024
    """Deliveries of one durable subscription that may await acknowledgement."""
    durable_fetch: int = 256
    """Log records read at once while a durable subscription catches up."""
    durable_tail: int = 4096
    """Log records kept in memory, so that who keeps up is never served from disk."""
    log_filter: str = ""
    """Events that are logged though no durable subscription wants them yet, for `start=all`; empty for none."""
    linking: LinkSettings = field(default_factory=LinkSettings)
    """To other brokers. One that is to have some waits for them before it serves clients."""
    overlay_heartbeat_s: float = 0.5
    """Between two pings of a link to a broker: a tenfold delay is told within two of them."""
    overlay_detect_s: float = 3.0
    """A link to a broker of which nothing is heard, or nothing is answered, for so long is dead."""
    overlay_gone_s: float = 60.0
    """A broker that cannot be reached for so long is forgotten, with what was kept for it."""
    overlay_durable_gone_s: float = 86_400.0
    """The same where one of the two has durable subscriptions: time to bring a broken machine back. What they want is
    kept for it meanwhile, and whoever asked for confirmation waits."""
    overlay_stream_items_max: int = 65_536
    overlay_stream_bytes_max: int = 64 << 20
    """What is kept for one other broker that does not take it; beyond, the oldest is dropped, counted and told."""
    slow_fraction: float = 0.5
    """How full a subscription's queue is when its subscriber is told that it is slow."""


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
