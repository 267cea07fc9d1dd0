"""Plait's peers without brokers: the protocol of thesis chapter 2, which does no I/O (`peer.py`)."""

from .conduct import Fault
from .myself import Counters
from .outputs import Confirmed, Deliver, Output, PeerId, Send
from .peer import Peer
from .settings import (
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
