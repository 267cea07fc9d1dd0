"""`plait demo`: the main job on a fresh machine, with a link slowed and a broker killed, checked against the filters.

`cities.py` is the overlay, `listeners.py` says who listens, `quotes.py` what is published, `story.py` what happens,
`record.py` keeps the books, `verdict.py` audits them, `telling.py` prints.
"""

from __future__ import annotations

import click

from ..terminal.failures import FAILED
from ..terminal.output import json_option


@click.command(epilog="\b\nExample: plait demo --seconds 5")
@click.option("--seconds", type=click.FloatRange(2, 30), default=12, show_default=True, help="About how long.")
@click.option("--seed", type=int, default=1, show_default=True, help="Of the quotes: the same seed, the same quotes.")
@json_option
@click.pass_context
def demo(ctx: click.Context, seconds: float, seed: int, as_json: bool) -> None:
    """See it work: the main job, with a link slowed and a broker killed.

    Starts six brokers of its own, linked in circles, and feeds stock quotes to listeners with different filters. Shows
    what goes to whom and why; slows a link, and shows events take another way; kills a broker (kill -9) and starts it
    again. Exit code 1 if any delivery was not what the filters say.
    """
    from ..terminal.running import run
    from .story import tell
    from .telling import Telling

    if not run(tell(seconds, seed, Telling(as_json))):
        ctx.exit(FAILED)


__all__ = ["demo"]
