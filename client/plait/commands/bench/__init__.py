"""`plait bench`: throughput, latency and loss, publisher and subscribers in processes of their own.

`load.py` publishes, `listening.py` is one subscriber, `workers.py` runs subscribers as processes, `measuring.py` puts a
run together and prints it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import click

from ..connection.addressing import find_target, url_option
from ..terminal.failures import FAILED
from ..terminal.output import json_option


@dataclass(frozen=True, slots=True)
class Plan:
    """What is measured."""

    mode: Literal["pub", "sub", "pair", "fanout", "latency"]
    run: str
    """Names the run, so that two at one broker do not mix."""
    count: int
    size: int
    rate: float | None
    subscribers: int
    wait_s: float
    """How long a subscriber waits for the next event before it gives the rest up as lost."""


@click.command(epilog="\b\nExample: plait bench latency --own --rate 1000")
@click.argument("mode", type=click.Choice(["pub", "sub", "pair", "fanout", "latency"]), default="pair")
@click.option("--own", is_flag=True, help="Start a broker for it; by default it is to be running.")
@click.option("--count", type=click.IntRange(min=1), help="Events; 100000, or 5 seconds' worth for latency.")
@click.option("--size", type=click.IntRange(16, 1 << 20), default=96, show_default=True,
              help="Bytes of payload; attributes add some 30.")  # fmt: skip
@click.option("--rate", type=click.FloatRange(min=1), help="Events a second; as fast as possible, or 1000 for latency.")
@click.option("--subscribers", type=click.IntRange(1, 64), default=4, show_default=True, help="Of fanout.")
@click.option("--run", "run_name", default=None, metavar="NAME", help="Joins pub and sub in two terminals.")
@click.option("--wait", "wait_s", type=click.FloatRange(min=0.1), default=10, show_default=True, metavar="S",
              help="How long a subscriber waits for the next event.")  # fmt: skip
@url_option
@json_option
@click.pass_context
def bench(
    ctx: click.Context,
    mode: Literal["pub", "sub", "pair", "fanout", "latency"],
    own: bool,
    count: int | None,
    size: int,
    rate: float | None,
    subscribers: int,
    run_name: str | None,
    wait_s: float,
    url: str | None,
    as_json: bool,
) -> None:
    """Measure throughput, latency and loss.

    pub publishes only and sub listens only, for two terminals or machines; pair is one publisher and one subscriber,
    fanout one and several, latency one and one at a fixed rate, open loop: a late publisher counts as delay. Each
    subscription is a content filter. Exit code 1 if events were lost.
    """
    if own and url:
        raise click.UsageError("Give --own or --url, not both.")
    if own and mode in ("pub", "sub"):
        raise click.UsageError(f"{mode} alone needs a broker that the other side can reach: start one with `plait up`.")
    from ..terminal.running import run
    from .measuring import measure

    if mode == "latency":
        rate = rate or 1000.0
        count = count or round(rate * 5)
    name = run_name or ("" if mode in ("pub", "sub") else _new_name())
    plan = Plan(mode, name, count or 100_000, size, rate, 1 if mode != "fanout" else subscribers, wait_s)
    if run(measure(plan, None if own else find_target(url), as_json)):
        ctx.exit(FAILED)


def _new_name() -> str:
    import secrets

    return secrets.token_hex(4)


__all__ = ["bench"]
