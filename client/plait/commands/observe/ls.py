"""`plait ls`: lists the parts of a running broker, read from its HTTP side."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

import click

from plait_core.values import Json

from ..connection.addressing import find_target, url_option
from ..connection.http_discovery import find_http, http_option
from ..terminal.failures import Failure
from ..terminal.output import json_option, print_json
from ..terminal.tables import print_table
from .listings import LISTINGS

if TYPE_CHECKING:
    from ...options.target import Target

PAGE: Final = 10_000
"""Items of one request: a broker's limit."""

_PATHS: Final = {
    "brokers": "brokers",
    "links": "links",
    "clients": "clients",
    "subs": "subscriptions",
    "advs": "advertisements",
}


@click.command(epilog="\b\nExample: plait ls subs --json")
@click.argument("what", type=click.Choice(list(_PATHS)), default="brokers")
@http_option
@url_option
@json_option
def ls(what: str, http: str | None, url: str | None, as_json: bool) -> None:
    """List all brokers, or links, clients, subscriptions and advertisements of one.

    Without an argument, lists the brokers. Every broker knows all others, and requests their state. The table shows the
    columns that fit the terminal; --json prints one object a line with all fields.
    """
    target = find_target(url)
    address = find_http(target, http)
    items = read_list(target, address, _PATHS[what])
    if as_json:
        for item in items:
            print_json(item)
        return
    rows = list(items)
    if not rows:
        click.echo(f"no {what} at {target.url}; --url names another broker of the overlay", err=True)
        return
    columns = LISTINGS[what]
    print_table(
        [column.title for column in columns],
        [[column.cell(row) for column in columns] for row in rows],
        right=[column.title for column in columns if column.right],
        spare={column.title: column.spare for column in columns},
    )


def read_list(target: Target, address: str, name: str) -> Iterator[Mapping[str, Any]]:
    """Yield all items of a list, page by page. Items that change meanwhile may be missed or repeated."""
    offset = 0
    while True:
        page = _get(target, address, f"{name}?limit={PAGE}&offset={offset}")
        items = list(_objects(page, "items"))
        yield from items
        offset += len(items)
        if not items or offset >= page.get("total", 0):
            return


def _get(target: Target, address: str, path: str) -> Json:
    from ..connection.http_api import get_json

    answer = get_json(address, f"/api/v1/{path}", target.token, target.trust)
    if not isinstance(answer, dict):
        raise Failure(f"{address} did not answer as a broker does", hint="is that a Plait broker?")
    return answer


def _objects(answer: Json, key: str) -> Iterator[Mapping[str, Any]]:
    items = answer.get(key)
    if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
        raise Failure("the broker did not answer with a list", hint="is that a Plait broker?")
    yield from items
