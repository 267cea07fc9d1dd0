"""What publishers hear of events that they want confirmed: receipts many at a time, refusals in words."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from plait_core.events import EventId
from plait_core.limits import ACKNOWLEDGED_MAX
from plait_core.wire.frame_types.session_frames import Code, Receipt, Refusal

from ..counters import Counters
from ..drop_reasons import DropReason
from ..pipeline.pipeline import EventPipeline, PublishRefused
from ..pipeline.subscription_index import SubscriptionIndex
from .confirmations import LOG, Confirmations, Outcome, Party, SilentBroker
from .durable_subscriptions import DurableSubscription
from .sessions import Session, Sessions

NAMED_MAX: Final = 3
"""Subscriptions, and brokers, that one refusal names: enough to know where to look."""


class PublishReceipts:
    """Takes the outcomes of confirmations to the publishers who wait for them."""

    def __init__(
        self,
        counters: Counters,
        interest: SubscriptionIndex,
        sessions: Sessions,
        confirmations: Confirmations,
        publishing: EventPipeline,
        elsewhere: Callable[[Outcome], None],
        silent_broker: Callable[[Party], SilentBroker],
    ) -> None:
        """`elsewhere` takes what is for other brokers' publishers; `silent_broker` says of which of them a party is."""
        self._counters = counters
        self._interest = interest
        self._sessions = sessions
        self._confirmations = confirmations
        self._publishing = publishing
        self._elsewhere = elsewhere
        self._silent_broker = silent_broker

    def send(self) -> None:
        """Tell every publisher who is connected what has become of its events; who is not will ask again."""
        receipts: dict[Session, list[tuple[int, int]]] = {}
        for outcome in self._confirmations.take():
            if outcome.publisher < 0:
                self._elsewhere(outcome)
                continue
            session = self._sessions.of_publisher(outcome.publisher)
            refused = self._refused(outcome) if outcome.code else None
            if refused is not None:
                self._publishing.remember(EventId(outcome.publisher, outcome.sequence), refused)
            if session is None or session.link is None:
                continue
            if refused is not None:
                session.link.send(refusal_of(outcome.sequence, refused))
            else:
                self._counters.confirmed += 1
                receipts.setdefault(session, []).append((outcome.sequence, outcome.matched))
        for session, confirmed in receipts.items():
            assert session.link is not None
            for start in range(0, len(confirmed), ACKNOWLEDGED_MAX):
                sequences, matched = zip(*confirmed[start : start + ACKNOWLEDGED_MAX], strict=True)
                session.link.send(Receipt(sequences, matched))

    def _refused(self, outcome: Outcome) -> PublishRefused:
        """What a publisher hears, again should it repeat an event that could not be confirmed."""
        message, hint = outcome.message, ""
        if outcome.code == Code.TIMEOUT and outcome.silent:  # else it is another broker that has waited in vain
            said, hint = self._silence(outcome)
            message = f"not confirmed within {self._confirmations.timeout_s:g} s: {said}"
        retryable = outcome.code == Code.DURABILITY
        return PublishRefused(DropReason.DUPLICATE, outcome.code, message, hint, retryable=retryable)

    def _silence(self, outcome: Outcome) -> tuple[str, str]:
        """Who has not acknowledged an event, and what can be done about it."""
        if any(number == LOG for number, _ in outcome.silent):  # durable subscriptions get it only after the log
            return "the log has not stored it yet", "the broker's disk may be slow; /readyz says how its log does"
        numbers = [number for number, _ in outcome.silent if number > 0]
        brokers = [self._silent_broker(party) for party in outcome.silent if party[0] < 0]
        here = [self._silence_here(numbers, outcome.matched)] if numbers else []
        said = "; ".join([*here, *_silence_elsewhere(brokers)])
        return said, _advice(brokers) if brokers else self._hint(numbers)

    def _silence_here(self, numbers: list[int], matched: int) -> str:
        names = [self._named(number) for number in numbers]
        return f"{len(numbers)} of {matched} {_has(names)} not acknowledged it: {_listed(names)}"

    def _hint(self, numbers: list[int]) -> str:
        absent = [party.name for number in numbers if (party := self._absent(number)) is not None]
        if not absent:
            return ""
        back = f"{absent[0]!r} is" if len(absent) == 1 else "they are"
        return (
            f"it is stored and will be delivered when {back} back; use confirm='broker' to wait for the log alone, "
            "or `plait ls subs` to see who is away"
        )

    def _named(self, number: int) -> str:
        party = self._interest.party(number)
        if party is None:
            return "a subscription that has ended"
        if isinstance(party, DurableSubscription):
            away = " (its client is away)" if self._absent(number) is not None else ""
            return f"durable subscription {party.name!r}{away}"
        away = "" if party.session.attached else " (which is away)"
        return f"a subscription of client {party.session.name!r}{away}"

    def _absent(self, number: int) -> DurableSubscription | None:
        party = self._interest.party(number)
        if not isinstance(party, DurableSubscription):
            return None
        taken_up = party.subscription is not None and party.subscription.session.attached
        return None if taken_up else party


def _silence_elsewhere(brokers: list[SilentBroker]) -> list[str]:
    """What is to be said of other brokers: first of those that do not have the event."""
    said = []
    without = [str(broker) for broker in brokers if not broker.in_charge]
    if without:
        said.append(f"{_listed(without)} {_has(without)} not taken charge of it")
    waiting = [str(broker) for broker in brokers if broker.in_charge]
    if waiting:
        said.append(f"{_listed(waiting)} {_has(waiting)} it, and not all subscribers there have acknowledged it")
    return said


def _advice(brokers: list[SilentBroker]) -> str:
    """What to do when other brokers do not answer."""
    without = [broker for broker in brokers if not broker.in_charge]
    if not without:
        return "`plait ls subs` there shows who is away; confirm='broker' waits only until brokers have charge of it"
    name = without[0].name if len(without) == 1 else "each of them"
    return (
        f"this broker keeps it for {name} and sends it again; `plait topo` shows who is out of reach, "
        "`[overlay] forget` lets go of a broker that never returns"
    )


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - NAMED_MAX} more" if len(names) > NAMED_MAX else ""
    return ", ".join(names[:NAMED_MAX]) + more


def _has(names: Sequence[str]) -> str:
    return "has" if len(names) == 1 else "have"


def refusal_of(sequence: int, refused: PublishRefused) -> Refusal:
    """The frame that says it."""
    return Refusal(sequence, refused.code, refused.message, refused.retryable, refused.hint)
