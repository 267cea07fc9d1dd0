"""What publishers hear of events that they want confirmed: receipts many at a time, refusals in words."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from plait_core.events import EventId
from plait_core.limits import ACKNOWLEDGED_MAX
from plait_core.wire.session_frames import Code, Receipt, Refusal

from .confirmations import LOG, Confirmations, Outcome
from .counters import Counters
from .durables import Durable
from .interest import Interest
from .publishing import Publishing, Refused
from .reasons import DropReason
from .sessions import Session, Sessions

NAMED_MAX: Final = 3
"""Subscriptions that one refusal names: enough to know where to look."""


class Receipts:
    """Takes the outcomes of confirmations to the publishers who wait for them."""

    def __init__(
        self,
        counters: Counters,
        interest: Interest,
        sessions: Sessions,
        confirmations: Confirmations,
        publishing: Publishing,
        elsewhere: Callable[[Outcome], None],
    ) -> None:
        """`elsewhere` takes what is for other brokers' publishers."""
        self._counters = counters
        self._interest = interest
        self._sessions = sessions
        self._confirmations = confirmations
        self._publishing = publishing
        self._elsewhere = elsewhere

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

    def _refused(self, outcome: Outcome) -> Refused:
        """What a publisher hears, again should it repeat an event that could not be confirmed."""
        message, hint = outcome.message, ""
        if outcome.code == Code.TIMEOUT:
            said, hint = self._silence(outcome)
            message = f"not confirmed within {self._confirmations.timeout_s:g} s: {said}"
        retryable = outcome.code == Code.DURABILITY
        return Refused(DropReason.DUPLICATE, outcome.code, message, hint, retryable=retryable)

    def _silence(self, outcome: Outcome) -> tuple[str, str]:
        """Who has not acknowledged an event, and what can be done about it."""
        if any(number == LOG for number, _ in outcome.silent):  # durable subscriptions get it only after the log
            return "the log has not stored it yet", "the broker's disk may be slow; /readyz says how its log does"
        numbers = [number for number, _ in outcome.silent]
        names = [self._named(number) for number in numbers[:NAMED_MAX]]
        more = f" and {len(numbers) - NAMED_MAX} more" if len(numbers) > NAMED_MAX else ""
        has = "has" if len(numbers) == 1 else "have"
        said = f"{len(numbers)} of {outcome.matched} {has} not acknowledged it: {', '.join(names)}{more}"
        absent = [party.name for number in numbers if (party := self._absent(number)) is not None]
        if not absent:
            return said, ""
        back = f"{absent[0]!r} is" if len(absent) == 1 else "they are"
        return said, (
            f"it is stored and will be delivered when {back} back; use confirm='broker' to wait for the log alone, "
            "or `plait ls subs` to see who is away"
        )

    def _named(self, number: int) -> str:
        party = self._interest.party(number)
        if party is None:
            return "a subscription that has ended"
        if isinstance(party, Durable):
            away = " (its client is away)" if self._absent(number) is not None else ""
            return f"durable subscription {party.name!r}{away}"
        away = "" if party.session.attached else " (which is away)"
        return f"a subscription of client {party.session.name!r}{away}"

    def _absent(self, number: int) -> Durable | None:
        party = self._interest.party(number)
        if not isinstance(party, Durable):
            return None
        taken_up = party.subscription is not None and party.subscription.session.attached
        return None if taken_up else party


def refusal_of(sequence: int, refused: Refused) -> Refusal:
    """The frame that says it."""
    return Refusal(sequence, refused.code, refused.message, refused.retryable, refused.hint)
