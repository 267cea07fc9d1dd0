"""Example clients of a deployment: `quotes.py publish SYMBOL...` and `quotes.py subscribe FILTER [NAME]`.

With a name the subscription is durable, and misses no quote while it is stopped. Each touches /tmp/alive while it
works, for the container's health check.
"""

import asyncio
import random
import sys
from pathlib import Path

import plait

ALIVE = Path("/tmp/alive")


def connected() -> plait.Opening[plait.Client]:
    return plait.connect(timeout=60)  # at PLAIT_URL, with the token in PLAIT_TOKEN_FILE


async def publish(*symbols: str) -> None:
    async with connected() as client:
        while True:
            quote = {"symbol": random.choice(symbols), "price": random.randrange(80, 160)}
            receipt = await client.publish(quote, confirm="broker")
            print(quote, f"for {receipt.matched} subscriptions", flush=True)
            ALIVE.touch()
            await asyncio.sleep(0.5)


async def subscribe(filter: str, name: str | None = None) -> None:
    async with connected() as client, client.subscribe(filter, durable=name) as quotes:
        print(f"subscribed to {filter}", flush=True)
        ALIVE.touch()
        async for quote in quotes:
            print(dict(quote), f"after {quote.delay * 1000:.1f} ms by", *quote.path, flush=True)
            ALIVE.touch()


asyncio.run({"publish": publish, "subscribe": subscribe}[sys.argv[1]](*sys.argv[2:]))
