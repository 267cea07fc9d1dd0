"""Why an event was, or was not, delivered: the reports of all brokers (`local_status.py`) joined to one answer.

What other brokers said is untrusted: it is looked at with care, shown, and decides nothing but this answer.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, TypeAlias

Json: TypeAlias = Mapping[str, Any]

REASONS: Final = {
    "late": "it came after the subscription's delay bound",
    "expired": "its lifetime was over",
    "duplicate": "it had come before, and nobody gets an event twice",
    "stale": "its number was too far below its publisher's last to be told from a duplicate",
    "not_allowed": "its publisher may not say this",
    "forbidden": "the subscriber may not hear this",
    "durability": "it could not be stored",
    "outbox_items": "the subscription's queue was full",
    "outbox_bytes": "the subscription's queue was full of bytes",
    "gone": "the subscriber's session ended",
    "unreachable": "its broker could not be reached for too long",
    "overlay_full": "too much waited for its broker",
}
"""Reasons of drops, for people."""

WAITS: Final = {
    "away": "its client is away",
    "behind": "its client is behind",
}


def decide(home: Json | None, others: Mapping[str, Json], names: tuple[str, str]) -> dict[str, Any]:
    """The verdict. `home`: what the subscription's broker knows, None when it did not answer; `others`: what each other
    broker said; `names`: the event's, and the subscription's broker's."""
    event, broker = names
    if home is None:
        return _unanswered(others, broker)
    if home.get("subscription") is None:
        return _verdict("no_subscription", f"{broker} has no such subscription", hint="see `plait ls subs`")
    if _part(home, "event"):
        return _at_home(home, broker)
    published = next(((name, said) for name, said in others.items() if _saw(said) == "published"), None)
    for name, said in {broker: home, **others}.items():
        drop = next((drop for drop in _list(said, "drops") if drop.get("for") in (None, broker)), None)
        if drop is not None and drop.get("subscription") is None and not _still_comes(published):
            return _dropped(drop, name)
    if published is None:
        return _nobody(home, others, event, broker)
    return _on_the_way(*published, home, broker)


def _at_home(home: Json, broker: str) -> dict[str, Any]:
    """The event has been at the subscription's broker."""
    matches, fate = _part(home, "matches"), _part(home, "fate")
    if matches.get("result") is not True:
        return _verdict("not_matched", "the filter is not true of it", matches)
    match fate.get("state"):
        case "delivered" if fate.get("acknowledged") is False:
            return _verdict("sent", "sent to its client, which has not acknowledged it", matches, fate)
        case "delivered":
            ago = f" {_seconds(fate['ago_s'])} ago" if "ago_s" in fate else ""
            to = f" to {fate['client']}" if fate.get("client") else ""
            return _verdict("delivered", f"delivered{to}{ago}", matches, fate)
        case "dropped":
            return _dropped(fate, broker, matches)
        case "waiting":
            reason = str(fate.get("reason", ""))
            return _verdict("waiting", f"it waits at {broker}: {WAITS.get(reason, reason)}", matches, fate)
        case "stored":
            return _verdict("stored", f"it is in the log of {broker}: {fate.get('reason', '')}", matches, fate)
        case "other_tags":
            return _other_tags(matches)
        case "not_yet":
            return _not_yet(fate.get("by_s"), broker, matches)
    return _verdict("unknown", f"{broker} does not say what became of it", matches, fate)


def _on_the_way(name: str, said: Json, home: Json, broker: str) -> dict[str, Any]:
    """It was published at another broker, and has not been seen at the subscription's."""
    matches, sent = _part(said, "matches"), _part(said, "sent")
    if matches.get("result") is not True:
        return _verdict("not_matched", "the filter is not true of it", matches)
    if not sent.get("for_it"):
        since, ago = _part(home, "subscription").get("since_s"), _part(said, "event").get("ago_s")
        by_s = ago - since if isinstance(since, float) and isinstance(ago, float) and ago > since else None
        return _not_yet(by_s, name, matches)
    if sent.get("waiting"):
        return _verdict("on_its_way", f"it has not arrived: {_stream(sent, name, broker)}", matches, sent)
    return _verdict("too_long_ago", f"{broker} took charge of it; {_window(home, broker)}", matches, sent)


def _unanswered(others: Mapping[str, Json], broker: str) -> dict[str, Any]:
    """The subscription's broker does not answer; what others know is of the event and that broker alone."""
    silent = f"{broker}, where the subscription lives, does not answer"
    published = next(((name, said) for name, said in others.items() if _saw(said) == "published"), None)
    sent = {} if published is None else _part(published[1], "sent")
    if published is not None and sent.get("waiting"):
        text = f"there is no word that it arrived: {_stream(sent, published[0], broker)}"
        hint = f"{silent}; whether the subscription's filter is true of the event is known there"
        return _verdict("on_its_way", text, facts=sent, hint=hint)
    for name, said in others.items():
        drop = next((drop for drop in _list(said, "drops") if drop.get("for") == broker), None)
        if drop is not None:
            return _dropped(drop, name)
    if published is None:
        return _verdict("unanswered", f"{silent}, and no other broker that does remembers publishing the event")
    name = published[0]
    if sent.get("for_it"):
        return _verdict("unanswered", f"{silent}; it has taken charge of the event, says {name}", facts=sent)
    if sent:
        return _verdict("unanswered", f"{silent}; {name} knew of nobody there who wanted the event", facts=sent)
    return _verdict("unanswered", silent)


def _stream(sent: Json, name: str, broker: str) -> str:
    """Where an event waits that its publisher's broker has sent, and that has not been taken."""
    since = _seconds(sent.get("since_s"))
    state = "" if sent.get("reachable") else f"; {name} cannot reach {broker} now"
    return f"in {name}'s stream to {broker}, at position {sent.get('position')}, since {since}{state}"


def _nobody(home: Json, others: Mapping[str, Json], event: str, broker: str) -> dict[str, Any]:
    """No broker remembers it."""
    known = {broker: home, **others}
    if not any(_part(said, "memory").get("full") for said in known.values()):
        return _verdict("never_seen", f"no broker that can be asked has seen {event} since it started")
    windows = "; ".join(_window(said, name) for name, said in known.items())
    return _verdict("too_long_ago", f"no broker remembers {event}: {windows}")


def _dropped(drop: Json, where: str, matches: Json | None = None) -> dict[str, Any]:
    reason = str(drop.get("reason", ""))
    why = REASONS.get(reason, reason)
    return _verdict("dropped", f"dropped at {where} ({reason}): {why}", matches or {}, {"at": where, **drop})


def _not_yet(by_s: object, where: str, matches: Json) -> dict[str, Any]:
    by = f", by {_seconds(by_s)}" if isinstance(by_s, float) else ""
    return _verdict(
        "not_subscribed_yet", f"it was matched at {where} before the subscription was known there{by}", matches
    )


def _other_tags(matches: Json) -> dict[str, Any]:
    return _verdict("not_for_its_keys", "it is sealed, and its tags do not fit the keys of the subscription", matches)


def _verdict(
    state: str, text: str, matches: Json | None = None, facts: Json | None = None, hint: str = ""
) -> dict[str, Any]:
    found: dict[str, Any] = {"verdict": state, "text": text, "why": _list(matches or {}, "why")}
    if facts:
        found["facts"] = dict(facts)
    if hint:
        found["hint"] = hint
    return found


def _window(said: Json, name: str) -> str:
    """How far a broker's memory goes back."""
    memory = _part(said, "memory")
    if not memory.get("full"):
        return f"{name} remembers all since it started, {_seconds(memory.get('since_s', 0.0))} ago"
    return f"{name} remembers the last {memory.get('events')} events, {_seconds(memory.get('since_s', 0.0))}"


def _still_comes(published: tuple[str, Json] | None) -> bool:
    """Whether its publisher's broker still has it to send: a copy that was lost on the way comes again."""
    return published is not None and bool(_part(published[1], "sent").get("waiting"))


def _saw(said: Json) -> object:
    return _part(said, "event").get("saw")


def _part(said: Json, name: str) -> Json:
    part = said.get(name)
    return part if isinstance(part, Mapping) else {}


def _list(said: Json, name: str) -> list[Any]:
    found = said.get(name)
    return found if isinstance(found, list) else []


def _seconds(value: object) -> str:
    """A time for people."""
    if not isinstance(value, int | float):
        return "?"
    return f"{value * 1000:.1f} ms" if value < 1 else f"{value:.1f} s"
