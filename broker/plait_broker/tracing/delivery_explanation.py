"""Explain why an event was, or was not, delivered: join the reports of all brokers (`local_status.py`).

Reports of other brokers are untrusted input: they are checked, shown, and used for nothing but this answer.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from plait_core.values import Json

REASONS: Final = {
    "late": "it arrived after the subscription's delay bound",
    "expired": "its lifetime was over",
    "duplicate": "it had arrived before; an event is delivered at most once",
    "stale": "its sequence number was below the window in which duplicates are detected",
    "not_allowed": "its publisher is not allowed to publish it",
    "forbidden": "the subscriber is not allowed to receive it",
    "durability": "it could not be stored",
    "outbox_items": "the subscription's queue was full",
    "outbox_bytes": "the subscription's queue was full of bytes",
    "gone": "the subscriber's session ended",
    "unreachable": "its broker could not be reached for too long",
    "overlay_full": "too many events waited for its broker",
}
"""Drop reasons in words."""

WAITS: Final = {
    "away": "its client is away",
    "behind": "its client is behind",
}


def explain_delivery(home: Json | None, others: Mapping[str, Json], names: tuple[str, str]) -> Json:
    """Return the explanation. `home`: the report of the subscription's broker, None if it did not answer. `others`: the
    reports of other brokers by name. `names`: those of the event and of the subscription's broker."""
    event, broker = names
    if home is None:
        return _unanswered(others, broker)
    if home.get("subscription") is None:
        return _explanation("no_subscription", f"{broker} has no such subscription", hint="see `plait ls subs`")
    if _part(home, "event"):
        return _received(home, broker)
    published = next(((name, report) for name, report in others.items() if _saw(report) == "published"), None)
    for name, report in {broker: home, **others}.items():
        drop = next((drop for drop in _list(report, "drops") if drop.get("for") in (None, broker)), None)
        if drop is not None and drop.get("subscription") is None and not _will_retransmit(published):
            return _dropped(drop, name)
    if published is None:
        return _not_remembered(home, others, event, broker)
    return _in_transit(*published, home, broker)


def _received(home: Json, broker: str) -> Json:
    """Explain an event that the subscription's broker has received."""
    matches, outcome = _part(home, "matches"), _part(home, "fate")
    if matches.get("result") is not True:
        return _explanation("not_matched", "the filter does not match it", matches)
    match outcome.get("state"):
        case "delivered" if outcome.get("acknowledged") is False:
            return _explanation("sent", "sent to its client, which has not acknowledged it", matches, outcome)
        case "delivered":
            ago = f" {_seconds(outcome['ago_s'])} ago" if "ago_s" in outcome else ""
            to = f" to {outcome['client']}" if outcome.get("client") else ""
            return _explanation("delivered", f"delivered{to}{ago}", matches, outcome)
        case "dropped":
            return _dropped(outcome, broker, matches)
        case "waiting":
            reason = str(outcome.get("reason", ""))
            return _explanation("waiting", f"it waits at {broker}: {WAITS.get(reason, reason)}", matches, outcome)
        case "stored":
            return _explanation(
                "stored", f"it is in the log of {broker}: {outcome.get('reason', '')}", matches, outcome
            )
        case "other_tags":
            return _other_tags(matches)
        case "not_yet":
            return _not_yet(outcome.get("by_s"), broker, matches)
    return _explanation("unknown", f"{broker} reports no outcome", matches, outcome)


def _in_transit(name: str, report: Json, home: Json, broker: str) -> Json:
    """Explain an event that its publisher's broker has sent but the subscription's broker has not received."""
    matches, sent = _part(report, "matches"), _part(report, "sent")
    if matches.get("result") is not True:
        return _explanation("not_matched", "the filter does not match it", matches)
    if not sent.get("for_it"):
        since, ago = _part(home, "subscription").get("since_s"), _part(report, "event").get("ago_s")
        by_s = ago - since if isinstance(since, float) and isinstance(ago, float) and ago > since else None
        return _not_yet(by_s, name, matches)
    if sent.get("waiting"):
        return _explanation("on_its_way", f"it has not arrived: {_stream(sent, name, broker)}", matches, sent)
    return _explanation("too_long_ago", f"{broker} acknowledged it; {_window(home, broker)}", matches, sent)


def _unanswered(others: Mapping[str, Json], broker: str) -> Json:
    """Explain what other brokers report while the subscription's broker does not answer."""
    silent = f"{broker}, where the subscription lives, does not answer"
    published = next(((name, report) for name, report in others.items() if _saw(report) == "published"), None)
    sent = {} if published is None else _part(published[1], "sent")
    if published is not None and sent.get("waiting"):
        text = f"no broker reports its arrival: {_stream(sent, published[0], broker)}"
        hint = f"{silent}; only that broker knows whether the subscription's filter matches the event"
        return _explanation("on_its_way", text, facts=sent, hint=hint)
    for name, report in others.items():
        drop = next((drop for drop in _list(report, "drops") if drop.get("for") == broker), None)
        if drop is not None:
            return _dropped(drop, name)
    if published is None:
        return _explanation("unanswered", f"{silent}, and no other broker remembers publishing the event")
    name = published[0]
    if sent.get("for_it"):
        return _explanation("unanswered", f"{silent}; {name} reports that it has acknowledged the event", facts=sent)
    if sent:
        return _explanation("unanswered", f"{silent}; {name} knew of no matching subscription there", facts=sent)
    return _explanation("unanswered", silent)


def _stream(sent: Json, name: str, broker: str) -> str:
    """Describe the position of an unacknowledged event in a stream between brokers."""
    since = _seconds(sent.get("since_s"))
    state = "" if sent.get("reachable") else f"; {name} cannot reach {broker} now"
    return f"in {name}'s stream to {broker}, at position {sent.get('position')}, since {since}{state}"


def _not_remembered(home: Json, others: Mapping[str, Json], event: str, broker: str) -> Json:
    """Explain an event that no broker remembers."""
    known = {broker: home, **others}
    if not any(_part(report, "history").get("full") for report in known.values()):
        return _explanation("never_seen", f"no reachable broker has seen {event} since it started")
    windows = "; ".join(_window(report, name) for name, report in known.items())
    return _explanation("too_long_ago", f"no broker remembers {event}: {windows}")


def _dropped(drop: Json, where: str, matches: Json | None = None) -> Json:
    reason = str(drop.get("reason", ""))
    why = REASONS.get(reason, reason)
    return _explanation("dropped", f"dropped at {where} ({reason}): {why}", matches or {}, {"at": where, **drop})


def _not_yet(by_s: object, where: str, matches: Json) -> Json:
    by = f", by {_seconds(by_s)}" if isinstance(by_s, float) else ""
    return _explanation(
        "not_subscribed_yet", f"it was matched at {where} before the subscription was known there{by}", matches
    )


def _other_tags(matches: Json) -> Json:
    return _explanation(
        "not_for_its_keys", "it is sealed, and its tags do not fit the keys of the subscription", matches
    )


def _explanation(state: str, text: str, matches: Json | None = None, facts: Json | None = None, hint: str = "") -> Json:
    found: Json = {"verdict": state, "text": text, "why": _list(matches or {}, "why")}
    if facts:
        found["facts"] = dict(facts)
    if hint:
        found["hint"] = hint
    return found


def _window(report: Json, name: str) -> str:
    """Describe how far back a broker's history goes."""
    history = _part(report, "history")
    if not history.get("full"):
        return f"{name} remembers all since it started, {_seconds(history.get('since_s', 0.0))} ago"
    return f"{name} remembers the last {history.get('events')} events, {_seconds(history.get('since_s', 0.0))}"


def _will_retransmit(published: tuple[str, Json] | None) -> bool:
    """Return whether the publisher's broker will retransmit the event."""
    return published is not None and bool(_part(published[1], "sent").get("waiting"))


def _saw(report: Json) -> object:
    return _part(report, "event").get("saw")


def _part(report: Json, name: str) -> Json:
    part = report.get(name)
    return part if isinstance(part, dict) else {}


def _list(report: Json, name: str) -> list[Any]:
    found = report.get(name)
    return found if isinstance(found, list) else []


def _seconds(value: object) -> str:
    """Format a duration."""
    if not isinstance(value, int | float):
        return "?"
    return f"{value * 1000:.1f} ms" if value < 1 else f"{value:.1f} s"
