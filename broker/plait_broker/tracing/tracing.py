"""Marked events: what becomes of each at this broker, told step by step to its publisher's broker, and to its client.

An event is marked by a flag of its forward frame; at a broker that has it, it is `live` by its id for a while. While no
event is live, which is nearly always, the pipeline finds one empty dict in its way.
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
"""How long a marked event is followed: whoever waits longer for a slow client asks `plait why`."""

LIVE_MAX: Final = 256
"""Marked events followed at once; the oldest is let go."""

STEPS_MAX: Final = 64
"""Steps of one event that one broker tells of: a few neighbours, and sent again as often."""

MARKS_PER_S: Final = 10.0
MARKS_BURST: Final = 20.0
"""Events that this broker's clients may have marked. Each costs every broker that it passes some frames."""

FOLLOWED_PER_S: Final = 100.0
FOLLOWED_BURST: Final = 200.0
"""Marked events of other brokers that are told of, so that a broker that marks all its events is only not served."""

Stopwatch: TypeAlias = Callable[[], float]
"""Seconds, as fine as can be; asked for marked events alone. Protocols have no clock: a simulator gives a constant."""


@dataclass(slots=True, eq=False)
class Trail:
    """A marked event, as far as it is this broker's."""

    id: EventId
    root: int
    """The broker that it was published at."""
    until: float
    session: int = 0
    """There: the session to be told."""
    told: int = 0
    match_us: int = 0
    came: EventFrame | None = None
    """The copy of which it was told last that it came."""


class Tracing:
    """All marked events at one broker."""

    def __init__(self, me: int, sessions: Sessions, now: float) -> None:
        self.live: dict[EventId, Trail] = {}
        self.stopwatch: Stopwatch = lambda: 0.0
        self._me = me
        self._sessions = sessions
        self.outgoing: list[TraceStep] = []
        """Steps to send to the brokers that the events were published at."""
        self._marks = TokenBucket(MARKS_PER_S, MARKS_BURST, now)
        self._followed = TokenBucket(FOLLOWED_PER_S, FOLLOWED_BURST, now)

    def mark(self, session: int, id: EventId, now: float) -> bool:
        """A client will publish this event, and wants to know; False when that is too often."""
        if not self._marks.take(now):
            return False
        self._add(Trail(id, self._me, now + LIVE_S, session))
        return True

    def unmark(self, id: EventId) -> None:
        """It was not admitted: its client has heard why."""
        self.live.pop(id, None)

    def follow(self, frame: EventFrame, root: int, now: float) -> None:
        """A marked event comes by."""
        if frame.id not in self.live and self._followed.take(now):
            self._add(Trail(frame.id, root, now + LIVE_S))

    def tick(self, now: float) -> None:
        """Let go of those that are followed no longer."""
        for id in [id for id, trail in self.live.items() if now >= trail.until]:
            del self.live[id]

    def next_deadline(self) -> float | None:
        """When `tick` is to be called."""
        return next(iter(self.live.values())).until if self.live else None

    # --- what happens, in the order of the pipeline -------------------------------------------------------------------

    def published(self, frame: EventFrame, local: int, homes: Sequence[int], delay_us: int) -> None:
        """Admitted and matched: for so many here, and for other brokers."""
        trail = self.live.get(frame.id)
        if trail is not None:
            self._say(trail, StepKind.PUBLISHED, delay_us, homes, len(homes), took_us=trail.match_us)
            if local:
                self._say(trail, StepKind.ARRIVED, delay_us, (), local, took_us=trail.match_us)

    def arrived(self, arrival: ReceivedEvent, local: int, delay_us: int) -> None:
        """At a broker that it is for, and matched there."""
        trail = self.live.get(arrival.frame.id)
        if trail is not None:
            trail.came = arrival.frame
            came_from = arrival.path[-1] if arrival.path else 0
            self._say(trail, StepKind.ARRIVED, delay_us, (), local, took_us=trail.match_us, peer=came_from)

    def came(self, frame: EventFrame, delay_us: int, now: float) -> None:
        """A copy from another broker goes on from here, or ends here without having been matched: so old it came. Told
        once of each copy, to however many neighbours it goes."""
        if not isinstance(frame, Forward) or not frame.path:
            return
        self.follow(frame, frame.path[0], now)
        trail = self.live.get(frame.id)
        if trail is not None and trail.came is not frame:
            trail.came = frame
            beyond = [home for home, _, _ in frame.destinations if home != self._me]
            self._say(trail, StepKind.CAME, delay_us, beyond, len(beyond), peer=frame.path[-1])

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
        """A copy is written for a neighbour; `to` is its id, and the measured delay of its link."""
        self.follow(frame, path[0], now)
        trail = self.live.get(frame.id)
        if trail is not None:
            neighbour, link_us = to
            homes = [destination[0] for destination in destinations]
            self._say(
                trail, StepKind.SENT, delay_us, homes, len(homes),
                took_us=waited_us, link_us=link_us, peer=neighbour,
            )  # fmt: skip

    def stored(self, frame: EventFrame, durables: Sequence[DurableSubscription], delay_us: int) -> None:
        """For durable subscriptions it goes to the log first; those without a client get it when they have one."""
        trail = self.live.get(frame.id)
        if trail is not None:
            self._say_of(trail, StepKind.STORED, delay_us, [d for d in durables if d.subscription is None], "away")
            self._say_of(trail, StepKind.QUEUED, delay_us, [d for d in durables if d.subscription is not None], "log")

    def delivered(
        self,
        frame: EventFrame,
        subscriptions: Sequence[Subscription | DurableSubscription],
        delay_us: int,
        waited_us: int = 0,
    ) -> None:
        """Written to clients."""
        trail = self.live.get(frame.id)
        if trail is not None:
            self._say_of(trail, StepKind.DELIVERED, delay_us, subscriptions, took_us=waited_us)

    def handed(self, frame: EventFrame, before: Sequence[tuple[Subscription, int]], delay_us: int) -> None:
        """Given to subscriptions that had each delivered so much `before`: those that did not take it have it in their
        queue, unless it was dropped, which was told by itself."""
        trail = self.live.get(frame.id)
        if trail is None:
            return
        taken = [subscription for subscription, count in before if subscription.delivered > count]
        self._say_of(trail, StepKind.DELIVERED, delay_us, taken)
        for subscription, count in before:
            if subscription.delivered == count and subscription.outbox.find(frame.id) is not None:
                away = subscription.session.connection is None
                self._say_of(trail, StepKind.QUEUED, delay_us, [subscription], "away" if away else "behind")

    def dropped(self, frame: EventFrame, reason: str, delay_us: int, *parties: int) -> None:
        """It ends here, for these subscriptions or altogether."""
        trail = self.live.get(frame.id)
        if trail is not None:
            self._say(trail, StepKind.DROPPED, delay_us, parties, len(parties), reason=reason)

    def lost(self, frame: EventFrame, reason: str, delay_us: int, *homes: int) -> None:
        """A copy of it ends here, on its way to these brokers."""
        trail = self.live.get(frame.id)
        if trail is not None:
            self._say(trail, StepKind.LOST, delay_us, homes, len(homes), reason=reason)

    def hear(self, step: TraceStep) -> None:
        """Another broker tells a step of an event that was published here: its client hears of it."""
        trail = self.live.get(EventId(step.publisher, step.sequence))
        if trail is not None and trail.root == self._me:
            self._tell_client(trail.session, step)

    # --- inside -------------------------------------------------------------------------------------------------------

    def _add(self, trail: Trail) -> None:
        self.live[trail.id] = trail
        if len(self.live) > LIVE_MAX:
            del self.live[next(iter(self.live))]

    def _say_of(
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
            self._say(trail, kind, delay_us, numbers, len(numbers), took_us=took_us, reason=reason)

    def _say(
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
        trail.told += 1
        if trail.told > STEPS_MAX:
            return
        named = tuple(party for party, _ in zip(parties, range(PARTIES_MAX), strict=False))
        step = TraceStep(trail.root, self._me, *trail.id, kind, delay_us, took_us, link_us, peer, count, named, reason)
        if trail.root == self._me:
            self._tell_client(trail.session, step)
        else:
            self.outgoing.append(step)

    def _tell_client(self, session: int, step: TraceStep) -> None:
        known = self._sessions.get(session)
        if known is not None and known.connection is not None:
            known.connection.send(step)

    def take(self) -> list[TraceStep]:
        """Return the steps to send to other brokers since the last call."""
        outgoing, self.outgoing = self.outgoing, []
        return outgoing
