"""The control frames that every connection needs: the handshake's, the farewell and the heartbeat.

Subscribing, advertising, receipts and notices add theirs next to the protocol that answers them, by the same decorator.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Final, TypeAlias

from ...limits import ADDRESS_TEXT_MAX, CAPABILITIES_MAX, CLOSE_TEXT_MAX, NAME_BYTES_MAX, NONCE_BYTES, PROOF_BYTES
from .frame_schema import U64, AtMost, Between, ControlFrame, control

Name: TypeAlias = Annotated[str, AtMost(NAME_BYTES_MAX)]
Capabilities: TypeAlias = Annotated[tuple[Name, ...], AtMost(CAPABILITIES_MAX)]
Version: TypeAlias = Annotated[int, Between(1, 255)]
Nonce: TypeAlias = Annotated[bytes, AtMost(NONCE_BYTES)]
Proof: TypeAlias = Annotated[bytes, AtMost(PROOF_BYTES)]
Host: TypeAlias = Annotated[str, AtMost(ADDRESS_TEXT_MAX)]

HELLO: Final = 0x10
WELCOME: Final = 0x11
CLOSE: Final = 0x12
PING: Final = 0x13
PONG: Final = 0x14
INTRODUCTION: Final = 0x15


class Role(StrEnum):
    """What the one who says hello is."""

    CLIENT = "client"
    BROKER = "broker"
    PEER = "peer"


class CloseCode(StrEnum):
    """Why a connection ends. A Close carries its code as text: a newer peer may know more of them."""

    VERSION = "version"  # no protocol version in common
    PROTOCOL = "protocol"  # bytes that break the protocol: a FrameError at the one who closes


@control(HELLO, opening=True)
@dataclass(frozen=True, slots=True)
class Hello(ControlFrame):
    """The first frame of a connection, from the one who opened it."""

    version_min: Version
    version_max: Version
    role: Role
    name: Name
    publisher: U64
    """The id that its events will carry; 0 when it publishes none."""
    capabilities: Capabilities = ()
    token: str | None = None
    """Its proof of who it is, for whatever authentication the broker is set up with."""
    resume: U64 | None = None
    """The session of an earlier Welcome that it wants to go on with."""
    nonce: Nonce | None = None
    """From a broker to another: drawn for this connection, so that no proof of a secret serves for two."""

    def problem(self) -> str:
        return "version_min is above version_max" if self.version_min > self.version_max else ""


@control(WELCOME, opening=True)
@dataclass(frozen=True, slots=True)
class Welcome(ControlFrame):
    """The answer to a Hello that is accepted; from here on both sides speak `version`."""

    version: Version
    capabilities: Capabilities
    """What both sides are capable of."""
    broker_name: Name
    broker: U64
    session: U64
    heartbeat_s: Annotated[float, Between(0.001, 86_400)]
    """Silence after which the other end sends a Ping."""
    resumed: bool = False
    """Whether the session of `Hello.resume` goes on; else this one is new."""
    delivered: U64 = 0
    """Deliver frames that were sent on this session so far: what did not arrive of them was lost on the way."""
    log: U64 = 0
    """Which log the broker keeps, 0 for none: positions of one log say nothing of another."""
    nonce: Nonce | None = None
    """To a broker from another, as in its Hello."""
    published: U64 | None = None
    """The highest sequence number of the client's own events that came here, when its session goes on: what it sent
    beyond that was lost on the way. None when that is not known."""
    http: Host = ""
    """Where the broker's HTTP side is, as `http://HOST:PORT`; without a host where it is the broker's own. Empty when
    there is none."""


@control(INTRODUCTION, opening=True)
@dataclass(frozen=True, slots=True)
class Introduction(ControlFrame):
    """What follows hello and welcome between two brokers, first from the one that dialled: the proof of the secret."""

    proof: Proof = b""
    """Of the overlay's secret, over what both have said and this; empty when there is none."""
    seen: Host = ""
    """The host under which its sender sees the other: a broker that listens everywhere learns from it where it is."""
    fixed: bool = False
    """Whether its sender was configured with this link: it is not given up for being one too many."""


@control(CLOSE)
@dataclass(frozen=True, slots=True)
class Close(ControlFrame):
    """The last frame of a connection."""

    code: Name
    message: Annotated[str, AtMost(CLOSE_TEXT_MAX)] = ""
    retryable: bool = False
    """Whether connecting again, without changing anything, may succeed."""


@control(PING)
@dataclass(frozen=True, slots=True)
class Ping(ControlFrame):
    """Asks for a Pong with the same nonce."""

    nonce: U64


@control(PONG)
@dataclass(frozen=True, slots=True)
class Pong(ControlFrame):
    """The answer to a Ping."""

    nonce: U64
