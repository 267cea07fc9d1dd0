"""What a subscription did not get, or not in time, as lines on stderr."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from plait_core import id_text

from ...protocol.notices import Gap, Late, Notice, Rerouted, SlowConsumer

if TYPE_CHECKING:
    from ... import Subscription


async def tell_notices(subscription: Subscription[Any]) -> None:
    """Prints all that come."""
    async for notice in subscription.events():
        click.echo(notice_text(notice), err=True)


def notice_text(notice: Notice) -> str:
    """One notice in a line."""
    match notice:
        case Gap(reason, count, publisher, first, last):
            events = f"{count} events" if count > 1 else "1 event" if count else "events, nobody knows how many,"
            whose = f" (publisher {id_text(publisher)}, {first} to {last})" if publisher else ""
            return f"gap: {events} did not come: {reason}{whose}"
        case Late(count, dropped):
            return f"late: {count} missed the delay bound and {'were dropped' if dropped else 'came all the same'}"
        case SlowConsumer(where, pending):
            return f"slow: events queue up at the {where}" + (f", {pending} now" if pending else "")
        case Rerouted(publisher, _, after):
            way = " -> ".join(id_text(broker) for broker in after)
            return f"re-routed: events of publisher {id_text(publisher)} now come through {way}"
