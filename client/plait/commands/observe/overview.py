"""Converts a broker's `/api/v1/overview` to rows of text.

Control characters in names are escaped, so that no name can control the terminal.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from plait_core.values import Json

from ..connection.http_api import get_object
from ..terminal.output import printable
from .listings import size_text

if TYPE_CHECKING:
    from ...options.target import Target

Row: TypeAlias = tuple[str, ...]

ROWS_MAX: Final = 200

_COUNTED: Final = (
    "brokers_up", "brokers", "links_up", "links", "clients", "subscriptions", "published_s", "delivered_s", "lost_s",
    "late_s", "pending",
)  # fmt: skip

BROKER_COLUMNS: Final = (
    "broker",
    "state",
    "distance",
    "in/s",
    "out/s",
    "lost/s",
    "late/s",
    "waiting",
    "subs",
    "p99",
    "cpu",
    "memory",
    "busy",
    "loop",
)
LINK_COLUMNS: Final = ("link", "state", "delay", "jitter", "loss", "events/s", "used", "waiting", "oldest")
SUBSCRIPTION_COLUMNS: Final = (
    *("client", "at", "delivered", "handed out", "lost", "late", "waiting", "in client", "bound", "p99", "filter"),
)


class Overview:
    """Reads the state of all brokers from one of them."""

    def __init__(self, address: str, target: Target) -> None:
        self._address = address
        self._target = target

    def read(self) -> Json:
        """Return the current state; Failure if the broker does not answer."""
        return get_object(self._address, "/api/v1/overview", self._target, "brokers")


def headline(overview: Json) -> str:
    """Return the totals as two lines."""
    now, about = _object(overview.get("now")), _object(overview.get("about"))
    reasons = ", ".join(f"{printable(reason)} {_number(rate)}" for reason, rate in _object(now.get("reasons")).items())
    n = {name: _number(now.get(name)) for name in _COUNTED}
    brokers = f"{n['brokers_up']} of {n['brokers']} brokers, {n['links_up']} of {n['links']} links"
    rates = (
        f"published {n['published_s']}/s, delivered {n['delivered_s']}/s, lost {n['lost_s']}/s, late {n['late_s']}/s"
    )
    return (
        f"seen from {printable(str(about.get('name', '')))}: {brokers}, {n['clients']} clients, "
        f"{n['subscriptions']} subscriptions\n"
        f"{rates}, delay {_ms(now.get('p50_ms'))} (99% {_ms(now.get('p99_ms'))}), waiting {n['pending']}"
        + (f"; drops: {reasons}" if reasons else "")
    )


def broker_rows(overview: Json) -> dict[str, Row]:
    """Return a row for each broker by id, the one with most deliveries first."""
    brokers = sorted(_objects(overview.get("brokers")), key=lambda one: -_measure(one[1].get("delivered_s")))
    return {
        id: (
            printable(str(one.get("name", ""))),
            printable(str(one.get("status", ""))),
            _ms(one.get("distance_ms")),
            _number(one.get("published_s")),
            _number(one.get("delivered_s")),
            _number(one.get("lost_s")),
            _number(one.get("late_s")),
            _number(one.get("pending")),
            _number(one.get("subscriptions")),
            _ms(one.get("p99_ms")),
            _percent(one.get("cpu")),
            _megabytes(one.get("rss")),
            _percent(one.get("busy")),
            _ms(one.get("lag_ms")),
        )
        for id, one in brokers[:ROWS_MAX]
    }


def link_rows(overview: Json) -> dict[str, Row]:
    """Return a row for each direction of a link: those that are down first, then full ones, then the slowest."""
    names = {id: printable(str(one.get("name", id))) for id, one in _objects(overview.get("brokers"))}
    links = sorted(
        _objects(overview.get("links")),
        key=lambda one: (one[1].get("state") == "up", not one[1].get("full"), -_measure(one[1].get("delay_ms"))),
    )
    return {
        key: (
            " > ".join(names.get(str(one.get(end)), printable(str(one.get(end)))) for end in ("from", "to")),
            "full" if one.get("state") == "up" and one.get("full") else printable(str(one.get("state", ""))),
            _ms(one.get("delay_ms")),
            _ms(one.get("jitter_ms")),
            _percent(one.get("loss")),
            _number(one.get("rate")),
            _percent(one.get("utilisation")),
            size_text(one.get("pending_bytes")) or "-",
            _seconds(one.get("oldest_s")),
        )
        for key, one in links[:ROWS_MAX]
    }


def subscription_rows(overview: Json) -> dict[str, Row]:
    """Return a row for each subscription by broker and number, in the broker's order: slow ones first."""
    return {
        key: (
            printable(str(one.get("client", ""))) or "unnamed",
            f"{printable(str(one.get('at', '')))}/{_number(one.get('number'))}",
            _number(one.get("delivered")),
            _number(one.get("handed_out")),
            _number(one.get("lost")),
            _number(one.get("late")),
            _number(one.get("pending")),
            _number(one.get("client_waiting")),
            _ms(one.get("within_ms")),
            _ms(one.get("p99_ms")),
            printable(str(one.get("filter", ""))),
        )
        for key, one in _objects(overview.get("subscriptions"))[:ROWS_MAX]
    }


TABLES: Final[dict[str, tuple[tuple[str, ...], Callable[[Json], dict[str, Row]]]]] = {
    "brokers": (BROKER_COLUMNS, broker_rows),
    "links": (LINK_COLUMNS, link_rows),
    "subscriptions": (SUBSCRIPTION_COLUMNS, subscription_rows),
}


def _object(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _objects(value: object) -> list[tuple[str, Mapping[str, Any]]]:
    return [(str(key), one) for key, one in _object(value).items() if isinstance(one, dict)]


def _measure(value: object) -> float:
    return float(value) if isinstance(value, int | float) else 0.0


def _number(value: object) -> str:
    if not isinstance(value, int | float):
        return "-"
    return f"{value:,.0f}" if value >= 100 or value == int(value) else f"{value:.3g}"


def _ms(value: object) -> str:
    if not isinstance(value, int | float):
        return "-"
    return f"{value * 1000:.0f} µs" if value < 1 else f"{value:.1f} ms" if value < 1000 else f"{value / 1000:.1f} s"


def _seconds(value: object) -> str:
    return _ms(value * 1000) if isinstance(value, int | float) else "-"


def _percent(value: object) -> str:
    return f"{value:.1%}" if isinstance(value, int | float) else "-"


def _megabytes(value: object) -> str:
    return f"{value / 1e6:.0f} MB" if isinstance(value, int | float) and value else "-"
