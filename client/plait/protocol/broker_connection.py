"""The line to a broker: attempts to connect, handshake, heartbeat, loss and the next attempt. No I/O.

IDLE -> CONNECTING        start
CONNECTING -> HANDSHAKE    the connection stands: hello is sent
HANDSHAKE -> OPEN          welcome
OPEN, HANDSHAKE, CONNECTING -> WAITING      it broke, failed, fell silent, or the broker said later
WAITING -> CONNECTING     the backoff is over
any -> ENDED              closed; refused for good; given up
"""

from __future__ import annotations

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
    encode_frame,
)
from plait_core.wire.frame_types.session_frames import Code

from .. import hints
from ..errors import ConnectionLost, Timeout, refusal
from ..options.addresses import Address
from ..options.limits import PINGS_MAX, SILENT_HEARTBEATS, STABLE_S
from ..options.settings import SessionSettings
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
"""While bytes come and go."""


class BrokerConnection:
    """One client's connection, over all its attempts. Frames for the session come out of `read`."""

    def __init__(
        self,
        addresses: tuple[Address, ...],
        settings: SessionSettings,
        randomness: Randomness,
        token: Callable[[], str | None],
    ) -> None:
        self.state = State.IDLE
        self.publisher = new_id(randomness)
        """The id that this client's events carry."""
        self.welcome: Welcome | None = None
        """The last broker's welcome."""
        self.log = 0
        """The last log that a broker of ours kept; 0 when none did."""
        self.rtt = RttEstimator()
        self.ping_sent: Callable[[int], None] = _ignore
        """Told the nonce of each ping."""
        self.error: PlaitError | None = None
        """Why the last attempt failed, or the line ended."""
        self.decoder = FrameDecoder()
        self.paused = False
        """Whether the session has stopped reading: silence then means nothing."""
        self._settings = settings
        self._randomness = randomness
        self._token = token
        self._backoff = Backoff(addresses, settings.reconnect, randomness)
        self._handshake: Handshake | None = None
        self._deadline: float | None = None
        self._disconnected_since = 0.0  # since when there has been no connection
        self._opened_at = self._received_at = 0.0
        self._heartbeat_s = settings.heartbeat_s
        self._pings: dict[int, float] = {}  # by nonce: when it was sent
        self._control: list[bytes] = []
        self._outputs: list[Output] = []
        self._changes: list[Opened | Lost | Ended] = []

    # --- what happens -------------------------------------------------------------------------------------------------

    def start(self, now: float) -> None:
        """Begin with the first attempt."""
        self._disconnected_since = now
        self._connect(now)

    def connected(self, now: float) -> None:
        """The connection stands."""
        if self.state is not State.CONNECTING:
            return
        self._move(State.HANDSHAKE)
        self._deadline = now + self._settings.timeout_s
        self._received_at = now
        try:
            hello = self._hello()
        except Exception as error:  # the token comes from the application, and its function may raise anything
            failed = ConnectionLost(f"there is nothing to say hello with: {error}", hint="see what auth= gives")
            failed.__cause__ = error
            self._lost(failed, now)
            return
        self._handshake = Handshake.initiator(hello)
        self.decoder = FrameDecoder()
        self._control.append(encode_frame(self._handshake.start(), HANDSHAKE_VERSION))

    def disconnected(self, now: float, reason: str = "") -> None:
        """The connection broke, or could not be opened."""
        if self.state in (State.CONNECTING, State.HANDSHAKE, State.OPEN):
            what = "lost the connection to" if self.state is State.OPEN else "no connection to"
            said = f"{what} {self._backoff.address}" + (f": {reason}" if reason else "")
            self._lost(ConnectionLost(said, hint=hints.hint(self._backoff.address, reason)), now, abort=True)

    def read(self, data: bytes, now: float) -> list[Frame]:
        """Bytes came in: frames that are complete now. While the decoder has more, `take` gives it."""
        if self.state not in _CONNECTED:
            return []
        self._received_at = now
        try:
            return self.decoder.read(data)
        except FrameError as error:
            self.protocol_error(error, now)
            return []

    def take(self, now: float) -> list[Frame]:
        """Further frames; none once the line is broken."""
        if self.state not in _CONNECTED:
            return []
        try:
            return self.decoder.take()
        except FrameError as error:
            self.protocol_error(error, now)
            return []

    def handle(self, frame: Frame, now: float) -> int | None:
        """Takes a frame that is the line's own; of a pong, its nonce."""
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
        """The broker broke the protocol: tell it, hang up, try reconnected later."""
        self._send_close(CloseCode.PROTOCOL, str(error))
        self._lost(error, now)

    def tick(self, now: float) -> None:
        """Do what is due."""
        if self._deadline is None or now < self._deadline:
            return
        if self.state is State.WAITING:
            self._connect(now)
        elif self.state in (State.CONNECTING, State.HANDSHAKE):
            address, waited_s = self._backoff.address, self._settings.timeout_s
            self._lost(Timeout(f"{address} did not answer within {waited_s:g} s"), now, abort=True)
        elif self.state is State.OPEN:
            self._heartbeat(now)

    def next_deadline(self) -> float | None:
        """When `tick` is to be called."""
        return self._deadline

    # --- what to do ---------------------------------------------------------------------------------------------------

    def send(self, frame: ControlFrame) -> None:
        """Send a control frame, ahead of all publishes."""
        assert self.state in (State.HANDSHAKE, State.OPEN), "there is a connection to send on"
        self._control.append(encode_frame(frame))

    def ping(self, now: float) -> int:
        """Ask for a sign of life; the nonce that the pong will carry."""
        nonce = new_id(self._randomness)
        if not self.paused and len(self._pings) < PINGS_MAX:
            self._pings[nonce] = now
        self.send(Ping(nonce))
        self.ping_sent(nonce)
        return nonce

    def pause(self, paused: bool, now: float) -> None:
        """Stop or go on reading."""
        self.paused = paused
        self._received_at = now
        self._outputs.append(Reading(not paused))

    def end(self, error: PlaitError | None, last: list[bytes] | None = None) -> None:
        """Hang up for good, after saying the last things there are to say."""
        if self.state is State.ENDED:
            return
        was = self.state
        if was is State.OPEN:
            self._control.extend(last or [])
            self._send_close(Code.BYE, "")
        self._move(State.ENDED)
        self._deadline = None
        self.error = error
        self._control.clear()
        if was not in (State.IDLE, State.WAITING):
            self._outputs.append(Disconnect(abort=was is State.CONNECTING))
        self._changes.append(Ended(error))

    def take_control(self) -> list[bytes]:
        """Control frames to write."""
        control, self._control = self._control, []
        return control

    def take_output(self) -> list[Output]:
        """Everything but what goes over an open connection."""
        outputs, self._outputs = self._outputs, []
        return outputs

    def take_changes(self) -> list[Opened | Lost | Ended]:
        """What has become of the line since the last call."""
        changes, self._changes = self._changes, []
        return changes

    @property
    def has_output(self) -> bool:
        """Whether something is to be done or written."""
        return bool(self._control or self._outputs)

    @property
    def address(self) -> Address:
        """Where it leads, or was last tried to."""
        return self._backoff.address

    # --- inside -------------------------------------------------------------------------------------------------------

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
        encode_frame(hello, HANDSHAKE_VERSION)  # ValueError when it is too long
        return hello

    def _connect(self, now: float) -> None:
        self._move(State.CONNECTING)
        self._deadline = now + self._settings.timeout_s
        self._outputs.append(Connect(self._backoff.address))

    def _receive_welcome(self, welcome: Welcome, now: float) -> None:
        assert self._handshake is not None, "bytes come over a connection"
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
        self.log = welcome.log or self.log  # while there is none, there are no positions to mistake
        self.rtt = RttEstimator()
        self._pings.clear()
        self._opened_at = now
        self._heartbeat_s = min(self._settings.heartbeat_s, welcome.heartbeat_s)
        self._changes.append(Opened(welcome.resumed and reconnected, reconnected, log_changed))
        self._heartbeat(now)

    def _receive_close(self, close: Close, now: float) -> None:
        error = refusal(close.code, close.message or f"{self.address} closed the connection", retryable=close.retryable)
        if close.retryable or close.code in (Code.BYE, Code.TIMEOUT):
            self._lost(error, now, elsewhere=True)
        else:
            self.end(error)

    def _receive_pong(self, nonce: int, now: float) -> int:
        sent_at = self._pings.pop(nonce, None)
        if sent_at is not None:
            self.rtt.sample(max(0.0, now - sent_at))
        return nonce

    def _heartbeat(self, now: float) -> None:
        silent_s = now - self._received_at
        if silent_s >= SILENT_HEARTBEATS * self._heartbeat_s and not self.paused:
            self._lost(ConnectionLost(f"{self.address} was silent for {silent_s:.1f} s"), now, abort=True)
            return
        if now - self._opened_at >= STABLE_S:
            self._backoff.reset()
        self.ping(now)
        self._deadline = now + self._heartbeat_s

    def _send_close(self, code: str, message: str) -> None:
        """Put everything that is to be said on its way: after this the connection is no longer the line's."""
        version = HANDSHAKE_VERSION if self.state is State.HANDSHAKE else VERSION_MAX
        self._control.append(encode_frame(Close(code, message[:CLOSE_TEXT_MAX]), version))
        self._outputs.append(Write(self.take_control()))

    def _lost(self, error: PlaitError, now: float, *, abort: bool = False, elsewhere: bool = False) -> None:
        """Go on to the next attempt, or give up."""
        was_open = self.state is State.OPEN
        if was_open:
            self._disconnected_since = now
        wait_s = self._backoff.wait_after_loss() if was_open and not elsewhere else self._backoff.wait_after_failure()
        limit_s = self._settings.reconnect.give_up_after_s
        self.error = error
        self._control.clear()
        self.paused = False
        tried = was_open or self.welcome is not None or self._backoff.tried_all
        if limit_s is not None and tried and now + wait_s - self._disconnected_since > limit_s:
            self._move(State.ENDED)
            self._deadline = None
            self._outputs.append(Disconnect(abort))
            self._changes.append(Ended(error))
            return
        self._move(State.WAITING)
        self._deadline = now + wait_s
        self._outputs.append(Disconnect(abort))
        self._changes.append(Lost(error, wait_s))


def _ignore(nonce: int) -> None:
    pass
