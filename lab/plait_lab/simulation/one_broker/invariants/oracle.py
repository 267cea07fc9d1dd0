"""The oracle: checks a recorded history by brute force, with its own evaluation of interests and rights.

It compares sets and is independent of queues, windows and logs. I1 no loss, I2 no duplicate, I3 no invented event, I4
no false delivery, I6 order, I8 liveness. `bounds.py` checks I9 during the run; running twice checks I10.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from plait_core.events import EventId
from plait_core.wire import Confirm
from plait_core.wire.frame_types.session_frames import Unseen

from ..interests import Interest
from ..recorder import NEVER, ClientSubscription, Outcome, Publication, Reception, Recorder
from .durable_groups import DurableGroup

_ANSWER_S: Final = 5.0
"""Seconds before the end in which a request may remain unanswered."""

_LIST_MAX: Final = 4
"""Events that one violation names."""


@dataclass(frozen=True, slots=True)
class Rights:
    """The events that a principal may receive: the oracle's view of its rules."""

    allow: Interest
    deny: Interest | None = None

    def permit(self, attributes: Mapping[str, Any]) -> bool:
        return self.allow.matches(attributes) and (self.deny is None or not self.deny.matches(attributes))


@dataclass(frozen=True, slots=True)
class Violation:
    """A violated invariant."""

    invariant: str
    text: str

    def __str__(self) -> str:
        return f"{self.invariant}: {self.text}"


class Oracle:
    """Checks one history. `rights` are by owner; other owners may receive everything."""

    def __init__(self, recorder: Recorder, rights: Mapping[str, Rights] | None = None) -> None:
        self._recorder = recorder
        self._rights = rights or {}
        self._wiped_at = [fault.at for fault in recorder.faults if fault.kind == "wipe"]
        self._rotten = any(fault.kind == "rot" for fault in recorder.faults)

    def violations(self) -> list[Violation]:
        """Return all violations."""
        found = [Violation("I9", text) for text in self._recorder.broken]
        for subscription in self._recorder.subscriptions:
            found += self._nothing_invented(subscription)
            found += self._nothing_twice(subscription)
            found += self._nothing_unwanted(subscription)
            found += self._in_order(subscription)
            if subscription.closing_at == NEVER and not subscription.durable:
                found += self._nothing_lost(subscription)
        for group in self._durable_groups():
            found += self._nothing_durable_lost(group)
            found += self._nothing_durable_unwanted(group)
        found += self._confirmed_events_arrived()
        found += self._everything_settled()
        found += self._drops_counted_once()
        return found

    # --- what arrived -------------------------------------------------------------------------------------------------

    def _nothing_invented(self, subscription: ClientSubscription) -> Iterator[Violation]:
        for reception in subscription.receptions:
            publication = self._recorder.publications.get(reception.id)
            if publication is None or publication.digest != reception.digest:
                yield Violation("I3", f"{subscription.name} received {reception.id}, which was not published like that")

    def _nothing_twice(self, subscription: ClientSubscription) -> Iterator[Violation]:
        seen: set[EventId] = set()
        for reception in subscription.receptions:
            if reception.id in seen:
                yield Violation("I2", f"{subscription.name} received {reception.id} twice, again at {reception.at:.3f}")
            seen.add(reception.id)

    def _nothing_unwanted(self, subscription: ClientSubscription) -> Iterator[Violation]:
        for reception in subscription.receptions:
            publication = self._recorder.publications.get(reception.id)
            if publication is None:
                continue
            if not subscription.durable and not subscription.may_match(publication):
                yield Violation("I4", f"{subscription.name} received {reception.id}, which it did not request")
            if not self._permitted(subscription, publication):
                yield Violation("I4", f"{subscription.name} received {reception.id}, which it may not receive")

    def _in_order(self, subscription: ClientSubscription) -> Iterator[Violation]:
        last: dict[tuple[int, int], int] = {}
        for reception in subscription.receptions:
            lane = reception.id.publisher, reception.priority
            if reception.id.sequence < last.get(lane, 0) and not self._reordered_by_a_restart(subscription, reception):
                yield Violation("I6", f"{subscription.name} received {reception.id} after number {last[lane]}")
            last[lane] = max(reception.id.sequence, last.get(lane, 0))

    def _reordered_by_a_restart(self, subscription: ClientSubscription, reception: Reception) -> bool:
        """Return whether a retransmission after a broker's restart explains the order.

        A publisher retransmits unconfirmed events when a broker dies. A broker that logged nothing of that publisher
        cannot know what it delivered after them, so a subscription that is not durable may see them out of order.
        """
        publication = self._recorder.publications.get(reception.id)
        return (
            publication is not None
            and (not subscription.durable or bool(self._wiped_at))
            and any(publication.at < restart < reception.at for restart in self._recorder.restarts)
        )

    # --- what did not arrive ------------------------------------------------------------------------------------------

    def _nothing_lost(self, subscription: ClientSubscription) -> Iterator[Violation]:
        """Check a subscription that is not durable: missing events were reported by number or by kind."""
        got = {reception.id for reception in subscription.receptions}
        missing = [p for p in self._required(subscription, subscription.installed_at) if p.id not in got]
        promised = [p for p in missing if p.outcome is Outcome.OK]
        reported = sum(miss.count for miss in subscription.misses)
        # A count in flight is lost with its connection. That events were lost must still be reported.
        uncounted = any(not miss.count or subscription.disturbed for miss in subscription.misses)
        if len(promised) > reported and not uncounted:
            yield Violation("I1", f"{subscription.name} misses {_named(promised)}, and {reported} were reported")
        if not subscription.disturbed and len(subscription.requested) == 1:
            early = [p for p in self._required(subscription, subscription.requested_at - 10.0) if p.id not in got]
            if reported > len(early):
                yield Violation(
                    "I1", f"{subscription.name} got reports of {reported} missing events, and misses {len(early)}"
                )

    def _nothing_durable_lost(self, group: DurableGroup) -> Iterator[Violation]:
        """Check a durable name: its confirmed events reached one of its clients. A later filter changes nothing."""
        if not group.served:
            return
        got = {reception.id for reception in group.receptions}
        missing = [
            p
            for p in self._recorder.publications.values()
            if p.id not in got
            and p.outcome is Outcome.OK
            and not p.lifetime_us
            and group.must_receive(p)
            and self._permitted(group.subscriptions[0], p)
            and not self._lost_with_the_log(group.subscriptions, p)
        ]
        damaged = self._rotten and any(
            miss.reason == "retention" for subscription in group.subscriptions for miss in subscription.misses
        )
        if missing and not damaged:
            yield Violation("I1", f"{group.name} (durable) misses {_named(missing)}")

    def _nothing_durable_unwanted(self, group: DurableGroup) -> Iterator[Violation]:
        """Check that a durable name received only what one of its filters may have matched."""
        for reception in group.receptions:
            publication = self._recorder.publications.get(reception.id)
            if publication is not None and not group.may_receive(publication, reception.at):
                yield Violation("I4", f"{group.name} (durable) received {reception.id}, which it did not request")

    def _confirmed_events_arrived(self) -> Iterator[Violation]:
        """Check that each subscriber has the events that are confirmed by subscribers."""
        groups = self._durable_groups()
        for publication in self._recorder.publications.values():
            if publication.confirm is not Confirm.SUBSCRIBERS or publication.outcome is not Outcome.OK:
                continue
            for subscription in self._recorder.subscriptions:
                if (
                    subscription.durable
                    or subscription.disturbed
                    or subscription.cut_off
                    or subscription.closing_at <= publication.settled_at
                ):
                    continue
                if self._must_receive(subscription, publication, subscription.installed_at) and not _has(
                    [subscription], publication
                ):
                    yield Violation(
                        "I1", f"{subscription.name} does not have {publication.id}, confirmed by subscribers"
                    )
            for group in groups:
                if (
                    group.must_receive(publication)
                    and self._permitted(group.subscriptions[0], publication)
                    and not _has(group.subscriptions, publication)
                    and not self._rotten
                    and not self._lost_with_the_log(group.subscriptions, publication)
                ):
                    yield Violation("I1", f"{group.name} does not have {publication.id}, confirmed by subscribers")

    def _everything_settled(self) -> Iterator[Violation]:
        """Check that every request is answered after healing."""
        for publication in self._recorder.publications.values():
            if publication.confirm and publication.settled_at == NEVER and publication.client not in self._dead():
                yield Violation("I8", f"{publication.client} got no outcome of {publication.id}")
        for subscription in self._recorder.subscriptions:
            if (
                subscription.installed_at == subscription.closing_at == NEVER
                and subscription.requested_at < self._recorder.now - _ANSWER_S
            ):
                yield Violation("I8", f"{subscription.name} was never installed")

    def _drops_counted_once(self) -> Iterator[Violation]:
        """Check that the broker knows the drops of its clients: each once, and all where nothing went wrong."""
        recorder = self._recorder
        dropped = sum(
            miss.count for each in recorder.subscriptions for miss in each.misses if miss.reason == Unseen.QUEUE_FULL
        )
        if recorder.reported_drops > dropped:
            yield Violation("I1", f"clients dropped {dropped} events, and the broker counts {recorder.reported_drops}")
        unreported = (
            recorder.restarts or self._dead() or any(each.disturbed or each.cut_off for each in recorder.subscriptions)
        )
        if recorder.reported_drops < dropped and not unreported:
            yield Violation("I1", f"clients dropped {dropped} events, and the broker knows {recorder.reported_drops}")

    def _lost_with_the_log(self, subscriptions: list[ClientSubscription], publication: Publication) -> bool:
        """Return whether an event was lost with a wiped disk: published before its durable reader resumed or was
        informed."""
        for wiped_at in self._wiped_at:
            back = [
                miss.at for subscription in subscriptions for miss in subscription.misses if miss.reason == "log_lost"
            ]
            back += [subscription.installed_at for subscription in subscriptions if subscription.installed_at != NEVER]
            if publication.at <= min((at for at in back if at > wiped_at), default=0.0):
                return True
        return False

    # --- inside -------------------------------------------------------------------------------------------------------

    def _dead(self) -> set[str]:
        """Return clients that were killed: the requests of their last incarnation stay unanswered."""
        return {fault.target for fault in self._recorder.faults if fault.kind == "kill client"}

    def _required(self, subscription: ClientSubscription, since: float) -> list[Publication]:
        return [p for p in self._recorder.publications.values() if self._must_receive(subscription, p, since)]

    def _must_receive(self, subscription: ClientSubscription, publication: Publication, since: float) -> bool:
        """Return whether a subscriber must receive an event that was published while it was installed."""
        if publication.at < since or not subscription.matches(publication):
            return False
        return self._permitted(subscription, publication)

    def _permitted(self, subscription: ClientSubscription, publication: Publication) -> bool:
        rights = self._rights.get(subscription.owner)
        return rights is None or rights.permit(publication.attributes)

    def _durable_groups(self) -> list[DurableGroup]:
        found: dict[tuple[str, str], list[ClientSubscription]] = {}
        for subscription in self._recorder.subscriptions:
            if subscription.durable:
                found.setdefault((subscription.owner, subscription.durable), []).append(subscription)
        return [DurableGroup(subscriptions) for subscriptions in found.values()]


def _has(subscriptions: list[ClientSubscription], publication: Publication) -> bool:
    return any(
        reception.id == publication.id and reception.at <= publication.settled_at
        for subscription in subscriptions
        for reception in subscription.receptions
    )


def _named(publications: list[Publication]) -> str:
    names = ", ".join(str(publication.id) for publication in publications[:_LIST_MAX])
    return f"{len(publications)} events ({names}{', ...' if len(publications) > _LIST_MAX else ''})"
