"""The outcome of one event for `plait why EVENT`, joined from the reports of all brokers (`/api/v1/event`).

The report of a broker has how it received the event, the subscriptions that the event matched there, each with its
state, and drops.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from plait_core.values import Json

HINTS: Final = {
    "never_seen": "brokers remember their last 2,048 events, and none from before their start",
    "not_matched": "`plait why EVENT BROKER/NUMBER` explains one subscription; `plait ls subs` lists them",
}
"""Hints by verdict."""

UNMATCHED: Final = "unmatched"
"""The drop reason of an event that no subscription matched: nothing was lost."""

_STATES: Final = {
    "waiting": "waits: its client is {reason}",
    "stored": "stored: {reason}",
    "not_yet": "not delivered: the subscription was not known yet",
    "other_tags": "not delivered: the event is sealed for other keys",
    "dropped": "dropped: {reason}",
}


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of an event in the whole overlay."""

    event: str
    verdict: str
    """`delivered`, `waiting`, `not_delivered`, `not_matched`, `on_its_way` or `never_seen`."""
    text: str
    steps: list[str]
    """One line for each step, in the order of the path."""
    reports: Json
    """The reports, by the names of the brokers."""
    silent: list[str]
    """Names of brokers that did not answer."""
    hint: str = ""

    @property
    def known(self) -> bool:
        """Whether the outcome is decided."""
        return self.verdict not in ("on_its_way", "never_seen") and not self.silent

    def as_json(self) -> Json:
        return {
            "event": self.event,
            "verdict": self.verdict,
            "text": self.text,
            "silent": self.silent,
            "reports": self.reports,
        }


def outcome_of(answer: Mapping[str, Any]) -> Outcome:
    """Return the outcome from the answer of `/api/v1/event`."""
    reports: list[Json] = [report for report in answer["brokers"] if "error" not in report]
    names = {str(report["id"]): str(report["broker"]) for report in reports}
    silent = [str(name) for name in answer.get("silent", [])]
    silent += [str(report["id"]) for report in answer["brokers"] if "error" in report]
    seen = sorted((report for report in reports if report.get("seen")), key=_distance)
    arrived = {report["id"] for report in seen}
    lost = [drop for report in reports for drop in _path_drops(report)]
    dropped_for = {drop.get("for") for drop in lost}
    awaited = [
        names.get(home, home)
        for report in seen
        for home in report["seen"].get("for", [])
        if home not in arrived and home not in dropped_for
    ]
    states = [str(party.get("state")) for report in seen for party in report.get("parties", [])]
    verdict, text = _verdict(bool(seen), states, lost, awaited)
    steps = [line for report in seen for line in _lines(report, names)]
    steps += [line for report in reports if not report.get("seen") for line in _lines(report, names)]
    steps += [f"no report that it arrived at {name}" for name in awaited]
    hint = f"{', '.join(silent)} did not answer" if silent else HINTS.get(verdict, "")
    by_name = {names[str(report["id"])]: report for report in reports}
    return Outcome(str(answer["event"]), verdict, text, steps, by_name, silent, hint)


def _verdict(seen: bool, states: list[str], lost: list[Json], awaited: list[str]) -> tuple[str, str]:
    """Return the verdict and its text. `states` are those of the subscriptions that the event matches."""
    if not seen and not lost:
        return "never_seen", "no broker that answered remembers the event"
    if awaited:
        return "on_its_way", f"it is not known to have arrived at {', '.join(awaited)}"
    due = [state for state in states if state != "not_yet"]
    if not due and not lost:
        return "not_matched", "no subscription matched it when it was published"
    delivered, waiting = due.count("delivered"), due.count("waiting") + due.count("stored")
    if delivered == len(due) and not lost:
        return "delivered", f"to {_count(delivered, 'subscription')}"
    text = f"to {delivered} of {_count(len(due), 'subscription')}" if due else "it was dropped"
    if delivered + waiting == len(due) and not lost:
        return "waiting", f"delivered {text}, and it waits for {waiting}"
    return "not_delivered", f"{text}{', and dropped on its way' if due and lost else ''}"


def _path_drops(report: Json) -> list[Json]:
    """Return the drops at one broker, but those of a subscription, which are its state."""
    return [drop for drop in report.get("drops", []) if not drop.get("subscription") and drop["reason"] != UNMATCHED]


def _distance(report: Json) -> tuple[int, str]:
    """Order reports along the path: the publisher's broker, then by the number of brokers passed."""
    seen = report["seen"]
    return (0 if seen.get("as") == "published" else len(seen.get("path", [])), str(report["broker"]))


def _lines(report: Json, names: Mapping[str, str]) -> Iterator[str]:
    """Yield what one broker did with the event."""
    broker, seen = str(report["broker"]), report.get("seen")
    if seen and seen.get("as") == "published":
        yield f"published at {broker} {report['event']['ago_s']:.3f} s ago"
    elif seen:
        path = " > ".join(names.get(passed, passed) for passed in seen.get("path", []))
        yield f"arrived at {broker} after {seen['delay_ms']:.2f} ms, by path {path}"
    for party in report.get("parties", []):
        yield f"  {broker}/{party['subscription']}  {party['filter']}: {_state(party)}"
    for drop in _path_drops(report):
        towards = f" on its way to {names.get(drop['for'], drop['for'])}" if drop.get("for") else ""
        yield f"  dropped at {broker}{towards}: {drop['reason']}"


def _state(party: Mapping[str, Any]) -> str:
    state = str(party.get("state"))
    if state == "delivered":
        to = f" to {party['client']}" if party.get("client") else ""
        delay = f" after {party['delay_ms']:.2f} ms" if party.get("delay_ms") is not None else ""
        unacked = ", not acknowledged" if party.get("acknowledged") is False else ""
        return f"delivered{to}{delay}{unacked}"
    return _STATES.get(state, state).format(reason=party.get("reason", ""))


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"
