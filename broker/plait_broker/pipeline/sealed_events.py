"""Sealed events in the pipeline: which of them wait for tests of their tags, and which subscriptions their tags fit."""

from __future__ import annotations

from typing import Final

from plait_core.rate_limit import TokenBucket, TokenBuckets
from plait_core.wire import EventFrame, Publish

from ..clients.sessions import DurableSubscription, Session, Sessions, Subscription
from ..counters import Counters
from ..deposits import BROKER, Deposit, Depositor
from ..drop_reasons import DropReason
from ..outputs import Remark
from ..overlay import Overlay, ReceivedEvent
from .sealed_matching import TagMatcher, TagVerdict, WaitingEvent, WaitingPublish
from .subscription_index import SubscriptionIndex
from .tag_tests import DEPOSITORS_MAX

REMARK_S: Final = 3600.0
"""Least time between two remarks about the same depositor."""

REMARKS_MAX: Final = 100
"""Remarks about depositors in that time: one that connects anew each time must not fill the log."""


class SealedEvents:
    """Joins the tests of tags with the routing tokens of subscriptions, here and at other brokers."""

    def __init__(self, counters: Counters, index: SubscriptionIndex, overlay: Overlay, sessions: Sessions) -> None:
        self._counters = counters
        self._index = index
        self._remote_interest = overlay.remote_interest
        self._map = overlay.map
        self._sessions = sessions
        here, elsewhere = index.deposits, overlay.remote_interest.deposits
        self.tags: TagMatcher[WaitingEvent] = TagMatcher(counters.tags, (here, elsewhere))
        self.keys_here = here.by_number
        self.keys_elsewhere = elsewhere.by_number
        self._remarks: TokenBuckets[Depositor] = TokenBuckets(1 / REMARK_S, 1, DEPOSITORS_MAX)
        self._all_remarks = TokenBucket(REMARKS_MAX / REMARK_S, REMARKS_MAX, 0.0)

    def hold(self, session: Session, frame: Publish, waited_us: int, now: float) -> bool:
        """Hold an event of a client that has to wait for tests. Return False if it need not."""
        frame.attributes()  # FrameError: an event that cannot be read must not wait
        waiting = WaitingPublish(session, frame, waited_us, now)
        return self.tags.hold(("client", session.id), frame, waiting, self._deposits_of_interest, now)

    def hold_remote(self, event: ReceivedEvent, now: float) -> bool:
        """Hold an event of another broker that has to wait for tests. Return False if it need not."""
        return self.tags.hold(("broker", event.root), event.frame, event, self._index.asking, now)

    def verdict(self, frame: EventFrame) -> TagVerdict | None:
        """Return the known outcomes of an event's tags, and count malformed ones. None: it is not sealed."""
        verdict = self.tags.judge(frame)
        if verdict is not None and verdict.malformed:
            self._counters.dropped[DropReason.BAD_TAGS] += 1
        return verdict

    def fitting(
        self, subscriptions: list[Subscription], durables: list[DurableSubscription], verdict: TagVerdict
    ) -> tuple[list[Subscription], list[DurableSubscription]]:
        """Return the subscriptions whose routing tokens fit, and those without keys."""
        return self._index.fitting(subscriptions, verdict), self._index.fitting(durables, verdict)

    def fits(self, frame: EventFrame, subscription: int) -> bool:
        """Return whether a subscription's routing tokens fit an event's tags, as far as the tests have shown."""
        deposit = self.keys_here.get(subscription)
        verdict = None if deposit is None else self.tags.judge(frame)
        return deposit is None or verdict is None or verdict(deposit)

    def take_remarks(self, now: float) -> list[Remark]:
        """Return remarks for the operator about clients and brokers whose deposits cost too much."""
        exceeded = [each for each in self.tags.exceeded if self._remarks.take(each, now)]
        self.tags.exceeded.clear()
        return [Remark(self._text(each)) for each in exceeded if self._all_remarks.take(now)]

    def _text(self, depositor: Depositor) -> str:
        kind, id = depositor
        if kind == BROKER:
            named = f"broker {self._map.name(id) or format(id, '016x')!r}"
        else:
            session = self._sessions.get(id)
            named = "a client that has left"
            if session is not None:
                address = session.connection.caller.address if session.connection is not None else "no address"
                named = f"client {session.name!r} ({session.principal.name}, {address})"
        return (
            f"the routing tokens of {named} cost more tests than its budget for one sealing session: it gets the "
            "events of such sessions untested. Fewer subscriptions, or deposit='coarse', need fewer tests"
        )

    def _deposits_of_interest(self, frame: EventFrame) -> list[Deposit]:
        """Return the deposits of all subscriptions whose filters match the unencrypted attributes."""
        return self._index.asking(frame) + self._remote_interest.asking(frame)
