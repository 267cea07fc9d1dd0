"""Plait's peers without brokers: the protocol of thesis chapter 2, which does no I/O (`peer.py`)."""

from .protocol.outputs import Confirmed, Deliver, Output, PeerId, Send
from .protocol.peer import Peer
from .protocol.peer_state import Counters
from .protocol.reputation import Fault
from .protocol.settings import (
    PLAIT,
    THESIS,
    ChildChoice,
    Coarsening,
    DelayMetric,
    DelayUnit,
    PeerSettings,
    Places,
    Strategies,
)

__all__ = [
    "PLAIT",
    "THESIS",
    "ChildChoice",
    "Coarsening",
    "Confirmed",
    "Counters",
    "DelayMetric",
    "DelayUnit",
    "Deliver",
    "Fault",
    "Output",
    "Peer",
    "PeerId",
    "PeerSettings",
    "Places",
    "Send",
    "Strategies",
]
