"""Answers to publishers: receipts of confirmed events, many at a time, and refusals with the reason in words."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from plait_core.events import EventId
from plait_core.limits import ACKNOWLEDGED_MAX
from plait_core.wire import Publish
from plait_core.wire.frame_types.session_frames import Code, Receipt, Refusal

from ..adapter.remote_confirmations import RemoteConfirmations
from ..context import BrokerContext
from ..drop_reasons import DropReason
from ..pipeline.admission import Admission, PublishRefused
from ..pipeline.subscription_index import SubscriptionIndex
from .confirmations import LOG, Outcome, SilentBroker
from .connection import Connection
from .sessions import DurableSubscription, Session, Sessions

NAMED_MAX: Final = 3
"""Subscriptions, and brokers, that one refusal names: enough to know where to look."""


class PublishReceipts:
    """Sends the outcomes of confirmations to the publishers."""

    def __init__(
        self,
        context: BrokerContext,
        sessions: Sessions,
        index: SubscriptionIndex,
        admission: Admission,
        remote_confirmations: RemoteConfirmations,
    ) -> None:
        self._counters = context.counters
        self._confirmations = context.confirmations
        self._observer = context.observer
        self._sessions = sessions
        self._index = index
        self._admission = admission
        self._remote_confirmations = remote_confirmations

    def answer(self, session: Session, frame: Publish, step: Callable[[], None], now: float) -> None:
        """Take a step of an event that has waited. Send its publisher the refusal if the step refuses it."""
        try:
            step()
        except PublishRefused as refused:
            self.refuse(session.connection, frame, refused, now)

    def refuse(self, connection: Connection | None, frame: Publish, refused: PublishRefused, now: float) -> None:
        """Count an event that was not admitted, and send its publisher the refusal."""
        self._counters.refused += 1
        self._counters.dropped[refused.reason] += 1
        self._observer.ended(frame, refused.reason, 0, now)
        if connection is not None and (frame.confirm or not refused.retryable):
            connection.send(refusal_of(frame.sequence, refused))

    def send(self, now: float) -> None:
        """Send the outcomes to the publishers that are connected; any other repeats its event when it is back."""
        receipts: dict[Session, list[tuple[int, int]]] = {}
        for outcome in self._confirmations.take():
            if outcome.publisher < 0:  # an event of another broker's publisher
                event = self._remote_confirmations.settled(outcome, now)
                if outcome.code:
                    self._admission.remember(event.frame.id, self._refused(outcome))
                continue
            session = self._sessions.of_publisher(outcome.publisher)
            refused = self._refused(outcome) if outcome.code else None
            if refused is not None:
                self._admission.remember(EventId(outcome.publisher, outcome.sequence), refused)
            if session is None or session.connection is None:
                continue
            if refused is not None:
                session.connection.send(refusal_of(outcome.sequence, refused))
            else:
                self._counters.confirmed += 1
                receipts.setdefault(session, []).append((outcome.sequence, outcome.matched))
        for session, confirmed in receipts.items():
            assert session.connection is not None
            for start in range(0, len(confirmed), ACKNOWLEDGED_MAX):
                sequences, matched = zip(*confirmed[start : start + ACKNOWLEDGED_MAX], strict=True)
                session.connection.send(Receipt(sequences, matched))

    def _refused(self, outcome: Outcome) -> PublishRefused:
        """Return the refusal of an event that could not be confirmed."""
        message, hint = outcome.message, ""
        if outcome.code == Code.TIMEOUT and outcome.silent:  # else another broker has timed out
            silent, hint = self._describe_silent(outcome)
            message = f"not confirmed within {self._confirmations.timeout_s:g} s: {silent}"
        retryable = outcome.code == Code.DURABILITY
        return PublishRefused(DropReason.DUPLICATE, outcome.code, message, hint, retryable=retryable)

    def _describe_silent(self, outcome: Outcome) -> tuple[str, str]:
        """Return which parties have not acknowledged an event, and a hint."""
        if any(number == LOG for number, _ in outcome.silent):  # durable subscriptions get it only after the log
            return "the log has not stored it yet", "the broker's disk may be slow; /readyz shows the state of its log"
        numbers = [number for number, _ in outcome.silent if number > 0]
        brokers = [self._remote_confirmations.silent_broker(party) for party in outcome.silent if party[0] < 0]
        clauses: list[str] = []
        if numbers:
            names = [self._describe(number) for number in numbers]
            clauses = [f"{len(numbers)} of {outcome.matched} {_has(names)} not acknowledged it: {_listed(names)}"]
        clauses += _describe_silent_brokers(brokers)
        return "; ".join(clauses), _hint_about_brokers(brokers) if brokers else self._hint(numbers)

    def _hint(self, numbers: list[int]) -> str:
        absent = [party.name for number in numbers if (party := self._absent(number)) is not None]
        if not absent:
            return ""
        back = f"{absent[0]!r} is" if len(absent) == 1 else "they are"
        return (
            f"it is stored and will be delivered when {back} back; use confirm='broker' to wait for the log alone, "
            "or `plait ls subs` to see who is away"
        )

    def _describe(self, number: int) -> str:
        party = self._index.party(number)
        if party is None:
            return "a subscription that has ended"
        if isinstance(party, DurableSubscription):
            away = " (its client is away)" if self._absent(number) is not None else ""
            return f"durable subscription {party.name!r}{away}"
        away = "" if party.session.attached else " (which is away)"
        return f"a subscription of client {party.session.name!r}{away}"

    def _absent(self, number: int) -> DurableSubscription | None:
        party = self._index.party(number)
        if not isinstance(party, DurableSubscription):
            return None
        taken_up = party.subscription is not None and party.subscription.session.attached
        return None if taken_up else party


def _describe_silent_brokers(brokers: list[SilentBroker]) -> list[str]:
    """Return clauses about other brokers, first those that do not have the event."""
    clauses = []
    without = [str(broker) for broker in brokers if not broker.in_charge]
    if without:
        clauses.append(f"{_listed(without)} {_has(without)} not taken charge of it")
    waiting = [str(broker) for broker in brokers if broker.in_charge]
    if waiting:
        clauses.append(f"{_listed(waiting)} {_has(waiting)} it, and not all subscribers there have acknowledged it")
    return clauses


def _hint_about_brokers(brokers: list[SilentBroker]) -> str:
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
    """Return the frame of a refusal."""
    return Refusal(sequence, refused.code, refused.message, refused.retryable, refused.hint)
