"""One connection as the protocol sees it: bytes in through decoder and handshake, bytes out in two lanes.

Control frames go out ahead of deliveries and whether or not the other end keeps up; deliveries wait for it. What one
connection may have us hold is bounded in both lanes.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from math import inf
from typing import TYPE_CHECKING, Final

from plait_core.limits import WIRE_LIMITS, WireLimits
from plait_core.rate_limit import TokenBucket
from plait_core.wire import (
    HANDSHAKE_VERSION,
    ControlFrame,
    DeliveryWriter,
    Destination,
    EventFrame,
    FrameDecoder,
    Handshake,
    Hello,
    Role,
    Welcome,
    encode_frame,
)
from plait_core.wire.delivery_writer import DeliveryFields
from plait_core.wire.frame_types.overlay_frames import ClockStamp

from ..outputs import ConnectionId, Send
from ..overlay.security.mutual_auth import MutualAuth
from ..overlay.topology.transit_delay import MARK_S
from .access import Caller

if TYPE_CHECKING:
    from .sessions import Session

BURST_BYTES_MAX: Final = 1 << 20
"""Deliveries written between two takings of output; the rest waits in outboxes, where policies apply."""

CONTROL_BYTES_MAX: Final = 1 << 20
"""Control bytes for an end that takes nothing: enough for thousands of notices. Beyond it the connection is closed."""

CONTROL_PER_S: Final = 50_000.0
"""Control frames of one other broker. What it has to say follows from the events between the two and from the brokers
behind it: some thousands a second at the highest rates measured. More than this cannot even be handled."""

CONTROL_BURST: Final = 100_000.0
"""After a silence, or when a link comes up in a large overlay and everything is told at once."""


class Connection:
    """One connection."""

    __slots__ = (
        "_control",
        "_control_waiting",
        "_data",
        "_marked_at",
        "_outgoing",
        "_spoken",
        "caller",
        "closing",
        "data_bytes",
        "decoder",
        "farewell",
        "frame_since",
        "handshake",
        "heard_at",
        "hello",
        "id",
        "meeting",
        "neighbour",
        "opened_at",
        "pace",
        "pinged_at",
        "session",
        "writable",
    )

    def __init__(
        self,
        id: ConnectionId,
        caller: Caller,
        capabilities: tuple[str, ...],
        outgoing: dict[ConnectionId, Connection],
        now: float,
        limits: WireLimits = WIRE_LIMITS,
    ) -> None:
        """`outgoing` is where it enters itself when it has something to send."""
        self.id = id
        self.caller = caller
        self.decoder = FrameDecoder(limits)
        self.handshake = Handshake.acceptor(capabilities)
        self.session: Session | None = None
        self.meeting: MutualAuth | None = None
        """How far this broker and another have come in trusting each other, if the other end is one."""
        self.neighbour = 0
        """The broker at the other end, if it is one and has been let in."""
        self.farewell = ""
        """The code by which the other end has closed it."""
        self.pace = TokenBucket(CONTROL_PER_S, CONTROL_BURST, now)
        """Of control frames, for a broker at the other end."""
        self.hello: Hello | None = None
        self.opened_at = now
        self.heard_at = now
        self.frame_since: float | None = None
        """Since when a frame has been coming in that is not complete."""
        self.pinged_at: float | None = None
        """When a ping went out that was not answered yet."""
        self.writable = True
        self.closing = ""
        """Why it is being closed; nothing more is read or written then."""
        self.data_bytes = 0
        self._outgoing = outgoing
        self._control: list[bytes] = []
        self._data = DeliveryWriter()
        self._control_waiting = 0
        self._marked_at: float | None = None
        """When a neighbour was last told what our clock says."""
        self._spoken = 0

    @property
    def version(self) -> int:
        """What frames are written in."""
        return self.handshake.version

    @property
    def who(self) -> str:
        """The other end, for the log, if it is a broker; it may not be the one that it says."""
        peer = self.handshake.peer
        if isinstance(peer, Welcome):
            return f"broker {peer.broker_name} at {self.caller.dialled or self.caller.address}"
        if isinstance(peer, Hello) and peer.role is Role.BROKER:
            return f"broker {peer.name} from {self.caller.address}"
        return f"the broker at {self.caller.dialled}" if self.caller.dialled else ""

    @property
    def takes_data(self) -> bool:
        """Whether a delivery may be written now."""
        return self.writable and self.data_bytes < BURST_BYTES_MAX and not self.closing

    @property
    def has_news(self) -> bool:
        """Whether its client has been told something that may not have arrived."""
        return self.session is not None and bool(self.session.news)

    @property
    def overdue(self) -> bool:
        """Whether the other end has left too much control unread."""
        return self._control_waiting > CONTROL_BYTES_MAX

    def cut_at(self, hello_timeout_s: float, frame_timeout_s: float) -> float:
        """When the other end is out of time for the hello or the frame that it owes; infinite when it owes neither."""
        if self.session is None:
            return self.opened_at + hello_timeout_s
        return self.frame_since + frame_timeout_s if self.frame_since is not None else inf

    def relay(self, frame: ControlFrame) -> bool:
        """Queue a control frame of somebody else's, if there is room: the other end must not be closed for what others
        have to say to it. One that has grown on its way may be no frame any more."""
        try:
            data = encode_frame(frame, self.version)
        except ValueError:
            return False
        if self.closing or (not self.writable and self._control_waiting + len(data) > CONTROL_BYTES_MAX * 3 // 4):
            return False
        self._queue(data)
        return True

    def send(self, frame: ControlFrame, *, behind: bool = False) -> None:
        """Queue a control frame; a Close is the last. `behind` lets it overtake no delivery: the end of a subscription
        must not arrive before what was sent to it."""
        if self.closing:
            return
        met = self.meeting is None or self.neighbour  # until then either end speaks as everyone can
        self._queue(encode_frame(frame, self.version if met else HANDSHAKE_VERSION), behind=behind)

    def _queue(self, data: bytes, *, behind: bool = False) -> None:
        self._outgoing[self.id] = self
        if behind:
            self.data_bytes = self._data.append(data)
        else:
            self._control.append(data)
        if not self.writable:
            self._control_waiting += len(data)

    def deliver(
        self, frame: EventFrame, delay_us: int, path: tuple[int, ...], deliveries: Sequence[DeliveryFields]
    ) -> None:
        """Queue an event for these subscriptions of the other end, which takes data."""
        if not self.data_bytes:
            self._outgoing[self.id] = self
        self.data_bytes = self._data.deliver(frame, delay_us, path, deliveries, self._spoken or self._speak())

    def forward(
        self,
        frame: EventFrame,
        tree: int,
        delay_us: int,
        flags: int,
        path: tuple[int, ...],
        destinations: Sequence[Destination],
    ) -> bool:
        """Queue an event for the broker at the other end, which is to bring it to these; whether it takes it now."""
        waiting = self.data_bytes
        if not self.writable or waiting >= BURST_BYTES_MAX or self.closing:
            return False
        if not waiting:
            self._outgoing[self.id] = self
        version = self._spoken or self._speak()
        self.data_bytes = self._data.forward(frame, tree, delay_us, flags, path, destinations, version)
        return True

    def _speak(self) -> int:
        """What events are written in. They come after the handshake, so it changes no more."""
        self._spoken = self.handshake.version
        return self._spoken

    def set_writable(self, writable: bool) -> None:
        """The other end takes bytes again, or no more for now."""
        self.writable = writable
        if writable:
            self._control_waiting = 0

    def take(self, now: float) -> Send | None:
        """Everything queued."""
        chunks = self._control
        if chunks:
            self._control = []
            if self.data_bytes:
                chunks.append(self._data.take())
        elif self.data_bytes:
            chunks = [self._data.take()]
        else:
            return None
        self.data_bytes = 0
        if self.neighbour:
            self._mark(chunks, now)
        return _send((self.id, chunks))

    def _mark(self, chunks: list[bytes], now: float) -> None:
        """Say before it when this is written, unless that was said just now. What is written first introduces us: only
        then may anything be said."""
        marked_at = self._marked_at
        if marked_at is None:
            self._marked_at = now
        elif now - marked_at >= MARK_S:
            self._marked_at = now
            chunks.insert(0, encode_frame(ClockStamp(round(now * 1_000_000)), self.version))


_send: Final = partial(tuple.__new__, Send)
"""One from its fields, in half the time of the class's own call: one is made for every event that comes alone."""
