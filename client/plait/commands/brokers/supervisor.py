"""Supervision of the brokers of `plait up -n`: when one ends the others go on, and `plait chaos start` restarts it.

A placeholder process of the same name takes the place of a broker that has ended, and waits for SIGCONT (`child.py`).
So `plait chaos start` finds it where `plait chaos kill` finds a running broker: in the process table, under the
kernel's rule of who may signal whom.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Sequence
from typing import NoReturn

from ..chaos.processes import PROCESSES
from ..terminal.failures import Failure
from .local_broker import LocalBroker


class Supervisor:
    """Watches several running brokers. `report` receives a line for people when one ends or is back."""

    def __init__(self, brokers: Sequence[LocalBroker], report: Callable[[str], None]) -> None:
        self._brokers = brokers
        self._report = report
        self._alive = len(brokers)
        self._last_ended = asyncio.Event()

    async def wait(self) -> NoReturn:
        """Wait until the last broker has ended, then raise Failure."""
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(self._supervise(broker)) for broker in self._brokers]
            await self._last_ended.wait()
            for task in tasks:
                task.cancel()
        raise Failure("all brokers have ended")

    async def _supervise(self, broker: LocalBroker) -> None:
        """Report each end and each restart of one broker, until it is the last one to end."""
        while True:
            ending = _ending(await broker.wait())
            self._alive -= 1
            assert self._alive >= 0, "each ends once for each start"
            if not self._alive:
                self._report(f"{broker.name} {ending}")
                self._last_ended.set()
                return
            await self._restarted(broker, ending)

    async def _restarted(self, broker: LocalBroker, ending: str) -> None:
        """Wait for a restart and report its outcome. Never returns where a placeholder cannot run."""
        try:
            await broker.sleep()
            process = broker.name if PROCESSES.is_dir() else broker.pid
            self._report(f"{broker.name} {ending}; `plait chaos start {process}` starts it again")
            while not await broker.woken():
                await broker.sleep()
        except Failure as error:
            self._report(f"{broker.name} {ending} and cannot be started again: {error.message}")
            await asyncio.Event().wait()
        self._alive += 1
        try:
            await broker.ready()
        except Failure as error:
            self._report(f"{broker.name}: {error.message}")
        else:
            self._report(f"{broker.name} is back")


def _ending(code: int) -> str:
    """Describe how a process ended, by its exit code."""
    if code >= 0:
        return f"ended with exit code {code}"
    try:
        return f"was ended by {signal.Signals(-code).name}"
    except ValueError:  # a real-time signal
        return f"was ended by signal {-code}"
