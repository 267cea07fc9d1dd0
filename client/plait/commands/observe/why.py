"""`plait why`: explains what became of an event anywhere in the overlay, or why a subscription did not receive it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final
from urllib.parse import quote

import click

from ..connection.addressing import find_target, url_option
from ..connection.http_api import get_object
from ..connection.http_discovery import find_http, http_option
from ..terminal.output import json_option, print_json, printable
from .event_outcome import Outcome, outcome_of

UNDECIDED: Final = frozenset(("unanswered", "no_subscription", "never_seen", "too_long_ago", "unknown"))
"""Verdicts that leave the event's outcome open."""


@click.command(epilog="\b\nExample: plait why 9b2f0c6a1d3e4f57-12\n         plait why 9b2f0c6a1d3e4f57-12 north/3")
@click.argument("event")
@click.argument("subscription", required=False)
@http_option
@url_option
@json_option
def why(event: str, subscription: str | None, http: str | None, url: str | None, as_json: bool) -> None:
    """Explain why an event was, or was not, delivered.

    EVENT is an id: `plait pub` prints it after `published`, `plait sub --json` as "id", the SDK as receipt.id and
    event.id. Without SUBSCRIPTION, asks every broker for the subscriptions that the event matched. SUBSCRIPTION is
    BROKER/NUMBER, as `plait ls subs` prints it: explains that one, and the result of its filter. Any broker of the
    overlay can answer. Brokers remember their last 2,048 events. Exit code 1 if the outcome is not known.
    """
    from plait_core.events import EventId

    target, id = find_target(url), EventId.parse(event)
    address = find_http(target, http)
    if subscription is None:
        outcome = outcome_of(get_object(address, f"/api/v1/event?event={id}", target, "brokers"))
        answer, lines, known = outcome.as_json(), _outcome_lines(outcome), outcome.known
    else:
        path = f"/api/v1/why?event={id}&subscription={quote(subscription, safe='')}"
        answer = get_object(address, path, target, "verdict")
        lines, known = _verdict_lines(answer), answer["verdict"] not in UNDECIDED
    if as_json:
        print_json(answer)
    else:
        click.echo("\n".join(map(printable, lines)))
    if not known:
        click.get_current_context().exit(1)


def _outcome_lines(outcome: Outcome) -> Iterator[str]:
    """Yield the verdict, then what each broker did with the event."""
    yield f"{outcome.verdict.replace('_', ' ')}: {outcome.text}"
    yield from outcome.steps
    if outcome.hint:
        yield f"  {outcome.hint}"


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
