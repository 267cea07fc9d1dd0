"""Sealed events in the pipeline: which of them wait for tests of their tags, and which subscriptions their tags fit."""

from __future__ import annotations

from plait_core.wire import EventFrame, Publish
from plait_core.wire.frame_types.session_frames import Code

from ..clients.sessions import DurableSubscription, Session, Subscription
from ..counters import Counters
from ..drop_reasons import DropReason
from ..overlay import ReceivedEvent
from ..overlay.interest.remote_interest import RemoteInterest
from .admission import PublishRefused
from .sealed_matching import TagMatcher, TagVerdict, WaitingEvent, WaitingPublish
from .subscription_index import SubscriptionIndex


class SealedEvents:
    """Joins the tests of tags with the routing tokens of subscriptions, here and at other brokers."""

    def __init__(
        self,
        counters: Counters,
        tags: TagMatcher[WaitingEvent],
        index: SubscriptionIndex,
        remote_interest: RemoteInterest,
    ) -> None:
        self._counters = counters
        self.tags = tags
        self._index = index
        self._remote_interest = remote_interest
        self.keys_here = index.deposits
        self.keys_elsewhere = remote_interest.deposits

    def hold(self, session: Session, frame: Publish, waited_us: int, now: float) -> bool:
        """Hold an event of a client that has to wait for tests. Return False if it need not."""
        if self.tags.full:
            message = "too many sealed events wait for their tags to be tested"
            raise PublishRefused(DropReason.OUTBOX_ITEMS, Code.LIMIT, message, retryable=True)
        frame.attributes()  # FrameError: an event that cannot be read must not wait
        waiting = WaitingPublish(session, frame, waited_us, now)
        return self.tags.hold(("client", session.id), frame, waiting, self._keys_of_interest, now)

    def hold_remote(self, event: ReceivedEvent, now: float) -> bool:
        """Hold an event of another broker that has to wait for tests. Without room the earlier ones pass untested."""
        line = ("broker", event.root)
        if self.tags.full:
            self.tags.release(line)
        return self.tags.hold(line, event.frame, event, self._index.asking, now)

    def verdict(self, frame: EventFrame) -> TagVerdict | None:
        """Return the known results of an event's tags, and count malformed ones. None: it is not sealed."""
        verdict = self.tags.judge(frame)
        if verdict is not None and verdict.malformed:
            self._counters.dropped[DropReason.BAD_TAGS] += 1
        return verdict

    def fitting(
        self, subscriptions: list[Subscription], durables: list[DurableSubscription], verdict: TagVerdict
    ) -> tuple[list[Subscription], list[DurableSubscription]]:
        """Return the subscriptions whose routing tokens fit, and those without keys."""
        return self._index.fitting(subscriptions, verdict), self._index.fitting(durables, verdict)

    def _keys_of_interest(self, frame: EventFrame) -> list[bytes]:
        """Return the routing tokens of all subscriptions whose filters match the unencrypted attributes."""
        return self._index.asking(frame) + self._remote_interest.asking(frame)
