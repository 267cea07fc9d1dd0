"""Events as dataclasses, and a filter built in Python.

plait broker
python examples/typed_events.py
"""

import asyncio
from dataclasses import dataclass

import plait
from plait import F


@dataclass
class Reading:
    sensor: str
    celsius: float
    room: str = "unknown"


async def main() -> None:
    hot = (F.celsius > 30) & F.sensor.startswith("boiler-")
    async with plait.connect() as client, client.subscribe(hot, as_=Reading) as readings:
        await client.publish(Reading("boiler-1", 21.5, "cellar"))  # not hot
        await client.publish(Reading("boiler-2", 84.0, "cellar"))
        reading = await readings.next(timeout=5)
        print(f"{reading.sensor} in the {reading.room}: {reading.celsius} °C")


asyncio.run(main())
