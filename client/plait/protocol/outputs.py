"""Outputs of a session, which the driver carries out, and updates, which it reports. All are plain values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from plait_core import PlaitError

from ..options.addresses import Address

# --- to do ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Connect:
    """Open a connection in place of any other, then call `connected`, or `disconnected` if it fails."""

    address: Address


@dataclass(frozen=True, slots=True)
class Write:
    """Write these bytes, in order."""

    chunks: list[bytes]


@dataclass(frozen=True, slots=True)
class Disconnect:
    """Close the connection, or stop opening it. `abort`: do not wait for unsent bytes."""

    abort: bool = False


@dataclass(frozen=True, slots=True)
class Reading:
    """Pause or resume reading: a subscription with the policy `block` is full, or has room again."""

    on: bool


Output: TypeAlias = Connect | Write | Disconnect | Reading

# --- to know ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Opened:
    """The broker has accepted the connection."""

    resumed: bool
    reconnected: bool
    """Whether the client had a session before."""
    log_changed: bool = False
    """Whether the broker's log is another one than before: it was wiped, or this is another broker."""


@dataclass(frozen=True, slots=True)
class Lost:
    """The connection broke, or an attempt failed. The next attempt follows in `retry_s`."""

    error: PlaitError
    retry_s: float


@dataclass(frozen=True, slots=True)
class Ended:
    """The session has ended: closed, given up or refused."""

    error: PlaitError | None


@dataclass(frozen=True, slots=True)
class RequestCompleted:
    """A request was carried out (`error` is None), refused, or has timed out."""

    request: int
    error: PlaitError | None


@dataclass(frozen=True, slots=True)
class Confirmed:
    """A publish was confirmed at its level."""

    sequence: int
    matched: int


@dataclass(frozen=True, slots=True)
class NotConfirmed:
    """A publish was refused or has expired, or its outcome is unknown."""

    sequence: int
    error: PlaitError


@dataclass(frozen=True, slots=True)
class PublishesLost:
    """Publishes without confirmation were in flight when the connection broke.

    `count` is exact if `certain`; else it is an upper bound, because the broker has lost the session.
    """

    count: int
    certain: bool = True


@dataclass(frozen=True, slots=True)
class PongReceived:
    """The broker has answered a ping or barrier: it has processed everything that was sent before."""

    nonce: int
    round_trip_s: float


@dataclass(frozen=True, slots=True)
class MatchingChanged:
    """The value of an advertisement's `matching` has changed."""

    advertisement: int
    matching: bool


@dataclass(frozen=True, slots=True)
class AdvertisementEnded:
    """The broker has ended an advertisement."""

    advertisement: int
    error: PlaitError


SessionUpdate: TypeAlias = (
    Opened
    | Lost
    | Ended
    | RequestCompleted
    | Confirmed
    | NotConfirmed
    | PublishesLost
    | PongReceived
    | MatchingChanged
    | AdvertisementEnded
)
