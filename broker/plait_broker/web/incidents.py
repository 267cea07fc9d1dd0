"""The incidents of all brokers for the live page, as their logs have recorded them (`tracing/incidents/`).

Several brokers see one incident: both ends of a link, and every broker that another is out of reach of. The list has it
once. Reports are untrusted, so the rank of the reporter decides which report is shown, and each reporter has a share of
the list. A hostile broker can neither hide nor displace what other brokers report about themselves.
"""

from __future__ import annotations

from typing import Final

from plait_core.ids import id_text
from plait_core.values import Json

from ..tracing.incidents.shares import surplus_key
from .summary_reader import SummaryReading, number, text

SHOWN_MAX: Final = 100
"""Limit of the list. The oldest incident of the broker that has reported most is dropped first."""

SEEN_BY_MANY: Final = frozenset(("join", "leave", "link up", "link down"))
"""Kinds that several brokers report. Of the others, each report is an incident of its own."""

SAME_S: Final = 10.0
"""Time within which reports of one kind about one broker or link, by several brokers, are one incident: longer than
link states take to flood."""

AGE_S_MAX: Final = 7 * 86_400
"""Age of the oldest incident that is shown. Ages come from other brokers and may be anything."""


class IncidentList:
    """The latest incidents."""

    def __init__(self) -> None:
        self.shown: dict[str, Json] = {}
        """By a number that rises, in no particular order of time."""
        self.own_id = ""
        """The broker of the page, as text. Its reports replace those of others."""
        self._count = 0
        self._seen: dict[int, int] = {}
        """By broker, the number of its last incident here."""

    def seen(self, broker: int) -> int:
        """Return the number of a broker's last incident here. Its later ones are to be requested."""
        return self._seen.get(broker, 0)

    def take(self, broker: int, name: str, reading: SummaryReading, wall_s: float) -> None:
        """Take the new incidents of a broker's summary."""
        before = self.seen(broker)
        self._seen[broker] = int(reading.recorded)  # lower after its restart: then all are new
        for report in reading.incidents:
            if int(number(report.get("number"))) > before or reading.recorded < before:
                ago_s = min(number(report.get("ago_s")), AGE_S_MAX)
                first_ago_s = min(max(number(report.get("first_ago_s")), ago_s), AGE_S_MAX)
                entry = {
                    "at": round(wall_s - ago_s, 1),
                    "first": round(wall_s - first_ago_s, 1),
                    "count": max(1, int(number(report.get("count")))),
                    "kind": text(report.get("kind")),
                    "of": _ordered(text(report.get("of"))),
                    "text": text(report.get("text")),
                    "by": id_text(broker),
                    "seen_by": name,
                }
                self._add(entry)

    def add(self, at: float, kind: str, subject: str, text: str) -> None:
        """Add an incident that the page itself has found."""
        entry = {"at": round(at, 1), "first": round(at, 1), "count": 1, "kind": kind, "of": _ordered(subject)}
        self._add(entry | {"text": text, "by": "", "seen_by": ""})

    def _add(self, entry: Json) -> None:
        """Add an incident, unless a broker of the same rank or a higher one has reported it. Replace other reports."""
        rank = self._rank(entry)
        shown: dict[str, Json] = {}
        for key, one in self.shown.items():
            if _is_same(one, entry):
                if self._rank(one) >= rank:
                    return
            elif not _is_repeated(one, entry):
                shown[key] = one
        self._count += 1
        shown[str(self._count)] = entry
        while len(shown) > SHOWN_MAX:
            by_time = dict(sorted(shown.items(), key=lambda item: float(item[1]["at"])))
            del shown[surplus_key(by_time, lambda one: str(one["by"]))]
        self.shown = shown

    def _rank(self, entry: Json) -> int:
        """Return 2 for the page and its broker, 1 for the subject or an end of the link, and 0 for any other broker."""
        if entry["by"] in ("", self.own_id):
            return 2
        return int(entry["by"] in entry["of"].split(">"))


def _ordered(subject: str) -> str:
    """Return the subject with the ends of a link in order: each end names itself first."""
    return ">".join(sorted(subject.split(">")))


def _is_same(one: Json, other: Json) -> bool:
    """Return whether two brokers report one incident."""
    if one["by"] == other["by"] or one["kind"] not in SEEN_BY_MANY:
        return False
    return (one["kind"], one["of"]) == (other["kind"], other["of"]) and abs(one["at"] - other["at"]) < SAME_S


def _is_repeated(one: Json, later: Json) -> bool:
    """Return whether a later report of the same broker counts this one among its repetitions."""
    same = all(one[field] == later[field] for field in ("by", "kind", "of", "text"))
    return same and bool(one["at"] > later["first"] - SAME_S)
