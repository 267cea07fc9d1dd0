"""Columns of the tables of `plait ls`, a selection for people. `--json` prints all fields.

A narrow terminal leaves out the least important columns first, and cuts the last one, such as a filter.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple, TypeAlias

from ..terminal.durations import shown
from ..terminal.output import json_text

Row: TypeAlias = Mapping[str, Any]

SHORT_FROM: Final = 10_000_000
"""Counts from here on are rounded to four digits."""

SIZES: Final = ("B", "kB", "MB", "GB", "TB")


class Column(NamedTuple):
    """One column of a table."""

    title: str
    cell: Callable[[Row], str]
    right: bool = False
    """Whether it holds numbers, aligned to the right."""
    spare: int = 0
    """Rank above zero: the column may be left out, the highest rank first."""


def count(name: str) -> Callable[[Row], str]:
    """Return a cell that shows a count."""
    return lambda row: short(row.get(name))


def text(name: str) -> Callable[[Row], str]:
    """Return a cell that shows a field as text."""
    return lambda row: _text(row.get(name))


def time_s(name: str) -> Callable[[Row], str]:
    """Return a cell that shows a duration given in seconds."""
    return lambda row: _time(row.get(name), 1.0)


def time_ms(name: str) -> Callable[[Row], str]:
    """Return a cell that shows a duration given in milliseconds."""
    return lambda row: _time(row.get(name), 0.001)


def _counted(name: str) -> Callable[[Row], str]:
    return lambda row: short(_mapping(row.get("counters")).get(name))


def _size(name: str) -> Callable[[Row], str]:
    return lambda row: size_text(row.get(name))


def _share(name: str) -> Callable[[Row], str]:
    def cell(row: Row) -> str:
        value = row.get(name)
        return f"{value:.0%}" if isinstance(value, int | float) and not isinstance(value, bool) else _text(value)

    return cell


def _link_state(row: Row) -> str:
    """Return the state of a link between brokers, or `full`: events wait for it, or the connection takes no bytes."""
    full = not row.get("writable", True) or (row.get("full") and row.get("state") == "up")
    return "full" if full else _text(row.get("state"))


def _client_state(row: Row) -> str:
    return "slow" if row.get("slow") else "" if row.get("connected") else "away"


def waiting(row: Row) -> str:
    """Return the number of events that wait, with a `+` while the broker still counts them."""
    return short(row.get("pending")) + ("+" if row.get("counted") is False else "")


def seen(row: Row) -> str:
    """Return how long ago a client held a durable subscription that none holds now."""
    if not row.get("durable") or row.get("connected"):
        return ""
    return "unknown" if row.get("seen_s") is None else _time(row.get("seen_s"), 1.0)


def _all_lost(row: Row) -> str:
    """Return the number of events that were lost at the broker, or that the client has dropped."""
    lost, dropped = row.get("lost"), _sum(row.get("client_dropped"))
    known = [part for part in (lost, dropped) if isinstance(part, int)]
    return short(sum(known)) if known else ""


LISTINGS: Final[dict[str, list[Column]]] = {
    "brokers": [
        Column("NAME", text("name")),
        Column("STATUS", text("status")),
        Column("LISTEN", text("listen"), spare=5),
        Column("AWAY", time_ms("distance_ms"), True, spare=4),
        Column("UPTIME", time_s("uptime_s"), True, spare=2),
        Column("CLIENTS", count("sessions"), True),
        Column("SUBS", count("subscriptions"), True),
        Column("PUBLISHED", _counted("admitted"), True, spare=1),
        Column("DELIVERED", _counted("delivered"), True),
        Column("LOST", _counted("lost"), True),
        Column("LATE", _counted("late"), True, spare=6),
        Column("PENDING", count("pending"), True, spare=3),
    ],
    "links": [
        Column("ID", count("id"), True),
        Column("ROLE", text("role"), spare=3),
        Column("NAME", text("name")),
        Column("ADDRESS", text("address")),
        Column("OPEN", time_s("open_s"), True),
        Column("SILENT", time_s("silent_s"), True, spare=2),
        Column("DELAY", time_ms("delay_ms"), True),
        Column("JITTER", time_ms("jitter_ms"), True, spare=4),
        Column("LOSS", _share("loss"), True, spare=5),
        Column("WAITING", _size("pending_bytes"), True, spare=6),
        Column("USED", _share("utilisation"), True, spare=7),
        Column("CARRIES/S", _size("measured_capacity"), True, spare=8),
        Column("STATE", _link_state, spare=1),
    ],
    "clients": [
        Column("NAME", text("name")),
        Column("PRINCIPAL", text("principal"), spare=4),
        Column("ADDRESS", text("address")),
        Column("SUBS", count("subscriptions"), True, spare=3),
        Column("ADVS", count("advertisements"), True, spare=5),
        Column("PUBLISHED", count("published"), True),
        Column("DELIVERED", count("delivered"), True),
        Column("PENDING", count("pending"), True),
        Column("DELAY", time_ms("delay_ms"), True, spare=2),
        Column("STATE", _client_state, spare=1),
    ],
    "subs": [
        Column("ID", text("id")),
        Column("CLIENT", text("client")),
        Column("DURABLE", text("durable"), spare=2),
        Column("WITHIN", time_ms("within_ms"), True, spare=3),
        Column("DELIVERED", count("delivered"), True),
        Column("HANDED OUT", count("handed_out"), True, spare=7),
        Column("PENDING", waiting, True, spare=5),
        Column("IN CLIENT", count("client_waiting"), True, spare=6),
        Column("OLDEST", time_s("oldest_s"), True, spare=8),
        Column("LOST", _all_lost, True, spare=4),
        Column("LATE", count("late"), True, spare=10),
        Column("STATE", _client_state, spare=1),
        Column("SEEN", seen, True, spare=9),
        Column("FILTER", text("filter")),
    ],
    "advs": [
        Column("NUMBER", count("number"), True, spare=2),
        Column("CLIENT", text("client")),
        Column("RATE", text("rate"), True, spare=1),
        Column("MATCHING", lambda row: "yes" if row.get("matching") else "no"),
        Column("FILTER", text("filter")),
    ],
}


def short(value: object) -> str:
    """Return a count as text: `1234567`, `12.3M`. A value that is no number is shown as it is."""
    if isinstance(value, bool) or not isinstance(value, int) or abs(value) < SHORT_FROM:
        return _text(value)
    power = min(5, (len(str(abs(value))) - 1) // 3)
    return f"{value / 1000**power:.4g}{'_kMGTP'[power]}"


def size_text(value: object) -> str:
    """Return a number of bytes as text: `950 B`, `12.3 MB`. A value that is no number is shown as it is."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return _text(value)
    power = min(len(SIZES) - 1, max(0, (len(str(abs(int(value)))) - 1) // 3))
    scaled = value / 1000**power
    return (f"{scaled:.0f}" if scaled >= 100 else f"{scaled:.3g}") + " " + SIZES[power]


def _sum(value: object) -> int | None:
    """Add counts by reason. None if the broker reports none."""
    return sum(part for part in value.values() if isinstance(part, int)) if isinstance(value, Mapping) else None


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _time(value: object, unit_s: float) -> str:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return _text(value)
    return shown(value * unit_s)


def _text(value: object) -> str:
    """Return a value of a broker's answer as text."""
    return "" if value is None else value if isinstance(value, str) else json_text(value)
