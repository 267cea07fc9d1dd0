"""Routing between brokers: link states flood, interest goes to publishers' brokers, and events come back in streams."""

from .host import Host
from .overlay import Overlay
from .settings import OverlaySettings
from .transport.reliable_stream import ReceivedEvent

__all__ = ["Host", "Overlay", "OverlaySettings", "ReceivedEvent"]
