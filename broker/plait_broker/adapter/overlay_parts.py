"""The parts of a broker that face the overlay: they write to links, hold what other brokers must know first, and
confirm events between brokers."""

from __future__ import annotations

from collections.abc import Callable

from plait_core.ids import Randomness
from plait_core.matching import Index

from ..clients.connection import Connection
from ..clients.sessions import Sessions
from ..context import BrokerContext
from ..outputs import ConnectionId
from ..overlay import Incarnation, Overlay
from ..overlay.security.identity import Identity
from ..pipeline.advertisement_gate import AdvertisementGate
from ..settings import overlay_settings
from .install_waits import InstallWaits
from .join_gate import JoinGate
from .link_writer import LinkWriter
from .remote_confirmations import RemoteConfirmations


class OverlayParts:
    """One broker's overlay, and what stands between it and the clients."""

    def __init__(
        self,
        context: BrokerContext,
        identity: Identity | None,
        connections: dict[ConnectionId, Connection],
        sessions: Sessions,
        randomness: Randomness,
        now: float,
        index: Callable[[], Index],
    ) -> None:
        settings = context.settings.current
        linking = settings.linking
        log = context.log
        incarnation = Incarnation(
            log if identity is None or identity.incarnation_key else 0, context.clock.wall_us(now), bool(log)
        )
        self.overlay = Overlay(context.id, overlay_settings(settings), incarnation, identity, randomness, now, index)
        self.gate = AdvertisementGate(self.overlay, index, now)
        self.join_gate = JoinGate(self.overlay, linking.expected, now + linking.join_s)
        self.links = LinkWriter(self.overlay, connections, context.counters, context.observer)
        self.confirmations = RemoteConfirmations(context, self.overlay)
        self.install_waits = InstallWaits(self.overlay, self.gate, sessions)
