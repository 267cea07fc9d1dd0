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

from .interests import Interest
from .recorder import NEVER, Outcome, Publication, Reception, Recorder, Tenure

_ANSWER_S: Final = 5.0
"""Seconds before the end in which a request may remain unanswered."""

_LIST_MAX: Final = 4
"""Events that one complaint names."""


@dataclass(frozen=True, slots=True)
class Rights:
    """The events that a principal may receive: the oracle's view of its rules."""

    allow: Interest
    deny: Interest | None = None

    def permit(self, attributes: Mapping[str, Any]) -> bool:
        return self.allow.wants(attributes) and (self.deny is None or not self.deny.wants(attributes))


@dataclass(frozen=True, slots=True)
class Complaint:
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

    def complaints(self) -> list[Complaint]:
        """Return all violations."""
        found = [Complaint("I9", text) for text in self._recorder.broken]
        for tenure in self._recorder.tenures:
            found += self._nothing_invented(tenure)
            found += self._nothing_twice(tenure)
            found += self._nothing_unwanted(tenure)
            found += self._in_order(tenure)
            if tenure.closing_at == NEVER and not tenure.durable:
                found += self._nothing_lost(tenure)
        for tenures in self._by_durable().values():
            found += self._nothing_durable_lost(tenures)
        found += self._everyone_has_it()
        found += self._everything_settled()
        return found

    # --- what arrived -------------------------------------------------------------------------------------------------

    def _nothing_invented(self, tenure: Tenure) -> Iterator[Complaint]:
        for reception in tenure.receptions:
            publication = self._recorder.publications.get(reception.id)
            if publication is None or publication.digest != reception.digest:
                yield Complaint("I3", f"{tenure.name} received {reception.id}, which nobody published like that")

    def _nothing_twice(self, tenure: Tenure) -> Iterator[Complaint]:
        seen: set[EventId] = set()
        for reception in tenure.receptions:
            if reception.id in seen:
                yield Complaint("I2", f"{tenure.name} received {reception.id} twice, again at {reception.at:.3f}")
            seen.add(reception.id)

    def _nothing_unwanted(self, tenure: Tenure) -> Iterator[Complaint]:
        for reception in tenure.receptions:
            publication = self._recorder.publications.get(reception.id)
            if publication is None:
                continue
            if not tenure.may_want(publication):
                yield Complaint("I4", f"{tenure.name} received {reception.id}, which it did not ask for")
            if not self._permitted(tenure, publication):
                yield Complaint("I4", f"{tenure.name} received {reception.id}, which it may not hear")

    def _in_order(self, tenure: Tenure) -> Iterator[Complaint]:
        last: dict[tuple[int, int], int] = {}
        for reception in tenure.receptions:
            lane = reception.id.publisher, reception.priority
            if reception.id.sequence < last.get(lane, 0) and not self._came_over_a_restart(tenure, reception):
                yield Complaint("I6", f"{tenure.name} received {reception.id} after number {last[lane]}")
            last[lane] = max(reception.id.sequence, last.get(lane, 0))

    def _came_over_a_restart(self, tenure: Tenure, reception: Reception) -> bool:
        """Return whether a retransmission after a broker's restart explains the order.

        A publisher retransmits unconfirmed events when a broker dies. A broker that logged nothing of that publisher
        cannot know what it delivered after them, so a subscription that is not durable may see them out of order.
        """
        publication = self._recorder.publications.get(reception.id)
        return (
            publication is not None
            and (not tenure.durable or bool(self._wiped_at))
            and any(publication.at < restart < reception.at for restart in self._recorder.restarts)
        )

    # --- what did not arrive ------------------------------------------------------------------------------------------

    def _nothing_lost(self, tenure: Tenure) -> Iterator[Complaint]:
        """Check a subscription that is not durable: missing events were reported by number or by kind."""
        got = {reception.id for reception in tenure.receptions}
        missing = [p for p in self._owed(tenure, tenure.installed_at) if p.id not in got]
        promised = [p for p in missing if p.outcome is Outcome.OK]
        told = sum(miss.count for miss in tenure.misses)
        # A count that was on its way when a connection broke is lost with it; that events were lost must be told.
        uncounted = any(not miss.count or tenure.disturbed for miss in tenure.misses)
        if len(promised) > told and not uncounted:
            yield Complaint("I1", f"{tenure.name} misses {_named(promised)}, and was told of {told}")
        if not tenure.disturbed and len(tenure.wishes) == 1:
            early = [p for p in self._owed(tenure, tenure.asked_at - 10.0) if p.id not in got]
            if told > len(early):
                yield Complaint("I1", f"{tenure.name} was told that it misses {told}, and misses {len(early)}")

    def _nothing_durable_lost(self, tenures: list[Tenure]) -> Iterator[Complaint]:
        """Check a durable subscription: confirmed events reached some incarnation of its application."""
        got = {reception.id for tenure in tenures for reception in tenure.receptions}
        since = min(tenure.installed_at for tenure in tenures)
        if any(tenure.closed_at != NEVER for tenure in tenures) or since == NEVER:
            return
        missing = [
            p
            for p in self._owed(tenures[0], since)
            if p.id not in got
            and p.outcome is Outcome.OK
            and not p.lifetime_us
            and not self._went_with_the_log(tenures, p)
            and all(tenure.wants(p) for tenure in tenures)
        ]
        damaged = self._rotten and any(miss.reason == "retention" for tenure in tenures for miss in tenure.misses)
        if missing and not damaged:
            yield Complaint("I1", f"{tenures[0].owner}/{tenures[0].durable} (durable) misses {_named(missing)}")

    def _everyone_has_it(self) -> Iterator[Complaint]:
        """Check that each subscriber has the events that are confirmed by subscribers."""
        durables = self._by_durable()
        for publication in self._recorder.publications.values():
            if publication.confirm is not Confirm.SUBSCRIBERS or publication.outcome is not Outcome.OK:
                continue
            for tenure in self._recorder.tenures:
                if tenure.durable or tenure.disturbed or tenure.cut_off or tenure.closing_at <= publication.settled_at:
                    continue
                if self._is_owed(tenure, publication, tenure.installed_at) and not _has([tenure], publication):
                    yield Complaint("I1", f"{tenure.name} does not have {publication.id}, confirmed by subscribers")
            for tenures in durables.values():
                since = min(tenure.installed_at for tenure in tenures)
                if (
                    all(self._is_owed(tenure, publication, since) for tenure in tenures)
                    and all(tenure.closed_at == NEVER for tenure in tenures)
                    and not _has(tenures, publication)
                    and not self._rotten
                    and not self._went_with_the_log(tenures, publication)
                ):
                    name = f"{tenures[0].owner}/{tenures[0].durable}"
                    yield Complaint("I1", f"{name} does not have {publication.id}, confirmed by subscribers")

    def _everything_settled(self) -> Iterator[Complaint]:
        """Check that every request is answered after healing."""
        for publication in self._recorder.publications.values():
            if publication.confirm and publication.settled_at == NEVER and publication.client not in self._dead():
                yield Complaint("I8", f"{publication.client} never heard of {publication.id}")
        for tenure in self._recorder.tenures:
            if tenure.installed_at == tenure.closing_at == NEVER and tenure.asked_at < self._recorder.now - _ANSWER_S:
                yield Complaint("I8", f"{tenure.name} was never installed")

    def _went_with_the_log(self, tenures: list[Tenure], publication: Publication) -> bool:
        """Return whether an event was lost with a wiped disk: published before its durable reader resumed or was
        informed."""
        for wiped_at in self._wiped_at:
            back = [miss.at for tenure in tenures for miss in tenure.misses if miss.reason == "log_lost"]
            back += [tenure.installed_at for tenure in tenures if tenure.installed_at != NEVER]
            if publication.at <= min((at for at in back if at > wiped_at), default=0.0):
                return True
        return False

    # --- inside -------------------------------------------------------------------------------------------------------

    def _dead(self) -> set[str]:
        """Return clients that were killed: the requests of their last incarnation stay unanswered."""
        return {fault.target for fault in self._recorder.faults if fault.kind == "kill client"}

    def _owed(self, tenure: Tenure, since: float) -> list[Publication]:
        return [p for p in self._recorder.publications.values() if self._is_owed(tenure, p, since)]

    def _is_owed(self, tenure: Tenure, publication: Publication, since: float) -> bool:
        """Return whether a subscriber must receive an event that was published while it was installed."""
        if publication.at < since or not tenure.wants(publication):
            return False
        return self._permitted(tenure, publication)

    def _permitted(self, tenure: Tenure, publication: Publication) -> bool:
        rights = self._rights.get(tenure.owner)
        return rights is None or rights.permit(publication.attributes)

    def _by_durable(self) -> dict[tuple[str, str], list[Tenure]]:
        found: dict[tuple[str, str], list[Tenure]] = {}
        for tenure in self._recorder.tenures:
            if tenure.durable:
                found.setdefault((tenure.owner, tenure.durable), []).append(tenure)
        return found


def _has(tenures: list[Tenure], publication: Publication) -> bool:
    return any(
        reception.id == publication.id and reception.at <= publication.settled_at
        for tenure in tenures
        for reception in tenure.receptions
    )


def _named(publications: list[Publication]) -> str:
    names = ", ".join(str(publication.id) for publication in publications[:_LIST_MAX])
    return f"{len(publications)} events ({names}{', ...' if len(publications) > _LIST_MAX else ''})"
