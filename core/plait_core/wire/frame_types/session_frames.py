"""The control frames between a client and its home broker: subscriptions, advertisements, confirmations and notices.

A request carries a number that its answer repeats: Done, or Failed with a code. Events with confirmation are answered
by Receipt or Refusal, deliveries with confirmation by Acknowledge. A Notice reports events that a subscription misses.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated, Final, TypeAlias

from ...limits import (
    ACKNOWLEDGED_MAX,
    BROKERS_MAX,
    CLOSE_TEXT_MAX,
    DEPOSIT_BYTES_MAX,
    FILTER_TEXT_MAX,
    NAME_BYTES_MAX,
    REPORTED_MAX,
    UNSEEN_MAX,
)
from .frame_schema import U64, AtMost, Between, ControlFrame, control

U32: TypeAlias = Annotated[int, Between(0, 2**32 - 1)]
Name: TypeAlias = Annotated[str, AtMost(NAME_BYTES_MAX)]
FilterText: TypeAlias = Annotated[str, AtMost(FILTER_TEXT_MAX)]
Deposit: TypeAlias = Annotated[bytes, AtMost(DEPOSIT_BYTES_MAX)]
"""Routing tokens. No representation shows them: who has one can test events for its credential."""

CloseText: TypeAlias = Annotated[str, AtMost(CLOSE_TEXT_MAX)]
Numbers: TypeAlias = Annotated[tuple[U64, ...], AtMost(ACKNOWLEDGED_MAX)]
Reported: TypeAlias = Annotated[tuple[U32, ...], AtMost(REPORTED_MAX)]
ReportedTotals: TypeAlias = Annotated[tuple[U64, ...], AtMost(REPORTED_MAX)]
UnseenNumbers: TypeAlias = Annotated[tuple[U32, ...], AtMost(UNSEEN_MAX)]
UnseenReasons: TypeAlias = Annotated[tuple[Name, ...], AtMost(UNSEEN_MAX)]
UnseenTotals: TypeAlias = Annotated[tuple[U64, ...], AtMost(UNSEEN_MAX)]

# Flags of one delivery.
LATE: Final = 1  # the event missed the subscription's delay bound
CONFIRM: Final = 2  # the receiver must acknowledge its position
DURABLE: Final = 4  # its position is one of the broker's log
REPLAYED: Final = 8  # it was published before this subscription was (re)opened


class Late(StrEnum):
    """The treatment of an event that misses the subscription's delay bound."""

    DROP = "drop"
    FLAG = "flag"


class Full(StrEnum):
    """The treatment of new events while a subscription's queue is full."""

    DROP_OLDEST = "drop_oldest"
    DROP_NEWEST = "drop_newest"
    BLOCK = "block"
    CLOSE = "close"


class Start(StrEnum):
    """The start position of a new durable subscription."""

    NEW = "new"
    ALL = "all"
    TIME = "time"  # events logged at or after `start_at` microseconds since 1970
    POSITION = "position"  # log positions from `start_at` on


class NoticeKind(StrEnum):
    """The subject of a Notice."""

    GAP = "gap"  # events that matched were dropped for the reason it names
    SLOW = "slow"  # the subscription's queue at the broker is filling
    CLOSED = "closed"  # the broker ended the subscription for the reason it names


MOVED: Final = "moved"
"""Why a subscription is closed whose cursor was moved. Its client opens it again, and reads on from there."""


class Unseen(StrEnum):
    """The reason why the application has not seen a delivery that was written for it.

    Frames carry it as text: newer clients may have more.
    """

    WAITING = "waiting"  # it is in the client's buffer: no loss yet
    QUEUE_FULL = "queue_full"  # dropped because the client's buffer was full
    CLOSED = "closed"  # it was in the client's buffer when the application closed the subscription
    CONNECTION_LOST = "connection_lost"  # it was in flight when a resumed connection broke
    NOT_CONVERTIBLE = "not_convertible"  # it does not convert to the application's type
    NOT_AUTHENTIC = "not_authentic"  # sealed, and changed or wrongly signed
    ANOTHER_REALM = "another_realm"  # sealed in another realm
    STALE_EPOCH = "stale_epoch"  # sealed, and its epoch is over or has not begun
    MISSING_KEY = "missing_key"  # sealed, and the client has no keys of its epoch
    REPLAYED = "replayed"  # sealed, and opened before
    GONE = "gone"  # it was in the client's buffer at the last report of a session that ended
    OTHER = "other"  # for a reason that the broker does not know


class Code(StrEnum):
    """The reason for refusing a request or closing a connection.

    Frames carry it as text: newer brokers may have more.
    """

    AUTH = "auth"  # the token or certificate is unknown
    NOT_ALLOWED = "not_allowed"  # authenticated, but not permitted
    FILTER = "filter"  # the filter cannot be used; the message has the position
    TAKEN = "taken"  # another client uses this name or id
    ITSELF = "itself"  # a broker has connected to itself
    DUPLICATE = "duplicate"  # two brokers have a connection already
    FLOOD = "flood"  # more control frames than one broker can have for another
    FORGED = "forged"  # a message in another broker's name that this one did not send
    LIMIT = "limit"  # a quota or bound is reached
    DURABILITY = "durability"  # it cannot be stored now
    EXPIRED = "expired"  # the event's lifetime was over on arrival
    STALE = "stale"  # a sequence number below the window in which duplicates are detected
    UNKNOWN = "unknown"  # an id that does not exist
    UNAVAILABLE = "unavailable"  # not available (now)
    DRAINING = "draining"  # the broker is stopping; another one, or a later time, may serve
    TIMEOUT = "timeout"  # the other side sent nothing for too long
    BYE = "bye"  # a clean end


@control(0x20)
@dataclass(frozen=True, slots=True)
class Done(ControlFrame):
    """The request was carried out."""

    request: U32


@control(0x21)
@dataclass(frozen=True, slots=True)
class Failed(ControlFrame):
    """The request was not carried out."""

    request: U32
    code: Name
    message: CloseText = ""
    hint: CloseText = ""
    retryable: bool = False


@control(0x22)
@dataclass(frozen=True, slots=True)
class Subscribe(ControlFrame):
    """Opens a subscription under an id that the client chooses, or changes the filter and terms of an open one."""

    request: U32
    subscription: U32
    filter: FilterText
    within_us: U64 = 0
    """The delay bound; 0 is none."""
    late: Late = Late.DROP
    items_max: Annotated[int, Between(1, 2**31)] = 65_536
    bytes_max: Annotated[int, Between(1, 2**40)] = 64 << 20
    full: Full = Full.DROP_OLDEST
    durable: Name = ""
    """The name under which the broker keeps its position across restarts of either; empty for none."""
    start: Start = Start.NEW
    start_at: U64 = 0
    routing: Deposit = field(default=b"", repr=False)
    """Routing tokens for sealed events. The broker tests tags with them, and `filter` on the clear attributes."""


@control(0x23)
@dataclass(frozen=True, slots=True)
class Unsubscribe(ControlFrame):
    """Ends a subscription. With `drain`, its queued events are sent before Done; else nothing more is sent."""

    request: U32
    subscription: U32
    drain: bool = False
    forget: bool = False
    """Of a durable subscription: delete its position as well."""


@control(0x24)
@dataclass(frozen=True, slots=True)
class Advertise(ControlFrame):
    """Announces the events that will be published, under an id that the client chooses."""

    request: U32
    advertisement: U32
    filter: FilterText
    rate: Annotated[float, Between(0, 1e12)] = 0.0
    """Expected events a second; 0 if unknown."""


@control(0x25)
@dataclass(frozen=True, slots=True)
class Unadvertise(ControlFrame):
    """Withdraws an advertisement."""

    request: U32
    advertisement: U32


class DurableAction(StrEnum):
    """Actions on a durable subscription, which need not be open."""

    REMOVE = "remove"  # delete it with its backlog
    SEEK = "seek"  # move its cursor to a start position


@control(0x2E)
@dataclass(frozen=True, slots=True)
class ManageDurable(ControlFrame):
    """Removes a durable subscription of the client's principal, or moves its cursor."""

    request: U32
    durable: Name
    action: DurableAction
    force: bool = False
    """Whether to do it although a connected client holds it."""
    start: Start = Start.NEW
    start_at: U64 = 0

    def problem(self) -> str:
        return "" if self.durable else "a name"


@control(0x26)
@dataclass(frozen=True, slots=True)
class Receipt(ControlFrame):
    """Confirms published events at the level that they requested, by sequence number."""

    sequences: Numbers
    matched: Numbers
    """For each event, the number of matching subscriptions."""


@control(0x27)
@dataclass(frozen=True, slots=True)
class Refusal(ControlFrame):
    """Reports a published event that was refused, or that did not reach all its subscribers."""

    sequence: U64
    code: Name
    message: CloseText = ""
    retryable: bool = False
    hint: CloseText = ""


@control(0x28)
@dataclass(frozen=True, slots=True)
class Acknowledge(ControlFrame):
    """Acknowledges deliveries that the subscriber has processed. With a request, Done follows once that is stored."""

    subscription: U32
    positions: Numbers = ()
    up_to: U64 = 0
    """Acknowledges all positions up to this one, too."""
    request: U32 = 0


@control(0x29)
@dataclass(frozen=True, slots=True)
class Notice(ControlFrame):
    """Reports an incident of a subscription."""

    subscription: U32
    kind: NoticeKind
    reason: Name = ""
    count: U64 = 0
    publisher: U64 = 0
    first: U64 = 0
    last: U64 = 0
    """The first and last sequence number dropped, if all are of one publisher."""


@control(0x2A)
@dataclass(frozen=True, slots=True)
class Matching(ControlFrame):
    """Reports whether any subscription intersects an advertisement; sent when that changes."""

    advertisement: U32
    matching: bool


@control(0x2B)
@dataclass(frozen=True, slots=True)
class Brokers(ControlFrame):
    """The names of brokers that events may pass on their way to a client."""

    ids: Annotated[tuple[U64, ...], AtMost(BROKERS_MAX)]
    names: Annotated[tuple[Name, ...], AtMost(BROKERS_MAX)]

    def problem(self) -> str:
        return "" if len(self.ids) == len(self.names) else "a name for each"


@control(0x2F)
@dataclass(frozen=True, slots=True)
class HoldPublishes(ControlFrame):
    """Asks a client to send no more events for now, since they wait for other brokers, or to go on."""

    held: bool


@control(0x2D)
@dataclass(frozen=True, slots=True)
class ClientReport(ControlFrame):
    """Reports what became of deliveries in the client, in totals since each subscription was opened at this broker.

    A client sends it if `Welcome.report_s` is not 0, that often at most, and only when figures have changed. Totals
    make a lost or repeated report harmless. The columns of one kind have one length each. A report has a subscription
    once, and a reason and publisher of it once.
    """

    subscriptions: Reported
    handed_out: ReportedTotals
    """Events handed to the application, by subscription. An event that it declines counts no more."""
    carried: ReportedTotals
    """Events that waited in the client when it opened the subscription at this broker; they count here, too."""
    unseen_by: UnseenNumbers = ()
    """Of each line about events that the application has not seen: the subscription."""
    reasons: UnseenReasons = ()
    publishers: UnseenTotals = ()
    """The publisher of the line's events; 0 for those of publishers beyond the client's bound."""
    counts: UnseenTotals = ()
    """The number of the line's events: a total, or for `waiting` the present number."""
    last: UnseenTotals = ()
    """The sequence number of the line's last event."""

    def problem(self) -> str:
        lines = {len(self.unseen_by), len(self.reasons), len(self.publishers), len(self.counts), len(self.last)}
        entries = {len(self.subscriptions), len(self.handed_out), len(self.carried)}
        if len(lines) != 1 or len(entries) != 1:
            return "columns of one length"
        sources = set(zip(self.unseen_by, self.reasons, self.publishers, strict=True))
        once = len(set(self.subscriptions)) == len(self.subscriptions) and len(sources) == len(self.unseen_by)
        return "" if once else "each subscription, and each source of it, once"
