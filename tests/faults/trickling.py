"""Many slow connections as a separate process: `python trickling.py PORT CONNECTIONS PERIOD_S`.

Half of them send a Hello at a byte a second and never finish it. The others complete the handshake and never finish an
event. Closed connections are opened again. `on` on stdin starts them, and the process answers `on` when all are open;
`off` ends them.
"""

from __future__ import annotations

import asyncio
import sys
from itertools import count

from plait_core import Event
from plait_core.wire import HANDSHAKE_VERSION, VERSION_MAX, VERSION_MIN, Hello, Role, encode_frame, encode_publish

PUBLISHERS = count(1_000_000)


async def trickle(port: int, period_s: float, part: float, *, welcome: bool, there: asyncio.Semaphore) -> None:
    """Open one slow connection after another without end. Wait `part` of a period first, to spread the bytes."""
    await asyncio.sleep(part * period_s)
    while True:
        publisher = next(PUBLISHERS)
        hello = encode_frame(Hello(VERSION_MIN, VERSION_MAX, Role.CLIENT, "slow", publisher, ()), HANDSHAKE_VERSION)
        event = encode_publish(Event.checked({"slow": True}, bytes(10_000), publisher=publisher, sequence=1))
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            await asyncio.sleep(period_s)
            continue
        try:
            drops = asyncio.create_task(reader.read(-1))
            if welcome:
                writer.write(hello)
            there.release()
            for byte in event if welcome else hello:
                writer.write(bytes([byte]))
                done, _ = await asyncio.wait([drops], timeout=period_s)
                if done:
                    break
        finally:
            drops.cancel()
            writer.transport.abort()


async def main(port: int, connections: int, period_s: float) -> None:
    loop = asyncio.get_running_loop()
    crowd: list[asyncio.Task[None]] = []
    while said := (await loop.run_in_executor(None, sys.stdin.readline)).strip():
        if said == "on":
            there = asyncio.Semaphore(0)
            crowd = [
                asyncio.create_task(
                    trickle(port, period_s, number / connections, welcome=bool(number % 2), there=there)
                )
                for number in range(connections)
            ]
            for _ in range(connections):
                await there.acquire()
        else:
            for task in crowd:
                task.cancel()
            await asyncio.gather(*crowd, return_exceptions=True)
        print(said, flush=True)


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])))
