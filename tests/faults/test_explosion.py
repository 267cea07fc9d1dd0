"""A client that exceeds its quota (SCORECARD S12).

It gets its quota and an error for the rest, and other clients' delays do not change.
"""

from __future__ import annotations

import asyncio

import pytest
from beside import is_served_as_before
from processes import broker_process

import plait
from plait_broker import BrokerSettings

QUOTA = BrokerSettings().session_subscriptions_max
AT_ONCE = 500


async def asked(client: plait.Client, first: int, count: int) -> list[plait.Subscription[plait.Event]]:
    """Subscribe with different filters on the attributes of the others' events. None matches them."""
    found: list[plait.Subscription[plait.Event]] = []
    for start in range(first, first + count, AT_ONCE):
        filters = (f"has(mine) and n > {number}" for number in range(start, min(start + AT_ONCE, first + count)))
        found += await asyncio.gather(*(client.subscribe(filter) for filter in filters))
    return found


@pytest.mark.nightly
@pytest.mark.timeout(900)
async def test_a_client_at_its_quota_does_not_slow_other_clients() -> None:
    async with broker_process("--listen", "127.0.0.1:0", "--http", "off") as broker:
        await broker.ready()
        url = f"plait://127.0.0.1:{broker.port}"
        async with (
            plait.connect(url) as client,
            client.subscribe("has(mine)") as mine,
            plait.connect(url, timeout=120) as greedy,
        ):
            held = await asked(greedy, 0, QUOTA)
            with pytest.raises(plait.Error, match="subscriptions"):
                await asked(greedy, QUOTA, 1)

            async def harm(said: str) -> None:
                nonlocal held
                if said == "on":
                    held = await asked(greedy, 0, QUOTA)
                else:
                    await asyncio.gather(*(each.close() for each in held))

            await harm("off")
            await is_served_as_before(client, mine, harm)
