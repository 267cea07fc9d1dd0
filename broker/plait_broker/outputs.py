"""Outputs of the protocol: values that the server and the simulator carry out.

The server answers each Persist with `Broker.persisted`, each Fetch with `Broker.fetched` and each Probe with
`Broker.probed`. Deliveries and answers that depend on a Persist follow only after its answer.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

from plait_core.sealed_opening import Fit

ConnectionId: TypeAlias = int
"""Number of a connection, given by the server and never used again."""


class Send(NamedTuple):
    """Write these chunks to a connection in order. One call of `take_output` has at most one for each connection."""

    connection: ConnectionId
    chunks: list[bytes]


@dataclass(frozen=True, slots=True)
class Close:
    """Close a connection once the Sends before have been written."""

    connection: ConnectionId
    reason: str


@dataclass(frozen=True, slots=True)
class Dial:
    """Connect to another broker. Report the connection as `connected`, dialled, or the address as `unreachable`."""

    address: str
    """HOST:PORT, as it was configured."""


@dataclass(frozen=True, slots=True)
class Linked:
    """A connection is a link to a broker from now on: keep few bytes unsent in the kernel. The rest waits in the
    protocol, where control frames overtake events."""

    connection: ConnectionId


@dataclass(frozen=True, slots=True)
class LogRecord:
    """One event of the log. Positions rise by one; `block` is the event block as received."""

    position: int
    logged_us: int
    """Calendar time of the broker; it never goes back while the broker runs."""
    block: bytes


@dataclass(frozen=True, slots=True)
class Cursor:
    """The cursor of a durable subscription: positions up to `acknowledged` are settled, and those in `beyond`."""

    name: str
    owner: str
    """Name of the principal that owns it."""
    filter: str
    acknowledged: int
    beyond: tuple[int, ...] = ()
    earlier: tuple[tuple[int, str], ...] = ()
    """Filters that were in force before, each with the last position for which it was, ascending."""
    seen_us: int = 0
    """Calendar time at which its client was last connected; 0 if that is not known."""

    @property
    def last_position(self) -> int:
        """The highest position that it names: positions are assigned anew from beyond it."""
        return max((self.acknowledged, *self.beyond, *(up_to for up_to, _ in self.earlier)))


@dataclass(frozen=True, slots=True)
class StoredDocument:
    """A document of another broker to keep beyond this broker's life; an empty frame deletes it."""

    origin: int
    number: int
    frame: bytes


@dataclass(frozen=True, slots=True)
class Persist:
    """Store all of this or nothing, then report `persisted(ticket)`. Tickets are reported in order."""

    ticket: int
    records: tuple[LogRecord, ...] = ()
    cursors: tuple[Cursor, ...] = ()
    forgotten: tuple[tuple[str, str], ...] = ()
    """Deleted durable subscriptions, as (owner, name)."""
    documents: tuple[StoredDocument, ...] = ()


@dataclass(frozen=True, slots=True)
class Fetch:
    """Read up to `count` records from `position` on that were logged at or after `since_us`.

    Answer with `fetched(ticket, records, lost)`: records ascending, fewer than `count` only when the log ends there;
    `lost`: records from `position` on were deleted or damaged.
    """

    ticket: int
    position: int
    count: int
    since_us: int = 0


@dataclass(frozen=True, slots=True)
class Probe:
    """Test whether a deposit of routing tokens fits the events of a sealing session, outside the loop, for at most
    `steps` steps: each of them is a pairing.

    Answer with `probed(ticket, Probed)`, or `probed(ticket, None)` for a malformed opening.
    """

    ticket: int
    opening: bytes
    deposit: bytes = field(repr=False)
    steps: int
    rest: object = field(default=None, repr=False)
    """The rest of the last answer for this test. None: the test begins."""


class Probed(NamedTuple):
    """The answer to a Probe."""

    fit: Fit | None
    """None: the test has not ended; another Probe goes on with `rest`."""
    steps: int
    """Steps taken."""
    rest: object = None


@dataclass(frozen=True, slots=True)
class Remark:
    """A line for the broker's operator."""

    text: str


Output: TypeAlias = Send | Close | Persist | Fetch | Dial | Linked | Probe | Remark


@dataclass(frozen=True, slots=True)
class Recovered:
    """The content of the log when a broker starts."""

    next_position: int = 1
    cursors: tuple[Cursor, ...] = ()
    recent: tuple[LogRecord, ...] = ()
    """The newest records, ascending: they refill the duplicate window."""
    log: int = 0
    """Identity of the log, drawn when it is created, so that a wiped log has another one. 0: there is no log."""
    documents: tuple[StoredDocument, ...] = ()
    log_secret: bytes = b""
    """Secret of the log's identity; with it a broker proves to others that it owns the log."""


NOTHING_RECOVERED = Recovered()
