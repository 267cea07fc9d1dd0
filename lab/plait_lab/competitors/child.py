"""A child process of a trial: `python -m plait_lab.competitors.child COMMAND`. It ends with its parent."""

from __future__ import annotations

import asyncio
import itertools
import sys
from pathlib import Path

from .child_command import ChildCommand
from .contender import HOST, Contender, run_client
from .listening import Listener, SlowListener
from .many_subscribers import gather_crowd
from .paced_publishing import PublishedStream
from .quotes import interests, other_interests, quotes
from .shared_counters import SharedCounters
from .systems.catalogue import CONTENDERS


def main(text: str) -> None:
    """Execute the command."""
    command = ChildCommand.parse(text)
    contender = CONTENDERS[command.contender]
    if command.role == "server":
        contender.serve(command.port)
        return
    counters = SharedCounters(Path(command.counters))
    if command.role == "publisher":
        contender.publish(command.port, _stream(contender, command, counters))
    elif command.role == "subscriber":
        contender.subscribe(command.port, Listener(counters, command.slot, measure=command.measure))
    elif command.role == "slow":
        contender.subscribe(command.port, SlowListener(counters, command.slot))
    elif command.role == "others":
        contender.stand(command.port, other_interests(command.seed, command.subscriptions), counters)
    elif command.role == "crowd":
        run_client(_crowd(contender, command, counters))
    else:
        _churn(contender, command, counters)


def _stream(contender: Contender, command: ChildCommand, counters: SharedCounters) -> PublishedStream:
    assert command.plan is not None, "a publisher has a plan"
    if not command.subscriptions:
        return PublishedStream(command.plan, counters, contender.arguments)
    filters = interests(command.seed, command.subscriptions)
    events = quotes(command.plan.seed, event_bytes=command.plan.event_bytes)
    weights = contender.deliveries(events, filters)
    return PublishedStream(command.plan, counters, contender.crowd_arguments, weights)


def _churn(contender: Contender, command: ChildCommand, counters: SharedCounters) -> None:
    """Subscribe and unsubscribe until killed. Ready after the first turnover."""
    closed = 0

    def count() -> None:
        nonlocal closed
        closed += 1
        counters.received[0][0] = closed
        if closed == command.subscriptions:
            counters.ready[0] = 1

    endless = itertools.chain.from_iterable(
        interests(seed, command.subscriptions) for seed in itertools.count(command.seed)
    )
    contender.churn(command.port, endless, command.subscriptions, count)


async def _crowd(contender: Contender, command: ChildCommand, counters: SharedCounters) -> None:
    filters = interests(command.seed, command.subscriptions)
    members = [contender.member(filters[first :: command.connections]) for first in range(command.connections)]
    await gather_crowd(HOST, contender.subscriber_port(command.port), members, counters)
    await asyncio.Event().wait()


if __name__ == "__main__":
    main(sys.argv[1])
