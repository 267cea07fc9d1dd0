"""What the protocol asks its face to do. Values only; the asyncio face and the simulator carry out the same ones.

Persist completes before what waits for it goes out: the face answers each with `Broker.persisted`, each Fetch with
`Broker.fetched`, each Probe with `Broker.probed`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

ConnectionId: TypeAlias = int
"""One connection, numbered by the face; never used again."""


class Send(NamedTuple):
    """Write these bytes to a link, in order. Never more than one per link in one taking of output."""

    link: ConnectionId
    chunks: list[bytes]


@dataclass(frozen=True, slots=True)
class Close:
    """Close a link once what was sent before has been written."""

    link: ConnectionId
    reason: str


@dataclass(frozen=True, slots=True)
class Dial:
    """Connect to another broker: report the link as `connected`, dialled, or that it is `unreachable`."""

    address: str
    """HOST:PORT, as someone has written it."""


@dataclass(frozen=True, slots=True)
class LogRecord:
    """One event of the log. Positions rise by one; `block` is the event block as it came."""

    position: int
    logged_us: int
    """When, by the broker's calendar, which never goes back while it runs."""
    block: bytes


@dataclass(frozen=True, slots=True)
class Cursor:
    """A durable subscription's place: everything up to `acknowledged` is dealt with, and `beyond` as well."""

    name: str
    owner: str
    """The principal that it belongs to."""
    filter: str
    acknowledged: int
    beyond: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class StoredDocument:
    """What another broker has told, to be kept beyond this broker's life; with an empty frame, no more."""

    origin: int
    number: int
    frame: bytes


@dataclass(frozen=True, slots=True)
class Persist:
    """Store all of this, or none of it, and only then report `persisted(ticket)`. Tickets come back in order."""

    ticket: int
    records: tuple[LogRecord, ...] = ()
    cursors: tuple[Cursor, ...] = ()
    forgotten: tuple[tuple[str, str], ...] = ()
    """Durable subscriptions given up, as (owner, name)."""
    memories: tuple[StoredDocument, ...] = ()


@dataclass(frozen=True, slots=True)
class Fetch:
    """Read up to `count` records from `position` on that were logged at or after `since_us`.

    Answer with `fetched(ticket, records, lost)`: records ascending, fewer than `count` only when the log ends there;
    `lost` tells that records from `position` on are no longer kept or were found damaged.
    """

    ticket: int
    position: int
    count: int
    since_us: int = 0


@dataclass(frozen=True, slots=True)
class Probe:
    """Find out whose routing keys fit the events of a session of sealing. Takes a pairing for each: not in the loop.

    Answer with `probed(ticket, fits)`: a Fit for each deposit, or None if that is no opening.
    """

    ticket: int
    opening: bytes
    deposits: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class Remark:
    """Something that whoever runs this broker should read."""

    text: str


Output: TypeAlias = Send | Close | Persist | Fetch | Dial | Probe | Remark


@dataclass(frozen=True, slots=True)
class Recovered:
    """What a broker finds in its log when it starts."""

    next_position: int = 1
    cursors: tuple[Cursor, ...] = ()
    recent: tuple[LogRecord, ...] = ()
    """The newest records, ascending: they refill the memory of duplicates."""
    log: int = 0
    """The log's identity, drawn when it was made: a wiped one comes back as another. 0: there is no log."""
    memories: tuple[StoredDocument, ...] = ()
    log_secret: bytes = b""
    """What the log's identity follows from: with it a broker shows others that it is this log's."""


NOTHING_RECOVERED = Recovered()
