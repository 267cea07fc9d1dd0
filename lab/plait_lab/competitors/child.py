"""A child process of a trial: `python -m plait_lab.competitors.child COMMAND`. It ends with its parent."""

from __future__ import annotations

import asyncio
import itertools
import sys
from pathlib import Path

from .child_command import ChildCommand
from .contender import HOST, Contender, run
from .listening import Listener
from .many_subscribers import gather_crowd
from .paced_publishing import PublishedStream
from .quotes import interests, quotes
from .shared_counters import SharedCounters
from .systems.catalogue import CONTENDERS


def main(text: str) -> None:
    """Execute the command."""
    errand = ChildCommand.parse(text)
    contender = CONTENDERS[errand.contender]
    if errand.role == "server":
        contender.serve(errand.port)
        return
    board = SharedCounters(Path(errand.board))
    if errand.role == "publisher":
        contender.publish(errand.port, _stream(contender, errand, board))
    elif errand.role == "subscriber":
        contender.subscribe(errand.port, Listener(board, errand.slot, measure=errand.measure))
    elif errand.role == "crowd":
        run(_crowd(contender, errand, board))
    else:
        _churn(contender, errand, board)


def _stream(contender: Contender, errand: ChildCommand, board: SharedCounters) -> PublishedStream:
    assert errand.plan is not None, "a publisher has a plan"
    if not errand.subscriptions:
        return PublishedStream(errand.plan, board, contender.arguments)
    wanted = interests(errand.seed, errand.subscriptions)
    weights = contender.deliveries(quotes(errand.plan.seed), wanted)
    return PublishedStream(errand.plan, board, contender.crowd_arguments, weights)


def _churn(contender: Contender, errand: ChildCommand, board: SharedCounters) -> None:
    """Subscribe and unsubscribe until killed. Ready after the first turnover."""
    gone = 0

    def count() -> None:
        nonlocal gone
        gone += 1
        board.received[0][0] = gone
        if gone == errand.subscriptions:
            board.ready[0] = 1

    endless = itertools.chain.from_iterable(
        interests(seed, errand.subscriptions) for seed in itertools.count(errand.seed)
    )
    contender.churn(errand.port, endless, errand.subscriptions, count)


async def _crowd(contender: Contender, errand: ChildCommand, board: SharedCounters) -> None:
    wanted = interests(errand.seed, errand.subscriptions)
    members = [contender.member(wanted[first :: errand.connections]) for first in range(errand.connections)]
    await gather_crowd(HOST, contender.door(errand.port), members, board)
    await asyncio.Event().wait()


if __name__ == "__main__":
    main(sys.argv[1])
