"""`plait up`: a broker on this machine, with what to type next."""

from __future__ import annotations

import asyncio
from pathlib import Path

import click

from .failures import DONE, Failure, WrongUse


@click.command(epilog="\b\nExample: plait up --data ./plait-data")
@click.option("-n", "brokers", type=click.IntRange(min=1), default=1, help="How many brokers; one for now.")
@click.option("--listen", metavar="HOST:PORT", default="127.0.0.1:4680", show_default=True, help="For clients.")
@click.option("--http", metavar="HOST:PORT", default="127.0.0.1:4681", show_default=True, help="For people.")
@click.option(
    "--data",
    metavar="DIR",
    type=click.Path(file_okay=False, path_type=Path),
    help="Where it keeps its log; without it, durable subscriptions do not outlive the broker.",
)
@click.option("--open", "open_it", is_flag=True, help="Open its page in a browser.")
def up(brokers: int, listen: str, http: str, data: Path | None, open_it: bool) -> None:
    """Start a local broker and say how to use it.

    Ends with Ctrl-C, or when the broker ends.
    """
    if brokers > 1:
        raise WrongUse(f"-n {brokers}: this version runs one broker", hint="leave -n out")
    from .running import run

    run(_up(listen, http, data, open_it))


async def _up(listen: str, http: str, data: Path | None, open_it: bool) -> None:
    from .local_broker import LocalBroker

    broker = LocalBroker("--name", "local", listen=listen, http=http, data=data)
    await broker.start()
    try:
        _say_what_next(broker.listen, broker.http)
        if open_it:
            await asyncio.to_thread(click.launch, f"http://{broker.http}/")
        code = await broker.wait()
    finally:
        await broker.stop()
    if code != DONE:
        raise Failure(f"the broker ended with exit code {code}")


def _say_what_next(listen: str, http: str) -> None:
    url = "" if listen == "127.0.0.1:4680" else f" --url plait://{listen}"
    lines = [
        f"Plait is up at plait://{listen}, its page at http://{http}/",
        "",
        "In another terminal:",
        f"  plait sub \"symbol == 'IBM' and price < 120\"{url}",
        "and in a third:",
        f"  plait pub symbol=IBM price=99.5{url}",
        "",
        "Ctrl-C ends it.",
    ]
    click.echo("\n".join(lines))
