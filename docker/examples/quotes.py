"""Quotes to try a deployment with: `quotes.py publish SYMBOL...` draws some, `quotes.py subscribe FILTER [NAME]` prints
those that match, and with a name misses none, however often it is stopped. Each says in /tmp/alive that it is at work.
"""

import asyncio
import os
import random
import sys
from pathlib import Path

import plait

ALIVE = Path("/tmp/alive")


def connected() -> plait.Opening[plait.Client]:
    token = Path(os.environ["PLAIT_TOKEN_FILE"]).read_text().strip()
    return plait.connect(os.environ["PLAIT_URL"], auth=token, timeout=60)


async def publish(*symbols: str) -> None:
    async with connected() as client:
        while True:
            quote = {"symbol": random.choice(symbols), "price": random.randrange(80, 160)}
            receipt = await client.publish(quote, confirm="broker")
            print(quote, f"for {receipt.matched} subscriptions", flush=True)
            ALIVE.touch()
            await asyncio.sleep(0.5)


async def subscribe(wanted: str, name: str | None = None) -> None:
    async with connected() as client, client.subscribe(wanted, durable=name) as quotes:
        print(f"subscribed to {wanted}", flush=True)
        ALIVE.touch()
        async for quote in quotes:
            print(dict(quote), f"after {quote.delay * 1000:.1f} ms by", *quote.path, flush=True)
            ALIVE.touch()


asyncio.run({"publish": publish, "subscribe": subscribe}[sys.argv[1]](*sys.argv[2:]))
