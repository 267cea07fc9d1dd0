"""A client that sends given frames and otherwise only answers pings.

It serves as a hostile client, as a witness of the wire, and for stories about the broker alone. Applications use
`applications.py`.
"""

from __future__ import annotations

from random import Random
from typing import TypeVar

from plait_core.errors import FrameError
from plait_core.events import Event
from plait_core.ids import new_id
from plait_core.wire import (
    Close,
    Confirm,
    Deliver,
    Frame,
    FrameDecoder,
    Hello,
    Ping,
    Pong,
    Role,
    Welcome,
    encode_frame,
    encode_publish,
)
from plait_core.wire.frame_types.session_frames import (
    CONFIRM,
    DURABLE,
    Acknowledge,
    Done,
    Failed,
    Notice,
    Receipt,
    Refusal,
    Subscribe,
)

from ..timeline import Clock
from .network import Connection, Network, Path
from .nodes import BrokerNode, Process
from .recorder import Recorder

_F = TypeVar("_F")


class RawClient(Process):
    """One connection at a time, controlled by the caller."""

    def __init__(
        self, name: str, network: Network, recorder: Recorder, broker: BrokerNode, rng: Random, path: Path | None = None
    ) -> None:
        super().__init__(name, network, recorder, Clock(network.timeline))
        self.running = True
        self.publisher = new_id(rng)
        self.frames: list[Frame] = []
        """Received frames except pings."""
        self.answers_pings = True
        self.acknowledges = False
        """Whether it acknowledges deliveries at once."""
        self.connection: Connection | None = None
        self.welcome: Welcome | None = None
        self.lost_count = 0
        self._broker = broker
        self._path = path or Path()
        self._decoder = FrameDecoder()
        self._attempts = 0
        self._requests = 0
        self._sequence = 0

    # --- speaking -----------------------------------------------------------------------------------------------------

    def connect(self, *, hello: bool = True, resume: int | None = None, token: str | None = None) -> None:
        """Open a connection and send hello."""
        if self.connection is not None:
            self.connection.close(self, abort=True)
        self.connection = self.welcome = None
        self._decoder = FrameDecoder()
        self._attempts += 1
        attempt = self._attempts

        def answered(connection: Connection | None) -> None:
            if attempt != self._attempts:
                if connection is not None:
                    connection.close(self, abort=True)
                return
            self.connection = connection
            if connection is not None:
                self._broker.accept(connection)
                if hello:
                    self.send(Hello(1, 1, Role.CLIENT, self.name, self.publisher, ("resume", "durable"), token, resume))

        self.network.open(self, self._broker, self._path, answered)

    def send(self, *frames: Frame) -> None:
        """Send frames, valid or not."""
        self.send_bytes(b"".join(encode_frame(frame) for frame in frames))

    def send_bytes(self, data: bytes) -> None:
        if self.connection is not None:
            self.connection.write(self, data)

    def publish(self, confirm: Confirm = Confirm.NONE, payload: bytes = b"", **attributes: object) -> int:
        """Publish an event and return its sequence number."""
        self._sequence += 1
        self.publish_as(self._sequence, confirm, payload, **attributes)
        return self._sequence

    def publish_as(
        self, sequence: int, confirm: Confirm = Confirm.NONE, payload: bytes = b"", **attributes: object
    ) -> None:
        """Publish under a given sequence number."""
        priority = attributes.pop("priority_", 0)
        lifetime_us = attributes.pop("lifetime_us_", 0)
        assert isinstance(priority, int)
        assert isinstance(lifetime_us, int)
        event = Event.checked(
            attributes, payload, publisher=self.publisher, sequence=sequence, priority=priority, lifetime_us=lifetime_us
        )
        self.send_bytes(encode_publish(event, confirm))

    def subscribe(self, subscription: int, filter: str = "true", **terms: object) -> int:
        """Request a subscription and return the request's number."""
        request = self.next_request()
        self.send(Subscribe(request, subscription, filter, **terms))  # type: ignore[arg-type]
        return request

    def next_request(self) -> int:
        self._requests += 1
        return self._requests

    # --- hearing ------------------------------------------------------------------------------------------------------

    def of(self, kind: type[_F]) -> list[_F]:
        """Return received frames of a type."""
        return [frame for frame in self.frames if isinstance(frame, kind)]

    def sequences(self, subscription: int) -> list[int]:
        """Return sequence numbers delivered to a subscription, in order of arrival."""
        return [f.sequence for f in self.of(Deliver) if any(number == subscription for number, _, _ in f.deliveries)]

    def positions(self, subscription: int) -> list[int]:
        """Return positions delivered to a subscription, in order of arrival."""
        return [position for f in self.of(Deliver) for number, _, position in f.deliveries if number == subscription]

    def confirmed(self) -> list[int]:
        return [sequence for receipt in self.of(Receipt) for sequence in receipt.sequences]

    def refused(self) -> dict[int, str]:
        return {refusal.sequence: refusal.code for refusal in self.of(Refusal)}

    def answer(self, request: int) -> str | None:
        """Return "done", the code of the failure, or None without an answer."""
        if any(done.request == request for done in self.of(Done)):
            return "done"
        return next((failed.code for failed in self.of(Failed) if failed.request == request), None)

    def notices(self) -> list[Notice]:
        return self.of(Notice)

    @property
    def closed_for(self) -> str | None:
        """The code with which the broker closed the connection."""
        return next((frame.code for frame in self.of(Close)), None)

    # --- the network --------------------------------------------------------------------------------------------------

    def wake(self) -> None:
        """Do nothing: it has no deadlines."""

    def received(self, connection: Connection, data: bytes) -> None:
        if connection is not self.connection:
            return
        try:
            self._decoder.feed(data)
            while frames := self._decoder.take():
                for frame in frames:
                    self._receive_frame(frame)
        except FrameError as error:
            self.recorder.breach(self.name, f"the broker sent what is no frame: {error}")

    def writable(self, connection: Connection, writable: bool) -> None:
        """Ignore backpressure."""

    def lost(self, connection: Connection) -> None:
        if connection is self.connection:
            self.connection = None
            self.lost_count += 1

    def set_reading(self, on: bool) -> None:
        """Stop or resume reading."""
        if self.connection is not None:
            self.connection.set_reading(self, on)

    def _receive_frame(self, frame: Frame) -> None:
        if isinstance(frame, Welcome):
            self.welcome = frame
            self._decoder.establish(frame.version)
        if isinstance(frame, Ping):
            if self.answers_pings:
                self.send(Pong(frame.nonce))
        else:
            self.frames.append(frame)
        if isinstance(frame, Deliver) and self.acknowledges:
            for subscription, flags, position in frame.deliveries:
                if flags & (CONFIRM | DURABLE):
                    self.send(Acknowledge(subscription, (position,)))
