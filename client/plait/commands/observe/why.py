"""`plait why`: explains why an event was, or was not, delivered to a subscription anywhere in the overlay."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final
from urllib.parse import quote

import click

from ..connection.addressing import find_target, url_option
from ..connection.http_api import get_object
from ..connection.http_discovery import find_http, http_option
from ..terminal.output import json_option, print_json, printable

UNDECIDED: Final = frozenset(("unanswered", "no_subscription", "never_seen", "too_long_ago", "unknown"))
"""Verdicts that leave the event's outcome open."""


@click.command(epilog="\b\nExample: plait why 9b2f0c6a1d3e4f57-12 north/3")
@click.argument("event")
@click.argument("subscription")
@http_option
@url_option
@json_option
def why(event: str, subscription: str, http: str | None, url: str | None, as_json: bool) -> None:
    """Explain why an event was, or was not, delivered to a subscription.

    EVENT is an id as `plait sub --json` and `plait pub --json` print it. SUBSCRIPTION is BROKER/NUMBER, as `plait ls
    subs` prints it. Any broker of the overlay can answer. Brokers remember their last 2,048 events. Exit code 1 if the
    outcome is not known.
    """
    from plait_core.events import EventId

    target = find_target(url)
    path = f"/api/v1/why?event={EventId.parse(event)}&subscription={quote(subscription, safe='')}"
    answer = get_object(find_http(target, http), path, target, "verdict")
    if as_json:
        print_json(answer)
    else:
        click.echo("\n".join(map(printable, _verdict_lines(answer))))
    if answer["verdict"] in UNDECIDED:
        click.get_current_context().exit(1)


def _verdict_lines(answer: Mapping[str, Any]) -> Iterator[str]:
    """Yield the verdict, the result of the filter, and the event's path."""
    yield f"{str(answer['verdict']).replace('_', ' ')}: {answer.get('text')}"
    for reason in answer.get("why", []):
        yield f"  {reason}"
    if answer.get("hint"):
        yield f"  {answer['hint']}"
    for broker, report in answer.get("reports", {}).items():
        event = (report or {}).get("event")
        if not event:
            continue
        delay = f", {event['delay_ms']:.2f} ms in transit" if event.get("delay_ms") is not None else ""
        path = f", by path {' > '.join(event['path'])}" if event.get("path") else ""
        bound = f", for {', '.join(event['for'])}" if event.get("for") else ""
        yield f"{event['saw']} at {broker} {event['ago_s']:.3f} s ago{delay}{path}{bound}"
