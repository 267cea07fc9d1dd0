"""What one broker knows of the overlay: its tables, and the parts that keep them, in the order that they need."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from plait_core.filters import Filter
from plait_core.ids import Randomness
from plait_core.matching import Index

from .dissemination.registry import strategy_named
from .dissemination.shortest_paths import ShortestPaths
from .dissemination.views import OverlayInterest, OverlayTopology
from .groups.stream_groups import StreamGroups
from .interest.advertisement_table import AdvertisementTable
from .interest.durable_interest import LocalDurableInterest, RemoteDurableInterest
from .interest.durable_interest_store import DurableInterestStore
from .interest.interest_acks import InterestAcks
from .interest.interest_sync import InterestSync
from .interest.local_advertisements import LocalAdvertisements
from .interest.remote_interest import RemoteInterest
from .outputs import Output
from .security.identity import Identity
from .security.message_auth import MessageAuth
from .settings import Incarnation, OverlaySettings
from .topology.flooding import Flooding
from .topology.forwarding_table import ForwardingTable
from .topology.link_state import LinkStateDatabase
from .topology.neighbours import Neighbour
from .transport.control_unicast import ControlUnicast
from .transport.event_copy import CopyRun
from .transport.event_streams import EventStreams
from .transport.forwarder import Forwarder
from .transport.neighbour_sender import NeighbourSender
from .transport.outcome_sender import OutcomeSender
from .transport.own_streams import OwnStreams


class OverlayState:
    """The tables and parts of one broker's overlay."""

    def __init__(
        self,
        me: int,
        settings: OverlaySettings,
        incarnation: Incarnation,
        identity: Identity | None,
        randomness: Randomness,
        now: float,
        index: Callable[[], Index],
    ) -> None:
        """Without an identity nothing is signed or checked."""
        self.me = me
        self.settings = settings
        self.incarnation = incarnation
        self.randomness = randomness
        self.now = now
        """The time of the current input."""
        self.address = ""
        """The address at which other brokers can connect to this one; empty while unknown."""
        self.counts: Counter[str] = Counter()
        outputs: list[Output] = []
        self.outputs = outputs
        """What is to be done, in order."""
        self.copy_runs: dict[int, CopyRun] = {}
        """By link, the latest run of copies among the outputs, which further copies join."""
        self.map = LinkStateDatabase()
        self.neighbours: dict[int, Neighbour] = {}
        self.links_lost: dict[int, str] = {}
        """By former neighbour, why the last link to it ended. Bounded by NEIGHBOURS_MAX."""
        self.routes = ForwardingTable(me, self.map, self.neighbours)
        self.message_auth = MessageAuth(me, identity)
        sender = NeighbourSender(self.neighbours, outputs, self.counts)
        self.sender = sender
        self.unicast = ControlUnicast(
            me, self.map, self.routes, self.neighbours, self.message_auth, sender, self.counts
        )
        self.flooding = Flooding(me, sender, self.message_auth, self.counts)
        self.advertisements = AdvertisementTable(me)
        self.local_advertisements = LocalAdvertisements(
            me, self.advertisements, self.flooding, settings.detect_s, outputs, self.counts
        )
        self.remote_interest = RemoteInterest(index)
        self.interest_sync = InterestSync(me, index)
        self.local_durable_interest = LocalDurableInterest(me, self.flooding, index)
        self.remote_durable_interest = RemoteDurableInterest(index)
        self.interest_acks = InterestAcks(self.unicast)
        self.durable_interest_store = DurableInterestStore(
            self.flooding, self.remote_durable_interest, self.interest_acks, outputs, stores=incarnation.stores
        )
        topology = OverlayTopology(me, self.map, self.routes)
        interest = OverlayInterest(me, self.remote_interest, self.interest_sync, self.advertisements)
        self.strategy = strategy_named(settings.dissemination, laboratory=settings.laboratory)(topology, interest)
        forwarder = Forwarder(
            topology,
            self.neighbours,
            self.strategy,
            ShortestPaths(topology, interest),
            outputs,
            self.copy_runs,
            self.counts,
        )
        streams = OwnStreams()
        self.groups = StreamGroups(me, settings.destinations_max, self.map, self.message_auth, streams, sender)
        self.event_streams = EventStreams(
            me, settings, self.map, forwarder, self.unicast, self.message_auth, self.groups, outputs
        )
        self.outcomes = OutcomeSender(self.unicast, settings.detect_s)

    @property
    def remote_advertisements(self) -> dict[tuple[int, int], Filter]:
        """The advertisements of other brokers, by their ids and numbers."""
        return {key: filter for key, filter in self.advertisements.filters.items() if key[0] != self.me}

    @property
    def reached(self) -> dict[int, int]:
        """The brokers that can be reached, this one included, each with its distance in microseconds."""
        return self.map.distances(self.me)

    @property
    def informed(self) -> bool:
        """Whether all brokers that can be reached have sent their interest."""
        return all(broker in self.remote_interest.homes for broker in self.reached if broker != self.me)

    def retransmit_soon(self, now: float, home: int | None = None, *, lost: int = 0) -> None:
        """Send again what may have been lost: a link has failed, perhaps the one to the `lost` neighbour, or the broker
        `home` can be reached again."""
        self.event_streams.retransmit_soon(now, home, lost=lost)
        self.outcomes.send_again(now, home)

    def topology_changed(self, now: float) -> None:
        """Compute next hops anew: links or their delays have changed."""
        self.routes.stale()
        self.strategy.topology_changed(now)
