"""One connection as the protocol sees it: bytes in through decoder and handshake, bytes out in two lanes.

Control frames go out before deliveries, whether or not the other end reads; deliveries wait until it does. The queued
bytes of both lanes are bounded.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Final

from plait_core.limits import WIRE_LIMITS, WireLimits
from plait_core.rate_limit import TokenBucket
from plait_core.wire import (
    HANDSHAKE_VERSION,
    ControlFrame,
    Delivery,
    DeliveryWriter,
    EventFrame,
    FrameDecoder,
    Handshake,
    Hello,
    Role,
    Welcome,
    encode_control,
)
from plait_core.wire.frame_types.group_frames import GroupBatch
from plait_core.wire.frame_types.overlay_frames import ClockStamp, StampEcho

from ..outputs import ConnectionId, Send
from ..overlay.security.mutual_auth import MutualAuth
from ..overlay.topology.transit_delay import MARK_S
from ..overlay.transport.event_copy import EventCopy
from ..overlay.transport.lane import Lane
from .access import Caller

BURST_BYTES_MAX: Final = 1 << 20
"""Bytes of deliveries between two calls of `take`. Later deliveries wait in queues, where policies apply."""

CONTROL_BYTES_MAX: Final = 1 << 20
"""Control bytes queued for an end that reads nothing: thousands of notices. Beyond it the connection is closed."""

CONTROL_PER_S: Final = 50_000.0
"""Control frames a second from one other broker. At the highest rates measured there are some thousands; more than this
limit cannot be processed."""

CONTROL_BURST: Final = 100_000.0
"""Control frames at once, as when a link comes up in a large overlay and the whole database is sent."""


class Connection:
    """One connection."""

    __slots__ = (
        "_control",
        "_control_waiting",
        "_copies",
        "_data",
        "_echoed_stamp",
        "_marked_at",
        "_outgoing",
        "_since_stamp",
        "_stamp",
        "_unechoed",
        "_version",
        "arrived_bytes",
        "caller",
        "closing",
        "control_rate",
        "data_bytes",
        "decoder",
        "farewell",
        "frame_since",
        "handshake",
        "hello",
        "id",
        "lane",
        "mutual_auth",
        "neighbour",
        "opened_at",
        "pinged_at",
        "received_at",
        "writable",
    )

    control_rate: TokenBucket
    """Rate limit of control frames of a broker at the other end. Clients have none: see `become_link`."""
    lane: Lane
    """The lane to a broker at the other end: the copies that wait for it, and those on their way. Clients have none."""

    def __init__(
        self,
        id: ConnectionId,
        caller: Caller,
        capabilities: tuple[str, ...],
        outgoing: dict[ConnectionId, Connection],
        now: float,
        limits: WireLimits = WIRE_LIMITS,
    ) -> None:
        """`outgoing`: the connection enters itself there when it has something to send."""
        self.id = id
        self.caller = caller
        self.decoder = FrameDecoder(limits)
        self.handshake = Handshake.acceptor(capabilities)
        self.mutual_auth: MutualAuth | None = None
        """State of the mutual authentication with a broker at the other end."""
        self.neighbour = 0
        """Id of the broker at the other end, once it is authenticated."""
        self.farewell = ""
        """Code of the Close frame of the other end."""
        self.hello: Hello | None = None
        """The hello of a client, once it is valid. The client may still wait for the join gate."""
        self.opened_at = now
        self.received_at = now
        self.frame_since: float | None = None
        """Time of the first bytes of a frame that is not complete yet."""
        self.pinged_at: float | None = None
        """Time of the ping that was not answered yet."""
        self.writable = True
        self.closing = ""
        """Reason for which it is being closed; nothing more is read or written then."""
        self.data_bytes = 0
        self._outgoing = outgoing
        self._control: list[bytes] = []
        self._data = DeliveryWriter()
        self._control_waiting = 0
        self._copies = 0
        """Copies for a neighbour in `_data`."""
        self._marked_at: float | None = None
        """Time of the last ClockStamp sent to a neighbour."""
        self._stamp: ClockStamp | None = None
        """The last stamp of a neighbour."""
        self._echoed_stamp: ClockStamp | None = None
        """The last stamp that was echoed."""
        self.arrived_bytes = 0
        """Bytes that have arrived since the last stamp."""
        self._since_stamp = 0
        """Number of events that have arrived since the last stamp."""
        self._unechoed = False
        """Whether events have arrived since the last echo."""
        self._version = 0
        """Wire version of events, 0 until the first event: all events come after the handshake that agrees on it."""

    def become_link(self, neighbour: int, lane: Lane, now: float) -> None:
        """Serve the authenticated broker at the other end."""
        self.neighbour = neighbour
        self.control_rate = TokenBucket(CONTROL_PER_S, CONTROL_BURST, now)
        self.lane = lane

    def stamped(self, stamp: ClockStamp, now: float) -> None:
        """Take a stamp of a neighbour. Its echo follows if events have come since the last one."""
        arrivals = self.lane.figures.arrivals
        if self._stamp is not None and self._stamp.waits:
            arrivals.delivered(self.arrived_bytes, now)
        else:
            arrivals.interrupt()
        self._stamp, self._since_stamp, self.arrived_bytes = stamp, 0, 0
        if self._unechoed:
            self._outgoing[self.id] = self

    def events_arrived(self, count: int) -> None:
        """Note events of a neighbour. An echo follows if it waits, or has stamped them."""
        self._since_stamp += count
        self._unechoed = True
        if self._stamp is not None and (self._stamp.waits or self._stamp is not self._echoed_stamp):
            self._outgoing[self.id] = self

    def echoed(self, echo: StampEcho, now: float) -> bool:
        """Take the echo of a stamp of ours. Return False if there was no such stamp. The lane may have room now."""
        if self.lane.queue:
            self._outgoing[self.id] = self
        return self.lane.echoed(echo.at_us, echo.since, now)

    @property
    def version(self) -> int:
        """Wire version of control frames."""
        return self.handshake.version

    @property
    def broker_text(self) -> str:
        """Text for the log that names a broker at the other end. Its name may be false before it is authenticated."""
        peer = self.handshake.peer
        if isinstance(peer, Welcome):
            return f"broker {peer.broker_name} at {self.caller.dialled or self.caller.address}"
        if isinstance(peer, Hello) and peer.role is Role.BROKER:
            return f"broker {peer.name} from {self.caller.address}"
        return f"the broker at {self.caller.dialled}" if self.caller.dialled else ""

    @property
    def takes_data(self) -> bool:
        """Whether an event may be written now."""
        return self.writable and self.data_bytes < self._burst_max and not self.closing

    @property
    def _burst_max(self) -> int:
        """Bytes of events that may be written in this turn."""
        return min(BURST_BYTES_MAX, self.lane.room) if self.neighbour else BURST_BYTES_MAX

    @property
    def overdue(self) -> bool:
        """Whether the other end has left too many control bytes unread."""
        return self._control_waiting > CONTROL_BYTES_MAX

    def relay(self, frame: ControlFrame) -> bool:
        """Queue a control frame of another broker if there is room, and return whether there was. The other end must
        not be closed because of frames of others."""
        try:
            data = encode_control(frame, self.version)
        except ValueError:  # it has grown on its way, above the limit of a frame
            return False
        if self.closing or (not self.writable and self._control_waiting + len(data) > CONTROL_BYTES_MAX * 3 // 4):
            return False
        self._queue(data)
        return True

    def send(self, frame: ControlFrame, *, behind: bool = False) -> None:
        """Queue a control frame; a Close is the last. `behind`: after the queued deliveries, since the end of a
        subscription must not arrive before them."""
        if self.closing:
            return
        agreed = self.mutual_auth is None or self.neighbour  # before, both ends write the version that everyone reads
        self._queue(encode_control(frame, self.version if agreed else HANDSHAKE_VERSION), behind=behind)

    def _queue(self, data: bytes, *, behind: bool = False) -> None:
        self._outgoing[self.id] = self
        if behind:
            self.data_bytes = self._data.append(data)
        else:
            self._control.append(data)
        if not self.writable:
            self._control_waiting += len(data)

    def deliver(self, frame: EventFrame, delay_us: int, path: tuple[int, ...], deliveries: Sequence[Delivery]) -> None:
        """Queue an event for these subscriptions of a client. Call it only while `takes_data`."""
        if not self.data_bytes:
            self._outgoing[self.id] = self
        self.data_bytes = self._data.deliver(frame, delay_us, path, deliveries, self._version or self._fix_version())

    def forward(self, copies: Sequence[EventCopy], waited_us: int = 0, bytes_max: int = BURST_BYTES_MAX) -> int:
        """Queue copies of events for the broker at the other end, until the connection is full or has `bytes_max` bytes
        more. Add `waited_us` to their delays. Return how many."""
        waiting, most = self.data_bytes, self._burst_max
        if not waiting:
            self._outgoing[self.id] = self  # also without room: the lane may need a stamp
        if not self.writable or waiting >= most or self.closing:
            return 0
        most, version = min(most, waiting + bytes_max), self._version or self._fix_version()
        written, self.data_bytes = self._data.forward_all(copies, version, most, waited_us)
        self._copies += written
        return written

    def forward_batches(
        self, batches: Sequence[GroupBatch], waited_us: int = 0, bytes_max: int = BURST_BYTES_MAX
    ) -> int:
        """Queue events of stream groups as `forward` does copies."""
        waiting, most = self.data_bytes, self._burst_max
        if not waiting:
            self._outgoing[self.id] = self
        written = 0
        while written < len(batches) and self.writable and not self.closing:
            if self.data_bytes >= min(most, waiting + bytes_max):
                break
            batch = batches[written]
            if waited_us:
                batch = replace(batch, waited_us=batch.waited_us + waited_us)
            self.data_bytes = self._data.append(encode_control(batch, self._version or self._fix_version()))
            written += 1
        self._copies += written
        return written

    def _fix_version(self) -> int:
        self._version = self.handshake.version
        return self._version

    def set_writable(self, writable: bool) -> None:
        """Note whether the socket takes bytes."""
        self.writable = writable
        if writable:
            self._control_waiting = 0

    def take(self, now: float) -> Send | None:
        """Return everything queued, as one Send: control frames first."""
        chunks = self._control
        if chunks:
            self._control = []
            if self.data_bytes:
                chunks.append(self._data.take())
        elif self.data_bytes:
            chunks = [self._data.take()]
        elif self.neighbour and (self._echo_due or self.lane.stamp_due):
            chunks = []
        else:
            return None
        if self.neighbour:
            self._stamp_chunks(chunks, now)
        self.data_bytes = 0
        return _send((self.id, chunks))

    @property
    def _echo_due(self) -> bool:
        """Whether the neighbour is to hear of its events."""
        stamp = self._stamp
        return self._unechoed and stamp is not None and (stamp.waits or stamp is not self._echoed_stamp)

    def _stamp_chunks(self, chunks: list[bytes], now: float) -> None:
        """Add what the measurement of lanes needs. Never to the first chunks: they carry the Introduction, which must
        come first.

        - A ClockStamp goes before the chunks, unless there are none or one was sent within MARK_S. It goes behind them
          if the neighbour must learn that our lane waits.
        - An echo of its last stamp goes first.
        """
        lane, marked_at = self.lane, self._marked_at
        if marked_at is None:
            self._marked_at = now
        elif chunks and now - marked_at >= MARK_S:
            self._marked_at = now
            chunks.insert(0, self._stamp_bytes(now))
        if self.data_bytes:
            lane.wrote(self.data_bytes, self._copies, now)
            self._copies = 0
            if lane.queue or not lane.room:
                lane.window.limited()
        if lane.stamp_due:
            chunks.append(self._stamp_bytes(now))
        if self._echo_due:
            assert self._stamp is not None, "an echo has a stamp"
            chunks.insert(0, encode_control(StampEcho(self._stamp.at_us, self._since_stamp), self.version))
            self._echoed_stamp, self._unechoed = self._stamp, False

    def _stamp_bytes(self, now: float) -> bytes:
        return encode_control(ClockStamp(*self.lane.stamp(now)), self.version)


_send: Final = partial(tuple.__new__, Send)
"""Makes a Send from its fields in half the time of the class's own call: every event that comes alone needs one."""
