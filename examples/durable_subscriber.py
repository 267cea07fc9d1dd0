"""A subscriber that misses nothing, however often it is stopped: run it, stop it, publish, run it again.

plait broker --data ./plait-data
python examples/durable_subscriber.py
plait pub order=1 amount=250 --confirm broker
"""

import asyncio

import plait


async def main() -> None:
    async with (
        plait.connect() as client,
        client.subscribe("has(order)", durable="bookkeeping", start="all") as orders,
    ):
        async for event in orders:
            print(f"order {event['order']}: {event.get('amount')}", flush=True)
            # Coming back for the next event acknowledges this one; an exception in between would not.


try:
    asyncio.run(main())
except KeyboardInterrupt:
    print("stopped; the broker keeps the place")
