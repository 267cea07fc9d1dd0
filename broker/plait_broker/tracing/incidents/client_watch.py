"""Incidents of clients: slow consumers, bursts of lost or late events, and callers that were refused for security."""

from __future__ import annotations

from collections import Counter
from itertools import islice
from typing import TYPE_CHECKING, Final

from plait_core.wire.frame_types.session_frames import Code

from ...drop_reasons import LATE, LOST

if TYPE_CHECKING:
    from ...broker_view import BrokerView
    from ...drop_reasons import DropReason

BURST_S: Final = 1.0
"""Events a second that make a burst, if they are three times the usual rate."""

BURST_TIMES: Final = 3

SMOOTHING: Final = 0.1
"""Weight of a new second in the usual rate."""

REPEAT_S: Final = 10.0
"""Time before the same kind is recorded again; for `security`, the same text."""

LOOKED_AT: Final = 4_000
"""Subscriptions among which the slow one is looked for."""

UNAUTHORISED: Final = frozenset((Code.AUTH, Code.NOT_ALLOWED, "gate", "tls"))
"""Refusals that are incidents. Other refusals are mistakes of clients, such as a filter with a syntax error."""


class ClientWatch:
    """Compares the counters of one broker with those of a second ago."""

    def __init__(self) -> None:
        self._reviewed_at: float | None = None
        self._dropped: Counter[DropReason] = Counter()
        self._flagged = 0
        self._usual = {"drops": 0.0, "late": 0.0}
        self._slow = 0
        self._refused: Counter[str] = Counter()
        self._added_at: dict[str, float] = {}

    def review(self, broker: BrokerView, now: float) -> list[tuple[str, str]]:
        """Return kind and text of what has happened since the last call."""
        noticed = [*self._review_slow(broker), *self._review_refused(broker), *self._review_drops(broker, now)]
        self._reviewed_at = now
        fresh = [one for one in noticed if now - self._added_at.get(_repeated(*one), -REPEAT_S) >= REPEAT_S]
        self._added_at |= dict.fromkeys((_repeated(*one) for one in fresh), now)
        return fresh

    def _review_slow(self, broker: BrokerView) -> list[tuple[str, str]]:
        slow, before = broker.interest.waiting.slow, self._slow
        self._slow = slow
        if slow <= before:
            return []
        found = max(
            (one for one in islice(broker.interest.subscriptions, LOOKED_AT) if one.slow),
            key=lambda one: len(one.outbox),
            default=None,
        )
        if found is None:
            return [("slow", f"{slow} slow consumers at {broker.settings.name}")]
        others = f", and {slow - 1} more" if slow > 1 else ""
        text = f"{found.session.name or 'a client'} at {broker.settings.name} is slow: {len(found.outbox)} events wait"
        return [("slow", f"{text} for {found.filter.text[:80]}{others}")]

    def _review_refused(self, broker: BrokerView) -> list[tuple[str, str]]:
        counters = broker.counters
        unauthorised = {code: count for code, count in counters.rejected.items() if code in UNAUTHORISED}
        refused = counters.faults + Counter(unauthorised)
        codes = sorted(code for code, count in refused.items() if count > self._refused[code])
        first, self._refused = self._reviewed_at is None, refused
        if first:
            return []
        return [("security", f"{broker.settings.name} refused a caller: {code}") for code in codes]

    def _review_drops(self, broker: BrokerView, now: float) -> list[tuple[str, str]]:
        """Compare losses, and late events, with the usual rate of each."""
        counters = broker.counters
        dropped, flagged = counters.dropped, counters.late
        if self._reviewed_at is None or now <= self._reviewed_at:
            self._dropped, self._flagged = dropped.copy(), flagged
            return []
        elapsed_s = now - self._reviewed_at
        grown = {reason: (count - self._dropped[reason]) / elapsed_s for reason, count in sorted(dropped.items())}
        lost = {reason: rate for reason, rate in grown.items() if reason in LOST and rate}
        late_s = sum(rate for reason, rate in grown.items() if reason in LATE) + (flagged - self._flagged) / elapsed_s
        self._dropped, self._flagged = dropped.copy(), flagged
        noticed: list[tuple[str, str]] = []
        name = broker.settings.name
        if self._is_burst("drops", sum(lost.values())):
            worst = max(lost, key=lambda reason: lost[reason])
            noticed.append(("drops", f"{name} loses {sum(lost.values()):.3g} events a second: {worst.value}"))
        if self._is_burst("late", late_s):
            noticed.append(("late", f"{late_s:.3g} events a second are late for subscribers at {name}"))
        return noticed

    def _is_burst(self, kind: str, rate: float) -> bool:
        """Return whether a rate is far above the usual one, and learn it."""
        usual = self._usual[kind]
        self._usual[kind] = usual + SMOOTHING * (rate - usual)
        return rate > max(BURST_S, BURST_TIMES * usual)


def _repeated(kind: str, text: str) -> str:
    """Return what is not recorded again within REPEAT_S. The texts of `security` are few: one for each code."""
    return text if kind == "security" else kind
