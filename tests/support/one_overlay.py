"""The overlay of one broker between scripted neighbours: their frames go in, its outputs are kept in order."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import TypeVar

from plait_broker.overlay import Incarnation, Overlay, OverlaySettings
from plait_broker.overlay.outputs import DocumentKey, Output, RelayFrame, SendFrame, StoreDocument
from plait_core.wire import ControlFrame, Forward
from plait_core.wire.frame_types.envelope_frames import EndToEnd, Signed, envelop_document, read_document, read_message
from plait_core.wire.frame_types.overlay_frames import Document, LinkState

_T = TypeVar("_T")


class OneOverlay:
    """One overlay without signatures. The id of a link is the id of the neighbour."""

    def __init__(
        self,
        me: int = 1,
        settings: OverlaySettings | None = None,
        incarnation: Incarnation | None = None,
    ) -> None:
        settings = settings or OverlaySettings(name="b1")
        self.overlay = Overlay(me, settings, incarnation or Incarnation(), None, Random(me), 0.0)
        self.now = 0.0
        self.outputs: list[Output] = []
        self.stored: dict[DocumentKey, Signed] = {}
        """The documents on disk."""

    def link_up(self, *neighbours: int, delay_us: int = 1000) -> None:
        """Add links, and learn the link states of the neighbours, which confirm them."""
        for neighbour in neighbours:
            self.overlay.link_up(neighbour, neighbour, f"b{neighbour}", self.now, delay_us)
            self.learn(LinkState(neighbour, 1, f"b{neighbour}", (self.overlay.me,), (delay_us,)), neighbour)

    def learn(self, document: Document, neighbour: int) -> None:
        """Receive a document from a neighbour."""
        self.receive(neighbour, envelop_document(document))

    def receive(self, neighbour: int, *frames: ControlFrame | Forward) -> None:
        """Receive frames from a neighbour."""
        for frame in frames:
            self.overlay.receive(neighbour, frame, self.now)
        self.take()

    def tick(self, now: float) -> None:
        """Advance the clock."""
        self.now = now
        self.overlay.tick(now)
        self.take()

    def take(self) -> None:
        """Take the outputs, and store documents."""
        while self.overlay.pending:
            for output in self.overlay.take_outputs(self.now):
                self.outputs.append(output)
                if isinstance(output, StoreDocument):
                    if output.document is None:
                        self.stored.pop(output.key, None)
                    else:
                        self.stored[output.key] = output.document

    def clear(self) -> None:
        """Forget the outputs so far."""
        self.take()
        self.outputs.clear()

    def of(self, kind: type[_T]) -> list[_T]:
        """Return the outputs of a kind so far."""
        self.take()
        return [output for output in self.outputs if isinstance(output, kind)]

    @property
    def sent(self) -> list[tuple[int, ControlFrame]]:
        """Sent and relayed control frames so far, each with its neighbour."""
        self.take()
        return [(output.link, output.frame) for output in self.outputs if isinstance(output, SendFrame | RelayFrame)]

    def messages(self, kind: type[_T]) -> list[_T]:
        """Return the messages of a kind that were sent or relayed so far."""
        frames: Sequence[ControlFrame] = [frame for _, frame in self.sent]
        messages = [read_message(frame, 0) for frame in frames if isinstance(frame, EndToEnd)]
        return [message for message in messages if isinstance(message, kind)]

    def documents(self, kind: type[_T]) -> list[_T]:
        """Return the documents of a kind that were flooded so far."""
        documents = [read_document(frame) for _, frame in self.sent if isinstance(frame, Signed)]
        return [document for document in documents if isinstance(document, kind)]
