"""The brokers of `plait up -n`: when one ends the others go on, and `plait chaos start` brings it back.

In the place of one that has ended a process of the same name sleeps (`child.py`). So what is to be started is found
where `plait chaos kill` finds what is to be killed: in the process table, with the kernel's rule of who may.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Sequence
from typing import NoReturn

from ..chaos.processes import PROCESSES
from ..terminal.failures import Failure
from .local_broker import LocalBroker


class LocalOverlay:
    """Several local brokers that serve. `tell` takes a line for people about each that ends or is back."""

    def __init__(self, brokers: Sequence[LocalBroker], tell: Callable[[str], None]) -> None:
        self._brokers = brokers
        self._tell = tell
        self._alive = len(brokers)
        self._last_ended = asyncio.Event()

    async def wait(self) -> NoReturn:
        """Failure once the last one has ended."""
        async with asyncio.TaskGroup() as group:
            keeping = [group.create_task(self._keep(broker)) for broker in self._brokers]
            await self._last_ended.wait()
            for task in keeping:
                task.cancel()
        raise Failure("all brokers have ended")

    async def _keep(self, broker: LocalBroker) -> None:
        """Tells of each end of one broker, and of each time that it is back."""
        while True:
            how = _how(await broker.wait())
            self._alive -= 1
            assert self._alive >= 0, "each ends once for each start"
            if not self._alive:
                self._tell(f"{broker.name} {how}")
                self._last_ended.set()
                return
            await self._is_back(broker, how)

    async def _is_back(self, broker: LocalBroker, how: str) -> None:
        """Returns once it was started again, which may have failed; never where that cannot be."""
        try:
            await broker.sleep()
            known_as = broker.name if PROCESSES.is_dir() else broker.pid
            self._tell(f"{broker.name} {how}; `plait chaos start {known_as}` starts it again")
            while not await broker.woken():
                await broker.sleep()
        except Failure as error:
            self._tell(f"{broker.name} {how} and cannot be started again: {error.message}")
            await asyncio.Event().wait()
        self._alive += 1
        try:
            await broker.ready()
        except Failure as error:
            self._tell(f"{broker.name}: {error.message}")
        else:
            self._tell(f"{broker.name} is back")


def _how(code: int) -> str:
    """How a process ended, by its exit code."""
    if code >= 0:
        return f"ended with exit code {code}"
    try:
        return f"was ended by {signal.Signals(-code).name}"
    except ValueError:  # a real-time signal
        return f"was ended by signal {-code}"
