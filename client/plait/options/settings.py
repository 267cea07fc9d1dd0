"""Option types of a client. Each default is stated with its reason."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from plait_core.filters import Attribute, Filter
from plait_core.limits import NAME_BYTES_MAX
from plait_core.values import is_text

from ..errors import ArgumentInvalid
from .limits import BUFFER_BYTES, BUFFER_ITEMS, OUTBOX_BYTES, OUTBOX_ITEMS

FilterLike: TypeAlias = str | Filter | Attribute
"""A filter: a text, or an expression built with F."""

FullPolicy: TypeAlias = Literal["drop_oldest", "drop_newest", "block", "close"]
ConfirmLevel: TypeAlias = Literal["none", "broker", "subscribers"]
LatePolicy: TypeAlias = Literal["drop", "flag"]
DepositKind: TypeAlias = Literal["exact", "coarse", "nothing"]
AckMode: TypeAlias = Literal["auto", "manual"]


@dataclass(frozen=True, slots=True)
class Reconnect:
    """The reconnect policy. Each wait is drawn between zero and a bound that doubles.

    This full jitter keeps thousands of clients of one broker from reconnecting at the same moment.
    """

    first_s: float = 0.1
    """Bound of the first wait: a restarted broker listens again by then."""
    max_s: float = 10.0
    """Largest bound of a wait."""
    factor: float = 2.0
    give_up_after_s: float | None = None
    """Seconds without a connection after which the client gives up. None: never; 0: at once."""

    def __post_init__(self) -> None:
        numbers = (self.first_s, self.max_s, self.factor, self.give_up_after_s or 0)
        if not all(isinstance(number, int | float) for number in numbers):
            raise ArgumentInvalid("Reconnect takes numbers", hint="first_s, max_s and give_up_after_s are seconds")
        if not 0 < self.first_s <= self.max_s or self.factor < 1 or (self.give_up_after_s or 0) < 0:
            raise ArgumentInvalid("Reconnect needs 0 < first_s <= max_s, factor >= 1 and give_up_after_s >= 0 or None")


NEVER = Reconnect(give_up_after_s=0)
"""The policy of a client that does not reconnect."""


@dataclass(frozen=True, slots=True)
class Buffer:
    """The bound of a subscription's queue in the client, and the policy when it is full.

    `drop_oldest` and `drop_newest` drop events and report a Gap. `close` ends the subscription. `block` stops reading
    from the broker until there is room, which blocks the client's other subscriptions, too: use a separate client for
    it.
    """

    items: int = BUFFER_ITEMS
    bytes: int = BUFFER_BYTES
    full: FullPolicy = "drop_oldest"

    def __post_init__(self) -> None:
        if self.items < 1 or self.bytes < 1:
            raise ArgumentInvalid("a Buffer holds at least one item and one byte")
        if self.full not in ("drop_oldest", "drop_newest", "block", "close"):
            raise ArgumentInvalid(f"full={self.full!r}: drop_oldest, drop_newest, block or close")


DEFAULT_BUFFER = Buffer()


@dataclass(frozen=True, slots=True)
class Outbox:
    """The bound of a client's publish queue: publishes that are not sent or not confirmed yet. `publish` waits when it
    is full."""

    items: int = OUTBOX_ITEMS
    bytes: int = OUTBOX_BYTES

    def __post_init__(self) -> None:
        if self.items < 1 or self.bytes < 1:
            raise ArgumentInvalid("an Outbox holds at least one item and one byte")


@dataclass(frozen=True, slots=True)
class SessionSettings:
    """The settings of a session."""

    name: str
    reconnect: Reconnect = Reconnect()
    heartbeat_s: float = 2.0
    """Seconds between pings, unless the broker's period is shorter. Three pings without an answer end a connection."""
    timeout_s: float = 5.0
    """Seconds for one attempt to connect, and for the answer to a request."""
    outbox: Outbox = Outbox()

    def __post_init__(self) -> None:
        if not 0 < len(self.name) <= NAME_BYTES_MAX or not is_text(self.name):
            raise ArgumentInvalid(f"a client's name has 1 to {NAME_BYTES_MAX} characters")
        if self.heartbeat_s <= 0 or self.timeout_s <= 0:
            raise ArgumentInvalid("heartbeat and timeout are above zero")
