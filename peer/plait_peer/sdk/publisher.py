"""The publisher of one application at its peers: it announces itself, holds events until the group knows it, and
publishes. No I/O.

Publishing begins once subscribers are connected, or when no subscriber has been found for NOBODY_PERIODS.
"""

from __future__ import annotations

from collections import deque
from itertools import groupby
from typing import Final

from plait_core.errors import PlaitError
from plait_core.filters import Filter
from plait_core.limits import CLOSE_TEXT_MAX
from plait_core.space import DzSet
from plait_core.wire import Confirm, Ping, Pong, Publish
from plait_core.wire.frame_types.session_frames import Advertise, Code, Done, Receipt, Refusal, Unadvertise

from ..node import Node
from ..protocol.outputs import Confirmed, Output
from ..protocol.peer import Peer
from .advertisements import Advertisements, remote_interest
from .writer import SdkWriter

NOBODY_PERIODS: Final = 8
"""Periods without a known counterpart after which a subscription or publisher is open in any case. Gossip reaches
thousands of peers in that time."""
SETTLED_PERIODS: Final = 2
"""Periods without a new child after which a publisher begins."""
HELD_MAX: Final = 16_384
"""Publishes that wait for the publisher to be known, before the application is asked to pause."""


class SdkPublisher:
    """The application's publisher. Its peer is added with the first advertisement or event."""

    def __init__(self, node: Node, writer: SdkWriter) -> None:
        self.id = 0
        """The publisher id of the application's Hello."""
        self.peer: Peer | None = None
        self._node = node
        self._writer = writer
        self._advertisements = Advertisements(node.group)
        self._pending_advertises: list[tuple[int, int]] = []
        self._since = self._last_join = 0
        self._child_count = 0
        self._publishing = False
        self._held: deque[Publish | Ping] = deque()
        self._period = 0

    @property
    def congested(self) -> bool:
        """Whether the application should pause publishing."""
        return len(self._held) >= HELD_MAX or (self.peer is not None and self.peer.confirmed_delivery.full)

    @property
    def ready(self) -> bool:
        """Whether events are published at once."""
        return self.peer is None or self._publishing

    def advertise(self, frame: Advertise, now: float) -> None:
        """Announce a publisher to the group, for the whole space: its later events are not known."""
        self._advertisements.add(frame.advertisement, frame.filter)
        self._announce(now)
        if self._publishing:
            self._writer.send(Done(frame.request))
        else:
            self._pending_advertises.append((frame.advertisement, frame.request))

    def unadvertise(self, frame: Unadvertise) -> None:
        """Withdraw an advertisement."""
        self._advertisements.remove(frame.advertisement)
        self._writer.send(Done(frame.request))

    def publish(self, frames: list[Publish], now: float) -> None:
        """Publish events, or hold them until publishing begins."""
        publisher = self.peer or self._announce(now)
        if not self._publishing or self._held:
            self._held.extend(frames)
            return
        for dz, run in groupby(frames, self._unconfirmed_dz):
            if dz is not None:
                self._node.publish(publisher, dz, list(run))
            else:
                for frame in run:
                    self._publish_one(publisher, frame, now)

    def ping(self, frame: Ping) -> None:
        """Answer a ping. Its Pong confirms that all earlier events were published."""
        if self._held:
            self._held.append(frame)
        else:
            self._writer.send(Pong(frame.nonce))

    def tick(self, filters: list[Filter], period: int, now: float) -> None:
        """Begin publishing when it is time, and report changed interest. `filters` are the application's own."""
        self._period = period
        publisher = self.peer
        if publisher is None:
            return
        children = len(publisher.children.by_id)
        if children != self._child_count:
            self._child_count, self._last_join = children, period
        self._start_publishing(now)
        if self._publishing:
            for matching in self._advertisements.changes(remote_interest(publisher, self._node), filters):
                self._writer.send(matching)
        self._node.drain(publisher, now)

    def drain(self, now: float) -> None:
        """Process the outputs of the peer after frames of the application."""
        if self.peer is not None:
            self._node.drain(self.peer, now)

    def close(self, now: float) -> None:
        """Remove the peer."""
        if self.peer is not None:
            self._node.remove(self.peer, now)
            self.peer = None

    # --- inside -------------------------------------------------------------------------------------------------------

    def _announce(self, now: float) -> Peer:
        if self.peer is None:
            self.peer = self._node.add(DzSet.of([""]), 0.0, self._confirmed, now, id=self.id)
            self._since = self._last_join = self._period
        return self.peer

    def _unconfirmed_dz(self, frame: Publish) -> str | None:
        """Return the sub-space of a valid unconfirmed event, or None for all other events."""
        if frame.confirm is not Confirm.NONE:
            return None
        if self._node.group.space is None:
            return ""
        try:
            return self._node.group.locate(frame.attributes())
        except PlaitError:
            return None

    def _start_publishing(self, now: float) -> None:
        """Publish the held events, in order, once subscribers are connected."""
        if not self._publishing:
            met = self._child_count and self._period - self._last_join >= SETTLED_PERIODS
            if not met and self._period - self._since < NOBODY_PERIODS:
                return
            self._publishing = True
            for _, request in self._pending_advertises:
                self._writer.send(Done(request))
            self._pending_advertises.clear()
        publisher = self._announce(now)
        while self._held:
            frame = self._held.popleft()
            if isinstance(frame, Ping):
                self._writer.send(Pong(frame.nonce))
            else:
                self._publish_one(publisher, frame, now)

    def _publish_one(self, publisher: Peer, frame: Publish, now: float) -> None:
        node, send = self._node, self._writer.send
        try:
            dz = node.group.locate(frame.attributes()) if node.group.space is not None else ""
        except PlaitError as error:
            send(Refusal(frame.sequence, Code.NOT_ALLOWED, error.message[:CLOSE_TEXT_MAX], hint=error.hint[:400]))
            return
        confirm = frame.confirm is Confirm.SUBSCRIBERS
        if publisher.confirmed_delivery.full and confirm:
            send(Refusal(frame.sequence, Code.LIMIT, "too many events await confirmation", retryable=True))
            return
        if not confirm:
            node.publish(publisher, dz, [frame])
        else:
            node.publish_confirmed(publisher, dz, frame, now)
        if frame.confirm is Confirm.BROKER:
            send(Receipt((frame.sequence,), (len(publisher.children.by_id),)))

    def _confirmed(self, output: Output) -> None:
        assert isinstance(output, Confirmed), "publishers receive nothing"
        if output.matched is None:
            hint = "some may have it: publish it again under a new number if all must have it"
            self._writer.send(Refusal(output.number, Code.TIMEOUT, "not all subscribers have acked it", hint=hint))
        else:
            self._writer.send(Receipt((output.number,), (output.matched,)))
