"""Plait's peers without brokers: the protocol of thesis chapter 2, which does no I/O (`protocol/peer.py`)."""

from .protocol.outputs import Confirmed, Deliver, Output, PeerId, Send
from .protocol.peer import Peer
from .protocol.peer_state import Counters
from .protocol.policies import (
    PLAIT,
    THESIS,
    ConnectByDelay,
    ConnectByRequirement,
    HopCount,
    LinkCost,
    MayConnect,
    MeasuredDelay,
    ParentPolicy,
    PlaitParentPolicy,
    Policies,
    ThesisParentPolicy,
)
from .protocol.reputation import Fault
from .protocol.settings import PeerSettings

__all__ = [
    "PLAIT",
    "THESIS",
    "Confirmed",
    "ConnectByDelay",
    "ConnectByRequirement",
    "Counters",
    "Deliver",
    "Fault",
    "HopCount",
    "LinkCost",
    "MayConnect",
    "MeasuredDelay",
    "Output",
    "ParentPolicy",
    "Peer",
    "PeerId",
    "PeerSettings",
    "PlaitParentPolicy",
    "Policies",
    "Send",
    "ThesisParentPolicy",
]
