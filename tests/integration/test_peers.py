"""Live peers: real processes, real sockets, and an oracle of the events that each has to receive."""

from __future__ import annotations

import asyncio
import secrets
from contextlib import AsyncExitStack

import pytest
from peer_group import CHILDREN, PATIENCE_S, SPACE, Members, attributes_of, members, wants

import plait

SIZES = (4, 3, 4, 4, 4)
"""Subscribers of each process. The first two processes, a third of the group, are killed."""


def spans() -> list[range]:
    starts = [sum(SIZES[:place]) for place in range(len(SIZES))]
    return [range(start, start + size) for start, size in zip(starts, SIZES, strict=True)]


async def publish(client: plait.Client, events: range) -> set[int]:
    """Publish with confirmation, some at a time; return the confirmed ones."""
    confirmed: set[int] = set()
    places = asyncio.Semaphore(32)

    async def one(x: int) -> None:
        async with places:
            try:
                await client.publish(attributes_of(x), confirm="subscribers", timeout=PATIENCE_S)
            except (plait.Refused, plait.Timeout):
                return
            confirmed.add(x)

    async with asyncio.TaskGroup() as group:
        for x in events:
            group.create_task(one(x))
    return confirmed


def judge(processes: list[Members], published: range) -> None:
    """Check that no process received an event twice, unmatched or unpublished; killed processes included."""
    for process in processes:
        for peer, got in process.got.items():
            assert len(got) == len(set(got)), f"peer {peer} received a duplicate"
            assert all(x in published and wants(peer, x) for x in got), f"peer {peer} received an unmatched event"


async def all_heard(processes: list[Members], events: set[int]) -> None:
    for process in processes:
        for peer in process.peers:
            await process.heard(peer, {x for x in events if wants(peer, x)})


async def test_twenty_peers_of_which_a_third_dies() -> None:
    async with AsyncExitStack() as stack:
        client = await stack.enter_async_context(
            plait.peer(space=SPACE, children=CHILDREN, group="test", timeout=PATIENCE_S)
        )
        async with asyncio.timeout(PATIENCE_S):
            offer = client.advertise("x >= 0")
            processes = [await stack.enter_async_context(members(client.address, span)) for span in spans()]
            async with offer:
                for process in processes:
                    await process.opened()
                # All peers have received the confirmed events, though some may still look for better parents.
                assert await publish(client, range(400)) == set(range(400))
                await all_heard(processes, set(range(400)))

                under_way = asyncio.create_task(publish(client, range(400, 1000)))
                async with processes[0].changed:
                    await processes[0].changed.wait_for(lambda: max(processes[0].got[0]) >= 500)
                await asyncio.gather(processes[0].kill(), processes[1].kill())
                confirmed = await under_way
                assert len(confirmed) == 600, "the tree has healed"
                await all_heard(processes[2:], confirmed)
        judge(processes, range(1000))


async def test_a_stranger_is_refused() -> None:
    async with plait.peer(group="test", secret="swordfish") as one:
        async with plait.peer(one.address, group="test", secret="haddock") as other:
            async with other.subscribe("true"), one.subscribe("true"):
                node = one._live.node  # type: ignore[attr-defined]
                async with asyncio.timeout(PATIENCE_S):
                    while node.refusal is None:  # noqa: ASYNC110 - there is nothing to await
                        await asyncio.sleep(0.01)
                assert not any(peer.sampling.view.keys() - node.peers.keys() for peer in node.peers.values())


async def test_peers_refuse_the_requests_that_they_do_not_serve() -> None:
    async with plait.peer(space=SPACE) as client:
        with pytest.raises(plait.Error, match="durable"):
            await client.subscribe("true", durable="kept")
        with pytest.raises(plait.Error, match="event's space|group's space"):
            await client.publish({"kind": 99, "size": 1}, confirm="broker")


async def test_a_live_subscription_takes_another_filter_without_missing_anything() -> None:
    """Events match the old filter until the new one is confirmed, and the new one from then on."""
    async with (
        asyncio.timeout(PATIENCE_S),
        plait.peer(space=SPACE, group="test", timeout=PATIENCE_S) as one,
        one.advertise("kind >= 0"),
        plait.peer(one.address, space=SPACE, group="test", timeout=PATIENCE_S) as other,
        other.subscribe("kind < 4") as events,
    ):
        got: list[int] = []

        async def listen() -> None:
            async for event in events:
                got.append(int(str(event["x"])))

        listening = asyncio.create_task(listen())
        updating = asyncio.create_task(events.update("kind >= 2"))
        before = 0
        while not updating.done():
            await one.publish(attributes_of(before), confirm="subscribers")
            before += 1
        await updating
        await publish(one, range(before, before + 80))
        listening.cancel()
        both = [x for x in range(before) if x % 8 in (2, 3)]
        assert set(both) <= set(got), "events that both filters match always arrive"
        assert {x for x in got if x >= before} == {x for x in range(before, before + 80) if x % 8 >= 2}
        assert len(got) == len(set(got)), "nothing twice"


async def test_peers_find_each_other_by_multicast_and_only_those_of_their_group() -> None:
    group = f"found-{secrets.token_hex(4)}"  # others on this machine may be looking, too
    async with (
        asyncio.timeout(PATIENCE_S),
        plait.peer(discover=True, interface="127.0.0.1", group=group, timeout=PATIENCE_S) as one,
        plait.peer(discover=True, interface="127.0.0.1", group=group, timeout=PATIENCE_S) as two,
        plait.peer(discover=True, interface="127.0.0.1", group=f"{group}-2", timeout=PATIENCE_S) as stranger,
        one.subscribe("x >= 0") as events,
        two.advertise("x >= 0"),
    ):
        await two.publish({"x": 1})
        assert dict(await events.next(timeout=PATIENCE_S)) == {"x": 1}
        assert not stranger._live.node.links  # type: ignore[attr-defined]
