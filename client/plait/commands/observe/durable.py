"""`plait durable`: shows the durable subscriptions of a broker with their backlogs, removes one, moves its place."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import click

from ..connection.addressing import find_target, url_option
from ..connection.http_discovery import find_http, http_option
from ..events.start import START, Start
from ..terminal.durations import shown
from ..terminal.failures import Failure
from ..terminal.output import json_option, print_json, printable
from ..terminal.tables import print_table
from .listings import Column, count, seen, short, text, time_s, waiting

if TYPE_CHECKING:
    from ... import Client
    from ...options.target import Target

Row: TypeAlias = Mapping[str, Any]

COLUMNS: Final = [
    Column("NAME", text("durable")),
    Column("OWNER", text("owner"), spare=3),
    Column("ID", text("id"), spare=5),
    Column("HOLDER", lambda row: text("client")(row) if row.get("connected") else ""),
    Column("SEEN", seen, True, spare=1),
    Column("WAITING", waiting, True),
    Column("BYTES", count("pending_bytes"), True, spare=4),
    Column("OLDEST", time_s("oldest_s"), True),
    Column("FILTER", text("filter"), spare=2),
]

_WAITS: Final = 'publishes with confirm="subscribers" wait for it'


@click.group(epilog="\b\nExample: plait durable ls")
def durable() -> None:
    """Show, remove and move durable subscriptions.

    A durable subscription keeps its events while no client holds it. One that nobody will read again is an orphan: it
    fills the log, and publishes with --confirm subscribers wait for it until they time out.
    """


@durable.command("ls", epilog="\b\nExample: plait durable ls --json")
@http_option
@url_option
@json_option
def list_durables(http: str | None, url: str | None, as_json: bool) -> None:
    """List the durable subscriptions of a broker, with what waits for them.

    HOLDER is the connected client that holds it, SEEN how long ago one did. A count with a + is not complete: after its
    start, a broker counts in its log what waits.
    """
    rows = _durables(find_target(url), http)
    if as_json:
        for row in rows:
            print_json(row)
        return
    if not rows:
        click.echo("no durable subscriptions", err=True)
        return
    print_table(
        [column.title for column in COLUMNS],
        [[column.cell(row) for column in COLUMNS] for row in rows],
        right=[column.title for column in COLUMNS if column.right],
        spare={column.title: column.spare for column in COLUMNS},
    )


@durable.command("show", epilog="\b\nExample: plait durable show orders")
@click.argument("name")
@http_option
@url_option
@json_option
def show_durable(name: str, http: str | None, url: str | None, as_json: bool) -> None:
    """Show one durable subscription: its filter, its holder and its backlog."""
    rows = [row for row in _durables(find_target(url), http) if row["durable"] == name]
    if not rows:
        raise Failure(
            f"there is no durable subscription {name!r}", hint="`plait durable ls` shows those of this broker"
        )
    for row in rows:
        if as_json:
            print_json(row)
        else:
            click.echo("\n".join(map(printable, _description(row))))


@durable.command(epilog="\b\nExample: plait durable rm orders --yes")
@click.argument("name")
@click.option("--force", is_flag=True, help="Also if a connected client holds it.")
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
@http_option
@url_option
@json_option
def rm(name: str, force: bool, yes: bool, http: str | None, url: str | None, as_json: bool) -> None:
    """Remove a durable subscription and discard the events that wait for it.

    It has to belong to the principal of this connection. The discarded events are counted as dropped, with the reason
    "discarded".
    """
    target = find_target(url)
    if not yes:
        lines = _known(target, http, name)
        _confirm([*lines, f"Remove {name!r}, and discard the events that wait for it?"])

    async def remove(client: Client) -> None:
        await client.remove_durable(name, force=force)

    _carry_out(target, remove)
    print_json({"removed": name}) if as_json else click.echo(f"removed {printable(name)}")


@durable.command(epilog="\b\nExample: plait durable seek orders 2026-01-31T09:30")
@click.argument("name")
@click.argument("place", type=START)
@click.option("--force", is_flag=True, help="Also if a connected client holds it. It reads on from the new place.")
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
@http_option
@url_option
@json_option
def seek(name: str, place: Start, force: bool, yes: bool, http: str | None, url: str | None, as_json: bool) -> None:
    """Move the place of a durable subscription in the log.

    PLACE is new, all, a time or a position. Events before it are discarded and counted. Events after it are delivered,
    also those that were delivered before. A position beyond the end of the log is the end.
    """
    target = find_target(url)
    if not yes:
        lines = _known(target, http, name)
        passed = "Events are delivered again" if place == "all" else "Events before that are discarded"
        _confirm([*lines, f"Move {name!r} to {place}? {passed}."])

    async def move(client: Client) -> None:
        await client.seek_durable(name, place, force=force)

    _carry_out(target, move)
    print_json({"moved": name, "to": str(place)}) if as_json else click.echo(f"moved {printable(name)} to {place}")


def _confirm(lines: list[str]) -> None:
    """Ask before something is discarded."""
    hint = "--yes does it without a question"
    try:
        confirmed = click.confirm("\n".join(lines), err=True)
    except click.Abort:
        if sys.stdin.isatty():  # Ctrl-C
            raise
        raise Failure("nobody answers the question: stdin is no terminal", hint=hint) from None
    if not confirmed:
        raise Failure("nothing was changed", hint=hint)


def _carry_out(target: Target, work: Any) -> None:
    """Connect as a client, and do what only the owner may do."""
    from ..connection.connecting import connected
    from ..terminal.running import run_async

    async def run() -> None:
        async with connected(target, "durable") as client:
            await work(client)

    run_async(run())


def _durables(target: Target, http: str | None) -> list[Row]:
    from .ls import read_list

    rows = [row for row in read_list(target, find_http(target, http), "subscriptions") if row.get("durable")]
    return sorted(rows, key=lambda row: (-row.get("pending", 0), str(row["durable"])))


def _known(target: Target, http: str | None, name: str) -> Iterator[str]:
    """Yield what is known of the subscriptions of a name, before something is discarded."""
    try:
        rows = [row for row in _durables(target, http) if row["durable"] == name]
    except Failure as failure:
        yield f"what waits for it cannot be shown: {failure.message}"
        return
    if not rows:
        hint = "`plait durable ls` shows those of this broker"
        raise Failure(f"there is no durable subscription {name!r}", hint=hint)
    for row in rows:
        yield from map(printable, _description(row))


def _description(row: Row) -> Iterator[str]:
    yield f"durable subscription {row['durable']!r} of principal {row.get('owner')!r}: {row['filter']}"
    if row.get("connected"):
        yield f"  held by client {row['client']!r}, which is connected"
    else:
        away = row.get("seen_s")
        yield f"  no client holds it; one did {'before the log knows' if away is None else f'{shown(away)} ago'}"
    events = short(row.get("pending"))
    oldest = f", the oldest for {shown(row['oldest_s'])}" if row.get("oldest_s") is not None else ""
    more = " so far: the broker is still counting" if row.get("counted") is False else ""
    yield f"  {events} events ({short(row.get('pending_bytes'))} bytes) wait for it{oldest}{more}"
    if not row.get("connected"):
        yield f"  {_WAITS}"
