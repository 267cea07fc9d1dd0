"""The frames that one application has not taken yet. No I/O."""

from __future__ import annotations

from plait_core.wire import ControlFrame, DeliveryWriter, Handshake, encode_frame


class SdkWriter:
    """Queues frames for an application, in the version that the handshake agrees on."""

    def __init__(self, handshake: Handshake) -> None:
        self.size = 0
        """Bytes queued for the application."""
        self.deliveries = DeliveryWriter()
        """Deliveries are written to it directly; the caller then sets `size`."""
        self._handshake = handshake

    @property
    def version(self) -> int:
        """The wire version of frames."""
        return self._handshake.version

    def send(self, frame: ControlFrame, version: int | None = None) -> None:
        """Queue a control frame."""
        self.size = self.deliveries.append(encode_frame(frame, self.version if version is None else version))

    def take(self) -> bytes:
        """Return the bytes for the application."""
        self.size = 0
        return self.deliveries.take()
