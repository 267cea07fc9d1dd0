"""Plait's broker: the protocol, which does no I/O (`broker.py`), and its asyncio face (`server.py`)."""

from .broker import Broker
from .clients.access import ALL, NONE, Caller, Gate, Keyring, OpenGate, Principal, Rules
from .counters import Counters
from .drop_reasons import DropReason
from .outputs import Close, ConnectionId, Cursor, Fetch, LogRecord, Output, Persist, Probe, Recovered, Send
from .settings import BrokerSettings

__all__ = [
    "ALL",
    "NONE",
    "Broker",
    "BrokerSettings",
    "Caller",
    "Close",
    "ConnectionId",
    "Counters",
    "Cursor",
    "DropReason",
    "Fetch",
    "Gate",
    "Keyring",
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
