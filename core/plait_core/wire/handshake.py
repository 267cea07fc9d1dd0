"""The handshake: the frames that each side may send, and when, until both agree on a protocol version.

The initiator sends Hello first. The acceptor answers with Welcome or with Close. No other frame comes before, and no
second Hello after. The version is the highest that both know, the capabilities are those that both have. The table has
all the rules; a transition that it does not list is an error of the side that makes it.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum, auto
from typing import Final

from ..errors import FrameError, FrameFault
from .frame_header import HANDSHAKE_VERSION, VERSION_MAX, VERSION_MIN
from .frame_types.connection_frames import Close, CloseCode, Hello, Welcome
from .frames import Frame


class End(Enum):
    INITIATOR = auto()
    ACCEPTOR = auto()


class State(Enum):
    START = auto()
    HELLO_SENT = auto()  # the initiator waits for an answer
    HELLO_RECEIVED = auto()  # the acceptor authenticates the initiator, which may take a while
    OPEN = auto()
    CLOSED = auto()


class Transition(Enum):
    SEND_HELLO = auto()
    SEND_WELCOME = auto()
    SEND_CLOSE = auto()
    RECEIVE_HELLO = auto()
    RECEIVE_WELCOME = auto()
    RECEIVE_CLOSE = auto()


_FAREWELL: Final = {Transition.SEND_CLOSE: State.CLOSED, Transition.RECEIVE_CLOSE: State.CLOSED}

TABLE: Final[dict[End, dict[State, dict[Transition, State]]]] = {
    End.INITIATOR: {
        State.START: {Transition.SEND_HELLO: State.HELLO_SENT, **_FAREWELL},
        State.HELLO_SENT: {Transition.RECEIVE_WELCOME: State.OPEN, **_FAREWELL},
        State.OPEN: {},
        State.CLOSED: {},
    },
    End.ACCEPTOR: {
        State.START: {Transition.RECEIVE_HELLO: State.HELLO_RECEIVED, **_FAREWELL},
        State.HELLO_RECEIVED: {Transition.SEND_WELCOME: State.OPEN, **_FAREWELL},
        State.OPEN: {},
        State.CLOSED: {},
    },
}

_RECEIVED: Final[dict[type, Transition]] = {
    Hello: Transition.RECEIVE_HELLO,
    Welcome: Transition.RECEIVE_WELCOME,
    Close: Transition.RECEIVE_CLOSE,
}


class Handshake:
    """One connection's handshake, seen from one side. The caller sends the frames that it returns, in that order.

    When `state` becomes OPEN, call `decoder.establish(handshake.version)`.
    """

    __slots__ = (
        "_agreed",
        "_hello",
        "_offered",
        "_versions",
        "capabilities",
        "peer",
        "refusal",
        "side",
        "state",
        "version",
    )

    def __init__(self, side: End, versions: tuple[int, int], capabilities: Sequence[str]) -> None:
        self.side = side
        self.state = State.START
        self.capabilities: tuple[str, ...] = ()
        """Capabilities of both ends, once they are known."""
        self.peer: Hello | Welcome | None = None
        """The other end's Hello or Welcome."""
        self.refusal: Close | None = None
        """The Close that ended the handshake, from either end."""
        self._versions = versions
        self._offered = capabilities
        self._hello: Hello | None = None
        self._agreed = HANDSHAKE_VERSION
        self.version = HANDSHAKE_VERSION
        """The version to write frames in. A Close that refuses must be readable before the Welcome."""

    @classmethod
    def initiator(cls, hello: Hello) -> Handshake:
        """Create the side that opens the connection; `start` returns its first frame."""
        handshake = cls(End.INITIATOR, (hello.version_min, hello.version_max), hello.capabilities)
        handshake._hello = hello
        return handshake

    @classmethod
    def acceptor(
        cls, capabilities: Sequence[str] = (), *, versions: tuple[int, int] = (VERSION_MIN, VERSION_MAX)
    ) -> Handshake:
        """Create the side that accepts the connection."""
        return cls(End.ACCEPTOR, versions, capabilities)

    def start(self) -> Hello:
        """Return the initiator's first frame."""
        assert self._hello is not None, "the acceptor does not send first"
        self._step(Transition.SEND_HELLO)
        return self._hello

    def receive(self, frame: Frame) -> Close | None:
        """Process a frame. Return the Close to answer with if the versions have nothing in common.

        Raise FrameError if the frame is not allowed in this state or does not fit the Hello.
        """
        step = _RECEIVED.get(type(frame))
        if step is None or step not in TABLE[self.side][self.state]:
            raise FrameError(FrameFault.ORDER, f"{type(frame).__name__} in a handshake that is {self.state.name}")
        match frame:
            case Hello():
                self._step(step)
                return self._negotiate(frame)
            case Welcome():
                self._check_welcome(frame)
                self._step(step)
                self.peer, self.version, self.capabilities = frame, frame.version, frame.capabilities
            case Close():
                self._step(step)
                self.refusal = frame
        return None

    def welcome(
        self,
        *,
        broker_name: str,
        broker: int,
        session: int,
        heartbeat_s: float,
        resumed: bool = False,
        delivered: int = 0,
        log: int = 0,
        nonce: bytes | None = None,
        published: int | None = None,
        http: str = "",
        report_s: float = 0.0,
    ) -> Welcome:
        """Return the acceptor's Welcome. The handshake is then done."""
        self._step(Transition.SEND_WELCOME)
        self.version = self._agreed
        return Welcome(
            self.version,
            self.capabilities,
            broker_name,
            broker,
            session,
            heartbeat_s,
            resumed,
            delivered,
            log,
            nonce,
            published,
            http,
            report_s,
        )

    def refuse(self, code: str, message: str, *, retryable: bool = False) -> Close:
        """Return a Close from either side, in the handshake's version.

        The caller sends it and closes the connection.
        """
        self._step(Transition.SEND_CLOSE)
        self.refusal = Close(code, message, retryable)
        return self.refusal

    def _step(self, step: Transition) -> None:
        allowed = TABLE[self.side][self.state]
        assert step in allowed, f"{self.side.name} may not {step.name} when {self.state.name}"
        self.state = allowed[step]

    def _negotiate(self, hello: Hello) -> Close | None:
        lowest, highest = self._versions
        version = min(highest, hello.version_max)
        self.peer = hello
        if version < max(lowest, hello.version_min):
            theirs = f"{hello.version_min} to {hello.version_max}"
            return self.refuse(
                CloseCode.VERSION, f"you offer versions {theirs}, and {lowest} to {highest} are supported here"
            )
        self._agreed = version
        self.capabilities = tuple(dict.fromkeys(c for c in hello.capabilities if c in self._offered))
        return None

    def _check_welcome(self, welcome: Welcome) -> None:
        lowest, highest = self._versions
        if not lowest <= welcome.version <= highest:
            raise FrameError(FrameFault.VERSION, f"a Welcome in version {welcome.version}, which was not offered")
        if not set(welcome.capabilities) <= set(self._offered):
            raise FrameError(FrameFault.FIELD, "a Welcome with capabilities that were not offered")
