"""The handshake: who may say what, and when, until both ends know which protocol they speak.

The one who opens a connection says Hello first; the other answers with Welcome, or with Close. Nothing else comes
before, and no second Hello after. The version is the highest that both know, the capabilities are those that both have.
The table is the whole of the rules; what it does not list is an error of the one who does it.
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
    HELLO_RECEIVED = auto()  # the acceptor checks who it is, which may take a while
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
    """One connection's handshake, seen from one side. Frames that it returns are to be sent, in that order.

    When `state` turns OPEN, tell the decoder: `decoder.establish(handshake.version)`.
    """

    def __init__(self, side: End, versions: tuple[int, int], capabilities: Sequence[str]) -> None:
        self.side = side
        self.state = State.START
        self.capabilities: tuple[str, ...] = ()
        """What both ends can do, once that is known."""
        self.peer: Hello | Welcome | None = None
        """Who the other end says it is."""
        self.refusal: Close | None = None
        """The Close that ended it, from either end."""
        self._versions = versions
        self._offered = capabilities
        self._hello: Hello | None = None
        self._agreed = HANDSHAKE_VERSION

    @classmethod
    def initiator(cls, hello: Hello) -> Handshake:
        """The side that opens the connection; `start` gives its first frame."""
        handshake = cls(End.INITIATOR, (hello.version_min, hello.version_max), hello.capabilities)
        handshake._hello = hello
        return handshake

    @classmethod
    def acceptor(
        cls, capabilities: Sequence[str] = (), *, versions: tuple[int, int] = (VERSION_MIN, VERSION_MAX)
    ) -> Handshake:
        """The side that is connected to."""
        return cls(End.ACCEPTOR, versions, capabilities)

    @property
    def version(self) -> int:
        """What to write frames in. A Close that refuses must be readable to one who has not been welcomed yet."""
        return self._agreed if self.state is State.OPEN else HANDSHAKE_VERSION

    def start(self) -> Hello:
        """The initiator's first frame."""
        assert self._hello is not None, "the acceptor does not speak first"
        self._step(Transition.SEND_HELLO)
        return self._hello

    def receive(self, frame: Frame) -> Close | None:
        """Takes a frame. Returns the Close to answer with when there is nothing in common; FrameError when the frame
        may not come now or does not answer what was asked."""
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
                self.peer, self._agreed, self.capabilities = frame, frame.version, frame.capabilities
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
    ) -> Welcome:
        """The acceptor's yes, to be sent; the handshake is then done."""
        self._step(Transition.SEND_WELCOME)
        return Welcome(
            self._agreed,
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
        )

    def refuse(self, code: str, message: str, *, retryable: bool = False) -> Close:
        """Either side's no, to be sent in the version of the handshake; the connection is then to be closed."""
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
                CloseCode.VERSION, f"you speak versions {theirs}, and {lowest} to {highest} are spoken here"
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
