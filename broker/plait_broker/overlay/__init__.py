"""Routing between brokers: a map that floods, interest that travels to publishers' brokers, streams of events back."""

from .host import Host
from .overlay import Overlay
from .settings import OverlaySettings
from .transport.reliable_stream import ReceivedEvent

__all__ = ["Host", "Overlay", "OverlaySettings", "ReceivedEvent"]
