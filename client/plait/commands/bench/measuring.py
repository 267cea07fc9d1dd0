"""Runs one benchmark and prints its result."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

import click

from plait_core.values import Json

from ...options.target import Target
from ..brokers.local_broker import LocalBroker
from ..connection.connecting import connected
from ..terminal.durations import shown
from ..terminal.output import print_json
from ..terminal.tables import print_table
from .load import Load, publish
from .subscriber import SHARES, receive
from .workers import subscribers

if TYPE_CHECKING:
    from .plan import Plan


async def measure(plan: Plan, target: Target | None, as_json: bool) -> bool:
    """Run the plan at a target, or at a broker started for it. Return whether events were lost."""
    async with AsyncExitStack() as stack:
        if target is None:
            broker = LocalBroker("--name", "bench", "--log-level", "error", http="off", own_settings=True)
            stack.push_async_callback(broker.stop)
            await broker.start()
            target = Target.of(broker.url, "--own")
        if plan.mode == "sub":
            result = (await receive(await stack.enter_async_context(connected(target, "bench-sub")), plan)).as_json()
            return _print(plan, None, [result], as_json)
        workers = await stack.enter_async_context(subscribers(plan, target)) if plan.mode != "pub" else []
        client = await stack.enter_async_context(connected(target, "bench-pub"))
        load = await publish(client, plan)
        return _print(plan, load, list(await asyncio.gather(*(worker.result() for worker in workers))), as_json)


def _print(plan: Plan, load: Load | None, results: list[Json], as_json: bool) -> bool:
    lost = sum(each["lost"] for each in results)
    if as_json:
        if load is None:
            print_json(results[0])
            return bool(lost)
        published = {"events": load.published, "seconds": round(load.seconds, 6), "events_per_s": _rate(load)}
        delivered = sum(each["events_per_s"] or 0 for each in results)
        print_json(
            {
                "mode": plan.mode,
                "payload_bytes": plan.size,
                "rate": plan.rate,
                "published": published,
                "delivered_per_s": delivered,
                "lost": lost,
                "subscribers": results,
            }
        )
        return bool(lost)
    if load is not None:
        click.echo(f"published {load.published} events of {plan.size} bytes payload in {shown(load.seconds)}: "
                   f"{_rate(load):,}/s")  # fmt: skip
    if results:
        columns = ["SUBSCRIBER", "RECEIVED", "LOST", "EVENTS/S"]
        rows = [
            [str(n), str(h["received"]), str(h["lost"]), f"{h['events_per_s'] or 0:,}"]
            for n, h in enumerate(results, 1)
        ]
        if plan.rate is not None:
            columns += [name.upper() for name in SHARES]
            for row, each in zip(rows, results, strict=True):
                row += [shown(us / 1e6) if us is not None else "" for us in each["latency_us"].values()]
        print_table(columns, rows, right=columns)
    return bool(lost)


def _rate(load: Load) -> int:
    return round(load.published / load.seconds) if load.seconds else 0
