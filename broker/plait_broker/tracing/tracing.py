"""Marked events: each broker that they cross reports every step to the publisher's broker, which reports it to the
client.

A flag of the forward frame marks an event. A broker keeps a marked event's id in `live` for a while. Nearly always
`live` is empty, and then tracing costs the pipeline one test.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

from plait_core.events import EventId
from plait_core.rate_limit import TokenBucket
from plait_core.wire import Destination, EventFrame, Forward
from plait_core.wire.frame_types.trace_frames import PARTIES_MAX, StepKind, TraceStep

if TYPE_CHECKING:
    from ..clients.sessions import DurableSubscription, Sessions, Subscription
    from ..overlay import ReceivedEvent

LIVE_S: Final = 30.0
"""Time for which a marked event is traced; `plait why` covers clients that are slower than that."""

LIVE_MAX: Final = 256
"""Marked events traced at once; beyond it the oldest is removed."""

STEPS_MAX: Final = 64
"""Steps that one broker reports of one event: those to a few neighbours, and their retransmissions."""

MARKS_PER_S: Final = 10.0
MARKS_BURST: Final = 20.0
"""Rate of events that this broker's clients may mark. Each costs every broker on its way some frames."""

FOLLOWED_PER_S: Final = 100.0
FOLLOWED_BURST: Final = 200.0
"""Rate of other brokers' marked events that are traced, so that a broker that marks all its events loses only its
traces."""

Stopwatch: TypeAlias = Callable[[], float]
"""Seconds at high resolution, read for marked events only. Protocols have no clock: a simulator gives a constant."""


@dataclass(slots=True, eq=False)
class Trail:
    """A marked event at this broker."""

    id: EventId
    root: int
    """The broker that it was published at."""
    until: float
    session: int = 0
    """At the root: the session that receives the steps."""
    steps: int = 0
    match_us: int = 0
    came: EventFrame | None = None
    """The last copy whose arrival was reported."""


class Tracing:
    """All marked events at one broker."""

    def __init__(self, own_id: int, sessions: Sessions, now: float) -> None:
        self.live: dict[EventId, Trail] = {}
        self.stopwatch: Stopwatch = lambda: 0.0
        self._own_id = own_id
        self._sessions = sessions
        self.outgoing: list[TraceStep] = []
        """Steps to send to the brokers that the events were published at."""
        self._marks = TokenBucket(MARKS_PER_S, MARKS_BURST, now)
        self._followed = TokenBucket(FOLLOWED_PER_S, FOLLOWED_BURST, now)

    def time_with(self, stopwatch: Stopwatch) -> None:
        """Measure the time that steps take."""
        self.stopwatch = stopwatch

    def mark(self, session: int, id: EventId, now: float) -> bool:
        """Trace an event that a client is about to publish; return False if its broker's clients mark too many."""
        if not self._marks.take(now):
            return False
        self._add(Trail(id, self._own_id, now + LIVE_S, session))
        return True

    def unmark(self, id: EventId) -> None:
        """End the trace of an event that was refused; its client has received the reason."""
        self.live.pop(id, None)

    def follow(self, frame: EventFrame, root: int, now: float) -> None:
        """Trace a marked event of another broker."""
        if frame.id not in self.live and self._followed.take(now):
            self._add(Trail(frame.id, root, now + LIVE_S))

    def tick(self, now: float) -> None:
        """Remove expired traces."""
        for id in [id for id, trail in self.live.items() if now >= trail.until]:
            del self.live[id]

    def next_deadline(self) -> float | None:
        """Return when `tick` is due."""
        return next(iter(self.live.values())).until if self.live else None

    # --- steps, in the order of the pipeline --------------------------------------------------------------------------

    def published(self, frame: EventFrame, local: int, destinations: Sequence[int], delay_us: int) -> None:
        """Report an event that was admitted and matched: the number of local subscriptions, and the other brokers to
        reach."""
        trail = self.live.get(frame.id)
        if trail is not None:
            self._report(trail, StepKind.PUBLISHED, delay_us, destinations, len(destinations), took_us=trail.match_us)
            if local:
                self._report(trail, StepKind.ARRIVED, delay_us, (), local, took_us=trail.match_us)

    def arrived(self, arrival: ReceivedEvent, local: int, delay_us: int) -> None:
        """Report an event that reached one of its destinations and was matched there."""
        trail = self.live.get(arrival.frame.id)
        if trail is not None:
            trail.came = arrival.frame
            came_from = arrival.path[-1] if arrival.path else 0
            self._report(trail, StepKind.ARRIVED, delay_us, (), local, took_us=trail.match_us, peer=came_from)

    def came(self, frame: EventFrame, delay_us: int, now: float) -> None:
        """Report the arrival of a copy that is forwarded or dropped before matching; once for each copy, however many
        neighbours it is sent to."""
        if not isinstance(frame, Forward) or not frame.path:
            return
        self.follow(frame, frame.path[0], now)
        trail = self.live.get(frame.id)
        if trail is not None and trail.came is not frame:
            trail.came = frame
            beyond = [home for home, _, _ in frame.destinations if home != self._own_id]
            self._report(trail, StepKind.CAME, delay_us, beyond, len(beyond), peer=frame.path[-1])

    def sent(
        self,
        frame: EventFrame,
        to: tuple[int, int],
        delay_us: int,
        path: tuple[int, ...],
        destinations: Sequence[Destination],
        waited_us: int,
        now: float,
    ) -> None:
        """Report a copy written for a neighbour; `to` is the neighbour's id and the measured delay of its link."""
        self.follow(frame, path[0], now)
        trail = self.live.get(frame.id)
        if trail is not None:
            neighbour, link_us = to
            reached = [destination[0] for destination in destinations]
            self._report(
                trail, StepKind.SENT, delay_us, reached, len(reached),
                took_us=waited_us, link_us=link_us, peer=neighbour,
            )  # fmt: skip

    def stored(self, frame: EventFrame, durables: Sequence[DurableSubscription], delay_us: int) -> None:
        """Report an event that goes to the log first; durable subscriptions without a client get it when one
        attaches."""
        trail = self.live.get(frame.id)
        if trail is not None:
            self._report_parties(
                trail, StepKind.STORED, delay_us, [d for d in durables if d.subscription is None], "away"
            )
            self._report_parties(
                trail, StepKind.QUEUED, delay_us, [d for d in durables if d.subscription is not None], "log"
            )

    def delivered(
        self,
        frame: EventFrame,
        subscriptions: Sequence[Subscription | DurableSubscription],
        delay_us: int,
        waited_us: int = 0,
    ) -> None:
        """Report deliveries written to clients."""
        trail = self.live.get(frame.id)
        if trail is not None:
            self._report_parties(trail, StepKind.DELIVERED, delay_us, subscriptions, took_us=waited_us)

    def handed(self, frame: EventFrame, before: Sequence[tuple[Subscription, int]], delay_us: int) -> None:
        """Report an event handed to subscriptions; `before` holds the number of deliveries of each before it. A
        subscription whose number has not grown has the event in its queue or has dropped it; `dropped` reports the
        latter."""
        trail = self.live.get(frame.id)
        if trail is None:
            return
        taken = [subscription for subscription, count in before if subscription.delivered > count]
        self._report_parties(trail, StepKind.DELIVERED, delay_us, taken)
        for subscription, count in before:
            if subscription.delivered == count and subscription.outbox.find(frame.id) is not None:
                away = subscription.session.connection is None
                self._report_parties(trail, StepKind.QUEUED, delay_us, [subscription], "away" if away else "behind")

    def dropped(self, frame: EventFrame, reason: str, delay_us: int, *parties: int) -> None:
        """Report an event dropped here, for these subscriptions or altogether."""
        trail = self.live.get(frame.id)
        if trail is not None:
            self._report(trail, StepKind.DROPPED, delay_us, parties, len(parties), reason=reason)

    def lost(self, frame: EventFrame, reason: str, delay_us: int, *destinations: int) -> None:
        """Report a copy dropped on its way to these brokers."""
        trail = self.live.get(frame.id)
        if trail is not None:
            self._report(trail, StepKind.LOST, delay_us, destinations, len(destinations), reason=reason)

    def receive(self, step: TraceStep) -> None:
        """Pass another broker's step of an event published here to its client."""
        trail = self.live.get(EventId(step.publisher, step.sequence))
        if trail is not None and trail.root == self._own_id:
            self._send_to_client(trail.session, step)

    # --- inside -------------------------------------------------------------------------------------------------------

    def _add(self, trail: Trail) -> None:
        self.live[trail.id] = trail
        if len(self.live) > LIVE_MAX:
            del self.live[next(iter(self.live))]

    def _report_parties(
        self,
        trail: Trail,
        kind: StepKind,
        delay_us: int,
        parties: Sequence[Subscription | DurableSubscription],
        reason: str = "",
        *,
        took_us: int = 0,
    ) -> None:
        if parties:
            numbers = [party.number for party in parties]
            self._report(trail, kind, delay_us, numbers, len(numbers), took_us=took_us, reason=reason)

    def _report(
        self,
        trail: Trail,
        kind: StepKind,
        delay_us: int,
        parties: Iterable[int],
        count: int,
        *,
        took_us: int = 0,
        link_us: int = 0,
        peer: int = 0,
        reason: str = "",
    ) -> None:
        trail.steps += 1
        if trail.steps > STEPS_MAX:
            return
        named = tuple(party for party, _ in zip(parties, range(PARTIES_MAX), strict=False))
        step = TraceStep(
            trail.root, self._own_id, *trail.id, kind, delay_us, took_us, link_us, peer, count, named, reason
        )
        if trail.root == self._own_id:
            self._send_to_client(trail.session, step)
        else:
            self.outgoing.append(step)

    def _send_to_client(self, session: int, step: TraceStep) -> None:
        known = self._sessions.get(session)
        if known is not None and known.connection is not None:
            known.connection.send(step)

    def take(self) -> list[TraceStep]:
        """Return the steps to send to other brokers since the last call."""
        outgoing, self.outgoing = self.outgoing, []
        return outgoing
