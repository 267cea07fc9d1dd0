"""A broker restarts with an empty disk, or a client moves to another broker, so the log is a different one.

Positions of the old log are invalid there. They must not acknowledge events of the new log, and durable readers receive
a notice.
"""

from __future__ import annotations

import asyncio
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from processes import broker_process, drawn_chance, port_to_keep

import plait
from plait_core.wire import Confirm
from plait_lab.simulation.one_broker.applications import Application, ApplicationTerms
from plait_lab.simulation.one_broker.interests import EVERYTHING
from plait_lab.simulation.one_broker.stage import Stage
from plait_lab.simulation.timeline import Clock

PATIENCE_S = 20.0
AGAIN = plait.Reconnect(first_s=0.02, max_s=0.2)

# --- on virtual time --------------------------------------------------------------------------------------------------


def an_application(stage: Stage, name: str, terms: ApplicationTerms) -> Application:
    application = Application(
        name,
        stage.network,
        stage.recorder,
        Clock(stage.timeline),
        stage.node,
        stage.rng,
        replace(terms, path=stage.path),
    )
    application.start()
    stage.run(1)
    return application


def publish(stage: Stage, publisher: Application, numbers: range) -> None:
    for n in numbers:
        publisher.publish({"n": n}, confirm=Confirm.BROKER)
        stage.run(0.1)


@pytest.mark.parametrize("wiped", [False, True])
def test_acknowledgements_of_the_old_log_settle_nothing_in_the_new_one(wiped: bool) -> None:
    stage = Stage()
    publisher = an_application(stage, "publisher", ApplicationTerms())
    reader = an_application(stage, "reader", ApplicationTerms(acknowledge_s=5.0))
    subscription = reader.subscribe(EVERYTHING, durable="reader")
    assert subscription is not None
    stage.run(1)
    publish(stage, publisher, range(10))
    assert len(subscription.receptions) == 10, "it has them in its hands"
    stage.node.kill()
    if wiped:
        stage.disk.wipe()
    stage.node.start()
    stage.run(2)
    assert [miss.reason for miss in subscription.misses] == (["log_lost"] if wiped else [])
    publish(stage, publisher, range(10, 20))
    assert len(subscription.receptions) == 20
    stage.run(2.5)  # the first ten are acknowledged by now, the others are not
    durable = stage.broker.durables.find("anyone", "reader")
    assert durable is not None
    assert len(durable.in_flight) == 10
    stage.run(5)
    assert not durable.in_flight
    assert durable.acknowledged == (10 if wiped else 20), "and then all of them"


# --- real brokers -----------------------------------------------------------------------------------------------------


async def test_a_durable_subscription_gets_a_gap_when_the_log_is_lost(tmp_path: Path) -> None:
    port = port_to_keep(drawn_chance())
    data = tmp_path / "log"
    arguments = ("--listen", f"127.0.0.1:{port}", "--http", "off", "--data", data)
    url = f"plait://127.0.0.1:{port}"
    async with broker_process(*arguments) as broker:
        await broker.ready()
        async with plait.connect(url, reconnect=AGAIN) as client, asyncio.timeout(PATIENCE_S):
            kept = await client.subscribe("true", durable="reader", ack="manual")
            old = await published(client, kept, range(10))
            await broker.kill()
            shutil.rmtree(data)
            async with broker_process(*arguments) as anew:
                await anew.ready()
                await lost_log(kept)
                await published(client, kept, range(10, 20))
                for event in old:
                    event.ack()  # an ack of the old log has no meaning in the new one
                await client.flush()
                await client.close()
                assert await heard_again(url, 10) == list(range(10, 20)), "none of them was acknowledged"


async def test_a_client_that_goes_on_to_another_broker_takes_no_positions_along(tmp_path: Path) -> None:
    def broker_at(name: str) -> tuple[str | Path, ...]:
        return "--name", name, "--listen", "127.0.0.1:0", "--http", "off", "--data", tmp_path / name

    async with broker_process(*broker_at("a")) as a, broker_process(*broker_at("b")) as b:
        await a.ready()
        await b.ready()
        urls = [f"plait://127.0.0.1:{broker.port}" for broker in (a, b)]
        async with plait.connect(urls, reconnect=AGAIN) as client, asyncio.timeout(PATIENCE_S):
            here, there = (a, b) if client.broker == "a" else (b, a)
            kept = await client.subscribe("true", durable="reader", ack="manual")
            old = await published(client, kept, range(10))
            await here.kill()
            await lost_log(kept)
            await published(client, kept, range(10, 20))
            for event in old:
                event.ack()
            await client.flush()
            await client.close()
            assert await heard_again(f"plait://127.0.0.1:{there.port}", 10) == list(range(10, 20))


async def test_a_broker_that_comes_back_with_its_log_is_no_loss(tmp_path: Path) -> None:
    port = port_to_keep(drawn_chance())
    arguments = ("--listen", f"127.0.0.1:{port}", "--http", "off", "--data", tmp_path / "log")
    async with broker_process(*arguments) as broker:
        await broker.ready()
        async with plait.connect(f"plait://127.0.0.1:{port}", reconnect=AGAIN) as client, asyncio.timeout(PATIENCE_S):
            kept = await client.subscribe("true", durable="reader", ack="manual")
            held = await published(client, kept, range(10))
            await broker.kill()
            async with broker_process(*arguments) as again:
                await again.ready()
                await client.publish({"n": 10}, confirm="broker")
                held.append(await kept.next())
                for event in held:
                    event.ack()
                await kept.drain()
                assert kept.stats.gaps == 0
                async with client.subscribe("true", durable="reader") as rest:
                    await client.publish({"n": 11}, confirm="broker")
                    assert (await rest.next())["n"] == 11, "all before it was acknowledged"


async def published(client: plait.Client, kept: plait.Subscription[plait.Event], numbers: range) -> list[plait.Event]:
    """Publish events, and return those that the reader receives."""
    for n in numbers:
        await client.publish({"n": n}, confirm="broker")
    events = [await kept.next() for _ in numbers]
    assert [event["n"] for event in events] == list(numbers)
    return events


async def lost_log(kept: plait.Subscription[plait.Event]) -> None:
    """Wait until the reader has its notice and has subscribed again."""
    async for notice in kept.notices():
        if isinstance(notice, plait.Gap):
            assert notice.reason == "log_lost"
            return


async def heard_again(url: str, count: int) -> list[object]:
    """Return the events of a client that attaches to the durable subscription."""
    async with plait.connect(url) as restarted, restarted.subscribe("true", durable="reader") as rest:
        return [(await rest.next(5))["n"] for _ in range(count)]
