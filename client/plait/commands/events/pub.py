"""`plait pub`: publishes events from the command line, a file or a pipe."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from ..connection.addressing import find_target, url_option
from ..connection.membership import FOLDER
from ..terminal.durations import DURATION
from ..terminal.failures import WrongUse
from ..terminal.output import json_option, print_json
from .attributes import parse_pairs

if TYPE_CHECKING:
    from plait_core import Attributes

    from .sending import Sent


@click.command(epilog="\b\nExample: plait pub symbol=IBM price=99.5 --ttl 2s --confirm broker")
@click.argument("pairs", nargs=-1, metavar="[NAME=VALUE]...")
@click.option("--payload", metavar="TEXT", default="", help="Payload, opaque to brokers.")
@click.option("--file", "file", metavar="FILE", help="Publish each line, a JSON object of attributes; - is standard "
              "input.")  # fmt: skip
@click.option("--count", type=click.IntRange(min=1), metavar="N", default=1, help="Publish the event, or the file, N "
              "times.")  # fmt: skip
@click.option("--rate", type=click.FloatRange(min=0, min_open=True), metavar="R", help="Events a second; as fast as "
              "possible without.")  # fmt: skip
@click.option("--ttl", type=DURATION, metavar="TIME", help="Lifetime of the event, like 2s.")
@click.option("--priority", type=click.IntRange(0, 9), default=0, show_default=True, help="9 is delivered first.")
@click.option("--confirm", type=click.Choice(["none", "broker", "subscribers"]), default="none", show_default=True,
              help="Wait until the broker is responsible for the event, or until every matching subscriber has "
              "processed it.")  # fmt: skip
@click.option("--seal", type=FOLDER, metavar="FOLDER", help="Seal with the keys in a member's folder "
              "(`plait keys join`).")  # fmt: skip
@click.option(
    "--grant",
    metavar="FILTER",
    default="true",
    show_default=True,
    help="With --seal: filter of the events to request keys for.",
)
@click.option("--hide", multiple=True, metavar="NAME", help="With --seal: an attribute that only readers see. "
              "Repeatable; by default all attributes.")  # fmt: skip
@click.option("--no-session", is_flag=True, help="With --seal: a key of its own for each event, so that brokers do not "
              "see which events have equal values. Takes milliseconds an event.")  # fmt: skip
@url_option
@json_option
def pub(
    pairs: tuple[str, ...],
    payload: str,
    file: str | None,
    count: int,
    rate: float | None,
    ttl: float | None,
    priority: int,
    confirm: Literal["none", "broker", "subscribers"],
    seal: Path | None,
    grant: str,
    hide: tuple[str, ...],
    no_session: bool,
    url: str | None,
    as_json: bool,
) -> None:
    """Publish events.

    Prints the id of the event, which `plait why` takes, or the first and the last id. Values are JSON scalars where
    they parse as such (99.5, true, null, "99.5"), else text. A file is checked before its first event is published. A
    bad line in a pipe ends publishing. With --json, prints ids and the number of events and confirmations.
    """
    if bool(pairs) == (file is not None):
        raise click.UsageError("Give attributes as NAME=VALUE, or --file FILE.")
    if seal is None and (hide or no_session or grant != "true"):
        raise click.UsageError("--hide, --no-session and --grant need --seal FOLDER.")
    from ..terminal.running import run_async
    from .sending import PublishRequest, send

    target = find_target(url)
    with ExitStack() as stack:
        if file is None:
            total: int | None = count
            events = _repeated(parse_pairs(pairs), count)
        else:
            descriptor = 0 if file == "-" else _opened(file, stack)
            total, events = _from_file(descriptor, file, count)
        request = PublishRequest(
            os.fsencode(payload),
            ttl,
            priority,
            confirm,
            rate,
            total,
            seal,
            grant,
            frozenset(hide) or None,
            session=not no_session,
        )
        sent = run_async(send(target, events, request))
    _report(sent, as_json)


def _opened(file: str, stack: ExitStack) -> int:
    try:
        return stack.enter_context(Path(file).open("rb", buffering=0)).fileno()
    except OSError as error:
        raise WrongUse(f"{file} cannot be read: {error.strerror}") from None


def _from_file(descriptor: int, file: str, count: int) -> tuple[int | None, AsyncIterator[Attributes]]:
    """Return the number of events, None if it is not known, and the events."""
    from .event_files import check_lines, is_regular, read_events

    name = "standard input" if file == "-" else file
    if not is_regular(descriptor):
        if count > 1:
            raise WrongUse(f"--count {count}: {name} can be read only once")
        return None, read_events(descriptor, name)
    total = check_lines(descriptor, name)

    async def events() -> AsyncIterator[Attributes]:
        start = 0
        for _ in range(count):
            os.lseek(descriptor, start, os.SEEK_SET)
            async for attributes in read_events(descriptor, name):
                yield attributes

    return total * count, events()


async def _repeated(attributes: Attributes, count: int) -> AsyncIterator[Attributes]:
    for _ in range(count):
        yield attributes


def _report(sent: Sent, as_json: bool) -> None:
    if as_json:
        print_json(sent.as_json())
    else:
        click.echo(sent.as_text())
