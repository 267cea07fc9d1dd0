"""`plait route`: shows the paths of events that match a filter, and why each was chosen."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import quote

import click

from ..connection.addressing import find_target, url_option
from ..connection.http_api import get_object
from ..connection.http_discovery import find_http, http_option
from ..terminal.output import json_option, print_json, printable


@click.command(epilog="\b\nExample: plait route \"symbol == 'IBM'\" --from north")
@click.argument("filter")
@click.option("--from", "start", metavar="BROKER", default="", help="Broker at which the events are published, by name "
              "or id. By default the broker that answers.")  # fmt: skip
@http_option
@url_option
@json_option
def route(filter: str, start: str, http: str | None, url: str | None, as_json: bool) -> None:
    """Show the paths of events that match a filter, and why.

    For each broker with subscribers: the tree, named by its root, the publisher's broker; the path; the feasible next
    hops with their measured delay; and the neighbours that are not feasible. With --json, one object a broker.
    """
    from plait_core.filters import parse

    text = parse(filter).text
    target = find_target(url)
    path = f"/api/v1/route?filter={quote(text)}&from={quote(start)}"
    answer = get_object(find_http(target, http), path, target, "destinations")
    if as_json:
        tree = {name: answer.get(name) for name in ("tree", "filter")} | {"from": answer.get("broker")}
        for destination in answer["destinations"]:
            print_json(tree | destination)
        return
    click.echo("\n".join(map(printable, _route_lines(answer))))


def _route_lines(answer: Mapping[str, Any]) -> Iterator[str]:
    """Yield a block of lines for each destination."""
    here = answer.get("local_subscriptions", 0)
    yield f"{answer.get('filter')}, published at {answer.get('broker')} (tree {answer.get('tree')})"
    yield f"here: {_subscriptions(here)}"
    for destination in answer["destinations"]:
        path = " > ".join(destination["path"]) or "no path now"
        cost = destination["cost_ms"]
        yield f"{destination['broker']}: {_subscriptions(destination.get('subscriptions'))}"
        yield f"  {path}" + (f", {cost:.2f} ms by link state" if cost is not None else "")
        if not destination.get("known"):
            yield "  its interest is not known there yet: it is requested when such events are published or advertised"
        width = max((len(other["neighbour"]) for other in destination["alternatives"]), default=0)
        for other in destination["alternatives"]:
            mark = "*" if other["chosen"] else " " if other["feasible"] else "x"
            delay = f"{other['delay_ms']:8.2f} ms" if other["delay_ms"] is not None else f"{'-':>11}"
            yield f"  {mark} via {other['neighbour']:<{width}} {delay}  {other['why']}"
        if (more := destination["alternatives_total"] - len(destination["alternatives"])) > 0:
            yield f"    and {more} more"
    if (more := answer["destinations_total"] - len(answer["destinations"])) > 0:
        yield f"and {more} more brokers"
    if not answer["destinations"]:
        yield "no broker elsewhere has a matching subscription"
    if answer.get("silent"):
        yield f"not answering: {', '.join(answer['silent'])}"


def _subscriptions(count: object) -> str:
    if not isinstance(count, int):
        return "unknown number of subscriptions"
    return f"{count or 'no'} subscription{'' if count == 1 else 's'}"
