"""Notices of a subscription as lines on stderr: gaps, late events, overflow, new paths."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from plait_core import id_text

from ...protocol.notices import Gap, Late, Notice, Rerouted, SlowConsumer

if TYPE_CHECKING:
    from ... import Subscription


async def print_notices(subscription: Subscription[Any]) -> None:
    """Print every notice of a subscription."""
    async for notice in subscription.notices():
        click.echo(notice_text(notice), err=True)


def notice_text(notice: Notice) -> str:
    """Return a notice as one line."""
    match notice:
        case Gap(reason, count, publisher, first, last):
            events = f"{count} events" if count > 1 else "1 event" if count else "an unknown number of events"
            source = f" (publisher {id_text(publisher)}, {first} to {last})" if publisher else ""
            return f"gap: {events} not delivered: {reason}{source}"
        case Late(count, dropped):
            return f"late: {count} missed the delay bound and {'were dropped' if dropped else 'were delivered late'}"
        case SlowConsumer(where, pending):
            return f"slow: events wait at the {where}" + (f", {pending} now" if pending else "")
        case Rerouted(publisher, _, after):
            path = " -> ".join(id_text(broker) for broker in after)
            return f"re-routed: events of publisher {id_text(publisher)} now take the path {path}"
