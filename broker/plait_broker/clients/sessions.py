"""Sessions and what belongs to them: subscriptions, durable subscriptions and advertisements.

A session outlives its connection for a while, with its subscriptions and queues, so that a short disconnection loses
nothing that fits. Its id is random and known to its client alone; with it the client resumes the session.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, NamedTuple, TypeAlias

from plait_core.filters import Filter
from plait_core.ids import Randomness, new_id
from plait_core.rate_limit import TokenBucket
from plait_core.wire import Hello
from plait_core.wire.frame_types.session_frames import Notice, NoticeKind, Subscribe

from ..deposits import CLIENT, Depositor
from ..drop_reasons import DropReason
from ..histograms import DelayHistogram
from ..outputs import ConnectionId, Cursor
from .access import Principal
from .connection import Connection
from .delivery_figures import DeliveryFigures
from .delivery_queue import DeliveryQueue, QueueBounds, Queued
from .durable.backlog import Backlog

PENDING_NOTICES_MAX: Final = 10_000
"""Unacknowledged notices of one session: as many as it may have subscriptions."""

EARLIER_FILTERS_MAX: Final = 8
"""Filters before the present one that a durable subscription keeps for its backlog: each may have 16 KiB, and the log
stores them with the cursor, ten times a second while it moves. More changes than that, without reading what came
between them, are a fault."""

NoticeKey: TypeAlias = tuple[int, NoticeKind, str]
"""Subscription, kind and reason of a notice."""


@dataclass(slots=True)
class ClientAdvertisement:
    """An advertisement of one client: the events that it will publish match `filter`."""

    number: int
    id: int
    session: Session
    filter: Filter
    rate: float
    matching: bool = False
    """Whether some subscription may match, as last reported to the client."""


@dataclass(slots=True)
class Gap:
    """Drops for one reason that were not reported to the subscriber yet."""

    count: int
    publisher: int
    """0, as `first` and `last`, for events of several publishers."""
    first: int
    last: int


class Subscription:
    """One open subscription. `number` identifies it in the broker, `id` in its session."""

    __slots__ = (
        "awaited",
        "delays",
        "delivered",
        "dropped",
        "durable",
        "ending",
        "figures",
        "filter",
        "gaps",
        "id",
        "late",
        "number",
        "outbox",
        "routing",
        "session",
        "since",
        "terms",
        "within_us",
    )

    def __init__(self, number: int, session: Session, terms: Subscribe, filter: Filter, outbox: DeliveryQueue) -> None:
        self.number = number
        self.id = terms.subscription
        self.session = session
        self.terms = terms
        self.within_us = terms.within_us
        self.filter = filter
        self.routing = terms.routing
        self.outbox = outbox
        self.durable: DurableSubscription | None = None
        self.since = 0.0
        """Time of the last change of its filter, by the broker's own clock."""
        self.delivered = 0
        self.late = 0
        """Deliveries written after its delay bound."""
        self.delays: DelayHistogram | None = None
        """Delays of its deliveries, including the way to its client; only while it has a delay bound."""
        self.dropped: Counter[DropReason] = Counter()
        self.gaps: dict[DropReason, Gap] = {}
        self.awaited: set[int] = set()
        """Tokens of deliveries whose acknowledgement a publisher awaits."""
        self.ending: int | None = None
        """The Unsubscribe request to answer when the queue has been delivered."""
        self.figures: DeliveryFigures | None = None
        """What became of its deliveries in its client; None until the client reports it."""

    @property
    def slow(self) -> bool:
        """Whether the subscriber was notified that it is slow, and its queue has not been empty since."""
        return self.outbox.slow

    @slow.setter
    def slow(self, slow: bool) -> None:
        self.outbox.slow = slow

    @property
    def depositor(self) -> Depositor:
        """Whose budget the tests of its routing tokens count against."""
        return self.session.depositor

    @property
    def open(self) -> bool:
        """Whether its session still has it."""
        return self.session.subscriptions.get(self.id) is self

    def set_terms(self, terms: Subscribe, filter: Filter, bounds: QueueBounds) -> None:
        """Replace its terms and its filter."""
        self.terms, self.filter, self.within_us, self.outbox.bounds = terms, filter, terms.within_us, bounds

    def record_delay(self, delay_us: int, late: int) -> None:
        """Count a delivery that is written. `late` is 1 beyond the delay bound, else 0."""
        self.late += late
        if self.delays is None:
            self.delays = DelayHistogram()
        self.delays.observe(max(0, delay_us + self.session.link_delay_us))

    def drop(self, entry: Queued, reason: DropReason) -> None:
        """Count a dropped delivery, and note it for the subscriber's next notice."""
        self.dropped[reason] += 1
        frame, gap = entry.frame, self.gaps.get(reason)
        if gap is None:
            self.gaps[reason] = Gap(1, frame.publisher, frame.sequence, frame.sequence)
            return
        gap.count += 1
        if gap.publisher == frame.publisher:
            gap.first, gap.last = min(gap.first, frame.sequence), max(gap.last, frame.sequence)
        else:
            gap.publisher = gap.first = gap.last = 0

    def take_notices(self) -> list[Notice]:
        """Return one notice for each reason of the drops since the last call."""
        gaps, self.gaps = self.gaps, {}
        return [
            Notice(self.id, NoticeKind.GAP, reason, gap.count, gap.publisher, gap.first, gap.last)
            for reason, gap in gaps.items()
        ]


class EarlierFilter(NamedTuple):
    """A filter that was in force for older positions of the log than the present one."""

    up_to: int
    """The last position for which it was in force."""
    filter: Filter


@dataclass(slots=True, eq=False)
class DurableSubscription:
    """One durable subscription, attached to a session or not."""

    number: int
    owner: str
    name: str
    filter: Filter
    acknowledged: int
    """Cursor: every position up to this one is settled."""
    beyond: set[int] = field(default_factory=set)
    """Settled positions above the cursor."""
    earlier: list[EarlierFilter] = field(default_factory=list)
    """Filters before the present one with positions above the cursor, oldest first. An event in the log is judged by
    the filter that was in force when it was logged, so a change of the filter forgets nothing."""
    tested_from: int = 0
    """Position after which tags are tested with the present routing tokens. Before it, other keys were in force."""
    seen_us: int = 0
    """Calendar time at which a client that held it was last connected; 0 if none was since the log stores that."""
    routing: bytes = field(default=b"", repr=False)
    """Routing tokens that its client has deposited to test tags. The log does not store them: after a restart it gets
    more sealed events than it can read, until its client is back."""
    depositor: Depositor = (CLIENT, 0)
    """The client that has deposited them."""
    next_position: int = 0
    """Next position to read from the log; meaningless while it keeps up."""
    since_us: int = 0
    """Calendar time from which it reads the log; 0 without one."""
    since: float = 0.0
    """Time of the last change of its filter, by the broker's own clock; 0 if that was before this broker started."""
    in_flight: set[int] = field(default_factory=set)
    """Positions that were sent and not acknowledged."""
    backlog: Backlog = field(default_factory=Backlog)
    """Its stored events that are not settled."""
    subscription: Subscription | None = None
    """The open subscription of the client that uses it."""
    caught_up: bool = False
    """Whether every stored entry was sent or did not match, so that it gets new entries directly."""
    fetching: bool = False
    in_log: bool = False
    """Whether the log has stored it. One that was never stored is undone when storing it fails."""

    def may_read(self, window: int) -> bool:
        """Return whether more of the log could be sent to it now."""
        return not self.caught_up and not self.fetching and self.pending < window

    @property
    def held(self) -> bool:
        """Whether a connected client holds it."""
        return self.subscription is not None and self.subscription.session.connection is not None

    @property
    def pending(self) -> int:
        """Number of positions above the cursor that were sent. The window bounds it."""
        return len(self.in_flight) + len(self.beyond)

    def cursor(self) -> Cursor:
        """Return the cursor as the log stores it."""
        earlier = tuple((up_to, filter.text) for up_to, filter in self.earlier)
        beyond = tuple(sorted(self.beyond))
        return Cursor(self.name, self.owner, self.filter.text, self.acknowledged, beyond, earlier, self.seen_us)

    def filter_at(self, position: int) -> Filter:
        """Return the filter that was in force when a position was assigned."""
        for up_to, filter in self.earlier:
            if position <= up_to:
                return filter
        return self.filter

    def remember_filter(self, next_filter: Filter, last_position: int) -> None:
        """Keep the present filter for the positions up to `last_position`, because another follows."""
        known_up_to = self.earlier[-1].up_to if self.earlier else self.acknowledged
        if last_position > known_up_to:
            self.earlier.append(EarlierFilter(last_position, self.filter))
        elif self.earlier and self.earlier[-1].filter == next_filter:
            self.earlier.pop()  # back to the filter before, with no position between

    def settle(self, positions: Iterable[int], up_to: int, sent_up_to: int) -> list[int]:
        """Settle acknowledged positions, and return those that were in flight. `sent_up_to`: last position passed."""
        done = {p for p in positions if p in self.in_flight} | {p for p in self.in_flight if p <= up_to}
        self.in_flight -= done
        self.beyond |= done
        for position in done:
            self.backlog.remove(position)
        self.advance(sent_up_to)
        return sorted(done)

    def pass_over(self, position: int) -> None:
        """Settle a position that is not delivered; every position before it was passed."""
        self.backlog.remove(position)
        if self.in_flight:
            self.beyond.add(position)
        else:
            self.move_to(position)

    def advance(self, sent_up_to: int) -> None:
        """Move the cursor to the position before the first that is in flight."""
        self.move_to(min(self.in_flight) - 1 if self.in_flight else sent_up_to)

    def move_to(self, place: int) -> None:
        """Move the cursor forward to a place, if it lies ahead."""
        if place > self.acknowledged:
            self.acknowledged = place
            self.beyond = {p for p in self.beyond if p > place}
            while self.earlier and self.earlier[0].up_to <= place:
                del self.earlier[0]
            self.backlog.remove_before(place + 1)


@dataclass(slots=True, eq=False)
class Session:
    """One client's session."""

    id: int
    principal: Principal
    name: str
    publisher: int
    connection: Connection | None = None
    subscriptions: dict[int, Subscription] = field(default_factory=dict)
    advertisements: dict[int, ClientAdvertisement] = field(default_factory=dict)
    durables: list[DurableSubscription] = field(default_factory=list)
    """Durable subscriptions that it has attached."""
    backlog: dict[int, Subscription] = field(default_factory=dict)
    """Subscriptions with queued deliveries, by number, in the order in which they fell behind."""
    queued_bytes: int = 0
    delivered: int = 0
    """Deliver frames written. A client that resumes compares it with its own count to find what was lost."""
    published: int = 0
    link_delay_us: int = 0
    """Half the measured round-trip time."""
    detached_at: float | None = None
    pending_notices: dict[NoticeKey, Notice] = field(default_factory=dict)
    """Notices that may not have arrived; they are sent again when the session is resumed."""
    unproven_notices: dict[NoticeKey, Notice] = field(default_factory=dict)
    """Notices sent before the last ping; its pong proves that they have arrived."""
    drained: dict[int, Subscription] = field(default_factory=dict)
    """The last subscriptions that were drained, for reports about their last deliveries."""
    report_rate: TokenBucket | None = None
    manage_rate: TokenBucket | None = None
    """Rate limit of its client's reports."""
    publish_open: bool = True
    subscribe_open: bool = True

    @property
    def depositor(self) -> Depositor:
        """Its client, as one that deposits routing tokens."""
        return CLIENT, self.id

    @property
    def attached(self) -> bool:
        """Whether its client is connected."""
        return self.connection is not None and not self.connection.closing

    def notify(self, notice: Notice, *, behind: bool = False) -> None:
        """Send a notice, now or when the session is resumed. `behind`: after the deliveries written so far."""
        self.pending_notices[notice.subscription, notice.kind, notice.reason] = notice
        if len(self.pending_notices) > PENDING_NOTICES_MAX:
            del self.pending_notices[next(iter(self.pending_notices))]
        if self.connection is not None:
            self.connection.send(notice, behind=behind)

    def notify_again(self) -> None:
        """Send the unacknowledged notices again, without their counts: the client may have got them."""
        again = [*self.unproven_notices.values(), *self.pending_notices.values()]
        self.unproven_notices, self.pending_notices = {}, {}
        for notice in again:
            closed = notice.kind is NoticeKind.CLOSED
            self.notify(notice if closed else Notice(notice.subscription, notice.kind, notice.reason))

    def begin_proof(self) -> None:
        """Note that a ping is sent: its pong proves that the notices before it have arrived."""
        self.unproven_notices |= self.pending_notices
        self.pending_notices = {}

    def permit(self, principal: Principal) -> None:
        """Apply a principal's permissions from now on."""
        self.principal = principal
        self.publish_open = principal.publish.open
        self.subscribe_open = principal.subscribe.open


class Sessions:
    """All sessions of a broker."""

    def __init__(self, randomness: Randomness) -> None:
        self._randomness = randomness
        self._by_id: dict[int, Session] = {}
        self._by_publisher: dict[int, Session] = {}
        self.by_connection: dict[ConnectionId, Session] = {}

    def __len__(self) -> int:
        return len(self._by_id)

    def all(self) -> list[Session]:
        """Return all sessions, connected or not."""
        return list(self._by_id.values())

    def get(self, id: int) -> Session | None:
        """Return a session by its id."""
        return self._by_id.get(id)

    def of_publisher(self, publisher: int) -> Session | None:
        """Return the session whose client publishes under this id."""
        return self._by_publisher.get(publisher)

    def resumable(self, hello: Hello, principal: Principal) -> Session | None:
        """Return the session that a Hello may resume: it has the id, and the same principal and publisher."""
        session = self._by_id.get(hello.resume) if hello.resume is not None else None
        if session is None or session.principal.name != principal.name or session.publisher != hello.publisher:
            return None
        return session

    def open(self, hello: Hello, principal: Principal) -> Session:
        """Open a session without a connection."""
        session = Session(new_id(self._randomness), principal, hello.name, hello.publisher)
        session.permit(principal)
        assert hello.publisher not in self._by_publisher, "one session a publisher"
        self._by_id[session.id] = session
        if hello.publisher:
            self._by_publisher[hello.publisher] = session
        return session

    def attach(self, session: Session, connection: Connection) -> None:
        """Give a session this connection, in place of any before."""
        self.detach(session)
        session.connection = connection
        session.detached_at = None
        self.by_connection[connection.id] = session

    def detach(self, session: Session) -> None:
        """Leave a session without a connection."""
        if session.connection is not None:
            self.by_connection.pop(session.connection.id, None)
            session.connection = None

    def close(self, session: Session) -> None:
        """Remove a session for good."""
        self.detach(session)
        del self._by_id[session.id]
        if session.publisher:
            del self._by_publisher[session.publisher]
