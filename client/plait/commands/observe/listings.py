"""What the tables of `plait ls` show: of each list the columns that a person looks for. `--json` has everything.

A terminal too narrow for all of them loses the least wanted first; what is last in a row, a filter, is cut.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple, TypeAlias

from ..terminal.durations import shown
from ..terminal.output import json_text

Row: TypeAlias = Mapping[str, Any]

SHORT_FROM: Final = 10_000_000
"""Counts from here on are shown to four digits: nobody reads the rest of them in a table."""


class Column(NamedTuple):
    """One column of a table."""

    title: str
    cell: Callable[[Row], str]
    right: bool = False
    """Whether it holds numbers."""
    spare: int = 0
    """Above zero: it may be left out, the highest first."""


def count(name: str) -> Callable[[Row], str]:
    """A number of things."""
    return lambda row: short(row.get(name))


def text(name: str) -> Callable[[Row], str]:
    """What it says there."""
    return lambda row: _text(row.get(name))


def time_s(name: str) -> Callable[[Row], str]:
    """A time that the broker gives in seconds."""
    return lambda row: _time(row.get(name), 1.0)


def time_ms(name: str) -> Callable[[Row], str]:
    """A time that the broker gives in milliseconds."""
    return lambda row: _time(row.get(name), 0.001)


def _counted(name: str) -> Callable[[Row], str]:
    return lambda row: short(_mapping(row.get("counters")).get(name))


def _share(name: str) -> Callable[[Row], str]:
    def cell(row: Row) -> str:
        value = row.get(name)
        return f"{value:.0%}" if isinstance(value, int | float) and not isinstance(value, bool) else _text(value)

    return cell


def _link_state(row: Row) -> str:
    """Of a link to a broker whether it is up, of any whether it takes bytes."""
    return _text(row.get("state")) if row.get("writable", True) else "full"


def _client_state(row: Row) -> str:
    return "slow" if row.get("slow") else "" if row.get("connected") else "away"


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
        Column("DROPPED", lambda row: short(_sum(_mapping(row.get("counters")).get("dropped"))), True),
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
        Column("PENDING", count("pending"), True, spare=5),
        Column("DROPPED", lambda row: short(_sum(row.get("dropped"))), True, spare=4),
        Column("STATE", _client_state, spare=1),
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
    """A count: `1234567`, `12.3M`; what is no number as it is."""
    if isinstance(value, bool) or not isinstance(value, int) or abs(value) < SHORT_FROM:
        return _text(value)
    power = min(5, (len(str(abs(value))) - 1) // 3)
    return f"{value / 1000**power:.4g}{'_kMGTP'[power]}"


def _sum(value: object) -> object:
    """Of counts by reason; of what did not tell any, nothing."""
    return sum(part for part in value.values() if isinstance(part, int)) if isinstance(value, Mapping) else None


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _time(value: object, unit_s: float) -> str:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return _text(value)
    return shown(value * unit_s)


def _text(value: object) -> str:
    """What the broker said, whatever it was."""
    return "" if value is None else value if isinstance(value, str) else json_text(value)
