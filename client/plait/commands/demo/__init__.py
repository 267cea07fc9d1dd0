"""`plait demo`: deliver by content while a link is slowed and a broker killed, and check every delivery.

`cities.py` has the overlay, `listeners.py` the subscribers, `quotes.py` and `feeds.py` the publishers. `phases.py` runs
the phases, `record.py` records the deliveries, `audit.py` checks them and `printing.py` prints.
"""

from __future__ import annotations

import click

from ..terminal.failures import FAILED
from ..terminal.output import json_option


@click.command(epilog="\b\nExample: plait demo --seconds 5")
@click.option("--seconds", type=click.FloatRange(2, 30), default=12, show_default=True, help="Approximate duration.")
@click.option(
    "--seed", type=int, default=1, show_default=True, help="Seed of the quotes: the same seed draws the same quotes."
)
@json_option
@click.pass_context
def demo(ctx: click.Context, seconds: float, seed: int, as_json: bool) -> None:
    """Show Plait at work: filters, a slowed link, a killed broker.

    Starts six brokers, linked in cycles, and publishes stock quotes to subscribers with different filters. Shows which
    event goes to which subscriber and why. Slows a link and shows that events take another path; kills a broker (kill
    -9) and starts it again. Exit code 1 if any delivery contradicts the filters.
    """
    from ..terminal.running import run_async
    from .phases import run_demo
    from .printing import DemoPrinter

    if not run_async(run_demo(seconds, seed, DemoPrinter(as_json))):
        ctx.exit(FAILED)


__all__ = ["demo"]
