"""`plait topo`: shows the overlay's topology as one of its brokers knows it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from ..connection.addressing import find_target, url_option
from ..connection.http_discovery import find_http, http_option
from ..terminal.output import json_option, print_json


@click.command(epilog="\b\nExample: plait topo --json")
@http_option
@url_option
@json_option
def topo(http: str | None, url: str | None, as_json: bool) -> None:
    """Show the brokers and links of an overlay, with the delay of each link.

    Reads from any one broker, because all have the same link state. With --json, one object for each broker and link.
    """
    from ..connection.http_api import get_object

    target = find_target(url)
    answer = get_object(find_http(target, http), "/api/v1/topology", target, "links")
    if as_json:
        for item in (*answer["brokers"], *answer["links"]):
            print_json(item)
        return
    click.echo("\n".join(_topology_lines(answer)))


def _topology_lines(answer: Mapping[str, Any]) -> list[str]:
    """Return a line for each broker, and below it one for each of its links."""
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
