"""Sessions: who is attached, from welcome to the end, across connections that break in between.

A session outlives its connection by a while, with its subscriptions and queues, so that a blip loses nothing that fits.
Its id is drawn at random and known to its client alone, which is what lets the client take it up again.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, TypeAlias

from plait_core.filters import Filter
from plait_core.ids import Randomness, new_id
from plait_core.wire import Hello
from plait_core.wire.frame_types.session_frames import Notice, NoticeKind

from .access import Principal
from .connection import Connection
from .durable_subscriptions import DurableSubscription
from .subscriptions import Subscription

NEWS_MAX: Final = 10_000
"""Notices of one session that may not have arrived: as many as it may have subscriptions."""

NewsKey: TypeAlias = tuple[int, NoticeKind, str]
"""What a notice is about: its subscription, kind and reason."""


@dataclass(slots=True)
class ClientAdvertisement:
    """What a publisher says it will publish."""

    number: int
    id: int
    session: Session
    filter: Filter
    rate: float
    matching: bool = False


@dataclass(slots=True, eq=False)
class Session:
    """One client, while it is with us."""

    id: int
    principal: Principal
    name: str
    publisher: int
    link: Connection | None
    subscriptions: dict[int, Subscription] = field(default_factory=dict)
    advertisements: dict[int, ClientAdvertisement] = field(default_factory=dict)
    durables: list[DurableSubscription] = field(default_factory=list)
    """Those that it has taken up."""
    backlog: dict[int, Subscription] = field(default_factory=dict)
    """Its subscriptions that have something queued, by number, in the order in which they fell behind."""
    queued_bytes: int = 0
    delivered: int = 0
    """Deliver frames written: on resuming, the client sees how many of them it never got."""
    published: int = 0
    link_delay_us: int = 0
    """Half the measured round trip."""
    detached_at: float | None = None
    news: dict[NewsKey, Notice] = field(default_factory=dict)
    """Notices that may not have arrived: told again when the session is resumed."""
    proving: dict[NewsKey, Notice] = field(default_factory=dict)
    """Of these, what went out before the ping whose pong will prove it."""
    publish_open: bool = True
    subscribe_open: bool = True

    @property
    def attached(self) -> bool:
        """Whether its client is connected and hears us."""
        return self.link is not None and not self.link.closing

    def tell(self, notice: Notice, *, behind: bool = False) -> None:
        """Send a notice, now or when the client is back."""
        self.news[notice.subscription, notice.kind, notice.reason] = notice
        if len(self.news) > NEWS_MAX:
            del self.news[next(iter(self.news))]
        if self.link is not None:
            self.link.send(notice, behind=behind)

    def tell_again(self) -> None:
        """The client is back, and may have missed what it was told. How many events a notice spoke of is left out:
        it may be told of them twice."""
        again = [*self.proving.values(), *self.news.values()]
        self.proving, self.news = {}, {}
        for notice in again:
            closed = notice.kind is NoticeKind.CLOSED
            self.tell(notice if closed else Notice(notice.subscription, notice.kind, notice.reason))

    def begin_proof(self) -> None:
        """A ping goes out: when it is answered, what was told before it has arrived."""
        self.proving |= self.news
        self.news = {}

    def permit(self, principal: Principal) -> None:
        """It is allowed what `principal` is, from now on."""
        self.principal = principal
        self.publish_open = principal.publish.open
        self.subscribe_open = principal.subscribe.open


class Sessions:
    """All sessions."""

    def __init__(self, randomness: Randomness) -> None:
        self._randomness = randomness
        self._by_id: dict[int, Session] = {}
        self._by_publisher: dict[int, Session] = {}

    def __len__(self) -> int:
        return len(self._by_id)

    def all(self) -> list[Session]:
        return list(self._by_id.values())

    def get(self, id: int) -> Session | None:
        return self._by_id.get(id)

    def of_publisher(self, publisher: int) -> Session | None:
        """The session whose client publishes under this id."""
        return self._by_publisher.get(publisher)

    def resumable(self, hello: Hello, principal: Principal) -> Session | None:
        """The session that a hello may take up: it knows the id, and is who it was."""
        session = self._by_id.get(hello.resume) if hello.resume is not None else None
        if session is None or session.principal.name != principal.name or session.publisher != hello.publisher:
            return None
        return session

    def open(self, hello: Hello, principal: Principal, link: Connection) -> Session:
        """A new session."""
        session = Session(new_id(self._randomness), principal, hello.name, hello.publisher, link)
        session.permit(principal)
        assert hello.publisher not in self._by_publisher, "one session a publisher"
        self._by_id[session.id] = session
        if hello.publisher:
            self._by_publisher[hello.publisher] = session
        return session

    def close(self, session: Session) -> None:
        """The session is over."""
        del self._by_id[session.id]
        if session.publisher:
            del self._by_publisher[session.publisher]
