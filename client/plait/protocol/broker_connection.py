"""The connection to a broker: attempts, handshake, pings, loss and backoff. No I/O.

IDLE -> CONNECTING        start
CONNECTING -> HANDSHAKE   the connection is open; Hello is sent
HANDSHAKE -> OPEN         Welcome received
OPEN, HANDSHAKE, CONNECTING -> WAITING     lost, failed, timed out, or closed by the broker with a retryable reason
WAITING -> CONNECTING     the backoff is over
any -> ENDED              closed, refused for good, or given up
"""

from __future__ import annotations

import math
from collections.abc import Callable
from enum import Enum, auto
from typing import Final

from plait_core import PlaitError, Randomness, new_id
from plait_core.errors import FrameError, FrameFault
from plait_core.limits import CLOSE_TEXT_MAX
from plait_core.wire import (
    HANDSHAKE_VERSION,
    VERSION_MAX,
    VERSION_MIN,
    Close,
    CloseCode,
    ControlFrame,
    Frame,
    FrameDecoder,
    Handshake,
    Hello,
    Ping,
    Pong,
    Role,
    Welcome,
    encode_control,
)
from plait_core.wire.frame_types.session_frames import Code

from ..errors import ConnectionLost, Timeout, refusal
from ..options.addresses import Address
from ..options.limits import HEARTBEATS_MISSED_MAX, PINGS_MAX, STABLE_S
from ..options.settings import SessionSettings
from . import hints
from .backoff import Backoff
from .outputs import Connect, Disconnect, Ended, Lost, Opened, Output, Reading, Write
from .rtt import RttEstimator

CAPABILITIES: Final = ("resume", "durable")


class State(Enum):
    IDLE = auto()
    CONNECTING = auto()
    HANDSHAKE = auto()
    OPEN = auto()
    WAITING = auto()
    ENDED = auto()


MOVES: Final[dict[State, frozenset[State]]] = {
    State.IDLE: frozenset({State.CONNECTING, State.ENDED}),
    State.CONNECTING: frozenset({State.HANDSHAKE, State.WAITING, State.ENDED}),
    State.HANDSHAKE: frozenset({State.OPEN, State.WAITING, State.ENDED}),
    State.OPEN: frozenset({State.WAITING, State.ENDED}),
    State.WAITING: frozenset({State.CONNECTING, State.ENDED}),
    State.ENDED: frozenset(),
}

_CONNECTED: Final = (State.HANDSHAKE, State.OPEN)
"""States in which bytes are exchanged."""


class BrokerConnection:
    """The connection of one client, over all attempts. `read` returns the frames for the session."""

    def __init__(
        self,
        addresses: tuple[Address, ...],
        settings: SessionSettings,
        randomness: Randomness,
        token: Callable[[], str | None],
        ping_sent: Callable[[int], None],
    ) -> None:
        """`token` is called at every attempt to connect, `ping_sent` with the nonce of each ping."""
        self.state = State.IDLE
        self.publisher = new_id(randomness)
        """The publisher id of this client's events."""
        self.welcome: Welcome | None = None
        """The last Welcome."""
        self.log = 0
        """The id of the last broker's log; 0 if no broker had one."""
        self.rtt = RttEstimator()
        self.error: PlaitError | None = None
        """The error of the last attempt, or of the end."""
        self.decoder = FrameDecoder()
        self.paused = False
        """Whether the session has paused reading. Silence of the broker then means nothing."""
        self._settings = settings
        self._randomness = randomness
        self._token = token
        self._ping_sent = ping_sent
        self._backoff = Backoff(addresses, settings.reconnect, randomness)
        self._handshake: Handshake | None = None
        self.due_at = math.inf
        """The time at which `tick` must be called; inf when there is none."""
        self._disconnected_since = 0.0
        self._opened_at = self._received_at = 0.0
        self._heartbeat_s = settings.heartbeat_s
        self._pings: dict[int, float] = {}  # sending times by nonce
        self.control: list[bytes] = []
        """Control frames to write, encoded."""
        self.outputs: list[Output] = []
        """Outputs to take."""
        self.changes: list[Opened | Lost | Ended] = []
        """Changes to take."""

    # --- inputs -------------------------------------------------------------------------------------------------------

    def start(self, now: float) -> None:
        """Start the first attempt."""
        self._disconnected_since = now
        self._connect(now)

    def connected(self, now: float) -> None:
        """Send Hello over the new connection."""
        if self.state is not State.CONNECTING:
            return
        self._move(State.HANDSHAKE)
        self.due_at = now + self._settings.timeout_s
        self._received_at = now
        try:
            hello = self._hello()
        except Exception as error:  # the application's `auth` function may raise any exception
            failed = ConnectionLost(f"no Hello could be made: {error}", hint="see what auth= returns")
            failed.__cause__ = error
            self._retry_or_end(failed, now)
            return
        self._handshake = Handshake.initiator(hello)
        self.decoder = FrameDecoder()
        self.control.append(encode_control(self._handshake.start(), HANDSHAKE_VERSION))

    def disconnected(self, now: float, reason: str = "") -> None:
        """Handle a connection that broke or could not be opened."""
        if self.state in (State.CONNECTING, State.HANDSHAKE, State.OPEN):
            failure = "lost the connection to" if self.state is State.OPEN else "no connection to"
            message = f"{failure} {self._backoff.address}" + (f": {reason}" if reason else "")
            hint = hints.hint(self._backoff.address, reason, worked=self.welcome is not None)
            self._retry_or_end(ConnectionLost(message, hint=hint), now, abort=True)

    def read(self, data: bytes, now: float) -> list[Frame]:
        """Decode received bytes. Return the complete frames. While the decoder has more, `take` returns them."""
        if self.state not in _CONNECTED:
            return []
        self._received_at = now
        try:
            return self.decoder.read(data)
        except FrameError as error:
            self.protocol_error(error, now)
            return []

    def take(self, now: float) -> list[Frame]:
        """Return further frames; none once the connection is lost."""
        if self.state not in _CONNECTED:
            return []
        try:
            return self.decoder.take()
        except FrameError as error:
            self.protocol_error(error, now)
            return []

    def handle(self, frame: Frame, now: float) -> int | None:
        """Handle a frame of the connection itself. Return the nonce of a Pong, else None."""
        match frame:
            case Welcome():
                self._receive_welcome(frame, now)
            case Close():
                self._receive_close(frame, now)
            case Ping(nonce):
                self.send(Pong(nonce))
            case Pong(nonce):
                return self._receive_pong(nonce, now)
            case _:
                self.protocol_error(FrameError(FrameFault.ORDER, f"{type(frame).__name__} is not for a client"), now)
        return None

    def protocol_error(self, error: FrameError, now: float) -> None:
        """Close the connection after a protocol error of the broker, and retry later."""
        self._send_close(CloseCode.PROTOCOL, str(error))
        self._retry_or_end(error, now)

    def tick(self, now: float) -> None:
        """Process the timer if it is due."""
        if now < self.due_at:
            return
        if self.state is State.WAITING:
            self._connect(now)
        elif self.state in (State.CONNECTING, State.HANDSHAKE):
            address, waited_s = self._backoff.address, self._settings.timeout_s
            self._retry_or_end(Timeout(f"{address} did not answer within {waited_s:g} s"), now, abort=True)
        elif self.state is State.OPEN:
            self._heartbeat(now)

    # --- outputs ------------------------------------------------------------------------------------------------------

    def send(self, frame: ControlFrame) -> None:
        """Queue a control frame, ahead of all publishes."""
        self.send_encoded(encode_control(frame))

    def send_encoded(self, data: bytes) -> None:
        """Queue an encoded control frame, ahead of all publishes."""
        assert self.state in _CONNECTED, "frames are sent over a connection"
        self.control.append(data)

    def ping(self, now: float) -> int:
        """Send a ping. Return its nonce."""
        nonce = new_id(self._randomness)
        if not self.paused and len(self._pings) < PINGS_MAX:
            self._pings[nonce] = now
        self.send(Ping(nonce))
        self._ping_sent(nonce)
        return nonce

    def pause(self, paused: bool, now: float) -> None:
        """Pause or resume reading."""
        self.paused = paused
        self._received_at = now
        self.outputs.append(Reading(not paused))

    def end(self, error: PlaitError | None, last: list[bytes] | None = None) -> None:
        """End for good, after sending `last` and a Close."""
        if self.state is State.ENDED:
            return
        was = self.state
        if was is State.OPEN:
            self.control.extend(last or [])
            self._send_close(Code.BYE, "")
        self._move(State.ENDED)
        self.due_at = math.inf
        self.error = error
        self.control.clear()
        if was not in (State.IDLE, State.WAITING):
            self.outputs.append(Disconnect(abort=was is State.CONNECTING))
        self.changes.append(Ended(error))

    def take_output(self) -> tuple[list[Output], list[bytes]]:
        """Remove and return the outputs, and the control frames to write after them."""
        outputs, self.outputs = self.outputs, []
        return outputs, self._take_control()

    def take_changes(self) -> list[Opened | Lost | Ended]:
        """Remove and return the changes since the last call."""
        changes, self.changes = self.changes, []
        return changes

    @property
    def address(self) -> Address:
        """The address of the connection, or of the last attempt."""
        return self._backoff.address

    # --- inside -------------------------------------------------------------------------------------------------------

    def _take_control(self) -> list[bytes]:
        control, self.control = self.control, []
        return control

    def _move(self, state: State) -> None:
        assert state in MOVES[self.state], f"from {self.state.name} to {state.name}"
        self.state = state

    def _hello(self) -> Hello:
        token = self._backoff.address.token
        hello = Hello(
            VERSION_MIN,
            VERSION_MAX,
            Role.CLIENT,
            self._settings.name,
            self.publisher,
            CAPABILITIES,
            self._token() if token is None else token,
            self.welcome.session if self.welcome is not None else None,
        )
        encode_control(hello, HANDSHAKE_VERSION)  # raises ValueError if the token is too long
        return hello

    def _connect(self, now: float) -> None:
        self._move(State.CONNECTING)
        self.due_at = now + self._settings.timeout_s
        self.outputs.append(Connect(self._backoff.address))

    def _receive_welcome(self, welcome: Welcome, now: float) -> None:
        assert self._handshake is not None, "a Welcome follows a Hello"
        try:
            self._handshake.receive(welcome)
        except FrameError as error:
            self.protocol_error(error, now)
            return
        self.decoder.establish(self._handshake.version)
        reconnected = self.welcome is not None
        log_changed = bool(self.log and welcome.log) and welcome.log != self.log
        self._move(State.OPEN)
        self.welcome = welcome
        self.log = welcome.log or self.log  # a broker without a log has no positions
        self.rtt = RttEstimator()
        self._pings.clear()
        self._opened_at = now
        self._heartbeat_s = min(self._settings.heartbeat_s, welcome.heartbeat_s)
        self.changes.append(Opened(welcome.resumed and reconnected, reconnected, log_changed))
        self._heartbeat(now)

    def _receive_close(self, close: Close, now: float) -> None:
        error = refusal(close.code, close.message or f"{self.address} closed the connection", retryable=close.retryable)
        if close.retryable or close.code in (Code.BYE, Code.TIMEOUT):
            self._retry_or_end(error, now, elsewhere=True)
        else:
            self.end(error)

    def _receive_pong(self, nonce: int, now: float) -> int:
        sent_at = self._pings.pop(nonce, None)
        if sent_at is not None:
            self.rtt.sample(max(0.0, now - sent_at))
        return nonce

    def _heartbeat(self, now: float) -> None:
        silent_s = now - self._received_at
        if silent_s >= HEARTBEATS_MISSED_MAX * self._heartbeat_s and not self.paused:
            self._retry_or_end(ConnectionLost(f"{self.address} was silent for {silent_s:.1f} s"), now, abort=True)
            return
        if now - self._opened_at >= STABLE_S:
            self._backoff.reset()
        self.ping(now)
        self.due_at = now + self._heartbeat_s

    def _send_close(self, code: str, message: str) -> None:
        """Write a Close with all queued frames: the connection is closed next."""
        version = HANDSHAKE_VERSION if self.state is State.HANDSHAKE else VERSION_MAX
        self.control.append(encode_control(Close(code, message[:CLOSE_TEXT_MAX]), version))
        self.outputs.append(Write(self._take_control()))

    def _retry_or_end(self, error: PlaitError, now: float, *, abort: bool = False, elsewhere: bool = False) -> None:
        """Schedule the next attempt, or give up."""
        was_open = self.state is State.OPEN
        if was_open:
            self._disconnected_since = now
        wait_s = self._backoff.wait_after_loss() if was_open and not elsewhere else self._backoff.wait_after_failure()
        limit_s = self._settings.reconnect.give_up_after_s
        self.error = error
        self.control.clear()
        self.paused = False
        tried = was_open or self.welcome is not None or self._backoff.tried_all
        if limit_s is not None and tried and now + wait_s - self._disconnected_since > limit_s:
            self._move(State.ENDED)
            self.due_at = math.inf
            self.outputs.append(Disconnect(abort))
            self.changes.append(Ended(error))
            return
        self._move(State.WAITING)
        self.due_at = now + wait_s
        self.outputs.append(Disconnect(abort))
        self.changes.append(Lost(error, wait_s))
