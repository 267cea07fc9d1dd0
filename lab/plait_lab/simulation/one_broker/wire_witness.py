"""A witness on the wire: a raw client that subscribes and unsubscribes repeatedly and checks every received frame.

The SDK hides some faults from its application, such as a delivery to an ended subscription or a repeated sequence
number; they show here. After a broken connection it reconnects under a new identity.
"""

from __future__ import annotations

from random import Random
from typing import Final

from plait_core.ids import new_id
from plait_core.wire import Deliver, Frame
from plait_core.wire.frame_types.session_frames import Done, Subscribe, Unsubscribe

from .interests import Interest, draw_interest
from .network import Connection, Network, Path
from .nodes import BrokerNode
from .raw_clients import RawClient
from .recorder import Recorder

_ROUND_S: Final = 0.4
"""Mean time between two actions."""


class WireWitness(RawClient):
    """Reports breaches of I4 and I6 to the recorder."""

    def __init__(self, name: str, network: Network, recorder: Recorder, broker: BrokerNode, rng: Random) -> None:
        super().__init__(name, network, recorder, broker, rng, Path(0.0005))
        self.deliveries = 0
        self._rng = rng
        self._network = network
        self._open: dict[int, Interest] = {}
        """Subscriptions that may receive events."""
        self._ending: dict[int, int] = {}
        """Subscriptions that end when their request is answered, by request."""
        self._last: dict[tuple[int, int, int], int] = {}
        self._numbers = 0

    def start(self, token: str) -> None:
        """Act until the end of the run."""
        if self.connection is None:
            self._begin_anew()
            self.connect(token=token)
        elif self.welcome is not None:
            self._do_something()
        self.timeline.after(self._rng.expovariate(1 / _ROUND_S), lambda: self.start(token))

    def lost(self, connection: Connection) -> None:
        super().lost(connection)
        if self.connection is None:
            self._begin_anew()

    def _begin_anew(self) -> None:
        self.publisher = new_id(self._rng)
        self._open.clear()
        self._ending.clear()
        self._last.clear()

    def _do_something(self) -> None:
        closable = [number for number in self._open if number not in self._ending.values()]
        request = self.next_request()
        if len(closable) > 2 or (closable and self._rng.random() < 0.5):
            number = self._rng.choice(closable)
            self._ending[request] = number
            self.send(Unsubscribe(request, number, drain=self._rng.random() < 0.3))
        else:
            self._numbers += 1
            interest = draw_interest(self._rng)
            self._open[self._numbers] = interest
            self.send(Subscribe(request, self._numbers, interest.text))

    def _receive_frame(self, frame: Frame) -> None:
        if isinstance(frame, Done):
            self._open.pop(self._ending.pop(frame.request, 0), None)
        if isinstance(frame, Deliver):
            self._check_delivery(frame)
            return  # deliveries are not stored, since there are many
        super()._receive_frame(frame)

    def _check_delivery(self, frame: Deliver) -> None:
        self.deliveries += 1
        for subscription, _, _ in frame.deliveries:
            interest = self._open.get(subscription)
            if interest is None:
                self.recorder.breach("I4", f"{self.name}: {frame.id} for a subscription that has ended")
                continue
            if not interest.matches(frame.attributes()):
                self.recorder.breach("I4", f"{self.name}: {frame.id} for {interest.text!r}, which it does not match")
            lane = subscription, frame.publisher, frame.priority
            if frame.sequence <= self._last.get(lane, 0):
                self.recorder.breach("I6", f"{self.name}: {frame.id} arrived after number {self._last[lane]}")
            self._last[lane] = frame.sequence
