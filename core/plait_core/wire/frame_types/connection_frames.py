"""The control frames of every connection: the handshake, the close and the heartbeat.

Subscribing, advertising, receipts and notices are declared in the other modules of this folder, by the same decorator.
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
    """The role of the side that opens a connection."""

    CLIENT = "client"
    BROKER = "broker"
    PEER = "peer"


class CloseCode(StrEnum):
    """Reasons for closing a connection.

    A Close carries its code as text, because a newer peer may have more of them.
    """

    VERSION = "version"  # no protocol version in common
    PROTOCOL = "protocol"  # bytes that break the protocol: a FrameError at the side that closes


@control(HELLO, opening=True)
@dataclass(frozen=True, slots=True)
class Hello(ControlFrame):
    """The first frame of a connection, sent by the side that opened it."""

    version_min: Version
    version_max: Version
    role: Role
    name: Name
    publisher: U64
    """The id of the events that it will publish; 0 if it publishes none."""
    capabilities: Capabilities = ()
    token: str | None = None
    """Its credential, in the form that the broker's authentication requires."""
    resume: U64 | None = None
    """The session of an earlier Welcome that it requests to resume."""
    nonce: Nonce | None = None
    """Between brokers: random and unique to this connection, so that a proof of the secret is valid for it alone."""

    def problem(self) -> str:
        return "version_min is above version_max" if self.version_min > self.version_max else ""


@control(WELCOME, opening=True)
@dataclass(frozen=True, slots=True)
class Welcome(ControlFrame):
    """The answer to an accepted Hello. From here on both sides use `version`."""

    version: Version
    capabilities: Capabilities
    """Capabilities that both sides have."""
    broker_name: Name
    broker: U64
    session: U64
    heartbeat_s: Annotated[float, Between(0.001, 86_400)]
    """Silence after which the other end sends a Ping."""
    resumed: bool = False
    """True if the session of `Hello.resume` is resumed; else this one is new."""
    delivered: U64 = 0
    """Deliver frames sent on this session so far. The client lost the ones that it did not receive."""
    log: U64 = 0
    """The incarnation of the broker's log, 0 for none. Positions of one incarnation mean nothing in another."""
    nonce: Nonce | None = None
    """Between brokers: as in the Hello."""
    published: U64 | None = None
    """The highest sequence number received from the resuming client; its later events were lost on the way.

    None if it is unknown.
    """
    http: Host = ""
    """Address of the broker's HTTP server, as `http://HOST:PORT`.

    Without a host: the broker's own. Empty: no server.
    """
    report_s: Annotated[float, Between(0.0, 86_400)] = 0.0
    """The least time between two of the client's reports (`ClientReport`); 0: the broker takes none."""


@control(INTRODUCTION, opening=True)
@dataclass(frozen=True, slots=True)
class Introduction(ControlFrame):
    """The frame after hello and welcome between two brokers, first from the dialling side. It proves the secret."""

    proof: Proof = b""
    """A MAC under the overlay's secret over both sides' handshake frames; empty without a secret."""
    seen: Host = ""
    """The receiver's host as the sender sees it. A broker that listens on all interfaces learns its address from it."""
    fixed: bool = False
    """True if the sender was configured with this link. Such a link is never dropped as surplus."""


@control(CLOSE)
@dataclass(frozen=True, slots=True)
class Close(ControlFrame):
    """The last frame of a connection."""

    code: Name
    message: Annotated[str, AtMost(CLOSE_TEXT_MAX)] = ""
    retryable: bool = False
    """True if connecting again, without any change, may succeed."""


@control(PING)
@dataclass(frozen=True, slots=True)
class Ping(ControlFrame):
    """Requests a Pong with the same nonce."""

    nonce: U64


@control(PONG)
@dataclass(frozen=True, slots=True)
class Pong(ControlFrame):
    """The answer to a Ping."""

    nonce: U64
