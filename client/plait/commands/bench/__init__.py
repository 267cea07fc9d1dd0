"""`plait bench`: throughput, latency and loss, with publisher and subscribers in separate processes.

`plan.py` has the parameters of a run. `load.py` publishes, `subscriber.py` is one subscriber, `workers.py` runs
subscribers as processes, `measuring.py` runs them together and prints the result.
"""

from __future__ import annotations

from typing import Literal

import click

from ..connection.addressing import find_target, url_option
from ..terminal.failures import FAILED
from ..terminal.output import json_option


@click.command(epilog="\b\nExample: plait bench latency --own --rate 1000")
@click.argument("mode", type=click.Choice(["pub", "sub", "pair", "fanout", "latency"]), default="pair")
@click.option("--own", is_flag=True, help="Start a broker for the run, instead of using a running one.")
@click.option("--count", type=click.IntRange(min=1), help="Events; 100000, or 5 seconds' worth for latency.")
@click.option("--size", type=click.IntRange(16, 1 << 20), default=96, show_default=True,
              help="Bytes of payload; attributes add some 30.")  # fmt: skip
@click.option("--rate", type=click.FloatRange(min=1), help="Events a second; as fast as possible, or 1000 for latency.")
@click.option("--subscribers", type=click.IntRange(1, 64), default=4, show_default=True, help="Subscribers of fanout.")
@click.option("--run", "run_name", default=None, metavar="NAME", help="Name that joins pub and sub in two terminals.")
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

    pub only publishes and sub only subscribes, for two terminals or machines. pair has one publisher and one
    subscriber, fanout has several subscribers. latency has one of each at a fixed rate, open loop: a late publisher
    counts as delay. Each subscription is a content filter. Exit code 1 if events were lost.
    """
    if own and url:
        raise click.UsageError("Give --own or --url, not both.")
    if own and mode in ("pub", "sub"):
        raise click.UsageError(f"{mode} alone needs a broker that the other side can reach: start one with `plait up`.")
    from ..terminal.running import run_async
    from .measuring import measure
    from .plan import Plan

    if mode == "latency":
        rate = rate or 1000.0
        count = count or round(rate * 5)
    name = run_name or ("" if mode in ("pub", "sub") else _new_name())
    plan = Plan(mode, name, count or 100_000, size, rate, 1 if mode != "fanout" else subscribers, wait_s)
    if run_async(measure(plan, None if own else find_target(url), as_json)):
        ctx.exit(FAILED)


def _new_name() -> str:
    import secrets

    return secrets.token_hex(4)


__all__ = ["bench"]
