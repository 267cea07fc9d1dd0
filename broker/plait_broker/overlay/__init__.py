"""Routing between brokers: link states flood, interest goes to publishers' brokers, and events come back in streams."""

from .overlay import Overlay
from .settings import Incarnation, OverlaySettings
from .transport.reliable_stream import ReceivedEvent

__all__ = ["Incarnation", "Overlay", "OverlaySettings", "ReceivedEvent"]
