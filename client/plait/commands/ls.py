"""`plait ls`: what a running broker has, read from its HTTP side."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import click

from .addressing import find_target, http_address, url_option
from .failures import Failure
from .output import json_option, json_text, print_json, print_table

PAGE: Final = 10_000
"""Items asked for at once: the most that a broker gives."""

_PATHS: Final = {"links": "links", "clients": "clients", "subs": "subscriptions", "advs": "advertisements"}


@click.command(epilog="\b\nExample: plait ls subs --json")
@click.argument("what", type=click.Choice(["brokers", *_PATHS]))
@click.option("--http", metavar="HOST:PORT", help="The broker's HTTP side; by default one port above its URL's.")
@url_option
@json_option
def ls(what: str, http: str | None, url: str | None, as_json: bool) -> None:
    """List what a running broker has.

    With --json, one object a line, as the broker describes it. The table leaves out what is nested deeper.
    """
    target = find_target(url)
    address = http_address(target, http)
    items = _brokers(address, target.token) if what == "brokers" else _items(address, _PATHS[what], target.token)
    if as_json:
        for item in items:
            print_json(item)
        return
    rows = list(items)
    if not rows:
        click.echo(f"no {what}", err=True)
        return
    columns = list(dict.fromkeys(name for row in rows for name, value in row.items() if not isinstance(value, dict)))
    numbers = [name for name in columns if all(isinstance(row.get(name, 0), int | float) for row in rows)]
    print_table(
        [_title(name) for name in columns],
        [[_cell(row.get(name)) for name in columns] for row in rows],
        right=[_title(name) for name in numbers],
    )


def _brokers(address: str, token: str | None) -> Iterator[Mapping[str, Any]]:
    yield from _objects(_get(address, "topology", token), "brokers")


def _items(address: str, name: str, token: str | None) -> Iterator[Mapping[str, Any]]:
    """All items of a list, page by page; what changes meanwhile may be missed or come twice."""
    offset = 0
    while True:
        page = _get(address, f"{name}?limit={PAGE}&offset={offset}", token)
        items = list(_objects(page, "items"))
        yield from items
        offset += len(items)
        if not items or offset >= page.get("total", 0):
            return


def _get(address: str, path: str, token: str | None) -> dict[str, Any]:
    from .http_api import get_json

    answer = get_json(address, f"/api/v1/{path}", token)
    if not isinstance(answer, dict):
        raise Failure(f"{address} did not answer as a broker does", hint="is that a Plait broker?")
    return answer


def _objects(answer: dict[str, Any], key: str) -> Iterator[Mapping[str, Any]]:
    items = answer.get(key)
    if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
        raise Failure("the broker did not answer with a list", hint="is that a Plait broker?")
    yield from items


def _title(name: str) -> str:
    return name.upper().replace("_", " ")


def _cell(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return " ".join(value)
    return json_text(value)
