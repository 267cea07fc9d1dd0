"""What a session asks its face to do, and what it tells it. Values only; asyncio and tests carry out the same ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from plait_core import PlaitError

from ..options.addresses import Address

# --- to do ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Connect:
    """Open a connection; then call `connected`, or `disconnected` if it fails. It replaces whatever was open before."""

    address: Address


@dataclass(frozen=True, slots=True)
class Write:
    """Write these bytes, in order."""

    chunks: list[bytes]


@dataclass(frozen=True, slots=True)
class Disconnect:
    """Close the connection, or give up opening it; the session has already forgotten it. `abort`: do not wait."""

    abort: bool = False


@dataclass(frozen=True, slots=True)
class Reading:
    """Stop or go on reading: a subscription that blocks is full, or has room again."""

    on: bool


Output: TypeAlias = Connect | Write | Disconnect | Reading

# --- to know ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Opened:
    """The broker said welcome."""

    resumed: bool
    reconnected: bool
    """Whether there was a session before."""
    log_changed: bool = False
    """Whether the broker keeps another log than the one before: its own was wiped, or it is another broker."""


@dataclass(frozen=True, slots=True)
class Lost:
    """The connection broke, or an attempt failed; the next attempt is in `retry_s`."""

    error: PlaitError
    retry_s: float


@dataclass(frozen=True, slots=True)
class Ended:
    """There will be no other connection: closed, given up or refused."""

    error: PlaitError | None


@dataclass(frozen=True, slots=True)
class RequestCompleted:
    """A request was carried out, or not."""

    request: int
    error: PlaitError | None


@dataclass(frozen=True, slots=True)
class Confirmed:
    """A publish is confirmed at the level that it asked for."""

    sequence: int
    matched: int


@dataclass(frozen=True, slots=True)
class NotConfirmed:
    """A publish went nowhere, or its outcome is not known."""

    sequence: int
    error: PlaitError


@dataclass(frozen=True, slots=True)
class PublishesLost:
    """So many publishes that asked for no confirmation were on their way when the connection broke; at most so many
    where no broker is left that knows."""

    count: int
    certain: bool = True


@dataclass(frozen=True, slots=True)
class PongReceived:
    """The broker has processed everything that was sent before the barrier, or answered a ping."""

    nonce: int
    round_trip_s: float


@dataclass(frozen=True, slots=True)
class MatchingChanged:
    """Whether anyone is interested in an advertisement has changed."""

    advertisement: int
    matching: bool


@dataclass(frozen=True, slots=True)
class AdvertisementEnded:
    """The broker does not take an advertisement any more."""

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
