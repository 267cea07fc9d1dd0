"""The incident log of one broker: its latest incidents, recorded whether or not anybody looks. No I/O.

Every second the log compares the broker with what it was: brokers that come and go, its links, the paths that it uses,
its slow consumers, bursts of drops, and refused callers. Each broker records what it sees itself, so the page needs no
history of its own: it requests the incidents of all brokers with their summaries.

Incidents of equal kind, subject and text are one entry with a count. A client or broker that causes many incidents
therefore cannot push out those of other kinds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from plait_core.ids import id_text
from plait_core.values import Json

from .client_watch import ClientWatch
from .membership_watch import MembershipWatch
from .path_watch import PathWatch
from .shares import surplus_key

if TYPE_CHECKING:
    from ...broker_view import BrokerView

REVIEW_S: Final = 1.0
"""Time between two comparisons: people read incidents by the second."""

KEPT_MAX: Final = 100
"""Limit of incidents kept. The oldest of the most frequent kind is dropped first. An operator who needs more reads the
metrics."""

SENT_MAX: Final = 40
"""Incidents in one summary: some ten kilobytes of its limit."""

PATHS_START_S: Final = 60.0
"""Time after the start for which changed paths are no incidents: delays that are measured while a whole overlay starts
on one machine are too long, and paths follow them."""


class Incident(NamedTuple):
    """Something that an operator should know, with its repetitions."""

    number: int
    """Counts from 1. A repetition has a new number."""
    at: float
    """Time of the last repetition."""
    kind: str
    subject: str
    """The id of a broker, or `FROM>TO` of a link."""
    text: str
    first_at: float
    times: int
    """The number of times that it has happened."""


class IncidentLog:
    """The latest incidents of one broker."""

    def __init__(self, broker: BrokerView, now: float) -> None:
        self._kept: dict[tuple[str, str, str], Incident] = {}
        """By kind, subject and text, in the order of numbers."""
        self.recorded = 0
        """Counts all incidents and repetitions, by which a reader asks for later ones."""
        self.due_at = now + REVIEW_S
        self._broker = broker
        self._membership = MembershipWatch(now)
        self._paths = PathWatch()
        self._clients = ClientWatch()

    @property
    def incidents(self) -> list[Incident]:
        """Return the incidents that are kept, the latest last."""
        return list(self._kept.values())

    def review(self, now: float) -> None:
        """Compare the broker with what it was, and record what has happened."""
        self.due_at = now + REVIEW_S
        broker = self._broker
        noticed = self._membership.review(broker, now)
        starting = now - broker.started_at < PATHS_START_S or not self._membership.settled
        moved = self._paths.review(broker.overlay, now, quiet=starting)
        name, subject = broker.settings.name, id_text(broker.id)
        noticed += (("reroute", subject, f"{name} {text}") for text in moved)
        noticed += ((kind, subject, text) for kind, text in self._clients.review(broker, now))
        for kind, of, text in noticed:
            self.record(kind, of, text, now)

    def record(self, kind: str, subject: str, text: str, now: float) -> None:
        """Add an incident, or count it as a repetition."""
        self.recorded += 1
        before = self._kept.pop((kind, subject, text), None)
        first_at, count = (now, 0) if before is None else (before.first_at, before.times)
        self._kept[kind, subject, text] = Incident(self.recorded, now, kind, subject, text, first_at, count + 1)
        if len(self._kept) > KEPT_MAX:
            del self._kept[surplus_key(self._kept, lambda incident: incident.kind)]

    def describe(self, after: int, now: float) -> list[Json]:
        """Return the incidents after a number. If there are many, return the latest of each kind."""
        later = {incident.number: incident for incident in self._kept.values() if incident.number > after}
        while len(later) > SENT_MAX:
            del later[surplus_key(later, lambda incident: incident.kind)]
        return [
            {
                "number": incident.number,
                "ago_s": round(now - incident.at, 1),
                "first_ago_s": round(now - incident.first_at, 1),
                "count": incident.times,
                "kind": incident.kind,
                "of": incident.subject,
                "text": incident.text,
            }
            for incident in later.values()
        ]
