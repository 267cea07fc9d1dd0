"""`plait topo`: the overlay as one of its brokers knows it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from ..connection.addressing import find_target, url_option
from ..connection.http_side import http_option, http_side
from ..terminal.failures import Failure
from ..terminal.output import json_option, print_json


@click.command(epilog="\b\nExample: plait topo --json")
@http_option
@url_option
@json_option
def topo(http: str | None, url: str | None, as_json: bool) -> None:
    """Show all brokers of an overlay, their links, and how long each link takes.

    Any broker will do: they all have the same map. With --json, one object for each broker and each link.
    """
    from ..connection.http_api import get_json

    target = find_target(url)
    address = http_side(target, http)
    answer = get_json(address, "/api/v1/topology", target.token, target.trust)
    if not isinstance(answer, dict) or not {"brokers", "links"} <= answer.keys():
        raise Failure(f"{address} did not answer as a broker does", hint="is that a Plait broker?")
    if as_json:
        for item in (*answer["brokers"], *answer["links"]):
            print_json(item)
        return
    click.echo("\n".join(_drawn(answer)))


def _drawn(answer: Mapping[str, Any]) -> list[str]:
    """A line for each broker, and below it one for each of its links."""
    brokers = answer["brokers"]
    names = {broker["id"]: broker["name"] for broker in brokers}
    width = max(map(len, names.values()))
    lines: list[str] = []
    for at, broker in enumerate(brokers):
        far = "asked" if at == 0 else f"{broker['distance_ms']:.2f} ms away" if broker["reachable"] else "out of reach"
        lines.append(f"{broker['name']:<{width}}  {broker['id']}  {far}")
        links = [link for link in answer["links"] if link["from"] == broker["id"]]
        for number, link in enumerate(links, 1):
            branch = "└─" if number == len(links) else "├─"
            lines.append(f"  {branch} {names.get(link['to'], link['to']):<{width}}  {link['delay_ms']:.2f} ms")
    return lines
