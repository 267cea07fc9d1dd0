"""Plait's broker: the protocol, which does no I/O (`broker.py`), and its asyncio face (`server.py`)."""

from .access import ALL, NONE, Caller, Gate, Keyring, OpenGate, Principal, Rules
from .broker import Broker
from .counters import Counters
from .outputs import Close, Cursor, Fetch, LinkId, LogRecord, Output, Persist, Probe, Recovered, Send
from .reasons import DropReason
from .settings import BrokerSettings

__all__ = [
    "ALL",
    "NONE",
    "Broker",
    "BrokerSettings",
    "Caller",
    "Close",
    "Counters",
    "Cursor",
    "DropReason",
    "Fetch",
    "Gate",
    "Keyring",
    "LinkId",
    "LogRecord",
    "OpenGate",
    "Output",
    "Persist",
    "Principal",
    "Probe",
    "Recovered",
    "Rules",
    "Send",
]
