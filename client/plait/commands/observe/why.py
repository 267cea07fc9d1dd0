"""`plait why`: why an event was, or was not, delivered to a subscription, wherever in the overlay each of them is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final
from urllib.parse import quote

import click

from ..connection.addressing import find_target, url_option
from ..connection.http_api import get_object
from ..connection.http_side import http_option, http_side
from ..terminal.output import json_option, print_json, printable

UNTOLD: Final = frozenset(("unanswered", "no_subscription", "never_seen", "too_long_ago", "unknown"))
"""Verdicts that do not say what became of the event."""


@click.command(epilog="\b\nExample: plait why 9b2f0c6a1d3e4f57-12 north/3")
@click.argument("event")
@click.argument("subscription")
@http_option
@url_option
@json_option
def why(event: str, subscription: str, http: str | None, url: str | None, as_json: bool) -> None:
    """Say why an event was, or was not, delivered to a subscription.

    EVENT is an id as `plait sub --json` and `plait pub --json` print it, SUBSCRIPTION as `plait ls subs` does:
    BROKER/NUMBER. Any broker of the overlay may be asked. Brokers remember their last 2,048 events; of what is
    older nothing can be told. Exits with 1 where nothing can be told.
    """
    from plait_core.events import EventId

    target = find_target(url)
    path = f"/api/v1/why?event={EventId.parse(event)}&subscription={quote(subscription, safe='')}"
    answer = get_object(http_side(target, http), path, target, "verdict")
    if as_json:
        print_json(answer)
    else:
        click.echo("\n".join(map(printable, _told(answer))))
    if answer["verdict"] in UNTOLD:
        click.get_current_context().exit(1)


def _told(answer: Mapping[str, Any]) -> Iterator[str]:
    """The verdict, what the filter says, and the way that the event has come."""
    yield f"{str(answer['verdict']).replace('_', ' ')}: {answer.get('text')}"
    for reason in answer.get("why", []):
        yield f"  {reason}"
    if answer.get("hint"):
        yield f"  {answer['hint']}"
    for broker, said in answer.get("reports", {}).items():
        event = (said or {}).get("event")
        if not event:
            continue
        delay = f", {event['delay_ms']:.2f} ms under way" if event.get("delay_ms") is not None else ""
        way = f", by way of {' > '.join(event['path'])}" if event.get("path") else ""
        bound = f", for {', '.join(event['for'])}" if event.get("for") else ""
        yield f"{event['saw']} at {broker} {event['ago_s']:.3f} s ago{delay}{way}{bound}"
